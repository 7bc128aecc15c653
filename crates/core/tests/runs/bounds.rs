//! How large and how deep the values of a run may become, whoever makes them.

use callboard_core::{MOST_WORK, Run};
use callboard_protocol::Event;
use serde_json::{Value, json};

use crate::given::{Do, Given, given};
use crate::story::{check_within, play};

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("x"), |inner, _| json!([inner]))
}

fn expression(text: &str) -> Value {
    json!({ "v": { "type": "expression", "expression": text } })
}

/// A loop of forty rounds, each of which makes `v` anew.
fn rounds(text: &str, first: Value) -> Given {
    given("h:loop b:identity x:noop")
        .edges("h>b b>h b>x")
        .config("h", json!({ "count": 40 }))
        .ports("b", expression(text))
        .top(json!({ "settings": { "maxLoopbackIterations": 100 } }))
        .inputs(json!({ "v": first }))
}

#[test]
fn a_value_that_doubles_in_a_loop_fails_its_node_before_it_is_recorded() {
    for (text, first) in [
        ("v ~ v", json!("a".repeat(1_000))),
        ("[v, v]", json!("a")),
        ("{'a': v, 'b': v}", json!(1)),
    ] {
        let mut played = play(&rounds(text, first), &[(0, Do::Start)]);
        // One decision does not hold all of this work.
        while !played.run.status().is_terminal() {
            played.step(1, &Do::Continue);
        }
        let code = &played.payload("node.failed")["error"]["code"];
        let is_bounded = code == "value_too_large" || code == "expression_error";
        assert!(is_bounded, "{text}: {:#?}", played.lines.last());
        let longest = played.log.iter().map(|entry| entry.event.payload().to_string().len()).max();
        assert!(longest < Some(20 << 20), "{text}: {longest:?}");
    }
}

#[test]
fn a_value_that_nests_in_a_loop_fails_its_node_while_every_reader_can_read_it() {
    let played = play(&rounds("[v]", nested(40)), &[(0, Do::Start)]);
    assert_eq!(played.payload("node.failed")["error"]["code"], "value_too_large");
    for entry in &played.log {
        let text = json!({ "events": [{ "payload": entry.event.payload() }] }).to_string();
        serde_json::from_str::<Value>(&text).expect("a bundle's depth is within reach");
    }
    let snapshot = json!({ "run": played.snapshot() }).to_string();
    serde_json::from_str::<Value>(&snapshot).expect("so is a snapshot's");
}

#[test]
fn what_an_activity_brings_is_bounded_like_what_core_makes() {
    for outputs in [json!({ "v": nested(64) }), json!({ "v": "a".repeat(17 << 20) })] {
        let steps = [(0, Do::Start), (1, Do::Done("a", outputs))];
        let expected = ["node.failed a value_too_large", "run.failed value_too_large"];
        check_within(&given("a:ai"), &steps, &expected);
    }
    let fits = [(0, Do::Start), (1, Do::Done("a", json!({ "v": nested(63) })))];
    check_within(&given("a:ai"), &fits, &["node.completed a", "run.completed"]);
}

#[test]
fn a_node_with_many_heavy_ports_and_a_run_with_many_heavy_nodes_are_bounded() {
    let heavy = json!({ "v": "a".repeat(6 << 20) });
    let port = json!({ "type": "variable", "variableName": "v" });
    let ports: serde_json::Map<String, Value> =
        (0..3).map(|place| (format!("p{place}"), port.clone())).collect();
    let one = given("a:noop").ports("a", Value::Object(ports)).inputs(heavy.clone());
    check_within(&one, &[(0, Do::Start)], &["node.failed a value_too_large"]);

    let names: Vec<String> = (0..14).map(|place| format!("n{place}")).collect();
    let nodes: Vec<String> = names.iter().map(|name| format!("{name}:noop")).collect();
    let many = names
        .iter()
        .fold(given(&nodes.join(" ")), |flow, name| flow.ports(name, json!({ "v": port.clone() })));
    let played = play(&many.inputs(heavy), &[(0, Do::Start)]);
    assert_eq!(played.payload("run.failed")["error"]["code"], "value_too_large");
    assert!(played.count("node.completed") >= 8, "{:#?}", played.lines);
}

#[test]
fn callers_cannot_bring_in_what_a_run_cannot_keep() {
    let flow = given("a:noop");
    let plan = flow.plan().expect("a plan");
    for value in [nested(64), json!("a".repeat(17 << 20))] {
        let inputs = crate::given::object(json!({ "v": value }));
        let refused = plan.admit(&inputs, &Default::default(), Default::default());
        assert_eq!(refused.expect_err("too much").path, "inputs");
    }

    let question = json!({ "questions": [{ "id": "q", "question": "which?" }] });
    let asks = given("q:clarificationGate").config("q", question);
    let answer = Do::Answer("q", json!({ "answers": { "q": nested(64) } }));
    let played = play(&asks, &[(0, Do::Start), (1, answer)]);
    assert_eq!(played.count("clarification.resolved"), 0, "{:#?}", played.lines);

    let open = given("a:ai").top(json!({ "channels": { "c": { "reducer": "append" } } }));
    let played = play(&open, &[(0, Do::Start), (1, Do::Write("c", nested(65), None))]);
    assert_eq!(played.channel("c"), json!([]), "{:#?}", played.lines);
}

/// A log of a version that knew no bounds goes on to fold.
#[test]
fn a_recorded_value_beyond_the_bounds_is_still_read() {
    let played = play(&given("a:ai"), &[(0, Do::Start), (1, Do::Done("a", json!({ "v": 1 })))]);
    let mut log = played.log.clone();
    for entry in &mut log {
        if let Event::NodeCompleted(payload) = &mut entry.event {
            payload.outputs.insert("v".into(), nested(100));
        }
    }
    let run = Run::replay(played.run.birth().clone(), played.run.plan().clone(), &log);
    assert_eq!(run.status(), played.run.status());
    assert_eq!(run.snapshot().variables["a"]["v"], nested(100));
}

/// Each node takes a third of what one step may: together they are more than one decision.
#[test]
fn a_decision_ends_with_its_work_and_the_next_goes_on() {
    let names: Vec<String> = (0..8).map(|place| format!("n{place}")).collect();
    let nodes: Vec<String> = names.iter().map(|name| format!("{name}:noop")).collect();
    let text = "[inputs.t == inputs.t, inputs.t == inputs.t]|length";
    let flow = names
        .iter()
        .fold(given(&nodes.join(" ")), |flow, name| flow.ports(name, expression(text)))
        .inputs(json!({ "t": "a".repeat(9 << 20) }));
    let mut run = flow.run();
    let (mut log, mut decisions) = (Vec::new(), 0);
    let mut command = callboard_core::Command::Start;
    while !run.status().is_terminal() {
        log.extend(run.decide(&command, crate::given::at(0)).expect("a decision"));
        assert!(run.decided_work() <= MOST_WORK, "{}", run.decided_work());
        command = callboard_core::Command::Continue;
        decisions += 1;
    }
    assert!(decisions >= 2, "{decisions} decisions");
    assert_eq!(run.status().as_str(), "completed");
    let folded = Run::replay(run.birth().clone(), run.plan().clone(), &log);
    assert_eq!(folded.snapshot(), run.snapshot());
}

/// A new holder folds all of it again: what a run evaluates is bounded as a whole, and by its log alone.
#[test]
fn a_loop_that_looks_at_much_in_every_round_fails_when_its_run_has_worked_enough() {
    let flow =
        rounds("[2 in inputs.l, 3 in inputs.l, 4 in inputs.l, 5 in inputs.l]|length", json!(1));
    let flow = flow.inputs(json!({ "l": vec![1; 1_000_000] }));
    let mut played = play(&flow, &[(0, Do::Start)]);
    while !played.run.status().is_terminal() {
        played.step(1, &Do::Continue);
        assert!(played.run.decided_work() <= MOST_WORK, "{}", played.run.decided_work());
    }
    let failed = played.payload("node.failed");
    assert_eq!(failed["error"]["code"], "work_limit_exceeded");
    assert!(failed["error"]["message"].as_str().expect("a text").contains("read smaller values"));
    let folded = Run::replay(played.run.birth().clone(), played.run.plan().clone(), &played.log);
    assert_eq!(folded.snapshot(), played.run.snapshot());
}
