//! The small workflows that the tests run: one for each way a run can go.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

/// Writes all of them into a folder for `--workflows`.
pub(crate) fn write(folder: &Path) -> Result<()> {
    for definition in all().into_iter().chain([family()]) {
        let name = definition["id"].as_str().unwrap_or("nameless");
        std::fs::write(
            folder.join(format!("{name}.json")),
            serde_json::to_vec_pretty(&definition)?,
        )?;
    }
    Ok(())
}

/// What runs are given that do nothing with it.
fn with_inputs(mut definition: Value) -> Value {
    if let Some(variables) = definition["variables"].as_array_mut() {
        variables.extend([
            json!({ "name": "day", "type": "string" }),
            json!({ "name": "same", "type": "number" }),
            json!({ "name": "late", "type": "boolean" }),
            json!({ "name": "text", "type": "string" }),
        ]);
    }
    definition
}

fn all() -> Vec<Value> {
    let chain: Vec<Value> =
        (0..10).map(|step| node(&format!("n{step}"), "core.noop", json!({}))).collect();
    let links: Vec<(String, String)> =
        (0..9).map(|step| (format!("n{step}"), format!("n{}", step + 1))).collect();
    let chain_edges: Vec<Value> = links.iter().map(|(from, to)| edge(from, to)).collect();
    vec![
        with_inputs(workflow("noop", vec![node("only", "core.noop", json!({}))], vec![])),
        workflow("chain", chain, chain_edges),
        workflow("delay", vec![delay("wait")], vec![]),
        workflow(
            "failing",
            vec![node("break", "core.fail", json!({ "code": "broken", "message": "as asked" }))],
            vec![],
        ),
        with_settings(
            workflow(
                "flaky",
                vec![node("break", "core.fail", json!({ "code": "busy", "retryable": true }))],
                vec![],
            ),
            json!({ "timeout": 0, "maxRetries": 1 }),
        ),
        workflow(
            "speech",
            vec![node("say", "core.ai.callPrompt", json!({ "promptId": "p" }))],
            vec![],
        ),
        workflow(
            "rounds",
            vec![
                node("each", "core.loop", json!({ "count": 3 })),
                node("walk", "core.delay", json!({ "durationMs": 40 })),
                node("end", "core.end", json!({})),
            ],
            vec![edge("each", "walk"), edge("walk", "each"), edge("walk", "end")],
        ),
        branches(),
        workflow(
            "release",
            vec![
                node(
                    "gate",
                    "core.approvalGate",
                    json!({ "title": "Ship it?", "actions": ["accept", "reject"] }),
                ),
                node("ship", "core.noop", json!({})),
            ],
            vec![edge("gate", "ship")],
        ),
        workflow("colour", vec![node("ask", "core.clarificationGate", question())], vec![]),
        workflow(
            "form",
            vec![node(
                "fill",
                "core.interrupt",
                json!({ "kind": "custom", "data": { "customKind": "order form" }, "resumeSchema": { "type": "object", "required": ["pieces"] } }),
            )],
            vec![],
        ),
    ]
}

/// One child that takes its time, one that asks, and a node that waits for both.
fn family() -> Value {
    let delay = json!({ "workflowId": "delay", "inputMapping": { "delayMs": "delayMs" } });
    workflow(
        "family",
        vec![
            node("errand", "core.subWorkflow", delay),
            node("signed", "core.subWorkflow", json!({ "workflowId": "release" })),
            node("after", "core.noop", json!({})),
        ],
        vec![edge("errand", "after"), edge("signed", "after")],
    )
}

fn question() -> Value {
    json!({ "questions": [{ "id": "q1", "question": "Which colour?" }] })
}

/// Two branches that write to one channel, and a condition behind them.
fn branches() -> Value {
    let write = |id: &str| {
        node(
            id,
            "core.channelWrite",
            json!({ "channelName": "found", "reducer": "append", "value": id }),
        )
    };
    let mut definition = workflow(
        "branches",
        vec![
            node("start", "core.start", json!({})),
            delay("left"),
            write("right"),
            write("after-left"),
            node("join", "core.merge", json!({ "mode": "all" })),
            node("late", "core.conditional", json!({ "condition": "delayMs > 100" })),
            node("yes", "core.noop", json!({})),
            node("no", "core.noop", json!({})),
        ],
        vec![
            edge("start", "left"),
            edge("start", "right"),
            edge("left", "after-left"),
            edge("after-left", "join"),
            edge("right", "join"),
            edge("join", "late"),
            when(edge("late", "yes"), true),
            when(edge("late", "no"), false),
        ],
    );
    definition["channels"] = json!({ "found": { "reducer": "append" } });
    definition
}

pub(crate) fn workflow(id: &str, nodes: Vec<Value>, edges: Vec<Value>) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual", "enabled": true }],
        "variables": [{ "name": "delayMs", "type": "number", "defaultValue": 50 }],
        "metadata": {}, "settings": { "timeout": 0 }
    })
}

fn with_settings(mut definition: Value, settings: Value) -> Value {
    definition["settings"] = settings;
    definition
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
}

fn delay(id: &str) -> Value {
    let mut node = node(id, "core.delay", json!({}));
    node["inputs"] = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    node
}

pub(crate) fn edge(from: &str, to: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

fn when(mut edge: Value, result: bool) -> Value {
    edge["condition"] = json!({ "type": "equals", "left": "result", "right": result });
    edge
}
