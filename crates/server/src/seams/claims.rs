//! One outward call and several executors of its run who reach it at once, as the suite asks for it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::RunId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::dispatch::ended;
use super::identity::one_node;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::routes::workflows;

/// Two are a race; more than these only make it longer.
const EXECUTORS: std::ops::RangeInclusive<u64> = 2..=32;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Race {
    executors: Option<u64>,
}

pub(crate) async fn concurrent_claim(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Race>,
) -> Result<Answer, Problem> {
    let executors = body.executors.unwrap_or(*EXECUTORS.start());
    if !EXECUTORS.contains(&executors) {
        return Err(Problem::invalid_at("executors", "must be 2 to 32"));
    }
    let id = format!("callboard-sample-claim-{}", uuid::Uuid::now_v7());
    let config = json!({ "executors": executors });
    let definition = one_node(&id, "core.conformance.side-effect", &config);
    workflows::store(&host, &caller, definition.to_string().as_bytes()).await?;
    let order =
        Order::new(Target::Workflow(id.as_str().into()), caller.owner(), caller.scope.mode);
    let created = host.app.engine.create(order, None).await;
    host.app.engine.catalog().remove(&caller.scope.tenant, &id.as_str().into()).await?;
    raced(&host, &caller, &created?.run).await.map(|shown| Answer::of(StatusCode::OK, &shown))
}

async fn raced(host: &Host, caller: &Caller, run: &RunId) -> Result<Value, Problem> {
    let events = ended(host, caller, run).await?;
    let done = events.iter().find(|event| event["type"] == "node.completed");
    let stuck = || Problem::new(Code::ServiceUnavailable, "the run did not come to its end");
    let outputs = &done.ok_or_else(stuck)?["payload"]["outputs"];
    Ok(json!({
        "runId": run, "logicalInvocationId": outputs["mintedIds"][0],
        "mintedIds": outputs["mintedIds"], "attempted": outputs["attempted"],
        "delivered": outputs["delivered"],
    }))
}
