//! Fixtures of forks that the protocol describes in a row and does not ship, written from their rows.

use anyhow::Result;
use serde_json::{Value, json};

use super::enter;
use crate::interop::session::Session;
use crate::wire::Request;

pub(super) const SIDE_EFFECT: &str = "conformance-replay-side-effect";
pub(super) const ORDINAL_LOOP: &str = "conformance-replay-ordinal-loop";

pub(super) async fn register(session: &mut Session) -> Result<()> {
    for definition in [side_effect(), ordinal_loop()] {
        session.note("workflow-definition", &definition);
        let answer =
            session.ask(Request::post("/v1/host/callboard/workflows", &definition)).await?;
        let outcome = match answer.status {
            200 | 201 => Ok(()),
            _ => Err(anyhow::anyhow!("{}: {}", answer.status, answer.text())),
        };
        let name = definition["id"].as_str().unwrap_or_default();
        enter(session, &format!("{name}: is registered"), outcome);
    }
    Ok(())
}

/// wait → effect; the wait is one that a replay may go through again.
fn side_effect() -> Value {
    let hold = delay("core.conformance.hold");
    workflow(SIDE_EFFECT, vec![hold, effect()], vec![edge("wait", "effect", "all_success")], 1)
}

/// start → effect → wait → effect.
fn ordinal_loop() -> Value {
    let start = node("start", "core.noop");
    let edges = vec![
        edge("start", "effect", "any_success"),
        edge("effect", "wait", "all_success"),
        edge("wait", "effect", "any_success"),
    ];
    workflow(ORDINAL_LOOP, vec![start, effect(), delay("core.delay")], edges, 2)
}

fn workflow(id: &str, nodes: Vec<Value>, edges: Vec<Value>, rounds: u32) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0.0", "nodes": nodes, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual", "config": {}, "enabled": true }],
        "variables": [{ "name": "delayMs", "type": "number", "defaultValue": 3000 }],
        "metadata": { "tags": ["conformance"] },
        "settings": { "timeout": 0, "maxLoopbackIterations": rounds },
    })
}

fn effect() -> Value {
    node("effect", "core.conformance.side-effect")
}

fn delay(type_id: &str) -> Value {
    let mut delay = node("wait", type_id);
    delay["inputs"] = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    delay
}

fn node(id: &str, type_id: &str) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": {},
        "inputs": {},
    })
}

fn edge(from: &str, to: &str, rule: &str) -> Value {
    json!({
        "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to, "triggerRule": rule,
    })
}
