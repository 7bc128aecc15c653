//! What this host says of itself. Everything here is enforced somewhere; nothing is a plan.

mod families;
mod scoped;

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use callboard_agents::{MODEL_CAPABILITIES, Policy, UNIVERSAL_KINDS};
use callboard_core::HostLimits;
use callboard_engine::{MAX_FILE_BYTES, MAX_FILES, MAX_RUNTIME, MIN_INTERVAL};
use callboard_protocol::{
    ApproverRouting, Capabilities, Compliance, ConformanceCapability, DeadLetterCapability,
    Dialect, DiscoveryCapability, DrainPolicy, ENGINE_VERSION, EVENT_LOG_SCHEMA_VERSION,
    EngineVersionRange, EnvelopesCapability, Feedback, ForkMode, HeartbeatCapability,
    IdempotencyCapability, InterruptCapability, ModelCapabilities, MultiAgentCapability, Object,
    OrchestratorCapability, PROTOCOL_VERSION, PauseResume, ReplayCapability, RestTransport,
    RunsCapability, ScopedDiscovery, SecretsCapability, SubWorkflowCapability, Supported, Testing,
    ToolCatalogCapability, UsageCapability, WebhooksCapability, WorkflowId, WorkspaceCapability,
};
use serde_json::Value;

use crate::app::Host;
use crate::conditional::tag_of;
use crate::idempotency::RETENTION_SECONDS;
use crate::keys::TEST_PREFIX;
use crate::problem::Problem;
use crate::v2::discovery as second;
use families::{
    agents, auth, authorization, configurable, dispatch, execution_model, extensions, limits,
    memory, observability, production, prompts, reliability, scheduling, texts, trigger_bridge,
};

/// The versions that a test may ask to have stamped: one below and one above this build's.
pub(crate) const FORCED_VERSIONS: EngineVersionRange =
    EngineVersionRange { min: ENGINE_VERSION - 1, max: ENGINE_VERSION + 1 };

/// The protocol's own numbers. Envelopes are judged at one place, the door of the test suite, and no cap that is told
/// there counts beyond these.
pub const CLARIFICATION_ROUNDS: u32 = 3;
pub const ENVELOPES_PER_TURN: u32 = 5;

/// How long outcomes of outward calls are kept, at least, as long as their run is there: they go with it.
const EFFECT_RETENTION_DAYS: u32 = 14;
const SECONDS_PER_DAY: u64 = 86_400;

/// The documents of both majors, made again when the host has read its files again.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    first: Mutex<Option<Arc<Document>>>,
    second: Mutex<Option<Arc<Document>>>,
}

#[derive(Debug)]
pub(crate) struct Document {
    fixtures: Vec<WorkflowId>,
    /// As the host's files said them.
    limits: HostLimits,
    policy: Arc<Policy>,
    pub(crate) bytes: Bytes,
    /// Over the exact bytes.
    pub(crate) tag: String,
    /// Over what a client negotiates by: all but the build's name.
    pub(crate) negotiation_tag: String,
}

impl Discovery {
    pub(crate) fn document(&self, host: &Host, dialect: Dialect) -> Result<Arc<Document>, Problem> {
        let fixtures = host.app.engine.catalog().fixtures();
        let kept = match dialect {
            Dialect::V1 => &self.first,
            Dialect::V2 => &self.second,
        };
        let mut current = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |document: &&Arc<Document>| {
            document.fixtures == fixtures
                && document.limits == host.app.engine.limits()
                && Arc::ptr_eq(&document.policy, &host.app.agents.policy())
        };
        if let Some(document) = current.as_ref().filter(is_current) {
            return Ok(Arc::clone(document));
        }
        let document = Arc::new(Document::new(host, fixtures, dialect)?);
        *current = Some(Arc::clone(&document));
        Ok(document)
    }
}

impl Document {
    fn new(host: &Host, fixtures: Vec<WorkflowId>, dialect: Dialect) -> Result<Self, Problem> {
        let (limits, policy) = (host.app.engine.limits(), host.app.agents.policy());
        let capabilities = serde_json::to_value(capabilities(host, &fixtures));
        let mut root = capabilities.map_err(|error| Problem::internal(&error))?;
        match dialect {
            Dialect::V1 => mirror_families(&mut root),
            Dialect::V2 => root = second::document(root, host),
        }
        let bytes = Bytes::from(root.to_string());
        let tag = tag_of(&bytes);
        if let Some(fields) = root.as_object_mut() {
            fields.remove("implementation");
        }
        let negotiation_tag = tag_of(root.to_string().as_bytes());
        Ok(Self { fixtures, limits, policy, bytes, tag, negotiation_tag })
    }
}

/// Older clients look for the families under `capabilities`. Every object but the build's name is a family.
fn mirror_families(root: &mut Value) {
    let Some(fields) = root.as_object_mut() else { return };
    let is_family =
        |(name, value): &(&String, &Value)| value.is_object() && *name != "implementation";
    let families: Object = fields
        .iter()
        .filter(is_family)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    fields.insert("capabilities".to_owned(), families.into());
}

#[expect(clippy::too_many_lines, reason = "a few lines for each family")]
pub(crate) fn capabilities(host: &Host, fixtures: &[WorkflowId]) -> Capabilities {
    let runs_kept_days = host.app.config.runs_kept_days;
    let effects_kept_days = runs_kept_days.unwrap_or(u32::MAX).min(EFFECT_RETENTION_DAYS);
    Capabilities {
        protocol_version: PROTOCOL_VERSION.to_owned(),
        protocol_versions: texts(&host.app.config.majors.versions()),
        preferred_version: host.app.config.majors.preferred().to_owned(),
        implementation: host.implementation(),
        engine_version: ENGINE_VERSION,
        event_log_schema_version: EVENT_LOG_SCHEMA_VERSION,
        supported_envelopes: texts(&UNIVERSAL_KINDS),
        schema_versions: UNIVERSAL_KINDS
            .iter()
            .map(|kind| ((*kind).to_owned(), 1.into()))
            .collect(),
        supported_transports: texts(&["rest"]),
        limits: limits(host),
        configurable: configurable(host),
        fixtures: fixtures.iter().map(ToString::to_string).collect(),
        runs: RunsCapability {
            pause_resume: PauseResume {
                supported: true,
                drain_policies: vec![DrainPolicy::Immediate, DrainPolicy::DrainCurrentNode],
            },
        },
        idempotency: IdempotencyCapability {
            supported: true,
            layer1_retention_seconds: RETENTION_SECONDS,
            layer2_retention_seconds: u64::from(effects_kept_days) * SECONDS_PER_DAY,
            cross_region: "single-region".to_owned(),
        },
        rest_transport: RestTransport {
            conditional_run_get: true,
            content_encodings: texts(&["gzip"]),
        },
        production: production(host),
        discovery: DiscoveryCapability {
            auth_scoped: ScopedDiscovery {
                supported: true,
                mode: "extension-endpoint".to_owned(),
                endpoint_path: "/v1/host/callboard/capabilities".to_owned(),
            },
        },
        compliance: Compliance { default_mode: "mask".to_owned() },
        debug_bundle: Supported { supported: true },
        feedback: Feedback {
            supported: true,
            targets: texts(&["run", "event", "node"]),
            signals: texts(&["rating", "correction", "label", "flag"]),
        },
        observability: observability(host),
        replay: ReplayCapability {
            supported: true,
            modes: vec![ForkMode::Replay, ForkMode::Branch],
            side_effect_suppression: "recorded-outcome".to_owned(),
        },
        secrets: SecretsCapability {
            supported: true,
            scopes: texts(&["tenant"]),
            resolution: "host-managed".to_owned(),
        },
        sub_workflow: SubWorkflowCapability { input_mapping: true },
        webhooks: WebhooksCapability { supported: true, signature_algorithms: texts(&["v1"]) },
        conversation_primitive: true,
        prompts: prompts(host),
        envelopes: EnvelopesCapability { reliability: reliability() },
        model_capabilities: ModelCapabilities {
            supported: true,
            advertised: texts(&MODEL_CAPABILITIES),
            substitution_supported: true,
        },
        provider_usage: UsageCapability {
            supported: true,
            cost_estimates: true,
            currency: "USD".to_owned(),
        },
        memory: memory(),
        workspace: WorkspaceCapability {
            supported: true,
            versioned: true,
            max_file_bytes: MAX_FILE_BYTES as u64,
            max_files: MAX_FILES as u64,
        },
        tool_catalog: ToolCatalogCapability {
            supported: true,
            sources: host.app.tools.sources.clone(),
        },
        tool_hooks: host.app.config.tool_hooks,
        http_client: host.app.tools.http_client.clone(),
        auth: auth(host),
        authorization: authorization(),
        // There are no groups here, and approvals are announced only through webhooks and the inbox.
        interrupt: InterruptCapability {
            approver_routing: ApproverRouting {
                supported: true,
                ref_kinds: texts(&["role"]),
                audience: false,
            },
        },
        agents: agents(host),
        orchestrator: OrchestratorCapability { supported: true, fan_out_supported: true },
        dispatch: dispatch(),
        multi_agent: MultiAgentCapability { execution_model: execution_model(host) },
        conformance: host.app.seams.is_some().then_some(ConformanceCapability { mock_agent: true }),
        budget: host.app.config.budget.clone(),
        heartbeat: HeartbeatCapability {
            supported: true,
            min_interval_sec: MIN_INTERVAL.as_secs(),
            max_runtime_ms: u64::try_from(MAX_RUNTIME.as_millis()).unwrap_or(u64::MAX),
        },
        scheduling: scheduling(),
        trigger_bridge: trigger_bridge(host),
        dead_letter: DeadLetterCapability { supported: true, retention_days: runs_kept_days },
        testing: Testing {
            mock_providers: texts(&callboard_core::MOCK_PROVIDERS),
            test_key_prefix: TEST_PREFIX.to_owned(),
            force_engine_version_range: FORCED_VERSIONS,
        },
        extensions: extensions(host),
    }
}
