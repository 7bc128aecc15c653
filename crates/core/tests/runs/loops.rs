//! Cycles: back edges, their bound, `core.loop`, nesting, and what follows (F11).

use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{Played, check, check_within, play};

/// F11: a back edge goes round until the bound, which is told once; then the run goes on.
#[test]
fn f11_a_loop_ends_at_its_bound_and_says_so() {
    let flow = given("h:noop b:noop x:noop")
        .edges("h>b b>h b>x")
        .top(json!({ "settings": { "maxLoopbackIterations": 2 } }));
    let expected = [
        "run.started",
        "node.started h",
        "node.completed h",
        "node.started b",
        "node.completed b",
        "node.started h v1",
        "node.completed h",
        "node.started b v1",
        "node.completed b",
        "node.started h v2",
        "node.completed h",
        "node.started b v2",
        "node.completed b",
        "workflow.loopback-limit h 2/2",
        "node.started x",
        "node.completed x",
        "run.completed",
    ];
    check(&flow, &[(0, Do::Start)], &expected);
}

#[test]
fn f11_the_bound_is_five_where_the_definition_does_not_say() {
    let flow = given("h:noop b:noop").edges("h>b b>h");
    let played = check_within(&flow, &[(0, Do::Start)], &["workflow.loopback-limit h 5/5"]);
    assert_eq!(played.count("node.started"), 12);
    let itself = given("h:noop").edges("h>h");
    let played = check_within(&itself, &[(0, Do::Start)], &["workflow.loopback-limit h 5/5"]);
    assert_eq!(played.count("node.started"), 6);
}

/// F11: a back edge with a condition leaves the loop when it no longer holds; no limit is told.
#[test]
fn f11_a_condition_ends_a_loop() {
    let flow = given("h:noop ask:ai x:noop")
        .edges("h>ask ask>h ask>x")
        .edge(1, json!({ "condition": { "type": "equals", "left": "again", "right": true } }))
        .edge(2, json!({ "condition": { "type": "notEquals", "left": "again", "right": true } }));
    let steps = [
        (0, Do::Start),
        (1, Do::Done("ask", json!({ "again": true }))),
        (2, Do::Done("ask", json!({ "again": true }))),
        (3, Do::Done("ask", json!({ "again": false }))),
    ];
    let played =
        check_within(&flow, &steps, &["node.started ask v2", "node.completed x", "run.completed"]);
    assert_eq!(played.count("workflow.loopback-limit"), 0);
    assert_eq!(played.count("node.skipped"), 0);
}

/// A gate that fails loops back through its handler, as the approval fixtures do.
#[test]
fn f11_a_failed_gate_comes_back_through_its_handler() {
    let flow = given("s:noop gate:ai revise:noop x:noop")
        .edges("s>gate:any_success gate>revise:any_failed revise>gate:any_success gate>x");
    let steps = [
        (0, Do::Start),
        (1, Do::FailedForGood("gate", "rejected")),
        (2, Do::Done("gate", json!({}))),
    ];
    let expected = [
        "run.started",
        "node.started s",
        "node.completed s",
        "node.started gate",
        "node.failed gate rejected",
        "node.started revise",
        "node.completed revise",
        "node.started gate v1",
        "node.completed gate",
        "node.skipped revise",
        "node.started x",
        "node.completed x",
        "run.completed",
    ];
    check(&flow, &steps, &expected);
}

fn rejected(edges: &str) -> Given {
    given("gate:approvalGate revise:noop x:noop")
        .edges(&format!("gate>revise:any_failed revise>gate:any_success {edges}"))
        .top(json!({ "settings": { "maxLoopbackIterations": 1 } }))
}

/// F11, §7.6: rejected to the last round, the run fails with the rejection: its handler only wanted to ask again.
#[test]
fn f11_a_rejection_that_the_bound_leaves_standing_fails_the_run() {
    for (edges, expected) in [
        // What follows an approval does not follow a rejection.
        ("gate>x", "run.failed approval_rejected"),
        // A road for rejections out of the loop handles the last one,
        ("gate>x:any_failed", "run.completed"),
        // and so does one from the handler.
        ("revise>x", "run.completed"),
    ] {
        let reject = || Do::Answer("gate", json!({ "action": "reject" }));
        let steps = [(0, Do::Start), (1, reject()), (2, reject())];
        let story = ["node.started gate v1", "workflow.loopback-limit gate 1/1", expected];
        let played = check_within(&rejected(edges), &steps, &story);
        let x = if expected == "run.completed" { "node.completed x" } else { "node.skipped x" };
        assert!(played.lines.contains(&x.to_owned()), "{:#?}", played.lines);
    }
    let accept = Do::Answer("gate", json!({ "action": "accept" }));
    let reject = Do::Answer("gate", json!({ "action": "reject" }));
    let steps = [(0, Do::Start), (1, reject), (2, accept)];
    let played = check_within(&rejected("gate>x"), &steps, &["node.completed x", "run.completed"]);
    assert_eq!(played.count("workflow.loopback-limit"), 0);
}

/// A back edge with any_failed tries again by looping; the bound leaves the failure standing.
#[test]
fn f11_a_failure_may_itself_lead_back() {
    let flow = given("h:noop f:fail")
        .edges("h>f f>h:any_failed")
        .top(json!({ "settings": { "maxLoopbackIterations": 1 } }));
    let expected = [
        "node.failed f conformance_test_failure",
        "node.started h v1",
        "workflow.loopback-limit h 1/1",
        "run.failed conformance_test_failure",
    ];
    check_within(&flow, &[(0, Do::Start)], &expected);
}

fn over(config: Value) -> Given {
    given("l:loop b:ai x:noop").edges("l>b b>l l>x").config("l", config)
}

/// F11: `core.loop` hands out items with their index and exits once.
#[test]
fn f11_a_loop_node_goes_over_its_items() {
    let flow = over(json!({ "items": ["p", "q"] }));
    let first = play(&flow, &[(0, Do::Start)]);
    let task = first.run.tasks().next().expect("b is owed");
    assert_eq!(Value::Object(task.inputs), json!({ "input": { "item": "p", "index": 0 } }));
    let steps = [
        (0, Do::Start),
        (1, Do::Done("b", json!({ "r": 1 }))),
        (2, Do::Done("b", json!({ "r": 2 }))),
    ];
    let expected = [
        "run.started",
        "node.started l",
        "node.completed l",
        "node.started b",
        "node.completed b",
        "node.started l v1",
        "node.completed l",
        "node.started b v1",
        "node.completed b",
        "node.started x",
        "node.completed x",
        "run.completed",
    ];
    let played = check(&flow, &steps, &expected);
    assert_eq!(played.variable("l"), json!({ "item": "q", "index": 1 }));
}

#[test]
fn f11_a_loop_node_counts_and_may_have_nothing_to_do() {
    let counted =
        given("l:loop b:noop x:noop").edges("l>b b>l l>x").config("l", json!({ "count": 7 }));
    let played = check_within(&counted, &[(0, Do::Start)], &["node.started b v6", "run.completed"]);
    assert_eq!(
        played.count("workflow.loopback-limit"),
        0,
        "items bound a loop node, not the limit"
    );
    for config in [json!({ "items": [] }), json!({ "count": 0 }), json!({})] {
        let expected = ["node.completed l", "node.skipped b", "node.started x", "run.completed"];
        let played = check_within(&over(config), &[(0, Do::Start)], &expected);
        assert_eq!(played.count("node.started"), 2);
    }
}

/// Items may come from a port; a loop whose body fails stops there.
#[test]
fn f11_items_from_a_port_and_a_body_that_fails() {
    let flow = given("l:loop b:ai x:noop")
        .edges("l>b b>l l>x")
        .ports("l", json!({ "items": { "type": "expression", "expression": "[1, 2, 3]" } }));
    let steps = [(0, Do::Start), (1, Do::Done("b", json!({}))), (2, Do::FailedForGood("b", "bad"))];
    let played =
        check_within(&flow, &steps, &["node.failed b bad", "node.completed x", "run.failed bad"]);
    assert_eq!(played.count("node.started"), 5);
}

/// F11: an inner loop starts afresh in every round of the outer one.
#[test]
fn f11_loops_nest() {
    let flow = given("o:loop i:loop b:noop t:noop x:noop")
        .edges("o>i i>b b>i i>t t>o o>x")
        .config("o", json!({ "count": 2 }))
        .config("i", json!({ "count": 3 }));
    let played = play(&flow, &[(0, Do::Start)]);
    let started = |node: &str| {
        let prefix = format!("node.started {node}");
        played.lines.iter().filter(|line| line.split(" v").next() == Some(&prefix)).count()
    };
    assert_eq!(["o", "i", "b", "t", "x"].map(started), [2, 6, 6, 2, 1], "{:#?}", played.lines);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
}

/// A back edge is ignored on the first visit, also on the first of a later round of the outer loop.
#[test]
fn f11_an_inner_loop_forgets_what_came_back_in_the_last_round() {
    let flow = given("o:loop h:ai t:noop")
        .edges("o>h h>h h>t t>o")
        .edge(0, json!({ "sourceOutput": "index", "targetInput": "round" }))
        .edge(1, json!({ "sourceOutput": "r", "targetInput": "last" }))
        .config("o", json!({ "count": 2 }))
        .top(json!({ "settings": { "maxLoopbackIterations": 1 } }));
    let mut played = play(&flow, &[(0, Do::Start)]);
    let mut seen = Vec::new();
    for turn in 1..=4 {
        seen.push(inputs(&played));
        played.step(turn, &Do::Done("h", json!({ "r": turn })));
    }
    let expected = json!([{ "round": 0 }, { "round": 0, "last": 1 }, { "round": 1 }, { "round": 1, "last": 3 }]);
    assert_eq!(Value::Array(seen), expected);
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
}

/// What the only owed task finds at its ports.
fn inputs(played: &Played) -> Value {
    Value::Object(played.run.tasks().next().expect("one task").inputs)
}

/// What came over the back edge reaches the header from its second visit on.
#[test]
fn f11_a_back_edge_carries_its_value() {
    let flow =
        given("h:ai").edges("h>h").edge(0, json!({ "sourceOutput": "r", "targetInput": "last" }));
    let mut played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(inputs(&played), json!({}));
    played.step(1, &Do::Done("h", json!({ "r": "one" })));
    assert_eq!(inputs(&played), json!({ "last": "one" }));
}

/// A disabled header is passed over in every round and never starts.
#[test]
fn f11_a_disabled_header_never_starts() {
    let flow = given("s:noop h:noop b:noop")
        .edges("s>h h>b:all_complete b>h")
        .node("h", json!({ "disabled": true }))
        .top(json!({ "settings": { "maxLoopbackIterations": 2 } }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert!(
        !played.lines.iter().any(|line| line.starts_with("node.started h")),
        "{:#?}",
        played.lines
    );
    assert_eq!(played.lines.last().expect("lines"), "run.completed");
}

/// F11: a cycle with two ways in is refused, and the message names the edge.
#[test]
fn f11_an_irreducible_cycle_is_refused() {
    let flow = given("s:noop a:noop b:noop").edges("s>a s>b a>b b>a");
    let error = flow.plan().expect_err("two ways in");
    assert_eq!(error.path, "edges[3]");
    assert!(error.message.contains("two ways in"), "{error}");
}

/// A cycle without a source begins at the node that the file lists first.
#[test]
fn f11_a_cycle_without_a_source_begins_at_its_first_listed_node() {
    let flow = given("z:noop a:noop").edges("a>z z>a");
    let played = check_within(&flow, &[(0, Do::Start)], &["node.started z", "node.started a"]);
    assert_eq!(played.lines[1], "node.started z");
}

/// The recursion limit also bounds a loop that would go on for long.
#[test]
fn f11_the_recursion_limit_bounds_loops_too() {
    let flow = given("l:loop b:noop")
        .edges("l>b b>l")
        .config("l", json!({ "count": 1_000_000 }))
        .most_executions(9);
    let played = check_within(
        &flow,
        &[(0, Do::Start)],
        &["cap.breached NodeExecutions 9", "run.failed recursion_limit_exceeded"],
    );
    assert_eq!(played.count("node.started"), 9);
}
