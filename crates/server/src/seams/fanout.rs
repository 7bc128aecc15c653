//! Fanning out to workers side by side, as the suite does it: a run of a supervisor that names them once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, WorkflowId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::dispatch::ended;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::routes::workflows;

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
    let mut made: Vec<WorkflowId> = Vec::new();
    let played = play(&host, &caller, &body, &mut made).await;
    for workflow in made {
        host.app.engine.catalog().remove(&caller.scope.tenant, &workflow).await?;
    }
    played.map(|joined| Answer::of(StatusCode::OK, &joined))
}

async fn play(
    host: &Host,
    caller: &Caller,
    body: &FanOut,
    made: &mut Vec<WorkflowId>,
) -> Result<Value, Problem> {
    let mut workers = Vec::new();
    for name in &body.next_worker_ids {
        workers.push(worker(host, caller, name, made).await?);
    }
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": workers });
    let supervisor = json!({ "mockDispatchPlan": [decision] });
    let nodes = [
        ("supervisor", "core.orchestrator.supervisor", supervisor),
        ("dispatch", "core.dispatch", body.config.clone().into()),
    ];
    let parent = definition(PARENT, &nodes);
    workflows::store(host, caller, parent.to_string().as_bytes()).await?;
    made.push(PARENT.into());
    let order = Order::new(Target::Workflow(PARENT.into()), caller.owner(), caller.scope.mode);
    let run = host.app.engine.create(order, None).await?.run;
    let events = ended(host, caller, &run).await?;
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

/// The workflow that a worker is. The suite's own names are none that a workflow could have.
async fn worker(
    host: &Host,
    caller: &Caller,
    name: &str,
    made: &mut Vec<WorkflowId>,
) -> Result<WorkflowId, Problem> {
    let id = WorkflowId::from(name.replace('.', "-"));
    if host.app.engine.catalog().find(&caller.scope.tenant, &id).await?.is_none() {
        let idle = definition(id.as_str(), &[("noop", "core.noop", json!({}))]);
        workflows::store(host, caller, idle.to_string().as_bytes()).await?;
        made.push(id.clone());
    }
    Ok(id)
}

/// Nodes one after the other.
fn definition(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let listed: Vec<Value> = nodes
        .iter()
        .map(|(id, type_id, config)| {
            json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
                "config": config, "inputs": {} })
        })
        .collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(
            |pair| json!({ "id": pair[1].0, "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0 }),
        )
        .collect();
    json!({ "id": id, "name": id, "version": "1.0", "nodes": listed, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual" }], "variables": [],
        "metadata": {}, "settings": {} })
}
