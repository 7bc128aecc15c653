//! Envelopes, and events that the suite wants to see: judged, kept, read back from the database.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::overlay;
use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::{
    Counter, Counters, EnvelopeOutcome, Prior, RefusalMode, SCHEMA_ROUNDS, Strictness, Terms,
    accept, project,
};
use callboard_core::redact;
use callboard_engine::{EnvelopeId, KeptEnvelope, ProjectedEvent};
use callboard_protocol::{
    ContentTrust, EnvelopeNlToFormatEngaged, EnvelopeRecoveryApplied, EnvelopeRefusal,
    EnvelopeRetryAttempted, EnvelopeRetryExhausted, EnvelopeTruncated, EventId, NodeId, Object,
    ProviderUsage, RunId, parse_value,
};
use callboard_server::extend::{
    Answer, CLARIFICATION_ROUNDS, Caller, Code, ENVELOPES_PER_TURN, Host, Problem, Shaped,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What an overlay calls the whole pipeline.
const CAPABILITY: &str = "host.aiEnvelope.supported";
/// What is told, on a log and on a span, of an envelope of an older version.
const DRIFT: &str = "envelope_schema_version_drift";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Accept {
    envelope: Value,
    #[serde(default)]
    host_supported_envelopes: Vec<String>,
    node_allowed_kinds: Option<Vec<String>>,
    #[serde(default)]
    run_trust_boundary: ContentTrust,
    #[serde(default)]
    counters: Counters,
    #[serde(default)]
    schema_version_floor: BTreeMap<String, u64>,
    #[serde(default)]
    envelope_strictness: Strictness,
    #[serde(default)]
    prior_correlations: Vec<PriorCorrelation>,
    #[serde(default)]
    byok_canaries: Vec<Canary>,
    project_to: Option<ProjectTo>,
    persisted_dedup: Option<Dedup>,
    #[serde(default)]
    approval_gate_context: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriorCorrelation {
    correlation_id: String,
    outcome: Value,
    envelope_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Canary {
    value: String,
    secret_id: String,
}

impl std::fmt::Debug for Canary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Canary")
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProjectTo {
    run_id: RunId,
    node_id: Option<NodeId>,
    #[serde(default)]
    refusal_mode: RefusalMode,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Dedup {
    run_id: RunId,
}

pub(super) async fn accept_envelope(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Accept>,
) -> Result<Answer, Problem> {
    if overlay(&host)?.is_off(CAPABILITY) {
        let reason = "capability_required".to_owned();
        let outcome = EnvelopeOutcome::Invalid { reason, details: Vec::new() };
        return Ok(Answer::of(StatusCode::OK, &outcome));
    }
    let correlation = body.envelope.get("correlationId").and_then(Value::as_str);
    let correlation = correlation.unwrap_or_default().to_owned();
    let id = body.persisted_dedup.as_ref().map(|dedup| EnvelopeId {
        tenant: caller.scope.tenant.clone(),
        run: dedup.run_id.clone(),
        correlation: correlation.clone(),
    });
    let prior = prior(&host, &body.prior_correlations, id.as_ref(), &correlation).await?;
    let was_known = prior.is_some();
    let secrets = body.byok_canaries.into_iter().map(|canary| (canary.value, canary.secret_id));
    let terms = Terms {
        supported: body.host_supported_envelopes,
        accepts: body.node_allowed_kinds,
        versions: body.schema_version_floor,
        strictness: body.envelope_strictness,
        counters: capped(body.counters),
        secrets: secrets.collect(),
        run_trust: body.run_trust_boundary,
        for_approval: body.approval_gate_context,
        prior,
    };
    let (envelope, outcome) = accept(body.envelope, &terms);
    let at = host.now();
    let events = match &body.project_to {
        // Who was answered before has told already.
        Some(to) if !was_known => {
            project(envelope.as_ref(), &outcome, to.node_id.as_ref(), to.refusal_mode)
                .into_iter()
                .map(|event| ProjectedEvent { at, body: event.to_string() })
                .collect()
        }
        Some(_) | None => Vec::new(),
    };
    let kind = envelope.map(|envelope| envelope.kind);
    let outcome = keep(&host, &caller, id, kind, outcome, body.project_to, events).await?;
    Ok(Answer::of(StatusCode::OK, &outcome))
}

/// Nobody is allowed more than discovery says.
fn capped(told: Counters) -> Counters {
    let at_most = |counter: Option<Counter>, most: u32| {
        counter.map(|counter| Counter { cap: counter.cap.min(most.into()), ..counter })
    };
    Counters {
        envelopes_per_turn: at_most(told.envelopes_per_turn, ENVELOPES_PER_TURN),
        clarification_rounds: at_most(told.clarification_rounds, CLARIFICATION_ROUNDS),
        schema_rounds: at_most(told.schema_rounds, SCHEMA_ROUNDS),
    }
}

/// What became of the correlation before: the database knows it longer than the caller does.
async fn prior(
    host: &Host,
    told: &[PriorCorrelation],
    id: Option<&EnvelopeId>,
    correlation: &str,
) -> Result<Option<Prior>, Problem> {
    let kept = match id {
        Some(id) => host.app.envelopes.envelope(id).await?,
        None => None,
    };
    if let Some(kept) = kept {
        let outcome =
            serde_json::from_str(&kept.outcome).map_err(|error| Problem::internal(&error))?;
        return Ok(Some(Prior { kind: kept.kind, outcome }));
    }
    let told = told.iter().find(|told| told.correlation_id == correlation);
    told.map(|told| {
        let outcome = serde_json::from_value(told.outcome.clone())
            .map_err(|_| Problem::invalid_at("priorCorrelations", "holds no outcome"))?;
        Ok(Prior { kind: told.envelope_type.clone(), outcome })
    })
    .transpose()
}

async fn keep(
    host: &Host,
    caller: &Caller,
    id: Option<EnvelopeId>,
    kind: Option<String>,
    outcome: EnvelopeOutcome,
    to: Option<ProjectTo>,
    events: Vec<ProjectedEvent>,
) -> Result<EnvelopeOutcome, Problem> {
    let envelopes = &host.app.envelopes;
    let is_final = matches!(outcome, EnvelopeOutcome::Accepted { .. });
    if let (Some(id), Some(kind), true) = (id, kind, is_final) {
        let text = serde_json::to_string(&outcome).map_err(|error| Problem::internal(&error))?;
        let here = to.is_none_or(|to| to.run_id == id.run);
        let events = if here { events } else { Vec::new() };
        let first =
            envelopes.keep_envelope(&id, KeptEnvelope { kind, outcome: text }, events).await?;
        return match first {
            Some(first) => {
                serde_json::from_str(&first.outcome).map_err(|error| Problem::internal(&error))
            }
            None => Ok(outcome),
        };
    }
    if let Some(to) = to {
        envelopes.project(&caller.scope.tenant, &to.run_id, events).await?;
    }
    Ok(outcome)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Emit {
    run_id: RunId,
    #[serde(rename = "type")]
    kind: Option<String>,
    payload: Object,
    correlation_id: Option<String>,
    node_id: Option<NodeId>,
}

pub(super) async fn emit_usage(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Emit>,
) -> Result<Answer, Problem> {
    refuse_credentials(&body.payload, Code::ProviderUsageCredentialLeak)?;
    shaped::<ProviderUsage>(&body.payload)?;
    emit(&host, &caller, "provider.usage", body).await
}

pub(super) async fn emit_reliability(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Emit>,
) -> Result<Answer, Problem> {
    refuse_credentials(&body.payload, Code::EnvelopeReliabilityCredentialLeak)?;
    let payload = &body.payload;
    let kind = body.kind.clone().unwrap_or_default();
    match kind.as_str() {
        "envelope.retry.attempted" => shaped::<EnvelopeRetryAttempted>(payload)?,
        "envelope.retry.exhausted" => shaped::<EnvelopeRetryExhausted>(payload)?,
        "envelope.refusal" => shaped::<EnvelopeRefusal>(payload)?,
        "envelope.truncated" => shaped::<EnvelopeTruncated>(payload)?,
        "envelope.nlToFormat.engaged" => shaped::<EnvelopeNlToFormatEngaged>(payload)?,
        "envelope.recovery.applied" => {
            let known = ["nodeId", "path", "byteOffset"];
            if payload.keys().any(|key| !known.contains(&key.as_str())) {
                let message = "only a place and a way may be told, never what was found there";
                return Err(Problem::new(Code::EnvelopeRecoveryContentLeak, message));
            }
            shaped::<EnvelopeRecoveryApplied>(payload)?;
        }
        _ => {
            return Err(Problem::new(Code::InvalidArgument, "type: is none of these events"));
        }
    }
    emit(&host, &caller, &kind, body).await
}

fn shaped<T: DeserializeOwned>(payload: &Object) -> Result<(), Problem> {
    let read: Result<T, _> = parse_value(payload.clone().into());
    read.map(drop).map_err(|error| Problem::new(Code::InvalidArgument, format!("payload: {error}")))
}

/// Nothing that looks like a credential, or like a reference to one, may stand in a log.
fn refuse_credentials(payload: &Object, code: Code) -> Result<(), Problem> {
    let value = Value::Object(payload.clone());
    let mut clean = value.clone();
    redact(&mut clean);
    let text = value.to_string();
    let marks = ["credentialRef", "\"secret:", "secret-canary-"];
    if clean != value || marks.iter().any(|mark| text.contains(mark)) {
        return Err(Problem::new(code, "payload: holds something like a credential"));
    }
    Ok(())
}

async fn emit(host: &Host, caller: &Caller, kind: &str, body: Emit) -> Result<Answer, Problem> {
    let mut event = json!({ "type": kind, "payload": body.payload });
    if let Some(node) = body.node_id {
        event["nodeId"] = json!(node);
    }
    if let Some(correlation) = body.correlation_id {
        event["causationId"] = correlation.into();
    }
    let projected = ProjectedEvent { at: host.now(), body: event.to_string() };
    let tenant = &caller.scope.tenant;
    host.app.envelopes.project(tenant, &body.run_id, vec![projected]).await?;
    let events = projected_documents(host, caller, &body.run_id).await?;
    Answer::json(StatusCode::OK, &json!({ "event": events.last() }))
}

/// What was projected onto a run, as documents; their places come after those of its own log.
pub(super) async fn projected_documents(
    host: &Host,
    caller: &Caller,
    run: &RunId,
) -> Result<Vec<Value>, Problem> {
    let projected = host.app.envelopes.projected(&caller.scope.tenant, run).await?;
    let document = |(place, event): (usize, ProjectedEvent)| {
        let mut document: Value =
            serde_json::from_str(&event.body).map_err(|error| Problem::internal(&error))?;
        let sequence = place as u64;
        document["eventId"] = json!(EventId::of(run, sequence));
        document["runId"] = json!(run);
        document["sequence"] = sequence.into();
        document["timestamp"] = json!(event.at);
        Ok(document)
    };
    projected.into_iter().enumerate().map(document).collect()
}

/// A span for each event that was projected, without anything of what it says.
pub(super) async fn projected_spans(
    host: &Host,
    caller: &Caller,
    run: &RunId,
) -> Result<Vec<Value>, Problem> {
    let span = |event: Value| {
        let mut attributes =
            json!({ "openwop.run_id": run, "openwop.event_seq": event["sequence"] });
        if let Some(node) = event.get("nodeId") {
            attributes["openwop.node_id"] = node.clone();
        }
        if event["payload"]["fields"]["code"] == DRIFT {
            attributes[DRIFT] = true.into();
        }
        json!({ "name": format!("openwop.{}", event["type"].as_str().unwrap_or("event")),
            "attributes": attributes, "events": [] })
    };
    Ok(projected_documents(host, caller, run).await?.into_iter().map(span).collect())
}
