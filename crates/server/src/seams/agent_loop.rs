//! The loop of a supervisor, as the suite drives it: so many turns, a doubt in one of them, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_core::{Resolution, Via};
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::dispatch::ended;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::routes::workflows;

/// More turns than the suite ever asks for; each is a run of its own.
const MOST_TURNS: u64 = 32;
/// Less than any floor allows.
const DOUBT: f64 = 0.1;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentLoop {
    turns: u64,
    workspace_write_at_turn: Option<u64>,
    suspend_at_turn: Option<u64>,
    #[serde(default)]
    resume: bool,
    max_loop_iterations: Option<u64>,
}

pub(crate) async fn agent_loop(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<AgentLoop>,
) -> Result<Answer, Problem> {
    if host.app.engine.limits().execution_model < 5 {
        let message = "turns are counted from execution model 5 on";
        return Err(Problem::new(Code::CapabilityRequired, message));
    }
    if body.workspace_write_at_turn.is_some() {
        let message = "this host has no workspace whose files a turn could see";
        return Err(Problem::new(Code::CapabilityRequired, message));
    }
    if !(1..=MOST_TURNS).contains(&body.turns) {
        let message = format!("must be 1 to {MOST_TURNS}");
        return Err(Problem::invalid_at("turns", &message));
    }
    let id = format!("callboard-sample-loop-{}", uuid::Uuid::now_v7());
    let worker = format!("{id}-worker");
    let played = play(&host, &caller, (&id, &worker), &body).await;
    for name in [&id, &worker] {
        let tenant = &caller.scope.tenant;
        host.app.engine.catalog().remove(tenant, &name.as_str().into()).await?;
    }
    played.map(|shown| Answer::of(StatusCode::OK, &shown))
}

async fn play(
    host: &Host,
    caller: &Caller,
    (id, worker): (&str, &str),
    body: &AgentLoop,
) -> Result<Value, Problem> {
    for definition in [idle(worker), crew(id, worker, body)] {
        workflows::store(host, caller, definition.to_string().as_bytes()).await?;
    }
    let bound = body.max_loop_iterations.map(|most| ("maxLoopIterations".to_owned(), json!(most)));
    let order = Order {
        target: Target::Workflow(id.into()),
        owner: caller.owner(),
        mode: caller.scope.mode,
        inputs: Object::new(),
        configurable: bound.into_iter().collect(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        forced_engine_version: None,
        exclusive: false,
        trace: None,
        acting: None,
    };
    let run = host.app.engine.create(order, None).await?.run;
    let mut events = ended(host, caller, &run).await?;
    if body.resume && is_open(&events) {
        resume(host, caller, &run).await?;
        events = finished(host, caller, &run).await?;
    }
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let decisions = of_kind("runOrchestrator.decided").map(|event| event["payload"].clone());
    let mut shown = json!({ "runId": run, "decisions": decisions.collect::<Vec<_>>() });
    let place = events.iter().position(|event| event["type"] == "node.resumed");
    if let Some(place) = place {
        let told = events[..place].iter().rfind(|it| it["type"] == "runOrchestrator.decided");
        shown["resumedIteration"] =
            told.map_or(Value::Null, |told| told["payload"]["iteration"].clone());
    }
    if let Some(breach) = of_kind("cap.breached").next() {
        shown["bound"] = breach["payload"].clone();
    }
    Ok(shown)
}

fn is_open(events: &[Value]) -> bool {
    events.last().is_some_and(|last| {
        let kind = last["type"].as_str().unwrap_or_default();
        !callboard_protocol::Event::is_terminal(kind)
    })
}

async fn resume(host: &Host, caller: &Caller, run: &RunId) -> Result<(), Problem> {
    let value = json!({ "action": "accept" });
    let by = Some(caller.principal());
    let resolution = Resolution { node: "supervisor".into(), value, by, via: Via::Key };
    host.app.engine.resolve(&caller.scope, run, resolution, None).await?;
    Ok(())
}

/// A run that was answered may wait for a moment longer before it goes on.
pub(super) async fn finished(
    host: &Host,
    caller: &Caller,
    run: &RunId,
) -> Result<Vec<Value>, Problem> {
    let clock = host.app.engine.clock();
    for _ in 0..500 {
        let events = ended(host, caller, run).await?;
        if !is_open(&events) {
            return Ok(events);
        }
        clock.sleep_until(clock.now().plus(Duration::from_millis(20))).await;
    }
    Err(Problem::new(Code::ServiceUnavailable, "the run did not come to its end in time"))
}

fn crew(id: &str, worker: &str, body: &AgentLoop) -> Value {
    let decide = |turn: u64| {
        let mut decision = match turn == body.turns {
            true => json!({ "kind": "terminate" }),
            false => json!({ "kind": "next-worker", "nextWorkerIds": [worker] }),
        };
        if body.suspend_at_turn == Some(turn) {
            decision["confidence"] = json!(DOUBT);
        }
        decision
    };
    let plan: Vec<Value> = (1..=body.turns).map(decide).collect();
    let nodes = json!([
        node("supervisor", "core.orchestrator.supervisor", &json!({ "mockDispatchPlan": plan })),
        node("dispatch", "core.dispatch", &json!({})),
    ]);
    let edges = json!([
        { "id": "there", "sourceNodeId": "supervisor", "targetNodeId": "dispatch" },
        { "id": "back", "sourceNodeId": "dispatch", "targetNodeId": "supervisor" },
    ]);
    definition(id, &nodes, &edges)
}

fn idle(id: &str) -> Value {
    definition(id, &json!([node("noop", "core.noop", &json!({}))]), &json!([]))
}

fn definition(id: &str, nodes: &Value, edges: &Value) -> Value {
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {} })
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {} })
}
