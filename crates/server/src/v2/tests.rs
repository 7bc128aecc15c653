//! The tables of the projection against the protocol's own, and that nothing is lost in it.

use std::io::Write as _;
use std::path::PathBuf;

use callboard_core::{Born, Stamp};
use callboard_engine::Recorded;
use callboard_protocol::{Dialect, Event, Object, Owner, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::event::{Asked, document};
use super::seats::{ERROR, Hatch, Seats, seats};
use super::{error_codes, event_names, id};

/// A file of the protocol's data; none, with a line that says so, where it is missing and not required.
fn data(name: &str) -> Option<Value> {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop/schemas-v2"));
    if let Ok(text) = std::fs::read(folder.join(name)) {
        return Some(serde_json::from_slice(&text).unwrap_or_default());
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|part| part.trim() == "openwop"), "openwop is required");
    drop(std::io::stderr().write_all(b"skipped: no protocol data at ../shared/openwop\n"));
    None
}

/// V-23: the whole codemap.
#[test]
fn the_codemap_is_the_protocols() {
    let Some(map) = data("event-codemap.json") else { return };
    let map = map["v1ToV2"].as_object().cloned().unwrap_or_default();
    for (first, second) in &map {
        assert_eq!(event_names::second(first), second.as_str(), "{first}");
    }
    for ours in event_names::all() {
        assert!(map.contains_key(ours), "{ours}");
    }
}

/// V-24: every seat.
#[test]
fn the_seats_are_the_protocols() {
    let Some(table) = data("payload-seats.json") else { return };
    for (name, row) in table.as_object().cloned().unwrap_or_default() {
        let ours = if name == "_error" { Some(ERROR) } else { seats(&name) };
        let Some(Seats { hatch, required, optional }) = ours else { panic!("no seats of {name}") };
        let hatch = match hatch {
            Hatch::Vendor => json!(true),
            Hatch::Closed => json!(false),
            Hatch::Open => json!("open"),
        };
        assert_eq!(
            (&row["hatch"], &row["required"], &row["optional"]),
            (&hatch, &json!(required), &json!(optional)),
            "{name}"
        );
    }
}

/// V-32: every registered code with its status.
#[test]
fn the_codes_are_the_protocols() {
    let Some(schema) = data("error-envelope.schema.json") else { return };
    let statuses = schema["x-openwop-http-status"].as_object().cloned().unwrap_or_default();
    assert_eq!(statuses.len(), 126);
    for (code, status) in statuses {
        let status = status.as_u64().and_then(|status| u16::try_from(status).ok());
        assert!(error_codes::is_registered(&code, status.unwrap_or_default()), "{code}");
    }
}

fn born() -> Born {
    let owner = Owner { tenant: "acme".into(), workspace: None, principal: Some("key:1".into()) };
    Born { stamp: Some(Stamp::of_owner(&owner, Dialect::V1)), owner }
}

fn recorded(kind: &str, payload: &Value) -> Recorded {
    Recorded {
        run: "run_0123456789abcdef".into(),
        sequence: 4,
        at: Timestamp::from_millis(0),
        kind: kind.to_owned(),
        node: Some("n".into()),
        payload: payload.to_string(),
        engine_version: 1,
        cause: None,
    }
}

/// Undoes what the projection does to ids, names and hatches, so that what comes back can be compared.
fn undone(told: Value) -> Object {
    let Value::Object(fields) = told else { return Object::new() };
    let plain = |value: Value| match value {
        Value::String(text) => match text.strip_prefix("acme/") {
            Some(bare) => bare.into(),
            None => text.into(),
        },
        other => other,
    };
    let name = |name: String| match name.strip_prefix("x-callboard-") {
        Some(bare) => bare.to_owned(),
        None => name,
    };
    fields.into_iter().map(|(member, value)| (name(member), plain(value))).collect()
}

/// What is said in other words, and tested one by one.
const REPHRASED: [&str; 6] = [
    "approval.requested",
    "approval.received",
    "clarification.requested",
    "clarification.resolved",
    "interrupt.resolved",
    "run.started",
];

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z ]{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn kinds() -> impl Strategy<Value = &'static str> {
    let all: Vec<&'static str> = event_names::all().chain(Event::KINDS.iter().copied()).collect();
    prop::sample::select(all)
}

proptest! {
    /// V-24: whatever a payload holds is told, or the event is not told at all.
    #[test]
    fn nothing_of_a_log_is_lost(
        kind in kinds(),
        extra in prop::collection::btree_map("[a-z]{3,9}", values(), 0..4),
        run in prop::option::of("run_[a-z0-9]{16}"),
    ) {
        prop_assume!(!REPHRASED.contains(&kind));
        let mut payload: Object = extra.into_iter().filter(|(name, _)| name != "error").collect();
        if let Some(run) = run {
            payload.insert("childRunId".to_owned(), run.into());
        }
        let name = event_names::second(kind).unwrap_or_default();
        let table = seats(name);
        let unseated = |member: &String| table.is_some_and(|seats| !seats.has(member));
        let is_closed = table.is_some_and(|seats| seats.hatch == Hatch::Closed);
        match document(&recorded(kind, &json!(payload)), &born(), &Asked::default()) {
            Err(problem) => {
                prop_assert_eq!(problem.code.name(), "payload_unprojectable");
                prop_assert!(is_closed && payload.keys().any(unseated));
            }
            Ok(told) => {
                prop_assert_eq!(event_names::first(told["type"].as_str().unwrap_or_default()), Some(kind));
                prop_assert_eq!(&told["sequence"], 4);
                let back = undone(told["payload"].clone());
                for (member, value) in &payload {
                    prop_assert_eq!(back.get(member), Some(value), "{} {}", kind, member);
                }
            }
        }
    }
}

/// V-24: the events that are told in other words lose nothing either.
#[test]
fn what_is_rephrased_is_still_said() {
    let mut asked = Asked::default();
    let request = json!({ "kind": "approval", "key": "run_x:n:0", "data": { "title": "T" } });
    asked.note(&recorded("interrupt.requested", &request));
    let tell = |kind: &str, payload: Value| {
        document(&recorded(kind, &payload), &born(), &asked).map(|told| told["payload"].clone())
    };
    let received = json!({ "nodeId": "n", "action": "refine", "decidedBy": "key:2", "decidedAt": "t", "feedback": "f", "refineFeedback": { "a": 1 } });
    let told = tell("approval.received", received).unwrap_or_default();
    assert_eq!(told["interruptId"], json!(id::of_interrupt("acme", "run_x:n:0")));
    assert_eq!(told["resolvedBy"]["subjectId"], "key:2");
    assert_eq!(
        (&told["x-callboard-decidedAt"], &told["x-callboard-feedback"]),
        (&json!("t"), &json!("f"))
    );
    assert_eq!(told["refineFeedback"], json!({ "a": 1 }));
    // What the log says itself is not guessed from what stands before it.
    let itself = json!({ "nodeId": "n", "interruptId": "run_x:n:1", "action": "accept" });
    let told = tell("approval.received", itself).unwrap_or_default();
    assert_eq!(told["interruptId"], json!(id::of_interrupt("acme", "run_x:n:1")));
    let resolved = json!({
        "nodeId": "n", "interruptId": "run_x:n:0", "kind": "approval", "runId": "run_0123456789abcdef",
        "resolvedAt": "t", "outcome": "rejected", "reason": "timeout",
    });
    let told = tell("interrupt.resolved", resolved).unwrap_or_default();
    assert_eq!(
        (&told["action"], &told["decision"], &told["reason"]),
        (&json!("timeout"), &json!("rejected"), &json!("timeout"))
    );
    assert_eq!(
        (&told["x-callboard-resolvedAt"], &told["x-callboard-outcome"]),
        (&json!("t"), &json!("rejected"))
    );
    let clarified = json!({ "nodeId": "n", "answers": { "q": 1 }, "answeredBy": "key:2" });
    let told = tell("clarification.resolved", clarified).unwrap_or_default();
    assert_eq!(told["resumeValue"], json!({ "answers": { "q": 1 } }));
    assert_eq!(tell("approval.requested", json!({ "nodeId": "n" })).unwrap_or_default(), request);
    let started = json!({ "workflowId": "w", "inputs": { "runId": "run_x" }, "engineVersion": "1", "extra": 1, "transport": "rest" });
    let told = tell("run.started", started).unwrap_or_default();
    assert_eq!((&told["engineVersion"], &told["x-callboard-extra"]), (&json!(1), &json!(1)));
    assert_eq!(told["inputs"], json!({ "runId": "run_x" }), "what users wrote is not touched");
    let failed = json!({ "nodeId": "n", "error": { "code": "My Code", "message": "m", "odd": 1, "details": { "runId": "run_x" } } });
    let told = tell("node.failed", failed).unwrap_or_default();
    assert_eq!(
        told["error"],
        json!({
            "code": "callboard.my_code", "message": "m", "x-callboard-odd": 1,
            "details": { "runId": "acme/run_x", "code": "My Code" },
        })
    );
    let unknown = document(&recorded("node.danced", &json!({})), &born(), &asked);
    assert_eq!(unknown.map_err(|problem| problem.code.name()), Err("event_type_unmapped"));
    let nobody = document(
        &recorded("approval.received", &json!({ "nodeId": "n" })),
        &born(),
        &Asked::default(),
    );
    assert_eq!(nobody.map_err(|problem| problem.code.name()), Err("payload_unprojectable"));
}
