//! What this host says of itself. Everything here is enforced somewhere; nothing is a plan.

mod scoped;

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use callboard_agents::{BUDGET_MULTIPLIER, MODEL_CAPABILITIES, SCHEMA_ROUNDS, UNIVERSAL_KINDS};
use callboard_core::{HORIZON_TEXT, MAX_FAN_OUT};
use callboard_engine::{
    MAX_FILE_BYTES, MAX_FILES, MAX_MEMORY_BYTES, MAX_RUNTIME, MAX_TOKEN_BUDGET, MIN_INTERVAL,
    TOKENIZER, TriggerIngest,
};
use callboard_protocol::{
    AgentsCapability, ApproverRouting, AuthorizationCapability, Backpressure, BundleCapability,
    Capabilities, CompletionCapability, Compliance, ConformanceCapability, CrossHostCausation,
    DeadLetterCapability, DiscoveryCapability, DispatchCapability, DrainPolicy, ENGINE_VERSION,
    EVENT_LOG_SCHEMA_VERSION, EngineVersionRange, EnvelopesCapability, ExecutionModel, Feedback,
    ForkMode, HeartbeatCapability, IdempotencyCapability, IngestionCapability, InterruptCapability,
    InterruptKind, LONGEST_PROMPT, Limits, MemoryAttribution, MemoryCapability, MemoryCompaction,
    MemoryDistillation, MemoryRetention, MemorySearch, ModelCapabilities, MultiAgentCapability,
    Object, Observability, OrchestratorCapability, OtelCapability, PROTOCOL_VERSION,
    PROTOCOL_VERSIONS, PauseResume, Production, PromptKind, PromptSource, PromptsCapability,
    ReliabilityCapability, ReplayCapability, ReplayDeterminism, RestTransport, RetentionCapability,
    RetryPolicy, RoleCapability, RunsCapability, SchedulingCapability, ScopedDiscovery,
    SeamCapability, SecretsCapability, SubWorkflowCapability, SubscriptionState, Supported,
    Testing, ToolCatalogCapability, TriggerBridgeCapability, TriggerDeadLetterCapability,
    TriggerSource, UsageCapability, WebhooksCapability, WorkflowId, WorkspaceCapability,
};
use serde_json::{Value, json};

use crate::app::{Host, reasoning};
use crate::conditional::tag_of;
use crate::idempotency::RETENTION_SECONDS;
use crate::keys::TEST_PREFIX;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::scopes::ROLES;
use crate::seams::TestSeams;

/// The versions that a test may ask to have stamped: one below and one above this build's.
pub(crate) const FORCED_VERSIONS: EngineVersionRange =
    EngineVersionRange { min: ENGINE_VERSION - 1, max: ENGINE_VERSION + 1 };

/// The protocol's own numbers. Envelopes are judged at one place, the door of the test suite, and no cap that is told
/// there counts beyond these.
pub(crate) const CLARIFICATION_ROUNDS: u32 = 3;
pub(crate) const ENVELOPES_PER_TURN: u32 = 5;

/// How long outcomes of outward calls are kept, at least, as long as their run is there: they go with it.
const EFFECT_RETENTION_DAYS: u32 = 14;
const SECONDS_PER_DAY: u64 = 86_400;
/// The least that the protocol's production profile lets a host claim for logs.
const LEAST_RETENTION_DAYS: u32 = 7;

/// The document, made again when the fixtures change.
#[derive(Debug, Default)]
pub(crate) struct Discovery(Mutex<Option<Arc<Document>>>);

#[derive(Debug)]
pub(crate) struct Document {
    fixtures: Vec<WorkflowId>,
    pub(crate) bytes: Bytes,
    /// Over the exact bytes.
    pub(crate) tag: String,
    /// Over what a client negotiates by: all but the build's name.
    pub(crate) negotiation_tag: String,
}

impl Discovery {
    pub(crate) fn document(&self, host: &Host) -> Result<Arc<Document>, Problem> {
        let fixtures = host.app.engine.catalog().fixtures();
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = current.as_ref().filter(|document| document.fixtures == fixtures) {
            return Ok(Arc::clone(document));
        }
        let document = Arc::new(Document::new(host, fixtures)?);
        *current = Some(Arc::clone(&document));
        Ok(document)
    }
}

impl Document {
    fn new(host: &Host, fixtures: Vec<WorkflowId>) -> Result<Self, Problem> {
        let capabilities = serde_json::to_value(capabilities(host, &fixtures));
        let mut root = capabilities.map_err(|error| Problem::internal(&error))?;
        mirror_families(&mut root);
        let bytes = Bytes::from(root.to_string());
        let tag = tag_of(&bytes);
        if let Some(fields) = root.as_object_mut() {
            fields.remove("implementation");
        }
        Ok(Self { fixtures, bytes, tag, negotiation_tag: tag_of(root.to_string().as_bytes()) })
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
        protocol_versions: texts(&PROTOCOL_VERSIONS),
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
        authorization: authorization(),
        // There are no groups here, and nobody is told of an approval but through webhooks and the inbox.
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
        conformance: (host.app.seams == TestSeams::On)
            .then_some(ConformanceCapability { mock_agent: true }),
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

fn prompts(host: &Host) -> PromptsCapability {
    PromptsCapability {
        supported: true,
        endpoints_supported: true,
        template_kinds: PromptKind::ALL.to_vec(),
        variable_sources: vec![PromptSource::Input, PromptSource::Secret, PromptSource::Context],
        max_template_bytes: LONGEST_PROMPT,
        observability: host.app.prompts.observability.as_str().to_owned(),
        mutable_library: true,
        packs_supported: true,
        agent_bindings: true,
    }
}

fn reliability() -> ReliabilityCapability {
    ReliabilityCapability {
        supported: true,
        events: texts(&[
            "envelope.retry.attempted",
            "envelope.retry.exhausted",
            "envelope.refusal",
            "envelope.truncated",
            "envelope.nlToFormat.engaged",
            "envelope.recovery.applied",
        ]),
        max_retry_attempts: SCHEMA_ROUNDS,
        completion: CompletionCapability {
            distinguishes_truncation: true,
            truncation_budget_multiplier: BUDGET_MULTIPLIER,
        },
    }
}

fn memory() -> MemoryCapability {
    MemoryCapability {
        supported: true,
        max_entry_size_bytes: MAX_MEMORY_BYTES as u64,
        ttl_supported: true,
        // Words and tags, nothing that guesses what was meant.
        search: MemorySearch { supported: true, modes: texts(&["filter"]) },
        retention: MemoryRetention { ttl: true, forget: true },
        attribution: MemoryAttribution { supported: true, emits_write_events: true },
        compaction: MemoryCompaction {
            supported: true,
            trigger: "both".to_owned(),
            max_output_bytes: MAX_MEMORY_BYTES as u64,
        },
        distillation: MemoryDistillation {
            supported: true,
            max_token_budget: MAX_TOKEN_BUDGET,
            scheduled: true,
            index_emitted: false,
            tokenizer_name: TOKENIZER.to_owned(),
        },
    }
}

/// Thinking is streamed by the conformance suite's own agent alone, which exists only for it.
fn agents(host: &Host) -> Option<AgentsCapability> {
    let reasoning = (host.app.seams == TestSeams::On).then(reasoning);
    let said = host.app.config.agents.clone()?;
    Some(AgentsCapability { reasoning: said.reasoning.or(reasoning), ..said })
}

/// Whoever holds no key that counts holds nothing.
fn authorization() -> AuthorizationCapability {
    let role = |(role, scopes): (&str, &[&str])| RoleCapability {
        role: role.to_owned(),
        scopes: texts(scopes),
    };
    let roles = ROLES.into_iter().map(role).collect();
    AuthorizationCapability { supported: true, fail_closed: true, roles }
}

fn dispatch() -> DispatchCapability {
    DispatchCapability {
        supported: true,
        models: texts(&["child-run"]),
        fan_out_supported: true,
        fan_out_policies: texts(&["sequential", "reject", "parallel"]),
        join_modes: texts(&["wait-all", "quorum", "first", "race"]),
        on_child_failure_modes: texts(&["collect", "fail-fast", "absorb"]),
        max_fan_out: MAX_FAN_OUT,
        ask_user_routings: texts(&["conversation", "clarification", "auto"]),
        per_item_input: true,
    }
}

/// Each version adds to those before it, and nothing is said of what the host's own version does not promise.
fn execution_model(host: &Host) -> ExecutionModel {
    let limits = host.app.engine.limits();
    let version = limits.execution_model;
    ExecutionModel {
        supported: true,
        version,
        confidence_escalation_floor: limits.confidence_floor.get(),
        confidence_escalation_interrupt_kind: InterruptKind::Approval.as_str().to_owned(),
        cross_child_memory_concurrency: "strict".to_owned(),
        cross_host_causation: (version >= 3).then(|| CrossHostCausation {
            supported: true,
            host_id: host.app.config.host_id.clone(),
            ancestry_endpoint_supported: true,
        }),
        replay_determinism: (version >= 4).then(|| ReplayDeterminism {
            supported: true,
            llm_cache_key_recipe: "spec-rfc-0041".to_owned(),
            refusal_divergence_emission: true,
        }),
        stateful_resume: (version >= 5).then_some(true),
        transcript_window: (version >= 5).then_some(limits.transcript_window),
    }
}

fn extensions(host: &Host) -> Object {
    object(json!({
        // Not `webhooks.durable`: that would promise it of every webhook, and here each asks for it.
        "callboard": {
            "basePath": "/v1/host/callboard",
            "durableWebhooks": "on-request",
            // The protocol has no seat for these; docs/guides/schedules.md says what each means.
            "schedules": {
                "fields": [5, 6],
                "timezones": "iana",
                "missedFirePolicies": ["skip", "fire-once", "fire-all"],
                "mostCatchUps": 1,
                "overlap": ["skip", "allow", "queue", "cancel"],
            },
            "packs": { "degrade": host.app.agents.policy().host.degrade },
        },
        "interrupts": {
            "profiles": [
                "openwop-interrupt-quorum",
                "openwop-interrupt-auth-required",
                "openwop-interrupt-external-event",
                "openwop-interrupt-cascade-cancel",
            ],
            "signedCallbackTokens": true,
        },
    }))
}

fn observability(host: &Host) -> Observability {
    let seams = SeamCapability { otel_scrape: true, debug_bundle_export: true };
    Observability {
        namespace: "openwop".to_owned(),
        otel: OtelCapability { export_protocols: texts(&["http/json", "http/protobuf"]) },
        span_names: texts(&[
            "openwop.run",
            "openwop.node.<typeId>",
            "openwop.node.<typeId>.attempt",
            "openwop.interrupt",
        ]),
        test_seams: (host.app.seams == TestSeams::On).then_some(seams),
    }
}

fn scheduling() -> SchedulingCapability {
    SchedulingCapability {
        supported: true,
        cron: true,
        delayed: true,
        calendar: false,
        max_future_horizon: HORIZON_TEXT.to_owned(),
    }
}

/// The protocol has no seat yet for the last two; they are what RFC 0230 and RFC 0232 add.
fn trigger_bridge(host: &Host) -> TriggerBridgeCapability {
    let external = vec![TriggerSource::Webhook, TriggerSource::Email, TriggerSource::Form];
    let mut sources = external.clone();
    sources.push(TriggerSource::Queue);
    TriggerBridgeCapability {
        supported: true,
        subscription_states: SubscriptionState::ALL.to_vec(),
        dedup: true,
        retry_policy: RetryPolicy::default(),
        sources,
        ingestion: IngestionCapability {
            external_sources: external,
            max_body_bytes: host.app.config.max_body_bytes as u64,
            verification: texts(&["webhook-signature"]),
            registration_endpoint: true,
            inbound_signing: texts(&["standard-webhooks-1"]),
        },
        dead_letter: TriggerDeadLetterCapability {
            retention_days: TriggerIngest::RETENTION_DAYS,
            max_page_size: PageSize::MOST.into(),
        },
    }
}

fn limits(host: &Host) -> Limits {
    let engine = host.app.engine.limits();
    let is_bounded = host.app.config.budget.is_some();
    Limits {
        clarification_rounds: CLARIFICATION_ROUNDS,
        schema_rounds: SCHEMA_ROUNDS,
        envelopes_per_turn: ENVELOPES_PER_TURN,
        max_node_executions: engine.max_node_executions,
        max_run_duration_ms: engine.max_run_duration_ms,
        max_loop_iterations: engine.max_loop_iterations,
        max_budget_tokens: engine.run_budget.max_tokens.filter(|_| is_bounded),
        max_budget_cost_usd: engine.run_budget.max_cost_usd.filter(|_| is_bounded),
        max_request_body_bytes: host.app.config.max_body_bytes as u64,
    }
}

fn configurable(host: &Host) -> Object {
    let engine = host.app.engine.limits();
    object(json!({
        "recursionLimit": {
            "type": "integer", "min": 1, "max": engine.max_node_executions,
            "description": "Node executions after which the run fails; more than the maximum counts as the maximum.",
        },
        "runTimeoutMs": {
            "type": "integer", "min": 1, "max": engine.max_run_duration_ms,
            "description": "Milliseconds after which the run fails.",
        },
        "maxLoopIterations": {
            "type": "integer", "min": 1, "max": engine.max_loop_iterations,
            "description": "Turns of supervisors after which the run fails; more than the maximum counts as the maximum.",
        },
        "budget": {
            "type": "object",
            "description": "What the run may use: maxTokens, maxCostUsd, maxToolCalls, maxRetries, modelAllow, modelDeny, thresholdPercent, onExhaustion.",
        },
        "model": {
            "type": "string",
            "description": "The model of every call: a name that the usual provider knows, or provider/model. ai.model goes before it.",
        },
        "temperature": {
            "type": "number", "min": 0, "max": 2,
            "description": "Sent with every call of a model. Coding agents have none.",
        },
        "maxTokens": {
            "type": "integer", "min": 1,
            "description": "The longest answer of a call of a model, in tokens; more than the host's ceiling counts as that.",
        },
        "ai": {
            "type": "object",
            "description": "provider, model and credentialRef of every call of a model.",
        },
        "promptOverrides": {
            "type": "object",
            "description": "Prompts that go before those of the nodes: kind to reference.",
        },
        "reasoningVerbosity": {
            "type": "string",
            "description": "How much is told of what an agent thinks: summary, full or off.",
        },
        "escalationThreshold": {
            "type": "number", "min": 0, "max": 1,
            "description": "How sure an agent must be to go on without asking.",
        },
        "mockProvider": {
            "type": "object",
            "description": "Answers AI calls from a script; test keys only.",
        },
    }))
}

fn production(host: &Host) -> Production {
    let config = &host.app.config;
    // What is kept for ever is kept for the least that may be claimed.
    let days = config.runs_kept_days.unwrap_or(LEAST_RETENTION_DAYS);
    let window = (days >= LEAST_RETENTION_DAYS).then(|| u64::from(days) * SECONDS_PER_DAY);
    Production {
        supported: false,
        backpressure: Backpressure {
            supported: true,
            inflight_cap: config.inflight.max(1) as u64,
            retry_after_seconds: config.retry_after_seconds,
        },
        retention: RetentionCapability { supported: window.is_some(), min_window_seconds: window },
        debug_bundle: BundleCapability { supported: true, truncation_metadata: true },
    }
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
