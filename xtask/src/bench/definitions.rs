//! The workflows that are measured.

use serde_json::{Value, json};

pub(crate) const NOOP: &str = "bench-noop";
/// The same under another name, so that its runs can be counted.
pub(crate) const DUE: &str = "bench-due";
pub(crate) const CHAIN: &str = "bench-chain";
/// The same chain of nodes that compute, and a run that goes through a list.
pub(crate) const PURE: &str = "bench-pure";
pub(crate) const EACH: &str = "bench-each";
/// Items of that list.
pub(crate) const ITEMS: usize = 10_000;
pub(crate) const TICKS: &str = "bench-ticks";
/// The same for seconds, so that what opening a stream costs is lost in it.
pub(crate) const MANY_TICKS: &str = "bench-many-ticks";
pub(crate) const WAIT: &str = "bench-wait";
/// Loops whose logs grow to about a thousand and ten thousand events.
pub(crate) const ROUNDS: [(&str, usize); 2] =
    [("bench-rounds-100", 100), ("bench-rounds-1000", 1_000)];

/// Nodes of the chain that is compared with one node.
pub(crate) const CHAIN_NODES: usize = 10;

/// Events of a chain of no-op nodes: a start and an end, for the run and for each node.
pub(crate) fn events(nodes: usize) -> usize {
    2 + 2 * nodes
}

pub(crate) fn all() -> Vec<Value> {
    let noop = || ("core.noop", json!({}));
    let tick = || ("core.delay", json!({ "durationMs": 20 }));
    let mut all = vec![
        chain(NOOP, 1, noop),
        chain(DUE, 1, noop),
        chain(CHAIN, CHAIN_NODES, noop),
        chain(TICKS, 50, tick),
        chain(MANY_TICKS, 250, tick),
        // Longer than any benchmark.
        chain(WAIT, 1, || ("core.delay", json!({ "durationMs": 3_600_000 }))),
    ];
    let mut pure = chain(PURE, CHAIN_NODES, || ("core.flow.noop", json!({})));
    for node in pure["nodes"].as_array_mut().into_iter().flatten() {
        node["inputs"]["value"] = json!({ "type": "static", "value": 1 });
    }
    all.extend([pure, each()]);
    all.extend(ROUNDS.map(|(id, count)| rounds(id, count)));
    all
}

/// One node that fails.
pub(crate) fn failing(id: &str) -> Value {
    chain(id, 1, || ("core.fail", json!({})))
}

/// One node that rounds every item of a list.
fn each() -> Value {
    let step = json!({
        "typeId": "core.openwop.data.number-round",
        "inputs": { "value": { "type": "expression", "expression": "item" } },
    });
    let config = json!({ "body": [step], "collect": "value" });
    let mut definition = chain(EACH, 1, || ("callboard.each", config.clone()));
    let items: Vec<usize> = (0..ITEMS).collect();
    definition["nodes"][0]["inputs"]["items"] = json!({ "type": "static", "value": items });
    definition
}

/// A loop over a chain of four: ten events a round.
fn rounds(id: &str, count: usize) -> Value {
    let mut definition = chain(id, 5, || ("core.noop", json!({})));
    definition["nodes"][0]["typeId"] = "core.loop".into();
    definition["nodes"][0]["config"] = json!({ "count": count });
    let back = json!({ "id": "back", "sourceNodeId": "n4", "targetNodeId": "n0" });
    if let Some(edges) = definition["edges"].as_array_mut() {
        edges.push(back);
    }
    definition["settings"]["maxLoopbackIterations"] = (count + 1).into();
    definition
}

fn chain(id: &str, length: usize, node: impl Fn() -> (&'static str, Value)) -> Value {
    let nodes: Vec<Value> = (0..length)
        .map(|place| {
            let (kind, config) = node();
            json!({
                "id": format!("n{place}"), "typeId": kind, "name": format!("N{place}"),
                "position": { "x": place * 200, "y": 0 }, "config": config, "inputs": {},
            })
        })
        .collect();
    let edges: Vec<Value> = (1..length)
        .map(|place| {
            json!({
                "id": format!("e{place}"),
                "sourceNodeId": format!("n{}", place - 1), "targetNodeId": format!("n{place}"),
            })
        })
        .collect();
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [{ "id": "manual", "type": "manual", "enabled": true }],
        "variables": [], "metadata": {}, "settings": {},
    })
}
