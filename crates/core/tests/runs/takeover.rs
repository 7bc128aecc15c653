//! A new holder goes on where another was lost.

use callboard_protocol::DrainPolicy;
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{check, check_within, play};

/// A run that nobody has begun is simply begun.
#[test]
fn adopting_a_pending_run_starts_it() {
    check(
        &given("n:noop"),
        &[(0, Do::Adopt)],
        &["run.started", "node.started n", "node.completed n", "run.completed"],
    );
}

/// A delay goes on with what is left of it; an activity starts again as a new attempt.
#[test]
fn a_delay_goes_on_and_an_activity_starts_again() {
    let flow = given("a:ai w:delay").config("w", json!({ "ms": 1_000 }));
    let steps = [(0, Do::Start), (600, Do::Adopt)];
    let expected =
        ["run.started", "node.started a", "node.started w", "run.resumed", "node.started a #1"];
    let mut played = check(&flow, &steps, &expected);
    assert_eq!(played.run.wakes_at(), Some(at(1_000)));
    assert_eq!(played.attempt("a").number, 1);
    played.step(1_000, &Do::Continue);
    assert_eq!(played.lines.last().expect("lines"), "node.completed w");
}

/// The old holder's answer comes too late.
#[test]
fn the_lost_holders_answer_is_stale() {
    let mut played = play(&given("a:ai"), &[(0, Do::Start)]);
    let old = played.attempt("a");
    played.step(1, &Do::Adopt);
    let outcome = callboard_core::Outcome::Done { outputs: callboard_protocol::Object::new() };
    let finish = callboard_core::Command::Finish { attempt: old.clone(), outcome };
    let refusal = played.run.decide(&finish, at(2)).expect_err("stale");
    assert_eq!(refusal, callboard_core::Refusal::StaleAttempt { attempt: old.clone() });
    let tell =
        callboard_core::Command::RecordFacts { attempt: old, facts: vec![crate::story::chunk(0)] };
    assert!(played.run.decide(&tell, at(2)).is_err());
}

/// A takeover is no failure: the retries are still there.
#[test]
fn a_takeover_does_not_use_up_retries() {
    let flow = given("a:ai").top(json!({ "settings": { "maxRetries": 1 } }));
    let steps = [(0, Do::Start), (1, Do::Adopt), (2, Do::Failed("a", "x")), (1_002, Do::Continue)];
    check_within(
        &flow,
        &steps,
        &["node.started a #1", "node.retried a #2 +1000", "node.started a #2"],
    );
}

/// A node that waits to be tried again keeps its time.
#[test]
fn a_retry_keeps_its_time_over_a_takeover() {
    let flow = given("a:ai").top(json!({ "settings": { "maxRetries": 1 } }));
    let played = play(&flow, &[(0, Do::Start), (1, Do::Failed("a", "x")), (500, Do::Adopt)]);
    assert_eq!(played.run.wakes_at(), Some(at(1_001)));
    assert_eq!(played.lines.last().expect("lines"), "run.resumed");
}

/// A paused run stays paused whoever holds it.
#[test]
fn a_takeover_of_a_paused_run_says_nothing() {
    let steps = [(0, Do::Start), (1, Do::Pause(DrainPolicy::Immediate)), (2, Do::Adopt)];
    let played = play(&given("a:ai"), &steps);
    assert_eq!(played.lines.last().expect("lines"), "run.paused");
}

/// A drain that was under way ends with the lost activities.
#[test]
fn a_takeover_completes_a_drain() {
    let steps = [(0, Do::Start), (1, Do::Pause(DrainPolicy::DrainCurrentNode)), (2, Do::Adopt)];
    check_within(
        &given("a:ai"),
        &steps,
        &["callboard.pause.requested", "run.resumed", "run.paused"],
    );
}

#[test]
fn a_run_starts_once() {
    check_within(&given("a:ai"), &[(0, Do::Start), (1, Do::Start)], &["refused: started"]);
}
