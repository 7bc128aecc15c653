//! Old logs under newer definitions, and logs of a future nobody here knows (F15, F21, F56).

use std::sync::Arc;

use callboard_core::{Command, Entry, Run};
use callboard_protocol::{Event, RunStatus};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::story::play;

/// A run that has started and folded these writes.
fn with_writes(flow: &Given, writes: &[Value]) -> Run {
    let mut run = flow.run();
    let mut sequence = 0;
    let mut fold = |run: &mut Run, kind: &str, payload: Value| {
        run.apply(&Entry {
            sequence,
            at: at(5),
            event: Event::read(kind, None, payload),
            cause: None,
        });
        sequence += 1;
    };
    fold(&mut run, "run.started", json!({ "workflowId": "w" }));
    for write in writes {
        let mut payload = json!({ "channel": "c", "reducer": "append", "writtenAt": at(5) });
        payload.as_object_mut().expect("fields").extend(crate::given::object(write.clone()));
        fold(&mut run, "channel.written", payload);
    }
    run
}

fn declared(version: u32, compatible: Value) -> Given {
    given("n:ai").top(json!({ "channels": { "c": { "reducer": "append", "schemaVersion": version,
        "compatibleWith": compatible, "schema": { "type": "array", "items": { "type": "number" } } } } }))
}

/// F21: same and newer versions fold; older ones only where listed and still valid.
#[test]
fn f21_writes_of_other_schema_versions() {
    for (version, compatible, write, folds) in [
        (2, json!([]), json!({ "value": 1, "schemaVersion": 2 }), true),
        (2, json!([]), json!({ "value": "new", "schemaVersion": 3 }), true),
        (2, json!([1]), json!({ "value": 1, "schemaVersion": 1 }), true),
        (2, json!([1]), json!({ "value": 1 }), true),
        (2, json!([1]), json!({ "value": "text", "schemaVersion": 1 }), false),
        (3, json!([1]), json!({ "value": 1, "schemaVersion": 2 }), false),
        (2, json!([]), json!({ "value": 1 }), false),
    ] {
        let mut run = with_writes(&declared(version, compatible), std::slice::from_ref(&write));
        let entries = run.decide(&Command::Continue, at(6)).expect("not ended");
        assert_eq!(run.status() == RunStatus::Running, folds, "{write}: {entries:?}");
        let expected = if folds { json!([write["value"]]) } else { json!([]) };
        assert_eq!(run.snapshot().channels.expect("channels")["c"], expected, "{write}");
    }
}

#[test]
fn f21_a_breaking_change_says_what_and_where() {
    let mut run =
        with_writes(&declared(4, json!([3])), &[json!({ "value": 1, "schemaVersion": 2 })]);
    run.decide(&Command::Continue, at(6)).expect("not ended");
    let error = run.snapshot().error.expect("an error");
    assert_eq!(error.code, "channel_schema_breaking_change");
    let details = error.details.expect("details");
    assert_eq!(details["channel"], "c");
    assert_eq!(details["currentSchemaVersion"], 4);
    assert_eq!(details["incompatibleEventVersion"], 2);
    assert_eq!(details["incompatibleEventId"], "run-1-1");
    assert!(details["migrationHint"].is_string());
}

/// F15: the recorded reducer folds an old write, whatever the declaration says today.
#[test]
fn f15_a_replay_uses_the_recorded_reducer() {
    let flow = given("n:ai").top(json!({ "channels": { "c": { "reducer": "replace" } } }));
    let run = with_writes(&flow, &[json!({ "value": 1 }), json!({ "value": 2 })]);
    assert_eq!(run.snapshot().channels.expect("channels")["c"], json!([1, 2]));
}

/// A value that no reducer would have admitted folds all the same: the log is a fact.
#[test]
fn a_foreign_value_still_folds() {
    let flow = given("n:ai");
    for (reducer, value) in [
        ("counter", json!("x")),
        ("merge", json!([1])),
        ("votes", json!(3)),
        ("message", json!(null)),
    ] {
        let run = with_writes(
            &flow,
            &[json!({ "reducer": reducer, "value": value }), json!({ "value": 1 })],
        );
        assert_eq!(run.version(), 3, "{reducer}");
    }
}

/// F56: event kinds and fields that nobody here knows are kept in the count and change nothing else.
#[test]
fn f56_unknown_events_and_fields_are_tolerated() {
    let played = play(&given("n:ai"), &[(0, Do::Start), (3, Do::Done("n", json!({ "x": 1 })))]);
    let mut log = Vec::new();
    for entry in &played.log {
        let mut payload = entry.event.payload();
        payload["addedInVersion9"] = json!({ "deep": [1] });
        log.push((entry.at, entry.event.kind().to_owned(), payload));
        log.push((entry.at, "acme.canvas.published".to_owned(), json!({ "any": "thing" })));
    }
    let entries: Vec<Entry> = log
        .into_iter()
        .zip(0..)
        .map(|((at, kind, payload), sequence)| Entry {
            sequence,
            at,
            event: Event::read(&kind, None, payload),
            cause: None,
        })
        .collect();
    let run = Run::replay(Arc::clone(played.run.birth()), Arc::clone(played.run.plan()), &entries);
    let (mut seen, mut plain) = (run.snapshot(), played.snapshot());
    assert_eq!(seen.last_sequence.take(), Some(entries.len() as u64 - 1));
    plain.last_sequence = None;
    assert_eq!(seen, plain);
}

/// A payload that this build cannot read may have said anything: a node that it ended must not run again.
#[test]
fn nothing_is_decided_on_a_log_that_cannot_be_read() {
    let played = play(&given("n:ai"), &[(0, Do::Start), (3, Do::Done("n", json!({ "x": 1 })))]);
    let is_end = |entry: &Entry| entry.event.kind() == "node.completed";
    let place = played.log.iter().position(is_end).expect("an end");
    let mut log = played.log[..=place].to_vec();
    let payload = json!({ "node": "n", "result": { "x": 1 } });
    log[place].event = Event::read("node.completed", Some("n".into()), payload);
    let mut run = Run::replay(Arc::clone(played.run.birth()), Arc::clone(played.run.plan()), &log);
    for command in [Command::Continue, Command::Adopt, Command::Start] {
        let refused = run.decide(&command, at(9)).expect_err("refused").to_string();
        let expected = format!(
            "event {place} of its log, node.completed, cannot be read: missing field `nodeId`"
        );
        assert_eq!(refused, expected);
    }
}

/// Events about nodes, loops and channels that the definition does not have are passed over.
#[test]
fn f56_events_about_strangers_are_passed_over() {
    let mut run = given("n:ai").run();
    for (sequence, (kind, payload)) in [
        ("run.started", json!({ "workflowId": "w" })),
        ("node.started", json!({ "nodeId": "ghost", "typeId": "core.noop" })),
        ("node.completed", json!({ "nodeId": "ghost" })),
        (
            "node.failed",
            json!({ "nodeId": "ghost", "error": { "code": "c", "message": "m" }, "attempts": 1 }),
        ),
        ("node.skipped", json!({ "nodeId": "ghost" })),
        ("node.retried", json!({ "nodeId": "ghost", "attempt": 1 })),
        ("workflow.loopback-limit", json!({ "nodeId": "ghost", "iterations": 1 })),
        (
            "output.chunk",
            json!({ "nodeId": "ghost", "runId": "run-1", "chunk": "", "isLast": true }),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let event = Event::read(kind, None, payload);
        assert_ne!(event.kind(), "", "{kind}");
        run.apply(&Entry { sequence: sequence as u64, at: at(0), event, cause: None });
    }
    run.decide(&Command::Continue, at(1)).expect("not ended");
    assert_eq!(run.tasks().count(), 1);
}
