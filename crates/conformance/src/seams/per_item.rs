//! One workflow over several items, as the suite does it: a run of a supervisor that gives each worker its own input.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, RunId, WorkflowId};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, replay, settled, supervised, with_workflows, workers};

/// The workflow of the run; it is gone when the run has ended.
const PARENT: &str = "conformance-per-item-seam";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PerItem {
    next_worker_ids: Vec<String>,
    #[serde(default)]
    next_worker_inputs: Option<Value>,
    /// What the parent's variables hold that are mapped to every child under the same names.
    #[serde(default)]
    input_mapping: Object,
    #[serde(default)]
    replay: bool,
}

pub(super) async fn per_item(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<PerItem>,
) -> Result<Answer, Problem> {
    let (workers, mut definitions) = workers(&host, &caller, &body.next_worker_ids).await?;
    definitions.push(parent(&workers, &body));
    let play = Box::pin(play(&host, &caller, body));
    let told = with_workflows(&host, &caller, &definitions, play).await?;
    Ok(Answer::of(StatusCode::OK, &told))
}

fn parent(workers: &[WorkflowId], body: &PerItem) -> Value {
    let mut decision = json!({ "kind": "next-worker", "nextWorkerIds": workers });
    if let Some(inputs) = &body.next_worker_inputs {
        decision["nextWorkerInputs"] = inputs.clone();
    }
    let mapping: Object =
        body.input_mapping.keys().map(|name| (name.clone(), name.as_str().into())).collect();
    let dispatch = json!({ "fanOutPolicy": "parallel", "inputMapping": mapping });
    definition(PARENT, &supervised(&[decision], &dispatch))
}

async fn play(host: &Host, caller: &Caller, body: PerItem) -> Result<Value, Problem> {
    let order = Order {
        inputs: body.input_mapping,
        ..Order::new(Target::Workflow(PARENT.into()), caller.owner(), caller.scope.mode)
    };
    let mut run = host.app.engine.create(order, None).await?.run;
    let mut events = settled(host, caller, &run).await?;
    if body.replay {
        run = replay(host, caller, run).await?;
        events = settled(host, caller, &run).await?;
    }
    let failed = events.iter().find(|event| event["type"] == "node.failed");
    if let Some(error) = failed.map(|event| &event["payload"]["error"]) {
        return Err(Problem::invalid(error["message"].as_str().unwrap_or_default()));
    }
    let dispatched = events.iter().filter(|event| event["type"] == "node.dispatched");
    let mut children = Vec::new();
    for event in dispatched {
        let child = RunId::from(event["payload"]["childRunId"].as_str().unwrap_or_default());
        let seen = host.app.engine.snapshot(&caller.scope, &child).await?;
        let seen = seen.ok_or_else(|| Problem::no_such("run"))?;
        let snapshot: Value =
            serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
        children.push(json!({ "runId": child, "inputs": snapshot["inputs"] }));
    }
    Ok(json!({ "runId": run, "children": children, "replayed": body.replay }))
}
