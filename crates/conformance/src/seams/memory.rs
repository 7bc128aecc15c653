//! The doors to memory: a family that remembers, and snapshots that are let go of before their time.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use callboard_engine::{Filter, Order, Target};
use callboard_protocol::RunId;
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped, fresh, workflows};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{definition, ended, node};

const PARENT: &str = "callboard-sample-memory-parent";
const CHILD: &str = "callboard-sample-memory-child";
/// Longer than any test waits for an answer.
const LATEST_WRITE_MS: u64 = 15_000;
/// What a run may take beyond the wait that was asked for.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Roundtrip {
    ttl_seconds: u64,
    #[serde(default)]
    child_write_offset_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExpireSnapshots {
    run_id: RunId,
}

pub(super) async fn expire_snapshots(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<ExpireSnapshots>,
) -> Result<Response, Problem> {
    if !host.app.engine.memory().expire_snapshot(&caller.scope, &body.run_id).await? {
        return Err(Problem::no_such("run"));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A parent, its child that remembers something a while after the parent began, and what the parent then sees.
pub(super) async fn roundtrip(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Roundtrip>,
) -> Result<Answer, Problem> {
    if body.child_write_offset_ms > LATEST_WRITE_MS {
        let message = format!("must be at most {LATEST_WRITE_MS}");
        return Err(Problem::invalid_at("childWriteOffsetMs", &message));
    }
    for definition in [child(), parent()] {
        workflows::store(&host, &caller, definition.to_string().as_bytes()).await?;
    }
    let run = start(&host, &caller, &body).await?;
    let patience = PATIENCE + Duration::from_millis(body.child_write_offset_ms);
    let parent = ended(&host, &caller, &run, patience).await?;
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?;
    let snapshot: Value = seen
        .and_then(|seen| serde_json::from_str(&seen.json).ok())
        .ok_or_else(|| Problem::no_such("run"))?;
    let child = child_of(&host, &caller, &run).await?;
    let child = ended(&host, &caller, &child, patience).await?;
    let at = |events: &[Value], kind: &str| {
        let told = events.iter().find(|event| event["type"] == kind);
        told.map_or(Value::Null, |event| event["timestamp"].clone())
    };
    let shown = json!({
        "entry": snapshot["variables"]["memoryList"][0],
        "childWroteAt": at(&child, "memory.written"),
        "parentStartedAt": at(&parent, "run.started"),
        "runId": run,
    });
    Answer::json(StatusCode::OK, &shown)
}

async fn start(host: &Host, caller: &Caller, body: &Roundtrip) -> Result<RunId, Problem> {
    let inputs = json!({ "ttlSeconds": body.ttl_seconds, "offsetMs": body.child_write_offset_ms });
    let order = Order {
        inputs: inputs.as_object().cloned().unwrap_or_default(),
        // A memory of its own, so that two of these at once see nothing of each other.
        scope_id: Some(fresh("")),
        ..Order::new(Target::Workflow(PARENT.into()), caller.owner(), caller.scope.mode)
    };
    Ok(host.app.engine.create(order, None).await?.run)
}

async fn child_of(host: &Host, caller: &Caller, parent: &RunId) -> Result<RunId, Problem> {
    let filter = Filter { workflow: Some(CHILD.into()), limit: 50, ..Filter::default() };
    for listed in host.app.engine.store().list(&caller.scope, &filter).await? {
        let above = host.app.engine.parent(&caller.scope, &listed.run_id).await?;
        if above.is_some_and(|above| above.run_id == *parent) {
            return Ok(listed.run_id);
        }
    }
    Err(Problem::no_such("run"))
}

fn variable(name: &str) -> Value {
    json!({ "type": "variable", "variableName": name })
}

fn child() -> Value {
    let mut wait = node("wait", "core.delay", &json!({}));
    wait["inputs"] = json!({ "delayMs": variable("offsetMs") });
    let mut write = node("write", "core.identity", &json!({ "memoryAction": "write" }));
    write["inputs"] = json!({ "ttlSeconds": variable("ttlSeconds") });
    timed(CHILD, &[wait, write])
}

fn parent() -> Value {
    let mapping = json!({ "ttlSeconds": "ttlSeconds", "offsetMs": "offsetMs" });
    let call = json!({ "workflowId": CHILD, "inputMapping": mapping });
    let nodes = [
        node("call", "core.subWorkflow", &call),
        node("read", "core.identity", &json!({ "memoryAction": "list" })),
    ];
    timed(PARENT, &nodes)
}

/// With the variables that say when something is written, and for how long.
fn timed(id: &str, nodes: &[Value]) -> Value {
    let variables = ["ttlSeconds", "offsetMs"]
        .map(|name| json!({ "name": name, "type": "number", "defaultValue": 0 }));
    let mut definition = definition(id, nodes);
    definition["variables"] = json!(variables);
    definition
}
