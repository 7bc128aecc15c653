//! Nodes that core computes, given what nobody should give them; waits, lines of the log, and replays of both.

use std::collections::BTreeMap;

use callboard_core::{ConformanceNodes, MOST_WORK, NODE_TYPES};
use serde_json::{Value, json};

use crate::given::{BIRTH, Do, Given, given};
use crate::story::{Played, check, play};

/// One node whose ports read variables of the same names.
fn node(type_id: &str, config: Value, inputs: &Value) -> Given {
    let ports: serde_json::Map<String, Value> = inputs
        .as_object()
        .expect("an object")
        .keys()
        .map(|port| (port.clone(), json!({ "type": "variable", "variableName": port })))
        .collect();
    given(&format!("n:{type_id}"))
        .config("n", config)
        .ports("n", Value::Object(ports))
        .inputs(inputs.clone())
}

fn run(flow: &Given) -> Played {
    let mut played = play(flow, &[(0, Do::Start)]);
    while !played.run.status().is_terminal() {
        played.step(1, &Do::Continue);
    }
    played
}

fn code(played: &Played) -> Value {
    played.payload("node.failed")["error"]["code"].clone()
}

/// Every port and every key that one of the types reads.
const PORTS: &str = "text array arrays object value items inputs timestamp a b left right base override schema \
                     template data key signature error message base64";
const KEYS: &str = "mode separator path equals template pattern to keys size op keyPath aggregations map amount unit \
                    predicate cases routes columns batchSize count timezone";

/// Whatever a node is given and however it is configured, it ends, and says what is wrong with it.
#[test]
fn values_of_every_wrong_kind_are_refused_in_words() {
    let wrong = [json!(null), json!(true), json!(1.5), json!("x"), json!([1]), json!({ "a": 1 })];
    let is_computed = |id: &&str| {
        id.starts_with("core.flow.")
            || id.starts_with("core.openwop.data.")
            || id.starts_with("core.crypto.")
    };
    for type_id in NODE_TYPES.iter().map(|known| known.type_id).filter(is_computed) {
        for value in &wrong {
            let every = |names: &str| {
                Value::Object(
                    names.split_whitespace().map(|name| (name.to_owned(), value.clone())).collect(),
                )
            };
            let played = play(&node(type_id, every(KEYS), &every(PORTS)), &[(0, Do::Start)]);
            if played.count("node.failed") > 0 {
                let error = &played.payload("node.failed")["error"];
                let message = error["message"].as_str().expect("a message");
                assert!(message.len() > 10, "{type_id} {value}: {error}");
            }
        }
        let played = play(&node(type_id, json!({}), &json!({})), &[(0, Do::Start)]);
        assert_eq!(played.count("node.started"), 1, "{type_id}");
    }
}

/// A refusal names places and kinds. What was given may be secret.
#[test]
fn a_refusal_repeats_nothing_of_the_value() {
    let flow = node(
        "core.openwop.data.array-map",
        json!({ "template": "x" }),
        &json!({ "array": "hunter2" }),
    );
    let played = run(&flow);
    let error = played.payload("node.failed")["error"].to_string();
    assert!(error.contains("the input array must be a list, and is a text"), "{error}");
    assert!(!error.contains("hunter2"));
}

#[test]
fn a_million_items_are_taken_or_refused_within_the_work_of_one_step() {
    let numbers: Vec<u32> = (0..1_000_000).rev().collect();
    let flow = node(
        "core.flow.aggregate-numeric",
        json!({ "op": "sum", "path": "" }),
        &json!({ "items": numbers }),
    );
    let played = run(&flow);
    assert_eq!(played.payload("node.completed")["outputs"]["result"], 499_999_500_000_u64);
    let heavy = [
        ("core.flow.sort", json!({ "keys": [{ "path": "" }] }), "array"),
        ("core.flow.distinct", json!({}), "array"),
        ("core.openwop.data.array-chunk", json!({ "size": 1 }), "array"),
        (
            "core.openwop.data.array-map",
            json!({ "template": "a text that is filled a million times" }),
            "array",
        ),
    ];
    for (type_id, config, port) in heavy {
        let played = run(&node(type_id, config, &json!({ port: numbers })));
        let code = code(&played);
        assert!(code == "value_too_large" || code == "work_limit_exceeded", "{type_id}: {code}");
    }
}

#[test]
fn what_would_outgrow_a_run_is_refused_before_it_is_made() {
    let many: Vec<u32> = (0..1_000).collect();
    let long = "ab".repeat(50_000);
    let nested = (0..50).fold(json!(1), |inner, _| json!([inner]));
    let cases = [
        (
            "core.flow.merge",
            json!({ "mode": "multiplex" }),
            json!({ "inputs": [many, many, many, many] }),
        ),
        ("core.flow.repeater", json!({ "count": u64::MAX }), json!({})),
        ("core.openwop.data.array-map", json!({ "template": long }), json!({ "array": many })),
        (
            "core.openwop.data.string-regex-replace",
            json!({ "pattern": "a", "flags": "g", "replacement": long }),
            json!({ "text": long }),
        ),
        (
            "core.openwop.data.jsonpath-query",
            json!({ "path": "$..*..*..*..*..*" }),
            json!({ "value": nested }),
        ),
        (
            "core.openwop.data.string-regex-extract",
            json!({ "pattern": ".*[^A-Z]|[A-Z]" }),
            json!({ "text": "A".repeat(1 << 20) }),
        ),
        (
            "core.openwop.data.json-parse",
            json!({}),
            json!({ "text": format!("[{}1]", "1,".repeat(2 << 20)) }),
        ),
    ];
    for (type_id, config, inputs) in cases {
        let flow = node(type_id, config, &inputs);
        let mut played = play(&flow, &[(0, Do::Start)]);
        while !played.run.status().is_terminal() {
            played.step(1, &Do::Continue);
        }
        let code = code(&played);
        assert!(code == "value_too_large" || code == "work_limit_exceeded", "{type_id}: {code}");
        assert!(played.run.decided_work() <= MOST_WORK, "{type_id}");
    }
}

#[test]
fn a_wait_ends_when_it_is_due_and_owes_its_wake() {
    let flow = given("w:flow.wait").node(
        "w",
        json!({ "typeId": "core.flow.wait", "config": { "mode": "duration", "seconds": 60 } }),
    );
    let mut played = play(&flow, &[(0, Do::Start), (59_999, Do::Continue)]);
    assert_eq!(played.lines, ["run.started", "node.started w"]);
    assert_eq!(
        played.run.wakes_at().map(callboard_protocol::Timestamp::as_millis),
        Some(BIRTH + 60_000)
    );
    played.step(60_000, &Do::Continue);
    assert_eq!(played.lines[2..], ["node.completed w", "run.completed"]);
    let webhook = given("w:flow.wait")
        .node("w", json!({ "typeId": "core.flow.wait", "config": { "mode": "webhook" } }));
    let played = run(&webhook);
    let message = played.payload("node.failed")["error"]["message"].to_string();
    assert!(message.contains("core.interrupt"), "{message}");
}

#[test]
fn a_log_node_tells_its_line_once() {
    let flow = given("l:obs.log").node(
        "l",
        json!({ "typeId": "core.obs.log", "config": { "level": "warn" }, "inputs": {
        "message": { "type": "static", "value": "low on paper" },
        "attributes": { "type": "static", "value": { "left": 3 } },
    } }),
    );
    let expected =
        ["run.started", "node.started l", "log.appended l", "node.completed l", "run.completed"];
    let played = check(&flow, &[(0, Do::Start)], &expected);
    let line = played.payload("log.appended");
    assert_eq!(
        line,
        json!({ "nodeId": "l", "level": "warn", "message": "low on paper", "fields": { "left": 3 } })
    );
}

#[test]
fn a_handler_behind_a_failed_node_goes_on_with_its_fallback() {
    let flow = given("f:fail h:flow.error-handler-resume")
        .node("h", json!({ "typeId": "core.flow.error-handler-resume" }))
        .edges("f>h:any_failed")
        .config("f", json!({ "code": "no_answer", "message": "nobody answered" }))
        .config("h", json!({ "fallback": "the usual" }));
    let played = run(&flow);
    let outputs = &played.payload("node.completed")["outputs"];
    assert_eq!(outputs["fallback"], "the usual");
    assert_eq!(
        outputs["upstreamError"],
        json!({ "code": "no_answer", "message": "nobody answered" })
    );
    assert_eq!(played.lines.last().map(String::as_str), Some("run.completed"));
}

/// The outcome stands in the log, and whoever folds it takes it from there.
#[test]
fn ids_differ_between_nodes_and_are_the_same_for_who_folds_the_log() {
    let flow = given("a:uuid b:uuid")
        .node("a", json!({ "typeId": "core.openwop.data.uuid" }))
        .node("b", json!({ "typeId": "core.openwop.data.uuid" }));
    let (first, second) = (run(&flow), run(&flow));
    assert_eq!(first.variable("a"), second.variable("a"));
    assert_ne!(first.variable("a"), first.variable("b"));
    let id = first.variable("a")["uuid"].as_str().expect("an id").to_owned();
    assert!(id.len() == 36 && id.as_bytes()[14] == b'8', "{id}");
}

/// Chains of short nodes are decided where they are, like those that pass their inputs on.
#[test]
fn short_nodes_keep_a_plan_plain() {
    let plain = |type_id: &str, config: Value| {
        node(type_id, config, &json!({ "value": 1 })).plan().expect("a plan").is_plain()
    };
    assert!(plain("core.flow.noop", json!({})));
    assert!(plain("core.flow.if", json!({ "predicate": { "path": "", "op": "exists" } })));
    assert!(!plain(
        "core.flow.if",
        json!({ "predicate": { "path": "", "op": "regex", "value": "a" } })
    ));
    assert!(!plain("core.flow.sort", json!({ "keys": [{ "path": "" }] })));
}

/// A type that is not run is named in the refusal, with the one that was probably meant.
#[test]
fn a_type_that_does_not_run_is_refused_by_name_with_the_nearest_that_does() {
    let cases = [
        ("core.flow.swich", "; the nearest that it runs is core.flow.switch"),
        ("core.hitl.ask-users", "; the nearest that it runs is core.hitl.ask-user"),
        ("vendor.acme.launch-rocket", ""),
    ];
    for (type_id, nearest) in cases {
        let plan = given(&format!("n:{type_id}")).plan().expect("a plan");
        let refused = plan.admit_types(|_| false, &BTreeMap::new(), ConformanceNodes::Off);
        let refused = refused.expect_err("it does not run");
        assert_eq!(refused.code, "capability_required");
        assert_eq!(
            refused.message,
            format!("node n has the type {type_id}, which this host does not run{nearest}")
        );
    }
}
