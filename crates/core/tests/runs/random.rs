//! Random small workflows and random things that happen to their runs.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{Given, given};

/// A duration that no random run reaches, so that a deadline cannot hide a run that is stuck.
pub(crate) const FOREVER_MS: u64 = 1_000_000_000_000;

/// What happens next. Numbers pick among what is there at that moment.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Start,
    Adopt,
    Continue,
    Wake,
    Done(usize),
    Fail(usize, bool),
    Tell(usize, u32),
    Late(usize),
    Cancel,
    Pause(bool),
    Resume,
    /// Into the channel that some workflows declare, by a stranger or by another run.
    Write(i64, bool),
    SetVariable(i64),
}

/// One workflow and one history that the world makes for it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) given: Given,
    pub(crate) acts: Vec<(i64, Act)>,
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    (definitions(), vec((-20_i64..1_500, acts()), 1..25))
        .prop_map(|(given, acts)| Case { given, acts })
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Start),
        2 => Just(Act::Adopt),
        2 => Just(Act::Continue),
        6 => Just(Act::Wake),
        8 => any::<usize>().prop_map(Act::Done),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, retryable)| Act::Fail(which, retryable)),
        3 => (any::<usize>(), 0_u32..4).prop_map(|(which, index)| Act::Tell(which, index)),
        1 => any::<usize>().prop_map(Act::Late),
        1 => Just(Act::Cancel),
        2 => any::<bool>().prop_map(Act::Pause),
        3 => Just(Act::Resume),
        3 => (any::<i64>(), any::<bool>()).prop_map(|(value, named)| Act::Write(value, named)),
        2 => (0_i64..4).prop_map(Act::SetVariable),
    ]
}

#[derive(Debug, Clone)]
struct Edge {
    from: usize,
    to: usize,
    rule: &'static str,
    condition: Option<Value>,
}

prop_compose! {
    fn definitions()(
        nodes in vec((0..KINDS.len(), 0_u8..10, 0_u64..4), 1..8),
        forward in vec(edges(), 0..10),
        backward in vec(edges(), 0..3),
        trigger in proptest::option::weighted(0.3, (any::<usize>(), prop_oneof![Just(0), Just(40)])),
        channels in any::<bool>(),
        settings in (0_u32..3, 1_u32..4),
        executions in prop_oneof![2 => Just(1_000_u64), 1 => 1_u64..30],
        duration in prop_oneof![2 => Just(FOREVER_MS), 1 => 100_u64..20_000],
    ) -> Given {
        let count = nodes.len();
        let ids: Vec<String> = nodes.iter().enumerate().map(|(place, (kind, ..))| format!("n{place}:{}", KINDS[*kind])).collect();
        let mut flow = given(&ids.join(" ")).top(json!({
            // Only workflows of this name may answer themselves.
            "id": "conformance-w",
            "settings": { "maxRetries": settings.0, "maxLoopbackIterations": settings.1 },
        }));
        for (place, (kind, lot, number)) in nodes.iter().enumerate() {
            flow = configure(flow, &format!("n{place}"), KINDS[*kind], *number);
            flow = flow.node(&format!("n{place}"), json!({ "disabled": *lot == 0 }));
            if *lot > 7 {
                flow = flow.node(&format!("n{place}"), json!({ "artifactType": "note" }));
            }
        }
        for edge in &forward {
            let (from, to) = (edge.from % count, edge.to % count);
            if from != to {
                flow = connect(flow, from.min(to), from.max(to), edge);
            }
        }
        if channels {
            flow = flow.top(json!({ "channels": { "c": { "reducer": "append", "ttlMs": 60, "maxSize": 3 },
                "conversation": { "reducer": "message" } } }));
        }
        if let Some((node, debounce)) = trigger {
            flow = flow.top(json!({ "triggers": [{ "id": "t", "type": "channel-write",
                "nodeId": format!("n{}", node % count), "config": { "channel": "c", "debounceMs": debounce } }] }));
        }
        // A back edge that makes a second way into a cycle is left out: such a graph is refused.
        for edge in &backward {
            let (from, to) = (edge.from % count, edge.to % count);
            let looped = connect(flow.clone(), from.max(to), from.min(to), edge);
            if looped.plan().is_ok() {
                flow = looped;
            }
        }
        flow.most_executions(executions).most_millis(duration)
    }
}

const KINDS: [&str; 14] = [
    "noop",
    "identity",
    "setVariable",
    "getVariable",
    "conditional",
    "channelWrite",
    "delay",
    "fail",
    "loop",
    "ai",
    "ai",
    "merge",
    "noop",
    "conversationGate",
];

fn configure(flow: Given, id: &str, kind: &str, number: u64) -> Given {
    let config = match kind {
        "setVariable" | "getVariable" => {
            json!({ "name": format!("v{}", number % 2), "value": number })
        }
        "conditional" => {
            json!({ "condition": if number.is_multiple_of(2) { "v0 == 2" } else { "not v1" } })
        }
        "channelWrite" => json!({ "channelName": "c", "value": number, "ttlMs": 60 }),
        "delay" => json!({ "ms": number * 70 }),
        "fail" => json!({ "retryable": number.is_multiple_of(2) }),
        "loop" => json!({ "count": number }),
        "conversationGate" => json!({ "mockAutoResume": true, "turnCount": number + 1 }),
        "merge" => json!({ "mode": if number.is_multiple_of(2) { "any" } else { "all" } }),
        _ => json!({}),
    };
    let flow = flow.config(id, config);
    match (kind, number) {
        ("identity", 0) => flow.ports(id, json!({ "v0": { "type": "static", "value": 2 } })),
        ("identity", 1) => {
            flow.ports(id, json!({ "v1": { "type": "variable", "variableName": "v0" } }))
        }
        ("setVariable", 3) => flow
            .ports(id, json!({ "value": { "type": "expression", "expression": "(v0 or 0) + 1" } })),
        _ => flow,
    }
}

fn edges() -> impl Strategy<Value = Edge> {
    let rules = prop_oneof![
        3 => Just("all_success"),
        2 => Just("any_success"),
        1 => Just("all_complete"),
        1 => Just("none_failed"),
        2 => Just("any_failed"),
    ];
    let condition = prop_oneof![
        Just(json!({ "type": "equals", "left": "result", "right": true })),
        Just(json!({ "type": "notEquals", "left": "index", "right": 1 })),
        Just(json!({ "type": "expression", "expression": "v0 != 1" })),
    ];
    (any::<usize>(), any::<usize>(), rules, proptest::option::weighted(0.25, condition))
        .prop_map(|(from, to, rule, condition)| Edge { from, to, rule, condition })
}

fn connect(flow: Given, from: usize, to: usize, edge: &Edge) -> Given {
    let place = flow.definition["edges"].as_array().map_or(0, Vec::len);
    let flow = flow.edges(&format!("n{from}>n{to}:{}", edge.rule));
    match &edge.condition {
        Some(condition) => flow.edge(place, json!({ "condition": condition })),
        None => flow,
    }
}
