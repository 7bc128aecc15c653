//! Which version of an agent serves: records, requests to change them, events about a change.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed::ensure;
use crate::{AgentId, PackVersion, RunId, ShapeError};

/// Where a version of an agent stands. In the protocol's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentState {
    /// Installed, and nothing said of it.
    Draft,
    Test,
    Staged,
    /// May serve.
    Active,
    /// Withdrawn for a while.
    Paused,
    /// Gets no new runs and never will.
    Deprecated,
    /// Replaced by the version that its record points to.
    RolledBack,
}

impl DeploymentState {
    pub const ALL: [Self; 7] = [
        Self::Draft,
        Self::Test,
        Self::Staged,
        Self::Active,
        Self::Paused,
        Self::Deprecated,
        Self::RolledBack,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Test => "test",
            Self::Staged => "staged",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deprecated => "deprecated",
            Self::RolledBack => "rolled-back",
        }
    }
}

/// One version of one agent (`agent-deployment.schema.json`). Closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDeployment {
    pub agent_id: AgentId,
    pub version: PackVersion,
    pub state: DeploymentState,
    /// Absent is all of its channels' runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_pointer: Option<PackVersion>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
}

/// `POST /v1/agents/{agentId}/deployments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentTransition {
    pub version: PackVersion,
    pub transition: Transition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_state: Option<DeploymentState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// A short label, recorded in the event of a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transition {
    Promote,
    Pause,
    Deprecate,
    Rollback,
    AdjustCanary,
}

impl Transition {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Pause => "pause",
            Self::Deprecate => "deprecate",
            Self::Rollback => "rollback",
            Self::AdjustCanary => "adjust-canary",
        }
    }
}

impl DeploymentTransition {
    pub fn new(version: PackVersion, transition: Transition) -> Self {
        Self {
            version,
            transition,
            to_state: None,
            channel: None,
            canary_percent: None,
            eval_run_id: None,
            reason: None,
        }
    }

    /// Checks what the closed schema says beyond the types of fields.
    pub fn check(&self) -> Result<(), ShapeError> {
        let percent = self.canary_percent.unwrap_or_default();
        ensure(percent <= 100, "canaryPercent", || "must be from 0 to 100".into())?;
        let texts = [
            ("channel", self.channel.as_deref(), 64),
            ("evalRunId", self.eval_run_id.as_ref().map(|run| run.as_str()), 256),
            ("reason", self.reason.as_deref(), 512),
        ];
        for (field, text, most) in texts {
            let fits = text.is_none_or(|text| (1..=most).contains(&text.chars().count()));
            ensure(fits, field, || format!("must have 1 to {most} characters"))?;
        }
        Ok(())
    }
}

/// The event about a change, without content of the agent: its payloads are closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentEvent {
    Promoted(DeploymentPromoted),
    RolledBack(DeploymentRolledBack),
    CanaryAdjusted(DeploymentCanaryAdjusted),
    StateChanged(DeploymentStateChanged),
}

impl DeploymentEvent {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Promoted(_) => "deployment.promoted",
            Self::RolledBack(_) => "deployment.rolled-back",
            Self::CanaryAdjusted(_) => "deployment.canary.adjusted",
            Self::StateChanged(_) => "deployment.state.changed",
        }
    }

    pub fn payload(&self) -> Value {
        // Structs of texts and numbers: writing them cannot fail.
        match self {
            Self::Promoted(payload) => serde_json::to_value(payload),
            Self::RolledBack(payload) => serde_json::to_value(payload),
            Self::CanaryAdjusted(payload) => serde_json::to_value(payload),
            Self::StateChanged(payload) => serde_json::to_value(payload),
        }
        .unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentPromoted {
    pub agent_id: AgentId,
    /// What served on the channel before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_version: Option<PackVersion>,
    pub to_version: PackVersion,
    pub to_state: DeploymentState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentRolledBack {
    pub agent_id: AgentId,
    pub from_version: PackVersion,
    pub to_version: PackVersion,
    /// The same version again: the protocol asks for both.
    pub rollback_pointer: PackVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentCanaryAdjusted {
    pub agent_id: AgentId,
    pub version: PackVersion,
    pub from_percent: u8,
    pub to_percent: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentStateChanged {
    pub agent_id: AgentId,
    pub version: PackVersion,
    pub from_state: DeploymentState,
    pub to_state: DeploymentState,
}
