//! Fixtures that the protocol describes in a row and does not ship, written from their rows.

use serde_json::{Value, json};

pub(super) fn all() -> Vec<Value> {
    let gate = |config: Value| node("gate", "core.approvalGate", config);
    let artifact = json!({ "text": "draft" });
    vec![
        workflow(
            "conformance-approval-refine",
            vec![gate(json!({ "title": "Refine?", "actions": ["accept", "refine"] }))],
            vec![],
        ),
        workflow(
            "conformance-approval-edit-accept",
            vec![gate(
                json!({ "title": "Edit?", "actions": ["accept", "edit-accept"], "artifactData": artifact }),
            )],
            vec![],
        ),
        workflow(
            "conformance-approval-reject-routed",
            vec![gate(json!({ "title": "Go?" })), noop("on-accept"), noop("on-reject")],
            vec![edge("gate", "on-reject", "any_failed"), edge("gate", "on-accept", "all_success")],
        ),
        with_loops(workflow(
            "conformance-approval-reject-loopback",
            vec![noop("start"), gate(json!({ "title": "Good now?" })), noop("revise")],
            vec![
                edge("start", "gate", "any_success"),
                edge("gate", "revise", "any_failed"),
                edge("revise", "gate", "any_success"),
            ],
        )),
        workflow(
            "conformance-approval-timeout",
            vec![gate(json!({ "title": "Quick!", "timeoutMs": 1500 }))],
            vec![],
        ),
        format_advisory(),
    ]
}

fn format_advisory() -> Value {
    let mut definition =
        workflow("conformance-workflow-variable-format-advisory", vec![noop("noop")], vec![]);
    definition["variables"] = json!([
        { "name": "contact", "type": "string", "format": "email", "defaultValue": "not an address" }
    ]);
    definition
}

fn with_loops(mut definition: Value) -> Value {
    definition["settings"]["maxLoopbackIterations"] = json!(2);
    definition
}

fn workflow(id: &str, nodes: Vec<Value>, edges: Vec<Value>) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0.0", "nodes": nodes, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual", "config": {}, "enabled": true }],
        "variables": [],
        "metadata": { "tags": ["conformance"] },
        "settings": { "timeout": 0 },
    })
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}))
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config,
        "inputs": {},
    })
}

fn edge(from: &str, to: &str, rule: &str) -> Value {
    json!({
        "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to, "triggerRule": rule,
    })
}
