//! Fanning out to workers side by side, as the suite does it: a run of a supervisor that names them once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, WorkflowId};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, settled, supervised, with_workflows, workers};

/// The workflow of the run; it is gone when the run has ended.
const PARENT: &str = "conformance-fanout-seam";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FanOut {
    next_worker_ids: Vec<String>,
    #[serde(default)]
    config: Object,
}

/// Workers that nobody has registered do nothing, and are there for the run alone.
pub(super) async fn fan_out(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<FanOut>,
) -> Result<Answer, Problem> {
    if body.next_worker_ids.len() < 2 {
        return Err(Problem::invalid_at("nextWorkerIds", "must name at least two workers"));
    }
    if body.config.get("fanOutPolicy") != Some(&json!("parallel")) {
        return Err(Problem::invalid_at("config.fanOutPolicy", "must be parallel"));
    }
    let (workers, mut definitions) = workers(&host, &caller, &body.next_worker_ids).await?;
    definitions.push(parent(&workers, body.config));
    let joined = with_workflows(&host, &caller, &definitions, play(&host, &caller)).await?;
    Ok(Answer::of(StatusCode::OK, &joined))
}

/// A supervisor that names the workers once, and whoever gives them their work.
fn parent(workers: &[WorkflowId], config: Object) -> Value {
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": workers });
    definition(PARENT, &supervised(&[decision], &config.into()))
}

async fn play(host: &Host, caller: &Caller) -> Result<Value, Problem> {
    let order = Order::new(Target::Workflow(PARENT.into()), caller.owner(), caller.scope.mode);
    let run = host.app.engine.create(order, None).await?.run;
    let events = settled(host, caller, &run).await?;
    let told = |kind: &str| {
        let of_node = |event: &&Value| event["type"] == kind && event["nodeId"] == "dispatch";
        events.iter().find(of_node).map(|event| event["payload"].clone())
    };
    let mut joined = match (told("node.completed"), told("node.failed")) {
        (Some(completed), _) => completed["outputs"].clone(),
        (None, Some(failed)) => failed["error"]["details"].clone(),
        (None, None) => json!({}),
    };
    joined["runId"] = json!(run);
    Ok(joined)
}
