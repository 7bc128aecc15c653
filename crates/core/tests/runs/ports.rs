//! What a node finds at its ports (F4, F10).

use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{check_within, play};

fn inputs_of(flow: &Given, node: &str) -> Value {
    let played = play(flow, &[(0, Do::Start)]);
    let task = played.run.tasks().find(|task| task.attempt.node.as_str() == node);
    Value::Object(task.unwrap_or_else(|| panic!("{node} is owed: {:#?}", played.lines)).inputs)
}

/// F4: an identity's ports come out deep-equal, as outputs and as variables.
#[test]
fn f4_identity_passes_nested_values_through() {
    let payload = json!({ "a": [1, [2.5, null], { "b": [[]] }], "c": "ü", "d": { "e": {} } });
    let flow = given("echo:identity")
        .top(json!({ "variables": [{ "name": "payload", "type": "object", "required": true }] }))
        .ports("echo", json!({ "payload": { "type": "variable", "variableName": "payload" } }))
        .inputs(json!({ "payload": payload }));
    let played = play(&flow, &[(0, Do::Start)]);
    assert_eq!(played.variable("payload"), payload);
    assert_eq!(played.payload("node.completed")["outputs"]["payload"], payload);
    assert_eq!(played.payload("run.completed")["outputs"]["payload"], payload);
}

/// F10: the four kinds of port value, and the reference hosts' alias.
#[test]
fn f10_each_kind_of_port_value_resolves() {
    let flow = given("a:identity t:ai")
        .ports("a", json!({ "v": { "type": "static", "value": { "x": 1 } } }))
        .edges("a>t")
        .edge(0, json!({ "sourceOutput": "nothing" }))
        .top(json!({ "variables": [{ "name": "who", "type": "string", "defaultValue": "you" }] }))
        .ports(
            "t",
            json!({
                "s": { "type": "static", "value": [1] },
                "l": { "type": "literal", "value": "same" },
                "e": { "type": "expression", "expression": "who ~ '!' " },
                "c": { "type": "connection", "nodeId": "a", "outputKey": "v" },
                "v": { "type": "variable", "variableName": "who" },
            }),
        );
    let expected = json!({ "s": [1], "l": "same", "e": "you!", "c": { "x": 1 }, "v": "you" });
    assert_eq!(inputs_of(&flow, "t"), expected);
}

/// F10: what cannot be resolved fails the node, unless it is optional.
#[test]
fn f10_a_port_without_a_value_fails_its_node_unless_optional() {
    for port in [
        json!({ "type": "connection", "nodeId": "a", "outputKey": "nope" }),
        json!({ "type": "variable", "variableName": "nope" }),
    ] {
        let flow =
            |port: &Value| given("a:noop t:ai").edges("a>t").ports("t", json!({ "p": port }));
        let expected = ["node.started t", "node.failed t input_unresolved"];
        check_within(&flow(&port), &[(0, Do::Start)], &expected);
        let mut optional = port.clone();
        optional["optional"] = json!(true);
        assert_eq!(inputs_of(&flow(&optional), "t"), json!({}));
    }
    let broken =
        given("t:ai").ports("t", json!({ "p": { "type": "expression", "expression": "x.y.z()" } }));
    check_within(&broken, &[(0, Do::Start)], &["node.failed t expression_error"]);
}

/// A declared variable that is unset leaves its port empty: undefined, not null.
#[test]
fn f10_an_unset_declared_variable_is_undefined() {
    let flow = given("t:ai")
        .top(json!({ "variables": [{ "name": "maybe", "type": "string" }] }))
        .ports("t", json!({ "p": { "type": "variable", "variableName": "maybe" } }));
    assert_eq!(inputs_of(&flow, "t"), json!({}));
}

/// Values arrive over edges under the edge's names; the node's own ports win.
#[test]
fn f10_edges_carry_values_and_ports_override_them() {
    let source = |flow: Given| {
        flow.ports(
            "a",
            json!({ "x": { "type": "static", "value": 1 }, "y": { "type": "static", "value": 2 } }),
        )
    };
    let whole = source(given("a:identity t:ai").edges("a>t"));
    assert_eq!(inputs_of(&whole, "t"), json!({ "input": { "x": 1, "y": 2 } }));
    let named = whole.edge(0, json!({ "sourceOutput": "x", "targetInput": "n" }));
    assert_eq!(inputs_of(&named, "t"), json!({ "n": 1 }));
    let overridden = named.ports("t", json!({ "n": { "type": "static", "value": "mine" } }));
    assert_eq!(inputs_of(&overridden, "t"), json!({ "n": "mine" }));
    let output = given("a:identity t:ai")
        .edges("a>t")
        .ports("a", json!({ "output": { "type": "static", "value": 9 }, "y": { "type": "static", "value": 2 } }));
    assert_eq!(inputs_of(&output, "t"), json!({ "input": 9 }));
}

#[test]
fn f10_a_connection_to_no_node_is_refused_with_its_place() {
    let flow = given("t:ai")
        .ports("t", json!({ "p": { "type": "connection", "nodeId": "x", "outputKey": "y" } }));
    let error = flow.plan().expect_err("no node x");
    assert_eq!((error.path.as_str(), error.message.as_str()), ("nodes[0].inputs.p", "no node x"));
}

/// Outputs of other nodes land in the variable of the node's id; start and end pass their inputs on.
#[test]
fn outputs_become_variables() {
    let flow = given("s:start t:ai e:end")
        .ports("s", json!({ "v": { "type": "static", "value": 1 } }))
        .edges("s>t t>e");
    let played = play(&flow, &[(0, Do::Start), (1, Do::Done("t", json!({ "text": "hi" })))]);
    assert_eq!(played.variable("s"), json!({ "v": 1 }));
    assert_eq!(played.variable("t"), json!({ "text": "hi" }));
    assert_eq!(played.variable("e"), json!({ "input": { "text": "hi" } }));
}
