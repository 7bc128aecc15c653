//! What an activity tells on its way: chunks and version pins (F53, F54).

use callboard_core::{Command, Fact, Pin, pin_version};
use callboard_protocol::MemoryWritten;
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{check, check_within, play};

/// Chunks are told in their order; told again, they are recorded once.
#[test]
fn f53_a_chunk_is_recorded_once() {
    let steps = [
        (0, Do::Start),
        (1, Do::Chunks("a", &[0, 1])),
        (2, Do::Chunks("a", &[0, 1, 2])),
        (3, Do::Chunks("a", &[2])),
        (4, Do::Done("a", json!({ "text": "c0c1c2" }))),
    ];
    let expected = [
        "run.started",
        "node.started a",
        "output.chunk a c0",
        "output.chunk a c1",
        "output.chunk a c2",
        "node.completed a",
        "run.completed",
    ];
    check(&given("a:ai"), &steps, &expected);
}

/// Also within one telling.
#[test]
fn f53_a_chunk_repeated_in_one_telling_is_recorded_once() {
    let steps = [(0, Do::Start), (1, Do::Chunks("a", &[0, 0, 1, 0, 1]))];
    check(
        &given("a:ai"),
        &steps,
        &["run.started", "node.started a", "output.chunk a c0", "output.chunk a c1"],
    );
}

/// A later attempt of the visit knows what was told before it; a new visit begins again.
#[test]
fn f53_a_new_attempt_goes_on_where_the_last_one_stopped() {
    let flow = given("l:loop a:ai").edges("l>a a>l").config("l", json!({ "count": 2 }));
    let steps = [
        (0, Do::Start),
        (1, Do::Chunks("a", &[0, 1])),
        (2, Do::Adopt),
        (3, Do::Chunks("a", &[0, 1, 2])),
    ];
    let mut played = check_within(&flow, &steps, &["node.started a #1", "output.chunk a c2"]);
    assert_eq!(played.count("output.chunk"), 3);
    assert_eq!(played.run.tasks().next().expect("a is owed").facts_recorded, 3);
    played.step(4, &Do::Done("a", json!({})));
    assert_eq!(played.run.tasks().next().expect("a is owed").facts_recorded, 0);
    played.step(5, &Do::Chunks("a", &[0]));
    assert_eq!(played.count("output.chunk"), 4);
}

/// F54: the first pin stays; asking again records nothing.
#[test]
fn f54_a_version_is_pinned_once() {
    let steps = [
        (0, Do::Start),
        (1, Do::Pins("a", &[("change", 2), ("change", 3)])),
        (2, Do::Pins("a", &[("change", 4), ("other", 0)])),
    ];
    let expected =
        ["run.started", "node.started a", "version.pinned change 2", "version.pinned other 0"];
    let played = check(&given("a:ai"), &steps, &expected);
    assert_eq!(pin_version(played.run.pins(), "change", -1, 9), Ok(Pin::Known(2)));
    assert_eq!(pin_version(played.run.pins(), "third", 0, 9), Ok(Pin::New(9)));
}

/// F54: a pin below what the code still supports is an error with all its numbers.
#[test]
fn f54_a_pin_out_of_range_says_so() {
    let played = play(&given("a:ai"), &[(0, Do::Start), (1, Do::Pins("a", &[("change", 2)]))]);
    let failure = pin_version(played.run.pins(), "change", 3, 5).expect_err("too old");
    assert_eq!(failure.code, "version_out_of_range");
    let details = serde_json::Value::Object(failure.details.expect("details"));
    let expected =
        json!({ "changeId": "change", "pinnedVersion": 2, "currentMin": 3, "currentMax": 5 });
    assert_eq!(details, expected);
}

/// Facts of nodes that core computes itself are nobody's to tell.
#[test]
fn only_an_activity_can_tell_or_finish() {
    let flow = given("w:delay").config("w", json!({ "ms": 50 }));
    let steps = [
        (0, Do::Start),
        (1, Do::Chunks("w", &[0])),
        (2, Do::Done("w", json!({}))),
        (3, Do::Done("ghost", json!({}))),
    ];
    check_within(&flow, &steps, &["refused: stale w", "refused: stale w", "refused: stale ghost"]);
}

/// What is remembered has a name, so telling it again tells nothing, and it takes no other fact's place.
#[test]
fn what_is_remembered_is_told_once() {
    let mut run = play(&given("a:ai"), &[(0, Do::Start)]).run;
    let attempt = run.tasks().next().expect("a is owed").attempt;
    let written = |id: &str, version: u64| {
        Fact::Memory(MemoryWritten {
            memory_ref: "desk".to_owned(),
            memory_id: id.into(),
            version,
            node_id: Some("a".into()),
            agent_id: None,
            tags: Vec::new(),
        })
    };
    let chunk =
        |index: u32| Fact::Chunk { index, text: format!("c{index}"), is_last: false, meta: None };
    let mut tell = |facts: Vec<Fact>| -> Vec<String> {
        let command = Command::RecordFacts { attempt: attempt.clone(), facts };
        let told = run.decide(&command, at(5)).expect("a current attempt");
        told.iter().map(|entry| entry.event.kind().to_owned()).collect()
    };
    let first = vec![written("m1", 1), chunk(0), written("m1", 1), written("m2", 1)];
    assert_eq!(tell(first.clone()), ["memory.written", "output.chunk", "memory.written"]);
    assert_eq!(tell(first), [""; 0]);
    assert_eq!(tell(vec![written("m1", 2), chunk(1)]), ["memory.written", "output.chunk"]);
    let seen: Vec<(String, u64)> = run
        .memory_view()
        .also
        .into_iter()
        .map(|seen| (seen.id.to_string(), seen.version))
        .collect();
    let expected = [("m1", 1), ("m1", 2), ("m2", 1)];
    assert_eq!(seen, expected.map(|(id, version)| (id.to_owned(), version)));
}
