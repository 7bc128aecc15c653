//! Cancelling a run in each of its states.

use callboard_protocol::{DrainPolicy, RunStatus};
use serde_json::json;

use crate::given::{Do, given};
use crate::story::{check, check_within, play};

/// A run that has not begun is started and ended in one append.
#[test]
fn a_pending_run_is_cancelled_at_once() {
    let played = check(&given("a:noop"), &[(5, Do::Cancel)], &["run.started", "run.cancelled"]);
    assert_eq!(played.payload("run.cancelled"), json!({ "reason": "enough", "durationMs": 0 }));
    assert_eq!(played.run.status(), RunStatus::Cancelled);
}

/// What runs is stopped first; a late answer is refused.
#[test]
fn a_running_run_stops_its_nodes_first() {
    let flow = given("a:ai w:delay").config("w", json!({ "ms": 9_000 }));
    let steps = [(0, Do::Start), (5, Do::Cancel), (6, Do::Done("a", json!({}))), (7, Do::Continue)];
    let expected = [
        "run.started",
        "node.started a",
        "node.started w",
        "callboard.cancel.requested",
        "node.cancelled a",
        "node.cancelled w",
        "run.cancelled",
        "refused: ended cancelled",
        "refused: ended cancelled",
    ];
    let played = check(&flow, &steps, &expected);
    assert_eq!(played.payload("run.cancelled")["durationMs"], 5);
    assert_eq!((played.run.tasks().count(), played.run.wakes_at()), (0, None));
}

/// Cancelling twice is harmless: the second finds it ended.
#[test]
fn a_second_cancel_finds_the_run_ended() {
    let steps = [(0, Do::Start), (1, Do::Cancel), (2, Do::Cancel)];
    check_within(&given("a:ai"), &steps, &["run.cancelled", "refused: ended cancelled"]);
}

/// A paused run can be cancelled too, with or without nodes in the middle of something.
#[test]
fn a_paused_run_is_cancelled() {
    let paused = Do::Pause(DrainPolicy::Immediate);
    let steps = [(0, Do::Start), (10, paused.clone()), (5_000, Do::Cancel)];
    let expected = [
        "run.started",
        "node.started a",
        "run.paused",
        "callboard.cancel.requested",
        "node.cancelled a",
        "run.cancelled",
    ];
    let played = check(&given("a:ai"), &steps, &expected);
    assert_eq!(played.payload("run.cancelled")["durationMs"], 10, "a pause does not count");
    assert_eq!(played.run.status(), RunStatus::Cancelled);
    let steps = [(0, paused), (5_000, Do::Cancel)];
    let played = check(&given("a:ai"), &steps, &["run.started", "run.paused", "run.cancelled"]);
    assert_eq!(played.payload("run.cancelled")["durationMs"], 0);
}

/// Nodes that wait to be tried again are stopped like the rest.
#[test]
fn a_node_between_attempts_is_cancelled() {
    let flow = given("a:ai").top(json!({ "settings": { "maxRetries": 3 } }));
    let steps = [(0, Do::Start), (1, Do::Failed("a", "x")), (2, Do::Cancel)];
    check_within(&flow, &steps, &["node.retried a #1 +1000", "node.cancelled a", "run.cancelled"]);
}

/// A cancel goes before a drain that is under way.
#[test]
fn a_cancel_ends_a_drain() {
    let steps = [(0, Do::Start), (1, Do::Pause(DrainPolicy::DrainCurrentNode)), (2, Do::Cancel)];
    let played =
        check_within(&given("a:ai"), &steps, &["callboard.pause.requested", "run.cancelled"]);
    assert_eq!(played.count("run.paused"), 0);
}

/// An ended run refuses everything, and says how it ended.
#[test]
fn an_ended_run_refuses_every_command() {
    let flow = given("n:noop");
    for step in [
        Do::Start,
        Do::Adopt,
        Do::Continue,
        Do::Done("n", json!({})),
        Do::Chunks("n", &[0]),
        Do::Cancel,
        Do::Pause(DrainPolicy::Immediate),
        Do::Resume,
        Do::Answer("n", json!({})),
        Do::Write("c", json!(1), None),
        Do::SetVariables(json!({ "x": 1 })),
    ] {
        let played = play(&flow, &[(0, Do::Start), (1, step.clone())]);
        assert_eq!(played.lines.last().expect("lines"), "refused: ended completed", "{step:?}");
    }
}
