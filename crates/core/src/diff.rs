//! How two runs differ: a pure function of their public logs and what these came to.

use std::collections::BTreeSet;

use callboard_protocol::{Object, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One of the two runs, as its readers see it.
#[derive(Debug, Clone, Copy)]
pub struct DiffSide<'a> {
    pub run: &'a RunId,
    /// `RunEventDoc`s in order, from sequence 0.
    pub events: &'a [Value],
    /// The run's snapshot.
    pub state: &'a Value,
    /// Whether the log will grow no more.
    pub is_ended: bool,
}

/// `GET /v1/runs/{runId}:diff`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    pub a: RunId,
    pub b: RunId,
    /// The first sequence at which the logs differ; none where they do not.
    pub diverged_at_seq: Option<u64>,
    pub event_diffs: Vec<EventDiff>,
    /// `{status, variables: {name: {a, b}}, channels: …}`: only what differs, and a missing side left out.
    pub state_diff: Object,
    /// A run was under way, so that only a prefix was compared, or the answer would have grown too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDiff {
    pub seq: u64,
    pub op: EventOp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_event: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_event: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventOp {
    /// Only `b` has it.
    Added,
    /// Only `a` has it.
    Removed,
    Changed,
}

/// People do not read further than this, and a program can read the two logs.
const MOST_DIFFS: usize = 500;
/// What the differences may weigh as JSON; one event can be as large as a request.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What is true of one run alone: its own ids, and what a clock said.
const OWN: [&str; 11] = [
    "eventId",
    "runId",
    "causationId",
    "correlationId",
    "interruptId",
    "traceparent",
    "timestamp",
    "durationMs",
    "writtenAt",
    "resolvedAt",
    "decidedAt",
];

/// Aligns by sequence and compares type, node and payload, without what is true of one run alone.
pub fn diff(a: DiffSide<'_>, b: DiffSide<'_>) -> RunDiff {
    let mut budget = Budget { bytes: MOST_BYTES, is_spent: false };
    let mut event_diffs: Vec<EventDiff> = Vec::new();
    let mut diverged_at_seq = None;
    for place in 0..compared(&a, &b) {
        let Some((op, a_event, b_event)) = compare(a.events.get(place), b.events.get(place)) else {
            continue;
        };
        let seq = place as u64;
        diverged_at_seq.get_or_insert(seq);
        let event = EventDiff { seq, op, a_event: a_event.cloned(), b_event: b_event.cloned() };
        if event_diffs.len() == MOST_DIFFS || !budget.pays_for(&json!(event)) {
            budget.is_spent = true;
            break;
        }
        event_diffs.push(event);
    }
    let state_diff = compare_states(a.state, b.state, &mut budget);
    let truncated = budget.is_spent || !a.is_ended || !b.is_ended;
    RunDiff {
        a: a.run.clone(),
        b: b.run.clone(),
        diverged_at_seq,
        event_diffs,
        state_diff,
        truncated,
    }
}

/// Events that a run under way has yet to write are no difference.
fn compared(a: &DiffSide<'_>, b: &DiffSide<'_>) -> usize {
    let mut most = a.events.len().max(b.events.len());
    for side in [a, b].into_iter().filter(|side| !side.is_ended) {
        most = most.min(side.events.len());
    }
    most
}

type Pair<'a> = (EventOp, Option<&'a Value>, Option<&'a Value>);

fn compare<'a>(a: Option<&'a Value>, b: Option<&'a Value>) -> Option<Pair<'a>> {
    let op = match (a, b) {
        (Some(a), Some(b)) if is_same(a, b) => return None,
        (Some(_), Some(_)) => EventOp::Changed,
        (Some(_), None) => EventOp::Removed,
        (None, Some(_)) => EventOp::Added,
        (None, None) => return None,
    };
    Some((op, a, b))
}

fn is_same(a: &Value, b: &Value) -> bool {
    let shape = |event: &Value| (event.get("type").cloned(), event.get("nodeId").cloned());
    let payload = |event: &Value| {
        let mut payload = event.get("payload").cloned().unwrap_or_default();
        if let Value::Object(fields) = &mut payload {
            fields.retain(|name, _| !OWN.contains(&name.as_str()));
        }
        payload
    };
    shape(a) == shape(b) && payload(a) == payload(b)
}

fn compare_states(a: &Value, b: &Value, budget: &mut Budget) -> Object {
    let mut found = Object::new();
    for field in ["status", "error"] {
        if let Some(sides) = sides(a.get(field), b.get(field)) {
            found.insert(field.to_owned(), sides);
        }
    }
    for bag in ["variables", "channels"] {
        let fields = |state: &Value| state.get(bag).and_then(Value::as_object).cloned();
        let (a, b) = (fields(a).unwrap_or_default(), fields(b).unwrap_or_default());
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let mut changed = Object::new();
        for name in names {
            let Some(sides) = sides(a.get(name), b.get(name)) else { continue };
            if budget.pays_for(&sides) {
                changed.insert(name.clone(), sides);
            }
        }
        if !changed.is_empty() {
            found.insert(bag.to_owned(), changed.into());
        }
    }
    found
}

/// Both sides of a difference. A side that lacks the thing is left out, because null is a value too.
fn sides(a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    let present = [("a", a), ("b", b)].into_iter().filter_map(|(side, value)| Some((side, value?)));
    let sides = present.map(|(side, value)| (side.to_owned(), value.clone())).collect::<Object>();
    (a != b).then_some(Value::Object(sides))
}

struct Budget {
    bytes: usize,
    is_spent: bool,
}

impl Budget {
    fn pays_for(&mut self, value: &Value) -> bool {
        let size = value.to_string().len();
        match self.bytes.checked_sub(size) {
            Some(left) => self.bytes = left,
            None => self.is_spent = true,
        }
        !self.is_spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, kind: &str, payload: Value) -> Value {
        json!({ "eventId": format!("x-{sequence}"), "runId": "x", "sequence": sequence,
            "type": kind, "timestamp": "2025-11-16T00:00:00Z", "payload": payload })
    }

    fn side<'a>(run: &'a RunId, events: &'a [Value], state: &'a Value) -> DiffSide<'a> {
        DiffSide { run, events, state, is_ended: true }
    }

    #[test]
    fn ids_and_clocks_make_no_difference() {
        let (a, b) = ("run-a".into(), "run-b".into());
        let log = |run: &str, millis: u64| {
            let mut chunk = event(0, "output.chunk", json!({ "runId": run, "chunk": "hi" }));
            chunk["runId"] = run.into();
            chunk["timestamp"] = run.into();
            vec![chunk, event(1, "run.completed", json!({ "durationMs": millis, "outputs": {} }))]
        };
        let state = json!({ "status": "completed" });
        let found = diff(side(&a, &log("run-a", 1), &state), side(&b, &log("run-b", 9), &state));
        assert_eq!(
            json!(found),
            json!({ "a": "run-a", "b": "run-b", "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {} })
        );
    }

    #[test]
    fn the_first_difference_is_named_and_all_are_listed() {
        let (a, b) = ("run-a".into(), "run-b".into());
        let ours = [event(0, "run.started", json!({})), event(1, "x.told", json!({ "n": 1 }))];
        let theirs = [
            event(0, "run.started", json!({})),
            event(1, "x.told", json!({ "n": 2 })),
            event(2, "x.more", json!(null)),
        ];
        let (was, is) = (
            json!({ "status": "completed", "variables": { "same": 1, "gone": null, "n": 1 } }),
            json!({ "status": "failed", "variables": { "same": 1, "n": 2 }, "error": { "code": "x" } }),
        );
        let found = diff(side(&a, &ours, &was), side(&b, &theirs, &is));
        assert_eq!(found.diverged_at_seq, Some(1));
        let ops: Vec<_> = found.event_diffs.iter().map(|event| (event.seq, event.op)).collect();
        assert_eq!(ops, [(1, EventOp::Changed), (2, EventOp::Added)]);
        assert_eq!(
            json!(found.state_diff),
            json!({
                "status": { "a": "completed", "b": "failed" },
                "error": { "b": { "code": "x" } },
                "variables": { "gone": { "a": null }, "n": { "a": 1, "b": 2 } },
            })
        );
        assert!(!found.truncated);
        let back = diff(side(&b, &theirs, &is), side(&a, &ours, &was));
        assert_eq!(back.event_diffs[1].op, EventOp::Removed);
    }

    #[test]
    fn what_a_run_under_way_has_not_written_yet_is_no_difference() {
        let (a, b) = ("run-a".into(), "run-b".into());
        let log: Vec<Value> = (0..4).map(|place| event(place, "x.told", json!(place))).collect();
        let state = json!({});
        let behind = DiffSide { is_ended: false, ..side(&b, &log[..2], &state) };
        let found = diff(side(&a, &log, &state), behind);
        assert_eq!((found.diverged_at_seq, found.truncated), (None, true));
    }

    #[test]
    fn two_long_strangers_get_a_bounded_answer() {
        let (a, b) = ("run-a".into(), "run-b".into());
        let ours: Vec<Value> = (0..2_000).map(|place| event(place, "x.a", json!(0))).collect();
        let theirs: Vec<Value> = (0..2_000).map(|place| event(place, "x.b", json!(0))).collect();
        let state = json!({});
        let found = diff(side(&a, &ours, &state), side(&b, &theirs, &state));
        assert_eq!((found.event_diffs.len(), found.truncated), (500, true));
        let heavy = json!({ "text": "x".repeat(1024 * 1024) });
        let ours: Vec<Value> = (0..9).map(|place| event(place, "x.a", heavy.clone())).collect();
        let found = diff(side(&a, &ours, &state), side(&b, &[], &state));
        assert!(found.event_diffs.len() < 5 && found.truncated);
    }
}
