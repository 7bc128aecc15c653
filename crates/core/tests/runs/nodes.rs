//! The node types that core computes itself, and the one it must not run (F26).

use serde_json::{Value, json};

use crate::given::{Do, given};
use crate::story::{check, check_within, play};

/// F26: the run exists, the node never starts, and the error names the requirement.
#[test]
fn f26_a_missing_capability_fails_before_the_node_starts() {
    let flow = given("n1:conformance.requiresMissing n2:noop").edges("n1>n2");
    let expected = [
        "run.started",
        "node.failed n1 capability_not_provided",
        "node.skipped n2",
        "run.failed capability_not_provided",
    ];
    let played = check(&flow, &[(0, Do::Start)], &expected);
    for kind in ["node.failed", "run.failed"] {
        let message = played.payload(kind)["error"]["message"].clone();
        assert!(message.as_str().expect("a text").contains("conformance.never-provided"), "{kind}");
    }
}

/// F26: not in a loop either, and not when a channel write fires it.
#[test]
fn f26_it_never_starts_by_any_way() {
    let looped = given("s:noop h:conformance.requiresMissing b:noop")
        .edges("s>h h>b:any_failed b>h")
        .top(json!({ "settings": { "maxLoopbackIterations": 2 } }));
    let fired = given("w:channelWrite h:conformance.requiresMissing")
        .config("w", json!({ "channelName": "c", "value": 1 }))
        .top(json!({ "triggers": [{ "id": "t", "type": "channel-write", "nodeId": "h", "config": { "channel": "c" } }] }));
    let expected = "run.failed capability_not_provided";
    for flow in [looped, fired] {
        let played = play(&flow, &[(0, Do::Start)]);
        assert!(
            !played.lines.iter().any(|line| line.starts_with("node.started h")),
            "{:#?}",
            played.lines
        );
        assert!(played.lines.contains(&"node.failed h capability_not_provided".to_owned()));
        assert_eq!(played.lines.last().expect("lines"), expected, "{:#?}", played.lines);
    }
}

#[test]
fn a_variable_is_set_and_read() {
    let flow = given("s:setVariable g:getVariable m:getVariable")
        .edges("s>g g>m")
        .config("s", json!({ "name": "x", "value": { "deep": [1] } }))
        .config("g", json!({ "name": "x" }))
        .config("m", json!({ "name": "missing" }))
        .inputs(json!({ "x": "before" }));
    let expected = [
        "run.started",
        "node.started s",
        "variable.changed x {\"deep\":[1]}",
        "node.completed s",
        "node.started g",
        "node.completed g",
        "node.started m",
        "node.completed m",
        "run.completed",
    ];
    let played = check(&flow, &[(0, Do::Start)], &expected);
    assert_eq!(played.payload("variable.changed")["previous"], "before");
    assert_eq!(played.variable("g"), json!({ "value": { "deep": [1] } }));
    assert_eq!(played.payload("run.completed")["outputs"], json!({ "value": Value::Null }));
}

/// A value may be computed from the variable that it replaces, once.
#[test]
fn a_variable_can_be_counted_up_in_a_loop() {
    let flow = given("l:loop s:setVariable")
        .edges("l>s s>l")
        .config("l", json!({ "count": 4 }))
        .config("s", json!({ "name": "n" }))
        .ports("s", json!({ "value": { "type": "expression", "expression": "n + 1" } }))
        .inputs(json!({ "n": 0 }));
    let played = check_within(&flow, &[(0, Do::Start)], &["run.completed"]);
    assert_eq!(played.variable("n"), json!(4));
    assert_eq!(played.count("variable.changed"), 4);
}

#[test]
fn nodes_that_lack_their_configuration_say_so() {
    for (flow, node) in [
        (given("s:setVariable"), "s"),
        (given("g:getVariable"), "g"),
        (given("w:channelWrite"), "w"),
        (given("p:identity").config("p", json!({ "emitDuplicateMessageId": true })), "p"),
        (given("w:channelWrite").config("w", json!({ "channelName": "c", "reducer": "sum" })), "w"),
    ] {
        let expected = format!("node.failed {node} validation_error");
        check_within(&flow, &[(0, Do::Start)], &[&expected]);
    }
}

/// A disabled node is passed over, and what follows goes by its rule.
#[test]
fn a_disabled_node_is_skipped() {
    let flow = given("a:noop b:noop c:noop")
        .edges("a>b b>c:all_complete")
        .node("b", json!({ "disabled": true }));
    let played = check_within(
        &flow,
        &[(0, Do::Start)],
        &["node.skipped b", "node.completed c", "run.completed"],
    );
    assert_eq!(played.payload("node.skipped")["reason"], "the node is disabled");
}

/// An activity is given its configuration, its ports and its place.
#[test]
fn an_activity_is_told_what_it_needs() {
    let flow = given("a:ai")
        .config("a", json!({ "promptId": "p" }))
        .ports("a", json!({ "q": { "type": "static", "value": "why" } }));
    let played = play(&flow, &[(0, Do::Start)]);
    let task = played.run.tasks().next().expect("a is owed");
    assert_eq!(task.type_id.as_str(), "core.ai.callPrompt");
    assert_eq!(json!([task.config, task.inputs]), json!([{ "promptId": "p" }, { "q": "why" }]));
    assert_eq!((task.attempt.visit, task.attempt.number, task.facts_recorded), (0, 0, 0));
    assert_eq!(played.run.head().wake_at, Some(crate::given::at(0)), "owed work wakes at once");
}

#[test]
fn a_statement_tells_its_event_once() {
    let said = json!({ "type": "acme.noted", "payload": { "n": 1 } });
    let flow = given("n1:callboard.statement").config("n1", said);
    let expected =
        ["run.started", "node.started n1", "acme.noted n1", "node.completed n1", "run.completed"];
    let played = check(&flow, &[(0, Do::Start)], &expected);
    assert_eq!(played.payload("acme.noted"), json!({ "n": 1 }));
}

/// Nobody but the host writes such a node: what it states would be believed.
#[test]
fn a_definition_with_a_statement_is_not_admitted() {
    let plan = given("n1:callboard.statement").plan().expect("a plan");
    let missing = plan.missing_type(
        |_| true,
        &std::collections::BTreeMap::new(),
        callboard_core::ConformanceNodes::On,
    );
    assert_eq!(missing.map(|missing| missing.node), Some("n1".into()));
}

/// The tests' wait that touches nothing: its outputs are its inputs, the time among them, and only tests have it.
#[test]
fn a_hold_waits_and_passes_its_inputs_on() {
    let fixed = |value: Value| json!({ "type": "static", "value": value });
    let flow = given("h:core.conformance.hold")
        .ports("h", json!({ "delayMs": fixed(json!(20)), "word": fixed(json!("x")) }));
    let waits = play(&flow, &[(0, Do::Start)]);
    assert_eq!(waits.run.head().wake_at, Some(crate::given::at(20)));
    let played = play(&flow, &[(0, Do::Start), (20, Do::Continue)]);
    assert_eq!(played.payload("node.completed")["outputs"], json!({ "delayMs": 20, "word": "x" }));
    let plan = flow.plan().expect("a plan");
    let nobody = std::collections::BTreeMap::new();
    assert!(plan.admit_types(|_| true, &nobody, callboard_core::ConformanceNodes::Off).is_err());
}

#[test]
fn a_plan_knows_whether_its_nodes_bring_in_what_others_wrote() {
    let reads = |type_id: &str| {
        let flow = given("a:noop").node("a", json!({ "typeId": type_id }));
        flow.run().plan().reads_outside()
    };
    for type_id in ["core.openwop.http.fetch", "core.openwop.mcp.invoke-tool", "callboard.tool"] {
        assert!(reads(type_id), "{type_id}");
    }
    for type_id in ["core.noop", "core.openwop.data.json-parse", "core.files.read"] {
        assert!(!reads(type_id), "{type_id}");
    }
}
