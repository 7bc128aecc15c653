//! The discovery document: what this host says of itself, and therefore must enforce.

mod agents;
mod auth;
mod check;
mod memory;
mod models;
mod orchestration;
mod sources;
mod tools;

use serde::{Deserialize, Serialize};

use crate::{DrainPolicy, ForkMode, Object};

pub use agents::*;
pub use auth::*;
pub use check::{Contradiction, RosterContradiction};
pub use memory::*;
pub use models::*;
pub use orchestration::*;
pub use sources::*;
pub use tools::*;

/// `GET /.well-known/openwop`. Each family stands at the root; the server mirrors them under `capabilities`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub protocol_version: String,
    pub protocol_versions: Vec<String>,
    pub preferred_version: String,
    pub implementation: Implementation,
    pub engine_version: u32,
    pub event_log_schema_version: u32,
    pub supported_envelopes: Vec<String>,
    pub schema_versions: Object,
    pub supported_transports: Vec<String>,
    pub limits: Limits,
    /// The `configurable` keys that change what a run does.
    pub configurable: Object,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixtures: Vec<String>,
    pub runs: RunsCapability,
    pub idempotency: IdempotencyCapability,
    pub rest_transport: RestTransport,
    pub production: Production,
    pub discovery: DiscoveryCapability,
    pub compliance: Compliance,
    pub debug_bundle: Supported,
    pub feedback: Feedback,
    pub observability: Observability,
    pub replay: ReplayCapability,
    pub secrets: SecretsCapability,
    pub sub_workflow: SubWorkflowCapability,
    pub webhooks: WebhooksCapability,
    /// `core.conversationGate`, and what it suspends with.
    pub conversation_primitive: bool,
    /// Absent until something dispatches agents: what is advertised is enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentsCapability>,
    pub memory: MemoryCapability,
    pub workspace: WorkspaceCapability,
    pub tool_catalog: ToolCatalogCapability,
    /// Absent until every call of a tool goes through them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hooks: Option<ToolHooksCapability>,
    /// Absent where requests may reach private addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_client: Option<HttpClientCapability>,
    pub auth: AuthCapability,
    pub authorization: AuthorizationCapability,
    pub interrupt: InterruptCapability,
    pub prompts: PromptsCapability,
    pub envelopes: EnvelopesCapability,
    pub model_capabilities: ModelCapabilities,
    pub provider_usage: UsageCapability,
    pub orchestrator: OrchestratorCapability,
    pub dispatch: DispatchCapability,
    pub multi_agent: MultiAgentCapability,
    /// Absent outside of tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<ConformanceCapability>,
    /// Absent where no model is asked, so nothing is spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetCapability>,
    pub heartbeat: HeartbeatCapability,
    pub scheduling: SchedulingCapability,
    pub trigger_bridge: TriggerBridgeCapability,
    pub dead_letter: DeadLetterCapability,
    pub testing: Testing,
    pub extensions: Object,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    pub name: String,
    pub version: String,
    pub vendor: String,
}

/// Closed in the protocol's schema: no key but these may ever appear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    pub clarification_rounds: u32,
    pub schema_rounds: u32,
    pub envelopes_per_turn: u32,
    pub max_node_executions: u64,
    pub max_run_duration_ms: u64,
    pub max_loop_iterations: u64,
    /// What no run may use more of, where the operator has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget_cost_usd: Option<f64>,
    pub max_request_body_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunsCapability {
    pub pause_resume: PauseResume,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseResume {
    pub supported: bool,
    pub drain_policies: Vec<DrainPolicy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyCapability {
    pub supported: bool,
    pub layer1_retention_seconds: u64,
    pub layer2_retention_seconds: u64,
    pub cross_region: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestTransport {
    pub conditional_run_get: bool,
    pub content_encodings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Production {
    pub supported: bool,
    pub backpressure: Backpressure,
    pub retention: RetentionCapability,
    pub debug_bundle: BundleCapability,
}

/// How long logs are kept, at least. Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetentionCapability {
    pub supported: bool,
    /// None where it is below the least that the protocol allows to advertise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_window_seconds: Option<u64>,
}

/// RFC 0011: where callers see what of this is theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscoveryCapability {
    pub auth_scoped: ScopedDiscovery,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScopedDiscovery {
    pub supported: bool,
    pub mode: String,
    pub endpoint_path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backpressure {
    pub supported: bool,
    pub inflight_cap: u64,
    pub retry_after_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleCapability {
    pub supported: bool,
    pub truncation_metadata: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compliance {
    pub default_mode: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supported {
    pub supported: bool,
}

/// Annotations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    pub supported: bool,
    pub targets: Vec<String>,
    pub signals: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observability {
    pub namespace: String,
    pub otel: OtelCapability,
    pub span_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_seams: Option<SeamCapability>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelCapability {
    pub export_protocols: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeamCapability {
    pub otel_scrape: bool,
    pub debug_bundle_export: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayCapability {
    pub supported: bool,
    pub modes: Vec<ForkMode>,
    /// `recorded-outcome`: no replay ever reaches the outside.
    pub side_effect_suppression: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretsCapability {
    pub supported: bool,
    /// Whom a secret can belong to.
    pub scopes: Vec<String>,
    /// `host-managed`: clients name secrets that the host keeps.
    pub resolution: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubWorkflowCapability {
    pub input_mapping: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhooksCapability {
    pub supported: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_algorithms: Vec<String>,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConformanceCapability {
    pub mock_agent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Testing {
    pub mock_providers: Vec<String>,
    pub test_key_prefix: String,
    pub force_engine_version_range: EngineVersionRange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineVersionRange {
    pub min: u32,
    pub max: u32,
}
