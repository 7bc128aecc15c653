//! `channel-write` triggers: firing, debounce, and no feedback (F24).

use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{check, check_within, play};

fn triggered(flow: Given, config: Value) -> Given {
    flow.top(json!({
        "channels": { "c": { "reducer": "append" } },
        "triggers": [{ "id": "t", "type": "channel-write", "nodeId": "t", "config": config }],
    }))
}

fn write(flow: Given, node: &str, value: i64) -> Given {
    flow.config(node, json!({ "channelName": "c", "value": value }))
}

/// F24: the node does not start with the run; a write starts it.
#[test]
fn f24_a_write_fires_the_node() {
    let flow = write(
        triggered(given("w:channelWrite t:noop u:noop").edges("t>u"), json!({ "channel": "c" })),
        "w",
        1,
    );
    let expected = [
        "run.started",
        "node.started w",
        "channel.written c 1",
        "node.completed w",
        "node.started t",
        "node.completed t",
        "node.started u",
        "node.completed u",
        "run.completed",
    ];
    check(&flow, &[(0, Do::Start)], &expected);
}

/// Without a write the node is passed over, with what hangs on it.
#[test]
fn f24_without_a_write_the_node_is_skipped() {
    let flow = triggered(given("a:noop t:noop").edges(""), json!({ "channel": "c" }));
    check_within(
        &flow,
        &[(0, Do::Start)],
        &["node.completed a", "node.skipped t", "run.completed"],
    );
}

/// Each write fires it again, with a visit of its own.
#[test]
fn f24_every_write_fires_once_more() {
    let flow = triggered(
        given("w:channelWrite x:channelWrite t:noop").edges("w>x"),
        json!({ "channel": "c" }),
    );
    let flow = write(write(flow, "w", 1), "x", 2);
    let slow = flow.clone().node("t", json!({ "typeId": "core.ai.callPrompt" }));
    let steps = [(0, Do::Start), (5, Do::Done("t", json!({}))), (6, Do::Done("t", json!({})))];
    let played = check_within(&slow, &steps[..2], &["node.started t"]);
    assert_eq!(
        played.count("run.completed"),
        1,
        "two writes before it started are one firing: {:#?}",
        played.lines
    );
    let apart = given("w:channelWrite p:ai x:channelWrite t:ai").edges("w>p p>x");
    let apart = write(write(triggered(apart, json!({ "channel": "c" })), "w", 1), "x", 2);
    let steps = [
        (0, Do::Start),
        (1, Do::Done("p", json!({}))),
        (2, Do::Done("t", json!({ "n": 1 }))),
        (3, Do::Done("t", json!({ "n": 2 }))),
    ];
    let expected = ["node.started t", "channel.written c 2", "node.started t v1", "run.completed"];
    check_within(&apart, &steps, &expected);
}

/// A firing that must wait for the one before it asks nobody to wake it: the end of that one does.
#[test]
fn f24_a_firing_that_waits_for_its_node_does_not_spin() {
    let flow = given("w:channelWrite p:ai x:channelWrite t:ai").edges("w>p p>x");
    let flow = write(write(triggered(flow, json!({ "channel": "c" })), "w", 1), "x", 2);
    let played = play(&flow, &[(0, Do::Start), (1, Do::Done("p", json!({})))]);
    let wakes = played.run.wakes_at().expect("the deadline");
    assert!(wakes > crate::given::at(1), "{wakes} is over already");
}

/// A write during a firing is not lost, however that firing ends.
#[test]
fn f24_a_write_during_a_failing_firing_fires_again() {
    let flow = given("w:channelWrite p:ai x:channelWrite t:ai").edges("w>p p>x");
    let flow = write(write(triggered(flow, json!({ "channel": "c" })), "w", 1), "x", 2);
    let steps = [
        (0, Do::Start),
        (1, Do::Done("p", json!({}))),
        (2, Do::FailedForGood("t", "bad")),
        (3, Do::Done("t", json!({}))),
    ];
    check_within(&flow, &steps, &["node.failed t bad", "node.started t v1", "run.completed"]);
}

/// A firing inside a loop's body re-opens that part; the loop turns when all of it has ended again.
#[test]
fn f24_a_firing_inside_a_loop_comes_to_rest_before_the_loop_turns() {
    let flow = given("h:noop t:ai u:noop w:channelWrite")
        .edges("h>t t>u u>h")
        .top(json!({ "settings": { "maxLoopbackIterations": 1 } }));
    let flow = write(triggered(flow, json!({ "channel": "c", "debounceMs": 5 })), "w", 1);
    let steps = [
        (0, Do::Start),
        (5, Do::Continue),
        (9, Do::Done("t", json!({}))),
        (10, Do::Done("t", json!({}))),
        (11, Do::Done("t", json!({}))),
        (12, Do::Done("t", json!({}))),
    ];
    let played = play(&flow, &steps);
    let ended = played.lines.iter().any(|line| line == "run.completed");
    assert!(ended, "{:#?}", played.lines);
    let completed = played.lines.iter().filter(|line| *line == "node.completed t").count();
    assert_eq!(
        completed,
        played.lines.iter().filter(|line| line.starts_with("node.started t")).count()
    );
}

/// F24: debounce waits for quiet; each write begins the wait again.
#[test]
fn f24_debounce_waits_for_quiet() {
    let flow = given("w:channelWrite p:delay x:channelWrite t:noop")
        .edges("w>p p>x")
        .config("p", json!({ "ms": 50 }));
    let flow =
        write(write(triggered(flow, json!({ "channel": "c", "debounceMs": 100 })), "w", 1), "x", 2);
    let steps = [(0, Do::Start), (50, Do::Continue), (149, Do::Continue)];
    let played = play(&flow, &steps);
    assert_eq!(played.lines.last().expect("lines"), "node.completed x");
    assert_eq!(played.run.wakes_at(), Some(crate::given::at(150)));
    let played = check_within(
        &flow,
        &[(0, Do::Start), (50, Do::Continue), (150, Do::Continue)],
        &["node.started t", "run.completed"],
    );
    assert_eq!(played.count("node.started"), 4);
}

/// A pause that drains does not let a trigger fire, nor wake anybody for it.
#[test]
fn f24_a_drain_holds_firings_back() {
    let flow = given("w:channelWrite p:ai t:noop").edges("w>p");
    let flow = write(triggered(flow, json!({ "channel": "c", "debounceMs": 10 })), "w", 1);
    let drain = Do::Pause(callboard_protocol::DrainPolicy::DrainCurrentNode);
    let mut played = play(&flow, &[(0, Do::Start), (1, drain)]);
    assert!(played.run.wakes_at().expect("the deadline") > crate::given::at(10));
    played.step(20, &Do::Done("p", json!({})));
    assert_eq!(played.lines.last().expect("lines"), "run.paused");
    played.step(30, &Do::Resume);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
    assert!(played.lines.contains(&"node.completed t".to_owned()));
}

/// F24: what the firing itself writes, or what follows from it, does not fire it again.
#[test]
fn f24_a_firing_does_not_feed_itself() {
    let flow = given("w:channelWrite t:channelWrite u:channelWrite").edges("t>u");
    let flow = triggered(flow, json!({ "channel": "c" }));
    let flow = write(write(write(flow, "w", 1), "t", 2), "u", 3);
    let played = check_within(
        &flow,
        &[(0, Do::Start)],
        &["channel.written c 2", "channel.written c 3", "run.completed"],
    );
    assert_eq!(played.count("channel.written"), 3);
}

/// A disabled node does not start, whoever fires it.
#[test]
fn f24_a_disabled_node_is_not_fired() {
    let flow = write(triggered(given("w:channelWrite t:noop"), json!({ "channel": "c" })), "w", 1);
    let flow = flow.node("t", json!({ "disabled": true }));
    let played = check_within(&flow, &[(0, Do::Start)], &["node.skipped t", "run.completed"]);
    assert_eq!(played.count("node.started"), 1);
}

/// What the run writes itself comes from no child; the protocol calls the owner of a channel the parent.
#[test]
fn f24_only_from_child_ignores_the_runs_own_writes() {
    for (origin, fires) in [("any", true), ("child", false), ("parent", true)] {
        let flow = triggered(
            given("w:channelWrite t:noop"),
            json!({ "channel": "c", "onlyFrom": origin }),
        );
        let played = play(&write(flow, "w", 1), &[(0, Do::Start)]);
        assert_eq!(played.lines.contains(&"node.started t".to_owned()), fires, "{origin}");
    }
}

#[test]
fn f24_a_trigger_that_cannot_fire_is_refused() {
    for (config, node) in [
        (json!({}), "t"),
        (json!({ "channel": "c", "onlyFrom": "sister" }), "t"),
        (json!({ "channel": "c", "debounceMs": 60_001 }), "t"),
        (json!({ "channel": "c" }), "nobody"),
    ] {
        let flow = given("t:noop").top(json!({
            "triggers": [{ "id": "t", "type": "channel-write", "nodeId": node, "config": config }],
        }));
        assert_eq!(flow.plan().expect_err("refused").path, "triggers[0]", "{config}");
    }
    let disabled = given("t:noop").top(json!({
        "triggers": [{ "id": "t", "type": "channel-write", "nodeId": "t", "enabled": false, "config": {} }],
    }));
    check_within(&disabled, &[(0, Do::Start)], &["node.completed t"]);
}
