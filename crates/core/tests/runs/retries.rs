//! Failed attempts: what is tried again, when, and how attempts are numbered.

use callboard_protocol::{Event, StreamTier};
use serde_json::json;

use crate::given::{Do, Given, at, given};
use crate::story::{check, check_within, play};

fn retried(times: u32) -> Given {
    given("a:ai").top(json!({ "settings": { "maxRetries": times } }))
}

/// A retryable failure is told, waited for and tried again, with doubling waits.
#[test]
fn a_retryable_failure_is_tried_again_later() {
    let steps = [
        (0, Do::Start),
        (10, Do::Failed("a", "busy")),
        (1_009, Do::Continue),
        (1_010, Do::Continue),
        (1_020, Do::Failed("a", "busy")),
        (3_020, Do::Continue),
        (3_030, Do::Done("a", json!({ "ok": 1 }))),
    ];
    let expected = [
        "run.started",
        "node.started a",
        "node.retried a #1 +1000",
        "node.started a #1",
        "node.retried a #2 +2000",
        "node.started a #2",
        "node.completed a",
        "run.completed",
    ];
    let played = check(&retried(2), &steps, &expected);
    assert_eq!(played.snapshot().node_states[&"a".into()].attempts, 3);
    let waiting = play(&retried(2), &steps[..2]);
    assert_eq!(waiting.run.wakes_at(), Some(at(1_010)));
    assert_eq!(waiting.run.tasks().count(), 0);
}

/// When the policy is used up the node fails, and the run is given up with it: both say how often it was tried.
#[test]
fn the_last_retry_fails_the_node() {
    let steps = [
        (0, Do::Start),
        (0, Do::Failed("a", "one")),
        (1_000, Do::Continue),
        (1_000, Do::Failed("a", "two")),
    ];
    let end = ["node.failed a two", "run.dead_lettered a", "run.failed two"];
    let played = check_within(&retried(1), &steps, &end);
    assert_eq!(played.payload("node.failed")["attempts"], 2);
    assert_eq!(Event::tier_of("run.dead_lettered"), StreamTier::Debug);
    let told = played.payload("run.dead_lettered");
    assert_eq!((&told["reason"], &told["attempts"]), (&json!("two"), &json!(2)));
    assert_eq!(played.payload("node.retried")["lastError"]["code"], "one");
}

#[test]
fn a_final_failure_is_not_tried_again() {
    let steps = [(0, Do::Start), (1, Do::FailedForGood("a", "bad"))];
    check_within(&retried(5), &steps, &["node.failed a bad", "run.failed bad"]);
    check_within(&retried(0), &[(0, Do::Start), (1, Do::Failed("a", "x"))], &["run.failed x"]);
    let played = check_within(
        &given("a:ai"),
        &[(0, Do::Start), (1, Do::Failed("a", "x"))],
        &["run.failed x"],
    );
    assert_eq!(played.count("run.dead_lettered"), 0, "nothing was tried again");
}

/// A failure that the workflow itself takes care of is nobody's dead letter.
#[test]
fn a_run_that_goes_on_is_not_given_up() {
    let flow = given("a:ai b:noop")
        .edges("a>b:all_complete")
        .top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [
        (0, Do::Start),
        (0, Do::Failed("a", "one")),
        (1_000, Do::Continue),
        (1_000, Do::Failed("a", "two")),
    ];
    let played = check_within(&flow, &steps, &["node.failed a two", "run.completed"]);
    assert_eq!(played.count("run.dead_lettered"), 0);
}

/// A node's own policy goes before the workflow's.
#[test]
fn a_nodes_own_policy_wins() {
    let flow = retried(5).node("a", json!({ "settings": { "maxRetries": 0 } }));
    check_within(&flow, &[(0, Do::Start), (1, Do::Failed("a", "x"))], &["node.failed a x"]);
    let flow = retried(0).node("a", json!({ "settings": { "maxRetries": 1 } }));
    check_within(&flow, &[(0, Do::Start), (1, Do::Failed("a", "x"))], &["node.retried a #1 +1000"]);
}

/// `core.fail` can fail retryably too.
#[test]
fn an_intended_failure_may_be_retryable() {
    let flow = given("f:fail")
        .config("f", json!({ "retryable": true, "code": "flaky" }))
        .top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [(0, Do::Start), (1_000, Do::Continue)];
    let expected = [
        "run.started",
        "node.started f",
        "node.retried f #1 +1000",
        "node.started f #1",
        "node.failed f flaky",
        "run.dead_lettered f",
        "run.failed flaky",
    ];
    check(&flow, &steps, &expected);
}

/// While one node waits to be tried again the others go on; the run does not end before it.
#[test]
fn the_rest_of_the_run_goes_on_meanwhile() {
    let flow = given("a:ai b:ai").top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [(0, Do::Start), (1, Do::Failed("a", "x")), (2, Do::Done("b", json!({})))];
    let mut played = check_within(&flow, &steps, &["node.retried a #1 +1000", "node.completed b"]);
    assert_eq!(played.count("run.completed"), 0);
    played.step(1_001, &Do::Continue);
    played.step(1_002, &Do::Done("a", json!({})));
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
}

/// Each round of a loop has its own retries and numbers its attempts from zero.
#[test]
fn a_new_visit_starts_counting_again() {
    let flow = given("l:loop a:ai")
        .edges("l>a a>l")
        .config("l", json!({ "count": 2 }))
        .top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [
        (0, Do::Start),
        (0, Do::Failed("a", "x")),
        (1_000, Do::Continue),
        (1_000, Do::Done("a", json!({}))),
        (1_000, Do::Failed("a", "x")),
        (2_000, Do::Continue),
        (2_000, Do::Done("a", json!({}))),
    ];
    let expected = [
        "node.started a",
        "node.retried a #1 +1000",
        "node.started a #1",
        "node.started a v1",
        "node.retried a #1 +1000",
        "node.started a v1 #1",
        "run.completed",
    ];
    check_within(&flow, &steps, &expected);
}
