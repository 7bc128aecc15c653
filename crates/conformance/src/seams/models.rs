//! The suite's way to the mock provider, to cache keys, to the gate before models.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_agents::{
    Demands, Gate, MockAi, MockEntry, MockText, ModelRef, SemanticRequest, StopReason,
    Substitution, TokenUsage, gate,
};
use callboard_core::AgentFact;
use callboard_protocol::{NodeId, Object};
use callboard_server::extend::{
    Answer, Caller, Code, Host, Parameters, Problem, Sent, Shaped, parse,
};
use serde::Deserialize;
use serde_json::{Value, json};

fn mock(host: &Host) -> Result<&MockAi, Problem> {
    let absent = || Problem::new(Code::CapabilityNotProvided, "there is no mock provider here");
    host.app.mock.as_ref().ok_or_else(absent)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Program {
    node_id: NodeId,
    program: Vec<Entry>,
}

/// Both dialects of the suite.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    content: Option<String>,
    stop_reason: Option<String>,
    refusal_text: Option<String>,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    mode: Option<String>,
    envelope: Option<Value>,
    refusal_reason: Option<String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry")
    }
}

impl Entry {
    fn read(self) -> Result<MockEntry, Problem> {
        let usage = TokenUsage {
            input: self.input_tokens,
            output: self.output_tokens,
            ..TokenUsage::default()
        };
        let (stop, text) = match (self.mode.as_deref(), self.stop_reason.as_deref()) {
            (Some("envelope"), _) => {
                (StopReason::Stop, self.envelope.map(|envelope| envelope.to_string()))
            }
            (Some("refusal"), _) => (StopReason::Refusal, self.refusal_reason),
            (Some(_), _) => {
                return Err(Problem::invalid_at("program", "mode is envelope or refusal"));
            }
            (None, None | Some("end_turn" | "stop")) => (StopReason::Stop, self.content),
            (None, Some("max_tokens" | "length")) => (StopReason::Length, self.content),
            (None, Some("safety" | "refusal")) => {
                (StopReason::Refusal, self.refusal_text.or(self.content))
            }
            (None, Some(_)) => {
                return Err(Problem::invalid_at(
                    "program",
                    "stopReason is end_turn, max_tokens or safety",
                ));
            }
        };
        Ok(MockEntry { text: MockText(text.unwrap_or_default()), stop, usage })
    }
}

pub(super) async fn program(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Program>,
) -> Result<Answer, Problem> {
    let entries: Vec<MockEntry> =
        body.program.into_iter().map(Entry::read).collect::<Result<_, _>>()?;
    let count = entries.len();
    mock(&host)?.program(&caller.scope.tenant, &body.node_id, entries);
    Ok(Answer::of(StatusCode::OK, &json!({ "nodeId": body.node_id, "entries": count })))
}

pub(super) async fn last_budget(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let node =
        query.get("nodeId").ok_or_else(|| Problem::invalid_at("nodeId", "must name a node"))?;
    let budget = mock(&host)?.last_budget(&caller.scope.tenant, &node.into());
    Ok(Answer::of(StatusCode::OK, &json!({ "maxTokens": budget })))
}

/// How a request travels does not count, so anything else in it is left unread.
pub(super) async fn cache_key(Sent(body): Sent) -> Result<Answer, Problem> {
    let fields: Object = parse(&body)?;
    let request: SemanticRequest = serde_json::from_value(fields.into()).map_err(|_| {
        Problem::new(Code::InvalidArgument, "provider, model and messages must be there")
    })?;
    Ok(Answer::of(StatusCode::OK, &json!({ "cacheKey": request.key() })))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GateInput {
    module: Module,
    active_provider: String,
    active_model: String,
    #[serde(default)]
    substitution_supported: bool,
    #[serde(default)]
    supported_providers: Vec<String>,
    node_id: Option<NodeId>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Module {
    #[serde(default)]
    required_model_capabilities: Vec<String>,
    fallback_model: Option<ModelRef>,
}

pub(super) async fn capability_gate(Shaped(body): Shaped<GateInput>) -> Answer {
    let active = ModelRef { provider: body.active_provider, model: body.active_model };
    let demands = Demands {
        required: body.module.required_model_capabilities,
        fallback: body.module.fallback_model,
    };
    let can_ask = |provider: &str| body.supported_providers.iter().any(|known| known == provider);
    let host = Substitution { is_allowed: body.substitution_supported, can_ask: &can_ask };
    let decided = gate(&active, &demands, host);
    let node = body.node_id.unwrap_or_else(|| "gate".into());
    let event = match decided.fact(&active, &node) {
        Some(AgentFact::Substituted(told)) => {
            json!({ "type": "model.capability.substituted", "payload": told })
        }
        Some(AgentFact::Insufficient(told)) => {
            json!({ "type": "model.capability.insufficient", "payload": told })
        }
        _ => Value::Null,
    };
    let outcome = match decided {
        Gate::Dispatch => json!({ "route": "dispatch" }),
        Gate::Substitute { fallback, missing } => json!({
            "route": "substitute",
            "originalProvider": active.provider, "originalModel": active.model,
            "fallbackProvider": fallback.provider, "fallbackModel": fallback.model,
            "missingCapabilities": missing,
        }),
        Gate::Refuse { missing, fallback_attempted } => json!({
            "route": "refuse", "missingCapabilities": missing,
            "fallbackAttempted": fallback_attempted,
        }),
    };
    Answer::of(StatusCode::OK, &json!({ "outcome": outcome, "event": event }))
}
