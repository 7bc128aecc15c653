//! An agent as packs describe it, or as the inventory shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed::ensure;
use crate::pack::is_scoped_name;
use crate::prompt::is_prompt_name;
use crate::{AgentId, PackName, PackVersion, PromptRef, RosterLine, ShapeError};

/// One entry of a pack's `agents`. Closed, but for `role`, which published packs carry beside the schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentManifest {
    pub agent_id: AgentId,
    pub persona: String,
    pub model_class: ModelClass,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_suite_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_allowlist: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_capabilities: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_library_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_overrides: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelClass {
    Reasoning,
    Writing,
    Coding,
    Research,
    Classification,
    General,
}

impl ModelClass {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Writing => "writing",
            Self::Coding => "coding",
            Self::Research => "research",
            Self::Classification => "classification",
            Self::General => "general",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    Skill,
    Assistant,
}

/// Which memory an agent asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_term: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_threshold: Option<f64>,
}

/// Paths of the schemas that tasks and results must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handoff {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_schema_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_schema_ref: Option<String>,
}

/// The kinds of prompt that an agent may prefer a template for.
const PROMPT_KINDS: [&str; 4] = ["system", "user", "few-shot", "schema-hint"];

impl AgentManifest {
    /// Checks what the closed schema says beyond the types of fields.
    pub(crate) fn check(&self, path: &str) -> Result<(), ShapeError> {
        let at = |field: &str| format!("{path}.{field}");
        let id = self.agent_id.as_str();
        let scopes = ["core", "vendor", "community", "private", "local"];
        ensure(is_scoped_name(id, &scopes), &at("agentId"), || {
            format!("{id:?} must be dotted lower-case names below {}", scopes.join(", "))
        })?;
        length(&self.persona, 1, 200, &at("persona"))?;
        if let Some(label) = &self.label {
            length(label, 1, 100, &at("label"))?;
        }
        if let Some(description) = &self.description {
            length(description, 0, 500, &at("description"))?;
        }
        ensure(self.system_prompt.is_some() != self.system_prompt_ref.is_some(), path, || {
            "must have either systemPrompt or systemPromptRef".into()
        })?;
        let handoff = self.handoff.as_ref();
        let texts = [
            ("systemPrompt", self.system_prompt.as_ref()),
            ("systemPromptRef", self.system_prompt_ref.as_ref()),
            ("evalSuiteRef", self.eval_suite_ref.as_ref()),
            ("handoff.taskSchemaRef", handoff.and_then(|it| it.task_schema_ref.as_ref())),
            ("handoff.returnSchemaRef", handoff.and_then(|it| it.return_schema_ref.as_ref())),
        ];
        for (field, text) in texts {
            ensure(text.is_none_or(|text| !text.is_empty()), &at(field), || {
                "must not be empty".into()
            })?;
        }
        self.check_lists(path)?;
        let threshold = self.confidence.and_then(|confidence| confidence.default_threshold);
        let in_range = threshold.is_none_or(|threshold| (0.0..=1.0).contains(&threshold));
        ensure(in_range, &at("confidence.defaultThreshold"), || "must be from 0 to 1".into())
    }

    fn check_lists(&self, path: &str) -> Result<(), ShapeError> {
        let at = |field: &str| format!("{path}.{field}");
        let tools = self.tool_allowlist.as_deref().unwrap_or_default();
        ensure(tools.iter().all(|tool| !tool.is_empty()), &at("toolAllowlist"), || {
            "must name no empty tool".into()
        })?;
        let needs = self.requires_capabilities.as_deref().unwrap_or_default();
        let mut once = needs.to_vec();
        once.sort();
        once.dedup();
        let is_set = once.len() == needs.len() && needs.iter().all(|need| !need.is_empty());
        ensure(is_set, &at("requiresCapabilities"), || "must name each capability once".into())?;
        let library = self.prompt_library_ref.as_deref();
        ensure(library.is_none_or(is_prompt_name), &at("promptLibraryRef"), || {
            "must be up to 128 of a-z, 0-9, '.', '_' and '-'".into()
        })?;
        for (kind, prompt) in self.prompt_overrides.iter().flatten() {
            let known = PROMPT_KINDS.contains(&kind.as_str()) && PromptRef::read(prompt).is_some();
            ensure(known, &at(&format!("promptOverrides.{kind}")), || {
                format!("must be a prompt reference under one of {}", PROMPT_KINDS.join(", "))
            })?;
        }
        Ok(())
    }

    pub fn wants_conversation(&self) -> bool {
        self.memory_shape.is_some_and(|shape| shape.conversation == Some(true))
    }

    pub fn wants_long_term_memory(&self) -> bool {
        self.memory_shape.is_some_and(|shape| shape.long_term == Some(true))
    }
}

fn length(text: &str, least: usize, most: usize, path: &str) -> Result<(), ShapeError> {
    ensure((least..=most).contains(&text.chars().count()), path, || {
        format!("must have {least} to {most} characters")
    })
}

/// `GET /v1/agents`: what the caller may dispatch, by id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentInventory {
    pub agents: Vec<AgentInventoryEntry>,
    pub total: usize,
}

impl From<Vec<AgentInventoryEntry>> for AgentInventory {
    fn from(agents: Vec<AgentInventoryEntry>) -> Self {
        Self { total: agents.len(), agents }
    }
}

/// One agent as readers see it: never its prompt, its schemas or anything secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentInventoryEntry {
    pub agent_id: AgentId,
    pub persona: String,
    pub label: String,
    pub model_class: ModelClass,
    pub pack_name: PackName,
    pub pack_version: PackVersion,
    pub tool_allowlist: Vec<String>,
    pub has_handoff_schemas: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// Capabilities that the agent declares, this host lacks, and which are inert here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Present exactly where `degraded_memory_dimensions` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_degraded: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<MemoryDimension>,
    /// The standing members that are instances of it, as far as the caller sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roster: Vec<RosterLine>,
}

/// A part of memory that a host may lack. The protocol names more; these are the ones we can lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryDimension {
    Read,
    Write,
    LongTermDurability,
}
