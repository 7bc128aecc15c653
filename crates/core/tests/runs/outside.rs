//! What comes from outside a run into its channels and variables (F22), and what a replay makes of it.

use callboard_core::{Command, Fork, Refusal, Run};
use callboard_protocol::{ForkMode, RunStatus};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::given::{Do, Given, at, given};
use crate::story::{Played, check, check_within, outside, play};

/// A run that waits for approval, with one channel.
fn waiting(declaration: Value) -> Given {
    given("gate:approvalGate").top(json!({ "channels": { "c": declaration } }))
}

fn refused(flow: &Given, value: Value) -> Refusal {
    let mut played = play(flow, &[(0, Do::Start)]);
    let told = played.run.decide(&outside("c", value, Some("run-9")), at(5));
    told.expect_err("a refusal")
}

/// F22: what keeps all writes, or adds them up, takes them from anywhere.
#[test]
fn f22_writes_that_commute_are_taken() {
    let vote = json!({ "userId": "u", "action": "accept" });
    for (reducer, value, folded) in [
        ("append", json!("x"), json!(["x"])),
        ("counter", json!(4), json!(4)),
        ("votes", vote.clone(), json!([vote])),
        ("feedback", json!({ "feedback": "f" }), json!([{ "feedback": "f" }])),
        ("message", json!({ "messageId": "m" }), json!([{ "messageId": "m" }])),
    ] {
        let steps = [(0, Do::Start), (5, Do::Write("c", value.clone(), Some("run-9")))];
        let played = play(&waiting(json!({ "reducer": reducer, "schemaVersion": 2 })), &steps);
        assert_eq!(played.channel("c"), folded, "{reducer}");
        assert_eq!(played.run.status(), RunStatus::WaitingApproval, "it waits as before");
        let expected = json!({ "channel": "c", "value": value, "reducer": reducer, "writtenAt": at(5),
            "schemaVersion": 2, "sourceEngineId": "engine-2", "sourceRunId": "run-9" });
        assert_eq!(played.payload("channel.written"), expected);
    }
}

/// F22: where the last one wins, or nobody knows who does, only the run's own nodes write.
#[test]
fn f22_writes_whose_order_matters_are_refused() {
    for reducer in ["replace", "merge", "vendor.acme.mix"] {
        let refusal = refused(&waiting(json!({ "reducer": reducer })), json!({ "a": 1 }));
        let expected = Refusal::ForeignWrite {
            channel: "c".into(),
            reducer: reducer.into(),
            source_engine_id: Some("engine-2".into()),
            source_run_id: Some("run-9".into()),
        };
        assert_eq!(refusal, expected);
    }
}

/// Access names nodes; whoever is outside is none.
#[test]
fn f22_lists_of_writers_and_private_channels_shut_strangers_out() {
    for (access, is_open) in [
        (json!("public"), true),
        (json!({ "readers": ["gate"] }), true),
        (json!("private"), false),
        (json!({ "writers": [] }), false),
        (json!({ "writers": ["*"] }), false),
    ] {
        let flow = waiting(json!({ "reducer": "append", "access": access }));
        let mut played = play(&flow, &[(0, Do::Start)]);
        let told = played.run.decide(&outside("c", json!(1), None), at(1));
        match told {
            Ok(_) => assert!(is_open, "{access}"),
            Err(refusal) => {
                assert!(!is_open && matches!(refusal, Refusal::NotAWriter { .. }), "{access}");
            }
        }
    }
}

/// The rules of inner writes hold: kind, schema, size, time-to-live; and the channel must be declared.
#[test]
fn f22_the_rules_of_inner_writes_hold() {
    let numbers = json!({ "reducer": "append", "schema": { "items": { "type": "number" } } });
    for (declaration, value) in
        [(json!({ "reducer": "counter" }), json!("one")), (numbers, json!("one"))]
    {
        let refusal = refused(&waiting(declaration), value);
        assert!(matches!(refusal, Refusal::InvalidWrite { .. }), "{refusal:?}");
    }
    let undeclared = refused(&given("gate:approvalGate"), json!(1));
    assert_eq!(undeclared, Refusal::UnknownChannel { channel: "c".into() });
    let write = |value: i64| Do::Write("c", json!(value), None);
    let bounded = waiting(json!({ "reducer": "append", "maxSize": 2 }));
    let steps = [(0, Do::Start), (1, write(1)), (2, write(2)), (3, write(3))];
    assert_eq!(play(&bounded, &steps).channel("c"), json!([2, 3]));
    let brief = waiting(json!({ "reducer": "append", "ttlMs": 100 }));
    let steps = [(0, Do::Start), (1, write(1)), (200, write(2))];
    let entry = json!({ "value": 2, "_ts": at(200).as_millis() });
    assert_eq!(play(&brief, &steps).channel("c"), json!([entry]));
}

/// Whoever writes first starts the run; whoever writes too late is told so.
#[test]
fn f22_a_run_takes_writes_from_its_birth_to_its_end() {
    let flow = given("n:noop").top(json!({ "channels": { "c": { "reducer": "append" } } }));
    let expected = [
        "run.started",
        "channel.written c 1",
        "node.started n",
        "node.completed n",
        "run.completed",
    ];
    let steps = [(0, Do::Write("c", json!(1), None)), (1, Do::Write("c", json!(2), None))];
    let refused = "refused: ended completed";
    check(&flow, &steps, &expected.into_iter().chain([refused]).collect::<Vec<_>>());
}

fn listening(origin: &str) -> Given {
    given("call:subWorkflow t:ai").config("call", json!({ "workflowId": "child" })).top(json!({
        "channels": { "c": { "reducer": "append" } },
        "triggers": [{ "id": "t", "type": "channel-write", "nodeId": "t",
            "config": { "channel": "c", "onlyFrom": origin } }],
    }))
}

/// A run that has started `run-9`.
fn with_child(origin: &str) -> Played {
    let mut played = play(&listening(origin), &[(0, Do::Start)]);
    let order = played.run.child_orders().remove(0);
    let dispatch = Command::Dispatch {
        attempt: order.attempt,
        child: "run-9".into(),
        workflow: order.workflow,
    };
    played.log.extend(played.run.decide(&dispatch, at(1)).expect("a child"));
    played
}

/// F22, F24: `child` listens to the run's own children, `any` to everybody, `parent` to its nodes alone.
#[test]
fn f22_a_childs_write_fires_what_listens_to_children() {
    for (origin, source, fires) in [
        ("child", Some("run-9"), true),
        ("child", Some("run-8"), false),
        ("child", None, false),
        ("any", Some("run-8"), true),
        ("any", None, true),
        ("parent", Some("run-9"), false),
    ] {
        let mut played = with_child(origin);
        played.step(2, &Do::Write("c", json!(1), source));
        let fired = played.lines.contains(&"node.started t".to_owned());
        assert_eq!(fired, fires, "{origin} {source:?}: {:#?}", played.lines);
    }
}

/// A variable is set without a node, and a channel is none.
#[test]
fn variables_are_set_from_outside_and_channels_are_not() {
    let flow = waiting(json!({ "reducer": "append" })).inputs(json!({ "x": 1 }));
    let steps = [(0, Do::Start), (1, Do::SetVariables(json!({ "x": 2, "y": [3] })))];
    let played = check_within(&flow, &steps, &["variable.changed x 2", "variable.changed y [3]"]);
    assert_eq!((played.variable("x"), played.variable("y")), (json!(2), json!([3])));
    let told = played.log.iter().find(|entry| entry.event.kind() == "variable.changed");
    let told = told.expect("a change").event.payload();
    assert_eq!(told, json!({ "name": "x", "previous": 1, "next": 2 }));
    check_within(
        &flow,
        &[(0, Do::Start), (1, Do::SetVariables(json!({ "c": [] })))],
        &["refused: c is a channel, not a variable"],
    );
}

/// R54: a replay repeats what came from outside, and takes nothing of its own.
#[test]
fn a_replay_repeats_outside_writes_and_refuses_new_ones() {
    let steps = [
        (0, Do::Start),
        (5, Do::Write("c", json!("from a run"), Some("run-9"))),
        (6, Do::Write("c", json!("from a person"), None)),
        (7, Do::SetVariables(json!({ "x": 1 }))),
        (9, Do::Answer("gate", json!({ "action": "accept" }))),
    ];
    let source = play(&waiting(json!({ "reducer": "append" })), &steps);
    let mut birth = callboard_core::Birth::clone(source.run.birth());
    birth.run_id = "run-2".into();
    birth.fork = Some(Fork {
        earlier: Vec::new(),
        refusal: None,
        prompts: Vec::new(),
        retry: None,
        evaluated: Default::default(),
        source: "run-1".into(),
        from: 0,
        until: source.log.len() as u64,
        mode: ForkMode::Replay,
        origin: "run-1".into(),
    });
    let fork = || Run::new(Arc::new(birth.clone()), Arc::clone(source.run.plan()));
    let mut replay = fork().with_source(&source.log);
    for command in [outside("c", json!(1), None), Command::SetVariables(Default::default())] {
        assert_eq!(replay.decide(&command, at(10)), Err(Refusal::IsReplay));
    }
    let log = replay.decide(&Command::Continue, at(10)).expect("a replay goes on");
    let payloads = |log: &[callboard_core::Entry]| {
        log.iter().map(|entry| entry.event.payload_text()).collect::<Vec<_>>()
    };
    assert_eq!(payloads(&log), payloads(&source.log));
    assert_eq!(replay.snapshot().channels, source.snapshot().channels);
}
