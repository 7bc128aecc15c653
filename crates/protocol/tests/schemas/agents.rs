//! One of each event that a live agent tells.

use callboard_protocol::{
    AgentInvocationCompleted, AgentInvocationStarted, AgentPromptResolved, AgentReasoningDelta,
    AgentToolCalled, AgentToolReturned, AuthorizationDecided, EgressDecided, EgressDecision,
    EgressReason, EnvelopeNlToFormatEngaged, EnvelopeRecoveryApplied, EnvelopeRefusal,
    EnvelopeRetryAttempted, EnvelopeRetryExhausted, EnvelopeTruncated, Event, Failure,
    InvocationOutcome, InvocationSource, LogAppended, ModelCapabilityInsufficient,
    ModelCapabilitySubstituted, ModelFallback, Object, PromptComposed, PromptKind, PromptLayer,
    ToolStatus,
};
use serde_json::{Value, json};

use super::{check, compile, openwop};

#[expect(clippy::too_many_lines, reason = "one of each event")]
pub(super) fn live_events() -> Vec<Event> {
    let agent_id = || "core.x.y".to_owned();
    let text = |text: &str| Some(text.to_owned());
    let mut events = vec![
        Event::ProviderUsage(super::usage::full()),
        Event::AgentPromptResolved(AgentPromptResolved {
            node_id: "n".into(),
            kind: PromptKind::System,
            agent_id: text("core.x.y"),
            chain: vec![
                PromptLayer {
                    layer: "node".into(),
                    applied: false,
                    source: None,
                    reason: text("none"),
                },
                PromptLayer {
                    layer: "agent-intrinsic".into(),
                    applied: true,
                    source: text("prompt:agent-intrinsic.core.x.y@1.0.0"),
                    reason: None,
                },
            ],
            resolved: text("prompt:agent-intrinsic.core.x.y@1.0.0"),
        }),
        Event::PromptComposed(PromptComposed {
            node_id: "n".into(),
            refs: vec!["prompt:agent-intrinsic.core.x.y@1.0.0".into()],
            kind: "system+user".into(),
            hash: format!("sha256:{}", "0".repeat(64)),
            composed: text("Be kind."),
            system_prompt: text("Be kind."),
            user_prompt: None,
            variable_bindings: json!({ "tone": "kind" }).as_object().cloned(),
            variable_hashes: None,
            content_trust: text("untrusted"),
        }),
        Event::AgentReasoningDelta(AgentReasoningDelta {
            node_id: None,
            agent_id: agent_id(),
            delta: "so".into(),
            sequence: 0,
            verbosity: text("full"),
        }),
        Event::AgentToolCalled(AgentToolCalled {
            node_id: None,
            agent_id: agent_id(),
            tool_name: "openwop:core.files.read".into(),
            call_id: "c".into(),
            inputs: Some(json!({ "path": "a" })),
            args_hash: Some("0".repeat(64)),
            principal: text("key:k"),
            transport: text("native"),
        }),
        Event::LogAppended(LogAppended {
            node_id: Some("n".into()),
            level: "warn".into(),
            message: "no tool x".into(),
            fields: [("code".to_owned(), json!("tool_unresolvable"))].into_iter().collect(),
        }),
    ];
    events.extend(brackets());
    events.extend(returns());
    events.extend(answers());
    events.extend(decisions());
    events
}

fn brackets() -> Vec<Event> {
    let sources =
        [InvocationSource::WorkflowNode, InvocationSource::RunApi, InvocationSource::ChatMention];
    let outcomes = [
        InvocationOutcome::Completed,
        InvocationOutcome::HandedOff,
        InvocationOutcome::Escalated,
        InvocationOutcome::Refused,
        InvocationOutcome::Failed,
    ];
    let started = sources.map(|source| {
        Event::AgentInvocationStarted(AgentInvocationStarted {
            node_id: None,
            invocation_id: "r:n:0".into(),
            agent_id: "core.x.y".into(),
            source,
            model_class: Some("general".into()),
            resolved_model: Some("m".into()),
            resolved_provider: Some("p".into()),
            resolved_agent_version: Some("1.0.0".into()),
            resolved_channel: Some("stable".into()),
            tool_surface_count: 2,
            memory_bound: true,
        })
    });
    let completed = outcomes.map(|outcome| {
        Event::AgentInvocationCompleted(AgentInvocationCompleted {
            node_id: None,
            invocation_id: "r:n:0".into(),
            agent_id: "core.x.y".into(),
            outcome,
            schema_validated: Some(true),
            confidence: Some(0.5),
        })
    });
    started.into_iter().chain(completed).collect()
}

fn returns() -> Vec<Event> {
    let statuses =
        [ToolStatus::Ok, ToolStatus::Error, ToolStatus::Forbidden, ToolStatus::RateLimited];
    let returned = statuses.map(|status| {
        let is_ok = status == ToolStatus::Ok;
        Event::AgentToolReturned(AgentToolReturned {
            node_id: None,
            agent_id: "core.x.y".into(),
            tool_name: "openwop:core.files.read".into(),
            call_id: "c".into(),
            outcome: is_ok.then(|| json!("text")),
            error: (!is_ok).then(|| Failure::new("forbidden", "no")),
            status: Some(status),
            duration_ms: is_ok.then_some(3),
        })
    });
    returned.into()
}

fn answers() -> Vec<Event> {
    vec![
        Event::EnvelopeTruncated(EnvelopeTruncated {
            node_id: "n".into(),
            provider: "p".into(),
            model: "m".into(),
            stop_reason: "max_tokens".into(),
            partial_payload_available: Some(true),
            output_token_count: Some(50),
        }),
        Event::EnvelopeRetryAttempted(EnvelopeRetryAttempted {
            node_id: "n".into(),
            attempt: 2,
            reason: "truncation".into(),
        }),
        Event::EnvelopeRetryExhausted(EnvelopeRetryExhausted {
            node_id: "n".into(),
            total_attempts: 3,
            final_reason: "schema-violation".into(),
        }),
        Event::EnvelopeRefusal(EnvelopeRefusal {
            node_id: "n".into(),
            provider: "p".into(),
            model: "m".into(),
            safety_category: Some("safety".into()),
        }),
        Event::EnvelopeNlToFormatEngaged(EnvelopeNlToFormatEngaged {
            node_id: "n".into(),
            original_envelope_type: "x".into(),
            fallback_calls: Some(1),
        }),
        Event::ModelCapabilitySubstituted(ModelCapabilitySubstituted {
            node_id: "n".into(),
            original_provider: "p".into(),
            original_model: "m".into(),
            fallback_provider: "q".into(),
            fallback_model: "o".into(),
            missing_capabilities: vec!["reasoning".into()],
        }),
        Event::ModelCapabilityInsufficient(ModelCapabilityInsufficient {
            node_id: "n".into(),
            provider: "p".into(),
            model: "m".into(),
            missing_capabilities: vec!["reasoning".into()],
            fallback_attempted: true,
        }),
        Event::ModelFallback(ModelFallback {
            node_id: "n".into(),
            model_class: "coding".into(),
            original_provider: "p".into(),
            original_model: "m".into(),
            fallback_provider: "q".into(),
            fallback_model: "o".into(),
            reason: "service_unavailable".into(),
        }),
        Event::EnvelopeRecoveryApplied(EnvelopeRecoveryApplied {
            node_id: "n".into(),
            path: "markdown-fence".into(),
            byte_offset: Some(8),
        }),
    ]
}

/// the protocol refuses it, and so do our types.
#[test]
fn a_bracket_without_its_source_or_with_a_made_up_outcome_is_none() {
    let bracket = [("invocationId", "i"), ("agentId", "core.x.y")];
    let bracket: Object =
        bracket.map(|(key, value)| (key.to_owned(), json!(value))).into_iter().collect();
    let with = |key: &str, value: &str| {
        let mut payload = bracket.clone();
        payload.insert(key.to_owned(), value.into());
        Value::Object(payload)
    };
    for (name, kind, good, bad) in [
        (
            "agentInvocationStarted",
            "agent.invocation.started",
            with("source", "run-api"),
            [Value::Object(bracket.clone()), with("source", "cron")],
        ),
        (
            "agentInvocationCompleted",
            "agent.invocation.completed",
            with("outcome", "handed-off"),
            [Value::Object(bracket.clone()), with("outcome", "done")],
        ),
    ] {
        let is_read = |payload: &Value| {
            !matches!(Event::read(kind, None, payload.clone()), Event::Unreadable(_))
        };
        assert!(bad.iter().all(|payload| !is_read(payload)), "{kind}");
        let Some(folder) = openwop() else { continue };
        let place =
            format!("https://openwop.dev/spec/v1/run-event-payloads.schema.json#/$defs/{name}");
        let validator = compile(&folder, &json!({ "$ref": place }));
        check(&validator, kind, &good);
        assert!(bad.iter().all(|payload| !validator.is_valid(payload)), "{kind}");
    }
}

fn decisions() -> [Event; 2] {
    [
        Event::EgressDecided(EgressDecided {
            node_id: None,
            decision: EgressDecision::Denied,
            destination: "api.example.com:8443".into(),
            credential_id: Some("crm".into()),
            reason: EgressReason::OutOfAudience,
        }),
        Event::AuthorizationDecided(AuthorizationDecided {
            node_id: None,
            principal: "key:1".into(),
            action: "tools:mail".into(),
            resource: "mcp:mail.send".into(),
            allowed: false,
            reason: "it does not hold this".into(),
        }),
    ]
}
