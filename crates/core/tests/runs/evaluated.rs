//! What expressions came to is recorded: a log that was recorded under other semantics folds to what was recorded.

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Fork, Run};
use callboard_protocol::{Event, ForkMode};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{Played, line, play};

/// A log whose event of this kind was recorded with other outcomes.
fn recorded_with(log: &[Entry], kind: &str, evaluated: &Value) -> Vec<Entry> {
    let place = log.iter().position(|entry| entry.event.kind() == kind).expect("such an event");
    let mut log = log[..=place].to_vec();
    let event = &mut log[place].event;
    let mut payload = event.payload();
    payload["evaluated"] = evaluated.clone();
    *event = Event::read(kind, event.node_id().cloned(), payload);
    log
}

fn fold(played: &Played, log: &[Entry]) -> Run {
    Run::replay(Arc::clone(played.run.birth()), Arc::clone(played.run.plan()), log)
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

/// An edge that is followed today where its source put out three.
fn conditional() -> Given {
    let condition = json!({ "type": "expression", "expression": "n > 2" });
    given("a:ai t:noop").edges("a>t").edge(0, json!({ "condition": condition }))
}

fn with_port(expression: &str) -> Given {
    given("a:ai").ports("a", json!({ "x": { "type": "expression", "expression": expression } }))
}

#[test]
fn an_edge_is_followed_if_it_was_when_it_was_recorded() {
    let done = |n: u32| [(0, Do::Start), (1, Do::Done("a", json!({ "n": n })))];
    for (n, today, other) in [(3, "node.started t", false), (1, "node.skipped t", true)] {
        let played = play(&conditional(), &done(n));
        assert!(played.lines.iter().any(|line| line == today), "{:?}", played.lines);
        let evaluated = json!({ "values": { "0": other }, "work": 1 });
        let log = recorded_with(&played.log, "node.completed", &evaluated);
        let told = fold(&played, &log).decide(&Command::Continue, at(2)).expect("it goes on");
        assert!(!lines(&told).iter().any(|line| line == today), "{:?}", lines(&told));
    }
}

#[test]
fn a_port_holds_what_it_held_when_it_was_recorded() {
    for expression in ["1 + 1", "nobody(1)"] {
        let played = play(&with_port(expression), &[(0, Do::Start)]);
        let evaluated = json!({ "values": { "x": ["of", "old"] }, "work": 1 });
        let log = recorded_with(&played.log, "node.started", &evaluated);
        let task = fold(&played, &log).tasks().next().expect("a is owed");
        assert_eq!(Value::Object(task.inputs), json!({ "x": ["of", "old"] }));
    }
}

#[test]
fn what_could_not_be_evaluated_cannot_be_later() {
    let played = play(&with_port("1 + 1"), &[(0, Do::Start)]);
    let failure = json!({ "code": "expression_error", "message": "of old" });
    let evaluated = json!({ "failure": failure, "work": 1 });
    let log = recorded_with(&played.log, "node.started", &evaluated);
    let mut run = fold(&played, &log);
    assert_eq!(run.tasks().count(), 0);
    let told = run.decide(&Command::Continue, at(2)).expect("it goes on");
    assert_eq!(told[0].event.payload()["error"], failure, "{:?}", lines(&told));
}

/// A replay tells what its source told, also where today's build would follow another edge.
#[test]
fn a_replay_keeps_what_its_source_recorded() {
    let steps = [(0, Do::Start), (1, Do::Done("a", json!({ "n": 3 })))];
    let played = play(&conditional(), &steps);
    let evaluated = json!({ "values": { "0": false }, "work": 1 });
    let mut log = recorded_with(&played.log, "node.completed", &evaluated);
    log.extend(fold(&played, &log).decide(&Command::Continue, at(2)).expect("it goes on"));
    let birth = Birth {
        run_id: "run-2".into(),
        fork: Some(Fork::of(played.run.birth(), ForkMode::Replay, 0, log.len() as u64)),
        ..Birth::clone(played.run.birth())
    };
    let mut replay = Run::new(Arc::new(birth), Arc::clone(played.run.plan())).with_source(&log);
    let told = replay.decide(&Command::Continue, at(9)).expect("it goes on");
    assert_eq!(lines(&told), lines(&log));
    assert!(lines(&log).iter().any(|line| line == "node.skipped t"), "{:?}", lines(&log));
}

/// Only the fold sees it, and values that nothing was evaluated for are not kept twice.
#[test]
fn readers_do_not_see_what_was_recorded() {
    let flow = conditional().ports(
        "a",
        json!({ "x": { "type": "expression", "expression": "[1]" },
        "y": { "type": "static", "value": 2 } }),
    );
    let played = play(&flow, &[(0, Do::Start), (1, Do::Done("a", json!({ "n": 3 })))]);
    let kept: Vec<&Entry> = played
        .log
        .iter()
        .filter(|entry| entry.event.payload().get("evaluated").is_some())
        .collect();
    assert_eq!(
        lines(&kept.iter().copied().cloned().collect::<Vec<_>>()),
        ["node.started a", "node.completed a"]
    );
    assert_eq!(kept[0].event.payload()["evaluated"]["values"], json!({ "x": [1] }));
    assert_eq!(kept[1].event.payload()["evaluated"]["values"], json!({ "0": true }));
    for entry in kept {
        let mut payload = entry.event.payload();
        payload.as_object_mut().expect("fields").remove("evaluated");
        assert_eq!(played.run.masked(&entry.event), Some(payload));
    }
}
