//! One outward call and several executors of its run who reach it at once, as the suite asks for it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_server::extend::{Answer, Caller, Code, Host, Problem, Shaped, fresh};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, node, settled, with_workflows};

/// Two are a race; more than these only make it longer.
const EXECUTORS: std::ops::RangeInclusive<u64> = 2..=32;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Race {
    executors: Option<u64>,
}

pub(super) async fn concurrent_claim(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Race>,
) -> Result<Answer, Problem> {
    let executors = body.executors.unwrap_or(*EXECUTORS.start());
    if !EXECUTORS.contains(&executors) {
        return Err(Problem::invalid_at("executors", "must be 2 to 32"));
    }
    let id = fresh("callboard-sample-claim-");
    let effect = node("effect", "core.conformance.side-effect", &json!({ "executors": executors }));
    let definitions = [definition(&id, &[effect])];
    let shown = with_workflows(&host, &caller, &definitions, race(&host, &caller, &id)).await?;
    Ok(Answer::of(StatusCode::OK, &shown))
}

async fn race(host: &Host, caller: &Caller, id: &str) -> Result<Value, Problem> {
    let order = Order::new(Target::Workflow(id.into()), caller.owner(), caller.scope.mode);
    let run = host.app.engine.create(order, None).await?.run;
    let events = settled(host, caller, &run).await?;
    let done = events.iter().find(|event| event["type"] == "node.completed");
    let stuck = || Problem::new(Code::ServiceUnavailable, "the run did not come to its end");
    let outputs = &done.ok_or_else(stuck)?["payload"]["outputs"];
    Ok(json!({
        "runId": run, "logicalInvocationId": outputs["mintedIds"][0],
        "mintedIds": outputs["mintedIds"], "attempted": outputs["attempted"],
        "delivered": outputs["delivered"],
    }))
}
