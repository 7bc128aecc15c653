//! The discovery document's part about models: their calls, envelopes and budgets.

use serde::{Deserialize, Serialize};

use crate::{BudgetScope, PromptKind, PromptSource};

/// The prompt library. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptsCapability {
    pub supported: bool,
    pub endpoints_supported: bool,
    pub template_kinds: Vec<PromptKind>,
    pub variable_sources: Vec<PromptSource>,
    pub max_template_bytes: usize,
    pub observability: String,
    pub mutable_library: bool,
    pub packs_supported: bool,
    pub agent_bindings: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopesCapability {
    pub reliability: ReliabilityCapability,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReliabilityCapability {
    pub supported: bool,
    pub events: Vec<String>,
    pub max_retry_attempts: u32,
    pub completion: CompletionCapability,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompletionCapability {
    pub distinguishes_truncation: bool,
    pub truncation_budget_multiplier: u32,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelCapabilities {
    pub supported: bool,
    pub advertised: Vec<String>,
    pub substitution_supported: bool,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageCapability {
    pub supported: bool,
    pub cost_estimates: bool,
    pub currency: String,
}

/// RFC 0084: what is held below a ceiling. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetCapability {
    pub supported: bool,
    pub dimensions: Vec<String>,
    pub enforce: String,
    pub scopes: Vec<BudgetScope>,
}
