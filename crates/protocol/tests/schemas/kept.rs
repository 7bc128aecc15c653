//! Events that were written once still read as what they were.
//!
//! `tests/kept/events.jsonl` has two lines for each kind: one with every field, which is written again as it was read, and
//! one with the fewest fields that were needed then, beside what it reads as. Once released no line is changed or
//! removed: a payload that no longer reads makes runs of users unreadable.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use callboard_protocol::{Event, NodeId, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::events;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    payload: Value,
    /// What the payload is written as once it was read, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reads_as: Option<Value>,
}

impl Kept {
    /// What is kept of an event with this payload.
    fn of(kind: &str, payload: Value) -> Self {
        let event = Event::read(kind, Some("n".into()), payload.clone());
        let reads_as = Some(event.payload()).filter(|written| *written != payload);
        Self { kind: kind.to_owned(), node_id: event.node_id().cloned(), payload, reads_as }
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/events.jsonl")
}

fn kept() -> Vec<Kept> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A kind without its lines gets them and fails once, for somebody to look at what they say.
#[test]
fn every_kind_of_event_is_kept() {
    let mut kept = kept();
    let known: BTreeSet<String> = kept.iter().map(|line| line.kind.clone()).collect();
    let new: Vec<&str> =
        Event::KINDS.iter().copied().filter(|kind| !known.contains(*kind)).collect();
    if new.is_empty() {
        return;
    }
    for event in events().iter().filter(|event| new.contains(&event.kind())) {
        kept.push(Kept::of(event.kind(), event.payload()));
    }
    for kind in &new {
        let mut of_kind = events().into_iter().filter(|event| event.kind() == *kind);
        let event = of_kind.next().expect("an event of each kind");
        kept.push(Kept::of(kind, fewest(kind, event.payload())));
    }
    let lines: Vec<String> =
        kept.iter().map(|line| serde_json::to_string(line).expect("JSON")).collect();
    fs::write(file(), lines.join("\n") + "\n").expect("a place for what is kept");
    panic!("{new:?} were missing and are written now; look at them and run the tests again");
}

#[test]
fn what_is_kept_reads_as_what_it_was() {
    for line in kept() {
        let event = Event::read(&line.kind, line.node_id.clone(), line.payload.clone());
        assert!(!matches!(event, Event::Other(_) | Event::Unreadable(_)), "{event:?}");
        assert_eq!(event.kind(), line.kind);
        assert_eq!(event.payload(), line.reads_as.unwrap_or(line.payload), "{}", line.kind);
        assert_eq!(event.node_id(), line.node_id.as_ref(), "{}", line.kind);
    }
}

/// The payload without every field that can be left out.
fn fewest(kind: &str, payload: Value) -> Value {
    let Value::Object(mut fields) = payload else { return payload };
    let names: Vec<String> = fields.keys().cloned().collect();
    let is_readable = |fields: &Object| {
        let read = Event::read(kind, None, Value::Object(fields.clone()));
        !matches!(read, Event::Unreadable(_))
    };
    for name in names {
        let mut fewer = fields.clone();
        fewer.remove(&name);
        if is_readable(&fewer) {
            fields = fewer;
        }
    }
    Value::Object(fields)
}
