//! Fanning out to workers side by side, as the suite does it: a run of a supervisor that names them once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, WorkflowId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, idle, node, settled, with_workflows};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::Problem;

/// The workflow of the run; it is gone when the run has ended.
const PARENT: &str = "conformance-fanout-seam";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FanOut {
    next_worker_ids: Vec<String>,
    #[serde(default)]
    config: Object,
}

/// Workers that nobody has registered do nothing, and are there for the run alone.
pub(crate) async fn fan_out(
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
    let mut definitions = Vec::new();
    let mut workers = Vec::new();
    for name in &body.next_worker_ids {
        // The suite's own names are none that a workflow could have.
        let worker = WorkflowId::from(name.replace('.', "-"));
        let is_known = host.app.engine.catalog().find(&caller.scope, &worker).await?;
        if is_known.is_none() && !workers.contains(&worker) {
            definitions.push(idle(worker.as_str()));
        }
        workers.push(worker);
    }
    definitions.push(parent(&workers, body.config));
    let joined = with_workflows(&host, &caller, &definitions, play(&host, &caller)).await?;
    Ok(Answer::of(StatusCode::OK, &joined))
}

/// A supervisor that names the workers once, and whoever gives them their work.
fn parent(workers: &[WorkflowId], config: Object) -> Value {
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": workers });
    let supervisor = json!({ "mockDispatchPlan": [decision] });
    let nodes = [
        node("supervisor", "core.orchestrator.supervisor", &supervisor),
        node("dispatch", "core.dispatch", &config.into()),
    ];
    definition(PARENT, &nodes)
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
