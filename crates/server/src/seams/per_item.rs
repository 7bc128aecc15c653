//! One workflow over several items, as the suite does it: a run of a supervisor that gives each worker its own input.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{ForkOrder, Order, Overlay, Target};
use callboard_protocol::{ForkMode, Object, RunId, WorkflowId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, idle, node, settled, with_workflows};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::Problem;

/// The workflow of the run; it is gone when the run has ended.
const PARENT: &str = "conformance-per-item-seam";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PerItem {
    next_worker_ids: Vec<String>,
    #[serde(default)]
    next_worker_inputs: Option<Value>,
    /// What the parent's variables hold that are mapped to every child under the same names.
    #[serde(default)]
    input_mapping: Object,
    #[serde(default)]
    replay: bool,
}

pub(crate) async fn per_item(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<PerItem>,
) -> Result<Answer, Problem> {
    let mut definitions = Vec::new();
    let mut workers: Vec<WorkflowId> = Vec::new();
    for name in &body.next_worker_ids {
        // The suite's own names are none that a workflow could have.
        let worker = WorkflowId::from(name.replace('.', "-"));
        let is_known = host.app.engine.catalog().find(&caller.scope, &worker).await?;
        if is_known.is_none() && !workers.contains(&worker) {
            definitions.push(idle(worker.as_str()));
        }
        workers.push(worker);
    }
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
    let nodes = [
        node(
            "supervisor",
            "core.orchestrator.supervisor",
            &json!({ "mockDispatchPlan": [decision] }),
        ),
        node("dispatch", "core.dispatch", &dispatch),
    ];
    definition(PARENT, &nodes)
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

async fn replay(host: &Host, caller: &Caller, source: RunId) -> Result<RunId, Problem> {
    let order = ForkOrder {
        source,
        from: 0,
        mode: ForkMode::Replay,
        owner: caller.owner(),
        key_mode: caller.scope.mode,
        overlay: Overlay::default(),
    };
    Ok(host.app.engine.fork(&caller.scope, order, None).await?.run)
}
