//! What the suite of the second major supplies: a log of the first, a call that is cut once, a delivery to be judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{EffectState, Order, Row, Secret, Target, judge_delivery};
use callboard_protocol::{Object, RunId, RunStatus, Timestamp};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped, fresh};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, idle, node, settled, with_workflows};

const FETCH: &str = "core.openwop.http.fetch";
/// Many more than the suite has in any of its logs.
const MOST_EVENTS: usize = 1_000;

/// An id as the second major writes it.
pub(super) fn bound(caller: &Caller, id: &str) -> String {
    format!("{}/{id}", caller.scope.tenant)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Seed {
    event_log_schema_version: u32,
    status: RunStatus,
    events: Vec<SeedEvent>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SeedEvent {
    #[serde(rename = "type")]
    kind: String,
    sequence: u64,
    payload: Object,
    node_id: Option<String>,
    timestamp: Option<Timestamp>,
    causation_id: Option<String>,
}

/// A run as a host of the first major left it.
pub(super) async fn seed_log(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(seed): Shaped<Seed>,
) -> Result<Answer, Problem> {
    if seed.event_log_schema_version != 2 {
        return Err(Problem::invalid_at("eventLogSchemaVersion", "must be 2"));
    }
    let in_order = seed.events.iter().zip(0..).all(|(event, place)| event.sequence == place);
    if seed.events.is_empty() || seed.events.len() > MOST_EVENTS || !in_order {
        return Err(Problem::invalid_at("events", "must be 1 to 1000 events, numbered from 0"));
    }
    let now = host.app.engine.clock().now();
    let workflow = seed.events[0].payload.get("workflowId").and_then(Value::as_str);
    let workflow = workflow.map_or_else(|| fresh("callboard-sample-seed-"), str::to_owned);
    let known = host.app.engine.catalog().find(&caller.scope, &workflow.as_str().into()).await?;
    let missing: Vec<Value> = known.is_none().then(|| idle(&workflow)).into_iter().collect();
    let log = seed.events.into_iter().map(|event| event.row(now)).collect();
    let order =
        Order::new(Target::Workflow(workflow.as_str().into()), caller.owner(), caller.scope.mode);
    let import = async { Ok(host.app.engine.import(order, log, seed.status).await?) };
    let imported = Box::pin(with_workflows(&host, &caller, &missing, import)).await?;
    let run = imported.ok_or_else(|| Problem::invalid_at("status", "is another by this log"))?;
    Answer::json(StatusCode::CREATED, &json!({ "runId": bound(&caller, run.as_str()) }))
}

impl SeedEvent {
    fn row(self, now: Timestamp) -> Row {
        let named = self.payload.get("nodeId").and_then(Value::as_str).map(str::to_owned);
        Row {
            at: self.timestamp.unwrap_or(now),
            kind: self.kind,
            node: self.node_id.or(named).map(Into::into),
            payload: Value::Object(self.payload).to_string(),
            private: None,
            cause: self.causation_id.map(callboard_core::Cause::Outside),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EffectRetry {
    provider_url: String,
}

/// One call whose first attempt the provider cuts off.
pub(super) async fn retry_effect(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<EffectRetry>,
) -> Result<Answer, Problem> {
    let run = post_once(&host, &caller, &asked.provider_url, 2).await?;
    let rows = host.app.engine.ledger(&caller.scope, &run).await?.unwrap_or_default();
    let sent = rows.iter().find(|row| row.state != EffectState::Claimed);
    let unsent = || Problem::new(Code::ServiceUnavailable, "the call was not made");
    let effect = bound(&caller, sent.ok_or_else(unsent)?.effect.as_str());
    let shown = json!({ "runId": bound(&caller, run.as_str()), "effectId": effect });
    Answer::json(StatusCode::CREATED, &shown)
}

/// A run of one node that posts something, and has come to its end.
pub(super) async fn post_once(
    host: &Host,
    caller: &Caller,
    url: &str,
    most: u32,
) -> Result<RunId, Problem> {
    let id = fresh("callboard-sample-post-");
    let config = json!({ "url": url, "method": "POST", "timeoutMs": 5_000,
        "retry": { "maxAttempts": most, "initialDelayMs": 10 } });
    let definitions = [definition(&id, &[node("post", FETCH, &config)])];
    let posted = async {
        let order =
            Order::new(Target::Workflow(id.as_str().into()), caller.owner(), caller.scope.mode);
        let run = host.app.engine.create(order, None).await?.run;
        settled(host, caller, &run).await?;
        Ok(run)
    };
    with_workflows(host, caller, &definitions, posted).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Received {
    secret: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A delivery as a receiver judges it who knows how this host signs.
pub(super) async fn receive_delivery(
    State(host): State<Arc<Host>>,
    Shaped(received): Shaped<Received>,
) -> Result<Answer, Problem> {
    let Received { secret, headers, body } = received;
    let header = |name: &str| {
        let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    let now = host.app.engine.clock().now();
    let judged = judge_delivery(&Secret::new(secret), header, &body, now);
    let shown = match judged {
        Ok(()) => json!({ "accepted": true }),
        Err(reason) => json!({ "accepted": false, "reason": reason }),
    };
    Ok(Answer::of(StatusCode::OK, &shown))
}
