//! Durability, checked at every point where it could fail: a crash before and after each append, a holder
//! that oversleeps, with one host and with two.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use callboard_engine::{Engine, InMemoryStore, Recorded};
use callboard_protocol::{Object, RunId};

use crate::sim::{
    Fate, SimClock, doomed_store, ended, fixtures, host, open_questions, order, scope,
};

/// A workflow to run, with what it is started with.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) source: String,
    inputs: Object,
    configurable: Object,
}

/// How many hosts share the store while the first one meets its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// A second one starts only after the first has died.
    OneAfterTheOther,
    Two,
}

/// Runs a case to its end under a fate and returns the log, and how often the first host appended.
async fn drive_to_end(case: &Case, fate: Fate, hosts: Hosts) -> (Vec<Recorded>, u64) {
    let shared = Arc::new(InMemoryStore::default());
    let clock = SimClock::new();
    let definitions = [case.source.clone()];
    let doomed = doomed_store(shared.clone(), fate);
    let first = host("first", doomed.clone(), clock.clone(), &definitions);
    let mut others: Vec<Engine> = Vec::new();
    if hosts == Hosts::Two {
        others.push(host(
            "second",
            doomed_store(shared.clone(), Fate::Live),
            clock.clone(),
            &definitions,
        ));
    }
    let workflow =
        serde_json::from_str::<Value>(&case.source).unwrap()["id"].as_str().unwrap().to_owned();
    let run = first
        .create(order(&workflow, case.inputs.clone(), case.configurable.clone()), None)
        .await
        .unwrap()
        .run;
    if matches!(fate, Fate::DieBefore(_) | Fate::DieAfter(_)) {
        tokio::select! {
            () = doomed.died.notified() => {}
            _ = ended(&shared, &run) => {}
        }
        first.kill();
        if hosts == Hosts::OneAfterTheOther {
            others.push(host(
                "second",
                doomed_store(shared.clone(), Fate::Live),
                clock.clone(),
                &definitions,
            ));
        }
    } else if fate != Fate::Live && hosts == Hosts::OneAfterTheOther {
        others.push(host(
            "second",
            doomed_store(shared.clone(), Fate::Live),
            clock.clone(),
            &definitions,
        ));
    }
    let log = ended(&shared, &run).await;
    // A host that overslept wakes up now; what it tries must come to nothing.
    tokio::time::sleep(crate::sim::LEASE * 4).await;
    let later = ended(&shared, &run).await;
    assert_eq!(log, later, "{}: the log of an ended run grew", case.name);
    check_log(case, &run, &log);
    assert_eq!(open_questions(&shared).await, [""; 0], "{}: an ended run asks nothing", case.name);
    first.kill();
    (log, doomed.appends())
}

/// What holds for every log, whatever happened.
pub(crate) fn check_log(case: &Case, run: &RunId, log: &[Recorded]) {
    let name = &case.name;
    let sequences: Vec<u64> = log.iter().map(|event| event.sequence).collect();
    assert_eq!(
        sequences,
        (0..log.len() as u64).collect::<Vec<_>>(),
        "{name} {run}: a gap or a repetition"
    );
    assert_eq!(log[0].kind, "run.started", "{name}");
    assert_eq!(log.iter().filter(|event| event.kind == "run.started").count(), 1, "{name}");
    let terminal = |event: &Recorded| callboard_protocol::Event::is_terminal(&event.kind);
    assert_eq!(log.iter().filter(|event| terminal(event)).count(), 1, "{name}");
    assert!(log.last().is_some_and(terminal), "{name}");
    let mut ends = BTreeSet::new();
    let mut visits = std::collections::BTreeMap::new();
    for event in log {
        let Some(node) = &event.node else { continue };
        if event.kind == "node.started" {
            let payload: Value = serde_json::from_str(&event.payload).unwrap();
            visits.insert(node.clone(), payload["visit"].as_u64().unwrap_or(0));
        }
        if event.kind == "node.completed" {
            let visit = visits.get(node).copied();
            assert!(
                ends.insert((node.clone(), visit)),
                "{name}: {node} completed visit {visit:?} twice"
            );
        }
    }
}

/// Fields that tell when or how something happened, not what. An interrupt is named by its place in the log, which a
/// takeover moves by one.
const VARYING: [&str; 7] =
    ["durationMs", "writtenAt", "attempts", "observed", "decidedAt", "resolvedAt", "interruptId"];

/// The story without what a takeover may change: times, attempts, the marker itself, and the order in which
/// branches that nobody ordered came to their ends.
pub(crate) fn story(log: &[Recorded]) -> Vec<(String, Option<String>, Value)> {
    let told =
        log.iter().filter(|event| event.kind != "run.resumed" && event.kind != "node.started");
    let mut story: Vec<_> = told
        .map(|event| {
            let mut payload: Value = serde_json::from_str(&event.payload).unwrap();
            if let Value::Object(fields) = &mut payload {
                for key in VARYING {
                    fields.remove(key);
                }
                // Turns of a conversation say when they were said.
                for turn in fields.values_mut().filter_map(Value::as_object_mut) {
                    turn.remove("ts");
                }
            }
            (event.kind.clone(), event.node.as_ref().map(ToString::to_string), payload)
        })
        .collect();
    story.sort_by_key(|(kind, node, payload)| (kind.clone(), node.clone(), payload.to_string()));
    story
}

pub(crate) async fn survives_everything(case: &Case) {
    let (undisturbed, appends) = drive_to_end(case, Fate::Live, Hosts::OneAfterTheOther).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            for hosts in [Hosts::OneAfterTheOther, Hosts::Two] {
                let (log, _) = drive_to_end(case, fate, hosts).await;
                assert_eq!(
                    story(&log),
                    story(&undisturbed),
                    "{} with {fate:?}, {hosts:?}",
                    case.name
                );
                let takeovers = log.iter().filter(|event| event.kind == "run.resumed").count();
                assert!(
                    takeovers <= 1,
                    "{} with {fate:?}, {hosts:?}: {takeovers} takeovers",
                    case.name
                );
            }
        }
    }
}

pub(crate) fn case(name: &str, nodes: Value, edges: Value, settings: Value) -> Case {
    let source = json!({
        "id": name, "name": name, "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": [], "metadata": {}, "settings": settings,
    });
    Case {
        name: name.into(),
        source: source.to_string(),
        inputs: Object::new(),
        configurable: Object::new(),
    }
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
}

pub(crate) fn edge(from: &str, to: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_changes_nothing() {
    let delays = case(
        "delays",
        json!([
            node("a", "core.delay", json!({ "ms": 5_000 })),
            node("b", "core.channelWrite", json!({ "channelName": "seen", "value": "b" })),
            node("c", "core.delay", json!({ "ms": 100_000 })),
            node("d", "core.delay", json!({ "ms": 1_000 })),
            node("e", "core.noop", json!({})),
        ]),
        json!([edge("a", "b"), edge("b", "c"), edge("a", "d"), edge("c", "e"), edge("d", "e")]),
        json!({}),
    );
    let retries = case(
        "retries",
        json!([
            node("f", "core.fail", json!({ "retryable": true, "code": "flaky" })),
            node("g", "core.noop", json!({}))
        ]),
        json!([{ "id": "f-g", "sourceNodeId": "f", "targetNodeId": "g", "triggerRule": "any_failed" }]),
        json!({ "maxRetries": 2 }),
    );
    let chat = case(
        "chat",
        json!([
            node("say", "core.ai.callPrompt", json!({})),
            node("wait", "core.delay", json!({ "ms": 1_500 }))
        ]),
        json!([]),
        json!({}),
    );
    let rounds = case(
        "rounds",
        json!([
            node("each", "core.loop", json!({ "items": ["x", "y"] })),
            node("body", "core.delay", json!({ "ms": 1_000 })),
            node("after", "core.noop", json!({}))
        ]),
        json!([edge("each", "body"), edge("body", "each"), edge("each", "after")]),
        json!({}),
    );
    for case in [delays, retries, chat, rounds] {
        survives_everything(&case).await;
    }
}

/// The shipped core fixtures that need no interrupt, child, secret or tracing.
const FIXTURES: [&str; 13] = [
    "noop",
    "identity",
    "delay",
    "cancellable",
    "failure",
    "multi-node",
    "idempotent",
    "channel-ttl",
    "cap-breach",
    "run-duration-breach",
    "capability-missing",
    "version-fold",
    "message-reducer",
];

#[tokio::test(start_paused = true)]
async fn every_core_fixture_survives_a_crash_at_any_append() {
    let Some(folder) = fixtures() else {
        eprintln!("skipped: the protocol's fixtures are not beside the project");
        return;
    };
    for name in FIXTURES {
        let source =
            std::fs::read_to_string(folder.join(format!("conformance-{name}.json"))).unwrap();
        let mut inputs = Object::new();
        let mut configurable = Object::new();
        match name {
            "identity" => {
                drop(inputs.insert("payload".into(), json!({ "deep": [1, { "x": null }] })))
            }
            "idempotent" => drop(inputs.insert("nonce".into(), json!("n"))),
            "cap-breach" => drop(configurable.insert("recursionLimit".into(), json!(3))),
            "run-duration-breach" => drop(configurable.insert("runTimeoutMs".into(), json!(1_000))),
            _ => {}
        }
        survives_everything(&Case { name: name.into(), source, inputs, configurable }).await;
    }
}

/// A small generator of its own, so that a failing seed can be run again by its number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn random_case(seed: u64) -> Case {
    let mut dice = Dice(seed);
    let count = 2 + dice.roll(6);
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    for index in 0..count {
        let id = format!("n{index}");
        let (type_id, config) = match dice.roll(8) {
            0 => ("core.delay", json!({ "ms": dice.roll(90_000) })),
            1 => ("core.fail", json!({ "retryable": dice.roll(2) == 0 })),
            2 => ("core.setVariable", json!({ "name": "v", "value": index })),
            3 => (
                "core.channelWrite",
                json!({ "channelName": "c", "value": index, "ttlMs": 20_000 }),
            ),
            4 => ("core.ai.callPrompt", json!({})),
            5 => ("core.conditional", json!({ "condition": "1 < 2" })),
            _ => ("core.noop", json!({})),
        };
        nodes.push(node(&id, type_id, config));
        let rules = ["all_success", "any_success", "all_complete", "none_failed", "any_failed"];
        let rule = rules[usize::try_from(dice.roll(5)).unwrap()];
        for earlier in 0..index {
            if dice.roll(3) == 0 {
                edges.push(json!({ "id": format!("e{earlier}-{index}"), "sourceNodeId": format!("n{earlier}"), "targetNodeId": id, "triggerRule": rule }));
            }
        }
    }
    case(
        &format!("random-{seed}"),
        nodes.into(),
        edges.into(),
        json!({ "maxRetries": dice.roll(3) }),
    )
}

#[tokio::test(start_paused = true)]
async fn random_graphs_survive_a_crash_at_any_append() {
    for seed in 0..12 {
        survives_everything(&random_case(seed)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_in_the_middle_is_recorded_once() {
    let slow = case(
        "slow",
        json!([node("a", "core.delay", json!({ "ms": 20_000 }))]),
        json!([]),
        json!({}),
    );
    let (log, _) = drive_to_end(&slow, Fate::DieAfter(1), Hosts::OneAfterTheOther).await;
    let kinds: Vec<&str> = log.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["run.started", "node.started", "run.resumed", "node.completed", "run.completed"]
    );
    let waited = log[3].at.since(log[1].at);
    assert_eq!(waited.as_secs(), 20, "a delay goes on with what is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_meets_a_crash_still_cancels() {
    let slow = case(
        "slow",
        json!([node("a", "core.delay", json!({ "ms": 600_000 }))]),
        json!([]),
        json!({}),
    );
    let shared = Arc::new(InMemoryStore::default());
    let clock = SimClock::new();
    let doomed = doomed_store(shared.clone(), Fate::Live);
    let first = host("first", doomed, clock.clone(), std::slice::from_ref(&slow.source));
    let run = first.create(order("slow", Object::new(), Object::new()), None).await.unwrap().run;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    first.kill();
    let second = host(
        "second",
        doomed_store(shared.clone(), Fate::Live),
        clock,
        std::slice::from_ref(&slow.source),
    );
    second.cancel(&scope(), &run, Some("enough".into()), None, None).await.unwrap();
    let log = ended(&shared, &run).await;
    assert_eq!(log.last().unwrap().kind, "run.cancelled");
    check_log(&slow, &run, &log);
}
