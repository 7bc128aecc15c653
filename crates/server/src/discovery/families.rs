//! The families of the discovery document that take more than a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_agents::{BUDGET_MULTIPLIER, SCHEMA_ROUNDS};
use callboard_core::{HORIZON_TEXT, MAX_FAN_OUT};
use callboard_engine::{
    CHECKPOINT_ENTRIES, CHECKPOINT_SECONDS, MAX_MEMORY_BYTES, MAX_TOKEN_BUDGET, TOKENIZER,
    TriggerIngest,
};
use callboard_protocol::{
    AgentsCapability, AuditLogIntegrity, AuthCapability, AuthorizationCapability, Backpressure,
    BundleCapability, CompletionCapability, CrossHostCausation, DispatchCapability, ExecutionModel,
    IngestionCapability, InterruptKind, LONGEST_PROMPT, Limits, MemoryAttribution,
    MemoryCapability, MemoryCompaction, MemoryDistillation, MemoryRetention, MemorySearch, Object,
    Observability, OidcCapability, OtelCapability, Production, PromptKind, PromptSource,
    PromptsCapability, ReliabilityCapability, ReplayDeterminism, RetentionCapability, RetryPolicy,
    RoleCapability, SchedulingCapability, SeamCapability, SubscriptionState,
    TriggerBridgeCapability, TriggerDeadLetterCapability, TriggerSource,
};
use serde_json::{Value, json};

use crate::app::{Host, reasoning};
use crate::page::PageSize;
use crate::scopes::ROLES;

use super::{CLARIFICATION_ROUNDS, ENVELOPES_PER_TURN, SECONDS_PER_DAY};

/// The least that the protocol's production profile lets a host claim for logs.
const LEAST_RETENTION_DAYS: u32 = 7;

pub(super) fn prompts(host: &Host) -> PromptsCapability {
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

pub(super) fn reliability() -> ReliabilityCapability {
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

pub(super) fn memory() -> MemoryCapability {
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
pub(super) fn agents(host: &Host) -> Option<AgentsCapability> {
    let reasoning = host.app.seams.is_some().then(reasoning);
    let said = host.app.config.agents.clone()?;
    Some(AgentsCapability { reasoning: said.reasoning.or(reasoning), ..said })
}

/// What is promised of who comes in.
pub(super) fn auth(host: &Host) -> AuthCapability {
    AuthCapability {
        profiles: texts(&["openwop-audit-log-integrity"]),
        audit_log_integrity: AuditLogIntegrity {
            hash_chain: true,
            checkpoint_signature_algorithm: "ed25519".to_owned(),
            checkpoint_public_key: STANDARD.encode(host.app.audit.public_key()),
            checkpoint_interval_entries: CHECKPOINT_ENTRIES,
            checkpoint_interval_seconds: CHECKPOINT_SECONDS,
        },
        oidc: (!host.app.issuers.is_empty()).then(|| OidcCapability {
            supported: true,
            issuers: host.app.issuers.addresses(),
            audience: host.app.issuers.audience(),
            supported_scope_mapping: "group-claim".to_owned(),
        }),
    }
}

/// A caller without a valid key has no scopes.
pub(super) fn authorization() -> AuthorizationCapability {
    let role = |(role, scopes): (&str, &[&str])| RoleCapability {
        role: role.to_owned(),
        scopes: texts(scopes),
    };
    let roles = ROLES.into_iter().map(role).collect();
    AuthorizationCapability { supported: true, fail_closed: true, roles }
}

pub(super) fn dispatch() -> DispatchCapability {
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
pub(super) fn execution_model(host: &Host) -> ExecutionModel {
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

pub(super) fn extensions(host: &Host) -> Object {
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

pub(super) fn observability(host: &Host) -> Observability {
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
        test_seams: host.app.seams.is_some().then_some(seams),
    }
}

pub(super) fn scheduling() -> SchedulingCapability {
    SchedulingCapability {
        supported: true,
        cron: true,
        delayed: true,
        calendar: false,
        max_future_horizon: HORIZON_TEXT.to_owned(),
    }
}

/// The protocol has no seat yet for the last two; they are what RFC 0230 and RFC 0232 add.
pub(super) fn trigger_bridge(host: &Host) -> TriggerBridgeCapability {
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

pub(super) fn limits(host: &Host) -> Limits {
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

pub(super) fn configurable(host: &Host) -> Object {
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
            "description": "How much of an agent's reasoning is recorded: summary, full or off.",
        },
        "callboard.priority": {
            "type": "string",
            "description": "Which of the tenant's runs goes first where not all can be at work: low, normal or high.",
        },
        "escalationThreshold": {
            "type": "number", "min": 0, "max": 1,
            "description": "The confidence below which an agent's result waits for a person.",
        },
        "mockProvider": {
            "type": "object",
            "description": "Answers AI calls from a script; test keys only.",
        },
    }))
}

pub(super) fn production(host: &Host) -> Production {
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

pub(super) fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
