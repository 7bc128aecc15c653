//! Pausing at once or after a drain, and going on.

use std::sync::Arc;

use callboard_core::{Command, Run};
use callboard_protocol::DrainPolicy;
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{check, check_within, line, play};

const NOW: Do = Do::Pause(DrainPolicy::Immediate);
const DRAIN: Do = Do::Pause(DrainPolicy::DrainCurrentNode);

/// At once: what runs is stopped where it is, and starts afresh with its full duration.
#[test]
fn an_immediate_pause_stops_and_resume_starts_afresh() {
    let flow = given("w:delay").config("w", json!({ "ms": 1_000 }));
    let steps = [
        (0, Do::Start),
        (900, NOW),
        (5_000, Do::Continue),
        (6_000, Do::Resume),
        (6_999, Do::Continue),
        (7_000, Do::Continue),
    ];
    let expected = [
        "run.started",
        "node.started w",
        "run.paused",
        "run.resumed",
        "node.started w #1",
        "node.completed w",
        "run.completed",
    ];
    let played = check(&flow, &steps, &expected);
    assert_eq!(played.log.last().expect("a log").at, at(7_000));
    assert_eq!(played.payload("run.completed")["durationMs"], 1_900);
}

/// While paused nothing is owed; the answer of a stopped attempt is stale.
#[test]
fn a_paused_run_owes_nothing_and_takes_no_late_answer() {
    let steps = [(0, Do::Start), (1, NOW), (2, Do::Done("a", json!({})))];
    let played = check_within(&given("a:ai"), &steps, &["run.paused", "refused: stale a"]);
    assert_eq!(played.run.attempts().count(), 0);
    assert_eq!(played.run.head().wake_at, None);
    let again = play(&given("a:ai"), &[(0, Do::Start), (1, NOW), (2, Do::Resume)]);
    assert_eq!(again.attempt("a").number, 1);
}

/// Draining: what runs reaches its end, nothing new starts, then the run is paused.
#[test]
fn a_drain_waits_for_what_runs() {
    let flow = given("a:ai b:noop").edges("a>b");
    let steps = [(0, Do::Start), (1, DRAIN), (2, Do::Done("a", json!({}))), (3, Do::Resume)];
    let expected = [
        "run.started",
        "node.started a",
        "callboard.pause.requested",
        "node.completed a",
        "run.paused",
        "run.resumed",
        "node.started b",
        "node.completed b",
        "run.completed",
    ];
    let played = check(&flow, &steps, &expected);
    assert_eq!(played.payload("run.paused")["drainPolicy"], "drain-current-node");
    let draining = play(&flow, &steps[..2]);
    assert_eq!(draining.run.status().as_str(), "running");
    assert_eq!(draining.run.tasks().count(), 1, "the drained node is still owed");
}

/// A delay drains to its end on its own clock.
#[test]
fn a_drain_waits_for_a_delay() {
    let flow = given("w:delay n:noop").edges("w>n").config("w", json!({ "ms": 100 }));
    let steps = [(0, Do::Start), (1, DRAIN)];
    let mut played = play(&flow, &steps);
    assert_eq!(played.run.wakes_at(), Some(at(100)));
    played.step(100, &Do::Continue);
    assert_eq!(played.lines[3..], ["node.completed w", "run.paused"]);
}

/// With nothing running a drain has nothing to wait for.
#[test]
fn a_drain_of_an_idle_run_pauses_at_once() {
    check(&given("a:ai"), &[(0, DRAIN)], &["run.started", "run.paused"]);
    let flow = given("a:ai").top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [(0, Do::Start), (1, Do::Failed("a", "x")), (2, DRAIN), (9_000, Do::Resume)];
    check_within(&flow, &steps, &["run.paused", "run.resumed", "node.started a #1"]);
}

/// A drained attempt that fails retryably is not tried again before the resume.
#[test]
fn a_drain_does_not_wait_for_retries() {
    let flow = given("a:ai").top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [(0, Do::Start), (1, DRAIN), (2, Do::Failed("a", "x"))];
    let played = check_within(&flow, &steps, &["node.retried a #1 +1000", "run.paused"]);
    assert_eq!(played.count("node.started"), 1);
}

/// A second pause is refused with the status that stands in its way.
#[test]
fn a_second_pause_is_refused() {
    let paused = [(0, Do::Start), (1, NOW), (2, DRAIN)];
    check_within(&given("a:ai"), &paused, &["refused: cannot pause paused since a time"]);
    let draining = [(0, Do::Start), (1, DRAIN), (2, NOW)];
    check_within(&given("a:ai"), &draining, &["refused: the run is being paused already"]);
}

#[test]
fn only_a_paused_run_resumes() {
    check(&given("a:ai"), &[(0, Do::Resume)], &["refused: pending is not paused"]);
    check_within(
        &given("a:ai"),
        &[(0, Do::Start), (1, Do::Resume)],
        &["refused: running is not paused"],
    );
}

/// Pausing again after a resume works as the first time.
#[test]
fn pauses_add_up() {
    let flow = given("w:delay").config("w", json!({ "ms": 100 }));
    let steps = [
        (0, Do::Start),
        (10, NOW),
        (20, Do::Resume),
        (30, NOW),
        (50, Do::Resume),
        (150, Do::Continue),
    ];
    let played = check_within(&flow, &steps, &["node.started w #2", "run.completed"]);
    assert_eq!(played.payload("run.completed")["durationMs"], 120);
}

/// A batch that was cut between a write and its node's end, and then paused: what was written counts.
#[test]
fn a_write_is_not_repeated_by_a_fresh_attempt() {
    let flow = given("s:setVariable")
        .config("s", json!({ "name": "n" }))
        .ports("s", json!({ "value": { "type": "expression", "expression": "n + 1" } }))
        .inputs(json!({ "n": 0 }));
    let whole = play(&flow, &[(0, Do::Start)]);
    let cut = &whole.log[..3];
    assert_eq!(whole.lines[2], "variable.changed n 1");
    let mut run = Run::replay(Arc::clone(whole.run.birth()), Arc::clone(whole.run.plan()), cut);
    let pause = Command::Pause { drain: DrainPolicy::Immediate, reason: None };
    run.decide(&pause, at(1)).expect("pauses");
    let entries = run.decide(&Command::Resume { reason: None }, at(2)).expect("resumes");
    let told: Vec<String> = entries.iter().map(|entry| line(&entry.event)).collect();
    assert_eq!(told, ["run.resumed", "node.started s #1", "node.completed s", "run.completed"]);
    assert_eq!(entries[2].event.payload()["outputs"], json!({ "value": 1 }));
}
