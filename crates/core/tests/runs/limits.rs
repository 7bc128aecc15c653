//! The bounds of a run: executions, duration, and the size of one decision (F49–F51).

use callboard_protocol::DrainPolicy;
use serde_json::json;

use crate::given::{Do, Given, at, given};
use crate::story::{check, check_within, play};

fn six() -> Given {
    given("n1:noop n2:noop n3:noop n4:noop n5:noop n6:noop").edges("n1>n2 n2>n3 n3>n4 n4>n5 n5>n6")
}

/// F49: one breach, before the node that would go over; then the run fails.
#[test]
fn f49_the_node_over_the_limit_never_starts() {
    let played = check_within(
        &six().most_executions(3),
        &[(0, Do::Start)],
        &[
            "node.completed n3",
            "cap.breached NodeExecutions 3",
            "run.failed recursion_limit_exceeded",
        ],
    );
    assert_eq!(played.count("node.started"), 3);
    let breach = played.payload("cap.breached");
    assert_eq!(
        breach,
        json!({ "kind": "node-executions", "limit": 3, "observed": 4, "nodeId": "n4" })
    );
    assert_eq!(played.snapshot().error.expect("an error").code, "recursion_limit_exceeded");
}

/// F50: the same definition within its limit completes.
#[test]
fn f50_a_limit_that_is_reached_exactly_is_not_broken() {
    let played = check_within(&six().most_executions(6), &[(0, Do::Start)], &["run.completed"]);
    assert_eq!(played.count("cap.breached"), 0);
}

/// F49: a breach stops what else is running.
#[test]
fn f49_a_breach_cancels_what_still_runs() {
    let flow = given("a:ai b:noop c:noop").edges("b>c").most_executions(2);
    let expected = [
        "run.started",
        "node.started a",
        "node.started b",
        "node.completed b",
        "cap.breached NodeExecutions 2",
        "node.cancelled a",
        "run.failed recursion_limit_exceeded",
    ];
    check(&flow, &[(0, Do::Start)], &expected);
}

/// F49: retries start too, so they count.
#[test]
fn f49_attempts_count() {
    let flow = given("f:fail")
        .config("f", json!({ "retryable": true }))
        .top(json!({ "settings": { "maxRetries": 9 } }))
        .most_executions(2);
    let steps = [(0, Do::Start), (1_000, Do::Continue), (3_000, Do::Continue)];
    let played = check_within(&flow, &steps, &["cap.breached NodeExecutions 2"]);
    assert_eq!(played.count("node.started"), 2);
}

fn slow() -> Given {
    given("wait:delay").config("wait", json!({ "durationMs": 30_000 })).most_millis(1_000)
}

/// F51: the deadline wakes the run, which fails with what it observed beyond the limit.
#[test]
fn f51_a_run_that_takes_too_long_fails() {
    let played = play(&slow(), &[(0, Do::Start), (999, Do::Continue)]);
    assert_eq!(played.lines.last().expect("lines"), "node.started wait");
    assert_eq!(played.run.wakes_at(), Some(at(1_000)));
    let expected = [
        "run.started",
        "node.started wait",
        "cap.breached RunDuration 1000",
        "node.cancelled wait",
        "run.failed run_timeout",
    ];
    let played = check(&slow(), &[(0, Do::Start), (1_000, Do::Continue)], &expected);
    let breach = played.payload("cap.breached");
    assert!(breach["observed"].as_u64() > breach["limit"].as_u64(), "{breach}");
    assert_eq!(breach.get("nodeId"), None);
}

/// F51: time spent paused does not count.
#[test]
fn f51_a_pause_stops_the_clock() {
    let steps = [
        (0, Do::Start),
        (400, Do::Pause(DrainPolicy::Immediate)),
        (100_400, Do::Resume),
        (100_999, Do::Continue),
    ];
    let mut played = play(&slow(), &steps);
    assert_eq!(played.lines.last().expect("lines"), "node.started wait #1");
    assert_eq!(played.run.wakes_at(), Some(at(101_000)));
    played.step(101_000, &Do::Continue);
    assert_eq!(played.lines.last().expect("lines"), "run.failed run_timeout");
    assert_eq!(played.payload("run.failed")["durationMs"], 1_000);
}

/// A paused run does not time out, however long it is left.
#[test]
fn f51_a_paused_run_does_not_time_out() {
    let steps = [(0, Do::Start), (1, Do::Pause(DrainPolicy::Immediate)), (9_999_999, Do::Continue)];
    let played = play(&slow(), &steps);
    assert_eq!(played.lines.last().expect("lines"), "run.paused");
    assert_eq!(played.run.wakes_at(), None);
}

/// One decision is bounded; what is left is owed, and a wake time says so.
#[test]
fn a_long_chain_is_cut_and_owes_the_rest() {
    let nodes: Vec<String> = (0..200).map(|place| format!("n{place:03}:noop")).collect();
    let edges: Vec<String> =
        (1..200).map(|place| format!("n{:03}>n{place:03}", place - 1)).collect();
    let flow = given(&nodes.join(" ")).edges(&edges.join(" "));
    let mut played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.log.len(), 256);
    assert_eq!(played.run.wakes_at(), Some(at(0)));
    played.step(1, &Do::Continue);
    assert_eq!(played.log.len(), 402);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert_eq!(played.run.wakes_at(), None);
}
