//! Standing members: named, mutable instances of agents that own workflows (RFC 0086).

use serde::{Deserialize, Deserializer, Serialize};

use crate::closed::ensure;
use crate::{AgentId, AgentRef, Object, RosterId, ShapeError, Tenant, WorkflowId, Workspace};

/// One member, as the normative reads show it and as a store keeps it.
///
/// Stored as JSON. A build that meets a field which it does not know refuses to read it, since it could only
/// write it back without; a newer build reads what an older one wrote by defaulting what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRosterEntry {
    pub roster_id: RosterId,
    pub persona: String,
    pub agent_ref: RosterAgentRef,
    /// The portfolio: what the member answers for. It confers no right to anything.
    #[serde(default)]
    pub workflows: Vec<WorkflowId>,
    pub owner: RosterOwner,
    #[serde(default = "enabled")]
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

fn enabled() -> bool {
    true
}

/// The agent that a member is an instance of: its highest version, one version, or whatever a channel serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RosterAgentRef {
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Whose a member is. The protocol's names here differ from those of a run's owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RosterOwner {
    pub tenant_id: Tenant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<Workspace>,
}

/// `GET /v1/agents/roster`: the members that the caller may see, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRoster {
    pub roster: Vec<AgentRosterEntry>,
    pub total: usize,
}

impl From<Vec<AgentRosterEntry>> for AgentRoster {
    fn from(mut roster: Vec<AgentRosterEntry>) -> Self {
        roster.sort_by(|a, b| a.roster_id.cmp(&b.roster_id));
        Self { total: roster.len(), roster }
    }
}

/// `POST …/roster`: a member to hire. The host issues the id; the owner comes from the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HireMember {
    pub persona: String,
    pub agent_ref: RosterAgentRef,
    #[serde(default)]
    pub workflows: Vec<WorkflowId>,
    #[serde(default = "enabled")]
    pub enabled: bool,
    pub label: Option<String>,
    pub description: Option<String>,
}

impl HireMember {
    pub fn entry(self, roster_id: RosterId, owner: RosterOwner) -> AgentRosterEntry {
        AgentRosterEntry {
            roster_id,
            persona: self.persona,
            agent_ref: self.agent_ref,
            workflows: self.workflows,
            owner,
            enabled: self.enabled,
            label: self.label,
            description: self.description,
        }
    }
}

/// `PATCH …/roster/{rosterId}`: what is not named stays; a null takes a label or a description away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeMember {
    pub persona: Option<String>,
    pub agent_ref: Option<RosterAgentRef>,
    pub workflows: Option<Vec<WorkflowId>>,
    pub enabled: Option<bool>,
    #[serde(default, deserialize_with = "named")]
    pub label: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    pub description: Option<Option<String>>,
}

impl ChangeMember {
    pub fn apply(&self, entry: AgentRosterEntry) -> AgentRosterEntry {
        AgentRosterEntry {
            persona: self.persona.clone().unwrap_or(entry.persona),
            agent_ref: self.agent_ref.clone().unwrap_or(entry.agent_ref),
            workflows: self.workflows.clone().unwrap_or(entry.workflows),
            enabled: self.enabled.unwrap_or(entry.enabled),
            label: self.label.clone().unwrap_or(entry.label),
            description: self.description.clone().unwrap_or(entry.description),
            roster_id: entry.roster_id,
            owner: entry.owner,
        }
    }
}

/// Tells a field that is null from one that is not there.
fn named<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(reader).map(Some)
}

/// `POST …/roster/{rosterId}/fire`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FireMember {
    pub workflow_id: WorkflowId,
    #[serde(default)]
    pub inputs: Object,
}

/// A member on the inventory's entry of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RosterLine {
    pub roster_id: RosterId,
    pub persona: String,
    pub workflows: Vec<WorkflowId>,
}

/// What fires a run for a member. Names beyond the protocol's are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerSource {
    #[serde(rename = "schedule")]
    Schedule,
    #[serde(rename = "webhook")]
    Webhook,
    #[serde(rename = "queue")]
    Queue,
    #[serde(rename = "email")]
    Email,
    #[serde(rename = "form")]
    Form,
    /// Something outside that is looked at has changed.
    #[serde(rename = "callboard.heartbeat")]
    Heartbeat,
    /// Somebody asked for the run; no trigger did.
    #[serde(rename = "callboard.manual")]
    Manual,
}

impl TriggerSource {
    pub const ALL: [Self; 7] = [
        Self::Schedule,
        Self::Webhook,
        Self::Queue,
        Self::Email,
        Self::Form,
        Self::Heartbeat,
        Self::Manual,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
            Self::Queue => "queue",
            Self::Email => "email",
            Self::Form => "form",
            Self::Heartbeat => "callboard.heartbeat",
            Self::Manual => "callboard.manual",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

impl RosterId {
    /// What every member's id begins with, and no id of an installed agent.
    pub const PREFIX: &'static str = "host:";

    /// Whether a reference to an agent means a member.
    pub fn is_meant_by(agent: &str) -> bool {
        agent.starts_with(Self::PREFIX)
    }

    /// `host:sally-1a2b3c4d`: readable from the persona, and unique by the random tag that the host adds.
    pub fn named(persona: &str, tag: &str) -> Self {
        let mut slug = String::new();
        for letter in persona.chars().flat_map(char::to_lowercase) {
            match letter.is_ascii_alphanumeric() {
                true => slug.push(letter),
                false if slug.is_empty() || slug.ends_with('-') => {}
                false => slug.push('-'),
            }
        }
        slug.truncate(40);
        let slug = slug.trim_end_matches('-');
        let slug = if slug.is_empty() { "member" } else { slug };
        Self::from(format!("{}{slug}-{tag}", Self::PREFIX))
    }
}

impl RosterAgentRef {
    /// As a node of a workflow would name it.
    pub fn to_agent_ref(&self) -> AgentRef {
        AgentRef {
            agent_id: self.agent_id.to_string(),
            name: None,
            model_class: None,
            memory_ref: None,
            version: self.version.clone(),
            channel: self.channel.clone(),
            source_manifest_id: None,
        }
    }
}

impl AgentRosterEntry {
    pub fn owns(&self, workflow: &WorkflowId) -> bool {
        self.workflows.contains(workflow)
    }

    /// Checks what the closed schema says beyond the types of fields.
    pub fn check(&self) -> Result<(), ShapeError> {
        length(&self.persona, 1, 200, "persona")?;
        let agent = &self.agent_ref;
        length(agent.agent_id.as_str(), 3, 256, "agentRef.agentId")?;
        agent.version.iter().try_for_each(|text| length(text, 1, 64, "agentRef.version"))?;
        agent.channel.iter().try_for_each(|text| length(text, 1, 64, "agentRef.channel"))?;
        ensure(agent.version.is_none() || agent.channel.is_none(), "agentRef", || {
            "must name a version or a channel, not both".into()
        })?;
        ensure(!RosterId::is_meant_by(agent.agent_id.as_str()), "agentRef.agentId", || {
            "must be an installed agent, not another member".into()
        })?;
        for (index, workflow) in self.workflows.iter().enumerate() {
            let path = format!("workflows[{index}]");
            length(workflow.as_str(), 1, 128, &path)?;
            ensure(!self.workflows[..index].contains(workflow), &path, || {
                format!("{:?} is listed twice", workflow.as_str())
            })?;
        }
        self.label.iter().try_for_each(|text| length(text, 1, 100, "label"))?;
        self.description.iter().try_for_each(|text| length(text, 0, 500, "description"))
    }
}

fn length(text: &str, least: usize, most: usize, path: &str) -> Result<(), ShapeError> {
    ensure((least..=most).contains(&text.chars().count()), path, || {
        format!("must have {least} to {most} characters")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_readable_and_follows_the_grammar() {
        for (persona, id) in [
            ("Sally", "host:sally-1f"),
            ("  Dr. Ann-Lee  O'Neil ", "host:dr-ann-lee-o-neil-1f"),
            ("日本", "host:member-1f"),
        ] {
            assert_eq!(RosterId::named(persona, "1f").as_str(), id);
        }
        let long = RosterId::named(&"x".repeat(200), "1f");
        assert!(long.as_str().len() <= 128, "{long}");
    }

    #[test]
    fn a_source_is_found_by_its_name() {
        for source in TriggerSource::ALL {
            assert_eq!(TriggerSource::from_name(source.as_str()), Some(source));
        }
        assert_eq!(TriggerSource::from_name("kanban"), None);
    }
}
