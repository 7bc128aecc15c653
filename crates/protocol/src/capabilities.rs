//! The discovery document: what this host says of itself, and therefore must enforce.

mod check;
mod memory;
mod orchestration;

use serde::{Deserialize, Serialize};

pub use check::{Contradiction, RosterContradiction};

use crate::{
    BudgetScope, DeploymentState, ForkMode, InvocationSource, Object, PromptKind, PromptSource,
    RetryPolicy, SubscriptionState, ToolSource, TriggerSource,
};

pub use memory::*;
pub use orchestration::*;

/// `GET /.well-known/openwop`. Each family stands at the root; the server mirrors them under `capabilities`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub protocol_version: String,
    pub protocol_versions: Vec<String>,
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
    pub testing: Testing,
    pub extensions: Object,
}

/// RFC 0078: which tools there are. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCatalogCapability {
    pub supported: bool,
    pub sources: Vec<ToolSource>,
}

/// RFC 0064: what is asked before a tool is called, and told of the call. Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolHooksCapability {
    pub supported: bool,
    pub pre_post_events: bool,
    pub per_tool_authorization: bool,
    pub per_tool_rate_limit: bool,
}

/// How this host fetches for its tools. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpClientCapability {
    pub supported: bool,
    pub ssrf_guard: bool,
    pub max_response_body_bytes: u64,
    pub request_timeout_ms: u64,
    pub methods: Vec<String>,
}

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    pub name: String,
    pub version: String,
    pub vendor: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supported {
    pub supported: bool,
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

/// RFC 0083 with 0099, 0230 and 0232.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerBridgeCapability {
    pub supported: bool,
    pub subscription_states: Vec<SubscriptionState>,
    pub dedup: bool,
    pub retry_policy: RetryPolicy,
    pub sources: Vec<TriggerSource>,
    pub ingestion: IngestionCapability,
    pub dead_letter: TriggerDeadLetterCapability,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IngestionCapability {
    pub external_sources: Vec<TriggerSource>,
    pub max_body_bytes: u64,
    pub verification: Vec<String>,
    pub registration_endpoint: bool,
    pub inbound_signing: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerDeadLetterCapability {
    pub retention_days: u32,
    pub max_page_size: u32,
}

/// RFC 0060: what is looked at again and again. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatCapability {
    pub supported: bool,
    pub min_interval_sec: u64,
    pub max_runtime_ms: u64,
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

/// RFC 0052. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulingCapability {
    pub supported: bool,
    pub cron: bool,
    /// A single run at a given time.
    pub delayed: bool,
    pub calendar: bool,
    /// An ISO 8601 duration.
    pub max_future_horizon: String,
}

/// What the host does with agents of packs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentsCapability {
    pub supported: bool,
    pub manifest_runtime: ManifestRuntime,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_backends: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_consolidation: Option<MemoryConsolidation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitments: Option<CommitmentsCapability>,
    /// Whether supervisors decide, whether what they decide is carried out, and whether workers are given variables.
    pub orchestrator: bool,
    pub dispatch: bool,
    pub dispatch_mapping: bool,
    /// RFC 0063: what a child leaves is attested, and merged only where somebody agreed who had to.
    #[serde(default)]
    pub sub_run_attestation: bool,
    /// Absent where agents are dispatched without asking models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_runtime: Option<LiveRuntime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningCapability>,
    /// Absent where no reference to a channel can be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentCapability>,
    /// Absent where nobody can be hired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roster: Option<RosterCapability>,
    /// Absent where nobody is placed anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_chart: Option<OrgChartCapability>,
}

/// RFC 0087: charts over standing members. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrgChartCapability {
    pub supported: bool,
    pub install_scope: InstallScope,
    pub department_nesting: bool,
    pub responsibility_view: bool,
}

/// RFC 0086: standing members. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RosterCapability {
    pub supported: bool,
    pub install_scope: InstallScope,
    /// What fires the workflows of members here; nothing else does.
    pub portfolio_trigger_sources: Vec<TriggerSource>,
}

/// RFC 0077: agents of packs work with models and tools. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveRuntime {
    pub supported: bool,
    pub structured_output: bool,
    pub confidence_escalation: bool,
    pub sources: Vec<InvocationSource>,
}

/// How much of what agents think is told. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReasoningCapability {
    pub verbosity: String,
    pub streaming: bool,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConformanceCapability {
    pub mock_agent: bool,
}

/// RFC 0082: which version of an agent serves. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentCapability {
    pub supported: bool,
    pub channels: Vec<String>,
    pub canary: bool,
    pub rollback: bool,
    pub states: Vec<DeploymentState>,
}

/// The floor of RFC 0070: agents of packs are loaded and dispatched. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestRuntime {
    pub supported: bool,
    pub handoff_validation: bool,
    pub install_scope: InstallScope,
}

/// Who sees an installed agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallScope {
    Host,
    Tenant,
}

impl InstallScope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Tenant => "tenant",
        }
    }
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
    pub drain_policies: Vec<crate::DrainPolicy>,
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
    pub debug_bundle: BundleCapability,
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
pub struct Compliance {
    pub default_mode: String,
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
