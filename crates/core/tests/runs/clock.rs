//! Time as an argument: delays, and a clock that jumps (F5).

use callboard_core::{Command, Entry};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::{check_within, play};

/// F5: the run is running meanwhile and completes when the time has come.
#[test]
fn f5_a_delay_takes_its_time() {
    let flow = given("w:delay").config("w", json!({ "durationMs": 500 }));
    let mut played = play(&flow, &[(0, Do::Start), (499, Do::Continue)]);
    assert_eq!(played.run.status().as_str(), "running");
    assert_eq!((played.run.wakes_at(), played.run.head().wake_at), (Some(at(500)), Some(at(500))));
    played.step(500, &Do::Continue);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert_eq!(played.payload("node.completed")["durationMs"], 500);
}

/// F5: the port goes before the configuration, whose names have an order.
#[test]
fn f5_where_a_delay_takes_its_length_from() {
    let length = |flow: &Given| {
        let played = play(flow, &[(0, Do::Start)]);
        played.run.wakes_at().map(|wakes| wakes.as_millis() - at(0).as_millis())
    };
    let flow = given("w:delay").config("w", json!({ "durationMs": 20, "ms": 30, "delayMs": 40 }));
    let port = flow.clone().ports("w", json!({ "delayMs": { "type": "static", "value": 10 } }));
    assert_eq!(length(&port), Some(10));
    assert_eq!(length(&flow), Some(20));
    assert_eq!(length(&given("w:delay").config("w", json!({ "ms": 30, "delayMs": 40 }))), Some(30));
    assert_eq!(length(&given("w:delay").config("w", json!({ "delayMs": 40 }))), Some(40));
    assert_eq!(length(&given("w:delay").config("w", json!({ "ms": 7.9 }))), Some(7));
    assert_eq!(length(&given("w:delay")), None, "no delay at all");
}

/// F5: as the fixture does it, from a variable with a default that the caller may override.
#[test]
fn f5_a_delay_from_a_variable() {
    let flow = given("w:delay")
        .top(json!({ "variables": [{ "name": "delayMs", "type": "number", "required": true, "defaultValue": 1000 }] }))
        .ports("w", json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } }));
    check_within(&flow, &[(0, Do::Start), (1_000, Do::Continue)], &["run.completed"]);
    assert_eq!(play(&flow, &[(0, Do::Start)]).run.wakes_at(), Some(at(1_000)));
    let shorter = flow.inputs(json!({ "delayMs": 0 }));
    check_within(&shorter, &[(0, Do::Start)], &["run.completed"]);
}

#[test]
fn f5_a_delay_that_is_no_length_of_time_fails() {
    for value in [json!(-1), json!("soon"), json!(31_536_000_001_u64), Value::Null, json!([1])] {
        let flow = given("w:delay").config("w", json!({ "ms": value }));
        check_within(&flow, &[(0, Do::Start)], &["node.failed w validation_error"]);
    }
}

/// A clock that jumps back makes neither the log go back nor a timer fire early.
#[test]
fn a_clock_that_jumps_back_does_not_turn_the_log() {
    let flow = given("a:ai w:delay").config("w", json!({ "ms": 100 }));
    let steps = [
        (1_000, Do::Start),
        (400, Do::Done("a", json!({}))),
        (900, Do::Continue),
        (1_099, Do::Continue),
        (1_100, Do::Continue),
    ];
    let played =
        check_within(&flow, &steps, &["node.completed a", "node.completed w", "run.completed"]);
    let times: Vec<i64> =
        played.log.iter().map(|entry| entry.at.as_millis() - at(0).as_millis()).collect();
    assert_eq!(times, [1_000, 1_000, 1_000, 1_000, 1_100, 1_100]);
}

/// A clock behind the run's birth is the birth's time; one far ahead saturates.
#[test]
fn absurd_clocks_are_survived() {
    for now in [i64::MIN, i64::MAX] {
        let mut run = given("n:noop").run();
        let now = callboard_protocol::Timestamp::from_millis(now);
        let log: Vec<Entry> = run.decide(&Command::Start, now).expect("starts");
        assert_eq!(log.len(), 4);
        assert!(log.iter().all(|entry| entry.at >= at(0)));
    }
}
