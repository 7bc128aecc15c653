//! Edge conditions and `core.conditional` (F9).

use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{check_within, play};

fn conditional(condition: Value) -> Given {
    given("a:ai t:noop").edges("a>t").edge(0, json!({ "condition": condition }))
}

/// F9: each type, once followed and once not; a false condition counts as a skipped upstream.
#[test]
fn f9_an_edge_is_followed_when_its_condition_holds() {
    let yes = json!({ "status": "ok", "tags": ["x"], "n": 3 });
    let no = json!({ "status": "bad", "tags": [], "n": 1 });
    for condition in [
        json!({ "type": "equals", "left": "status", "right": "ok" }),
        json!({ "type": "equals", "left": "output.status", "right": "ok" }),
        json!({ "type": "notEquals", "left": "status", "right": "bad" }),
        json!({ "type": "contains", "left": "tags", "right": "x" }),
        json!({ "type": "regex", "left": "status", "right": "^o" }),
        json!({ "type": "expression", "expression": "n > 2" }),
        json!({ "type": "expression", "expression": "output.status == 'ok' and nodes.a.n == 3" }),
    ] {
        for (outputs, expected) in [(&yes, "node.completed t"), (&no, "node.skipped t")] {
            let steps = [(0, Do::Start), (1, Do::Done("a", outputs.clone()))];
            check_within(&conditional(condition.clone()), &steps, &[expected]);
        }
    }
}

/// A condition may look at variables and at what the run was given.
#[test]
fn f9_an_expression_sees_variables_and_inputs() {
    let flow = conditional(json!({ "type": "expression", "expression": "limit == inputs.limit" }))
        .inputs(json!({ "limit": 7 }));
    let steps = [(0, Do::Start), (1, Do::Done("a", json!({})))];
    check_within(&flow, &steps, &["node.completed t"]);
}

/// A false condition also keeps the edge's value away from a target that runs all the same.
#[test]
fn f9_an_edge_that_is_not_followed_carries_nothing() {
    let flow = given("a:identity b:identity t:ai")
        .ports("a", json!({ "v": { "type": "static", "value": "from a" } }))
        .ports("b", json!({ "v": { "type": "static", "value": "from b" } }))
        .edges("a>t:any_success b>t:any_success")
        .edge(
            0,
            json!({ "sourceOutput": "v", "targetInput": "left",
            "condition": { "type": "equals", "left": "v", "right": "other" } }),
        )
        .edge(1, json!({ "sourceOutput": "v", "targetInput": "right" }));
    let played = play(&flow, &[(0, Do::Start)]);
    let task = played.run.tasks().next().expect("t is owed");
    assert_eq!(Value::Object(task.inputs), json!({ "right": "from b" }));
}

/// A condition that cannot be judged fails the run rather than guess.
#[test]
fn f9_a_condition_that_breaks_fails_the_run() {
    let flow = conditional(json!({ "type": "expression", "expression": "n.upper().x.y" }));
    let steps = [(0, Do::Start), (1, Do::Done("a", json!({ "n": 1 })))];
    check_within(&flow, &steps, &["run.failed expression_error"]);
    let flow = conditional(json!({ "type": "regex", "left": "s", "right": "(" }));
    let steps = [(0, Do::Start), (1, Do::Done("a", json!({ "s": "x" })))];
    check_within(&flow, &steps, &["run.failed expression_error"]);
}

#[test]
fn f9_an_expression_that_cannot_be_parsed_is_refused_with_its_place() {
    let flow = conditional(json!({ "type": "expression", "expression": "1 +" }));
    assert_eq!(flow.plan().expect_err("broken").path, "edges[0].condition.expression");
    let flow =
        given("a:identity").ports("a", json!({ "x": { "type": "expression", "expression": "(" } }));
    assert_eq!(flow.plan().expect_err("broken").path, "nodes[0].inputs.x");
}

/// `core.conditional` gives `result`; its branches are edges with conditions.
#[test]
fn f9_a_conditional_node_picks_a_branch() {
    for (condition, result) in [
        (json!("n > 2"), true),
        (json!("n > 5"), false),
        (json!({ "type": "equals", "left": "n", "right": 3 }), true),
        (json!(false), false),
    ] {
        let flow = given("c:conditional yes:noop no:noop")
            .config("c", json!({ "condition": condition }))
            .ports("c", json!({ "n": { "type": "static", "value": 3 } }))
            .edges("c>yes c>no")
            .edge(0, json!({ "condition": { "type": "equals", "left": "result", "right": true } }))
            .edge(
                1,
                json!({ "condition": { "type": "equals", "left": "result", "right": false } }),
            );
        let told = play(&flow, &[(0, Do::Start)]).lines;
        let (taken, left) = if result { ("yes", "no") } else { ("no", "yes") };
        assert!(told.contains(&format!("node.completed {taken}")), "{condition}: {told:#?}");
        assert!(told.contains(&format!("node.skipped {left}")), "{condition}: {told:#?}");
    }
}

#[test]
fn a_conditional_without_a_condition_fails() {
    let flow = given("c:conditional");
    check_within(&flow, &[(0, Do::Start)], &["node.failed c validation_error"]);
}
