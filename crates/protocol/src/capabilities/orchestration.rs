//! The discovery document's part about supervisors and workers.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrchestratorCapability {
    pub supported: bool,
    pub fan_out_supported: bool,
}

/// What a dispatching node may be configured to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchCapability {
    pub supported: bool,
    pub models: Vec<String>,
    pub fan_out_supported: bool,
    pub fan_out_policies: Vec<String>,
    pub join_modes: Vec<String>,
    pub on_child_failure_modes: Vec<String>,
    pub max_fan_out: u32,
    pub ask_user_routings: Vec<String>,
    /// RFC 0126: a decision can give each worker its own input.
    pub per_item_input: bool,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MultiAgentCapability {
    pub execution_model: ExecutionModel,
}

/// How agents work together; a version promises all that those before it promise. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionModel {
    pub supported: bool,
    pub version: u32,
    pub confidence_escalation_floor: f64,
    pub confidence_escalation_interrupt_kind: String,
    /// `strict`: what siblings write is seen when they have joined.
    pub cross_child_memory_concurrency: String,
    /// From version 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_host_causation: Option<CrossHostCausation>,
    /// From version 4 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_determinism: Option<ReplayDeterminism>,
    /// From version 5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stateful_resume: Option<bool>,
    /// From version 5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_window: Option<u64>,
}

/// RFC 0040. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrossHostCausation {
    pub supported: bool,
    pub host_id: String,
    pub ancestry_endpoint_supported: bool,
}

/// RFC 0041. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayDeterminism {
    pub supported: bool,
    pub llm_cache_key_recipe: String,
    pub refusal_divergence_emission: bool,
}
