//! How two runs compare, node by node: aligned by node, visit and call of a model, whatever stands between them.

use std::collections::BTreeMap;

use callboard_protocol::{NodeId, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diff::DiffSide;

/// What two runs did and what each of it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunComparison {
    pub a: RunTotals,
    pub b: RunTotals,
    /// In the order in which `a` came to them, then those that only `b` came to.
    pub nodes: Vec<NodeComparison>,
    /// A run was under way, or the answer would have grown too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// One run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunTotals {
    pub run_id: RunId,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    pub used: Used,
}

/// What models used. A cost that is not known is not free, so one unknown part leaves the whole unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// One visit of a node in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeComparison {
    pub node_id: NodeId,
    pub visit: u32,
    pub op: ComparedOp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<VisitRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<VisitRecord>,
    /// The calls of models within the visit, by their place in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallComparison>,
}

/// Whether two things came to the same. What they took in time never makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedOp {
    Same,
    Changed,
    /// Only `b` has it.
    Added,
    /// Only `a` has it.
    Removed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VisitRecord {
    /// `completed`, `failed`, `skipped`, `cancelled`, or `started` where it has not ended.
    pub outcome: String,
    /// The code of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Left out where both sides are the same, and where the answer would grow too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Value>,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// By hash, the prompts that were composed for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    pub used: Used,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallComparison {
    pub call: u32,
    pub op: ComparedOp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<CallRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<CallRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    pub provider: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Visits of nodes that an answer holds. People do not read further, and a program can read the two logs.
const MOST_VISITS: usize = 1_000;
/// Calls of one visit that an answer holds.
const MOST_CALLS: usize = 200;
/// What all outputs in an answer may weigh as JSON.
const MOST_BYTES: usize = 1024 * 1024;

type Place = (String, u32);

/// Compares two runs by their public logs.
pub fn compare(a: DiffSide<'_>, b: DiffSide<'_>) -> RunComparison {
    let (ours, theirs) = (Visits::read(a.events), Visits::read(b.events));
    let only_theirs = theirs.order.iter().filter(|place| !ours.seen.contains_key(*place));
    let mut places = ours.order.iter().chain(only_theirs);
    let mut bytes = MOST_BYTES;
    let nodes = places
        .by_ref()
        .take(MOST_VISITS)
        .map(|place| {
            compare_visits(place, ours.seen.get(place), theirs.seen.get(place), &mut bytes)
        })
        .collect();
    let truncated = places.next().is_some() || !a.is_ended || !b.is_ended;
    RunComparison { a: totals(&a, &ours), b: totals(&b, &theirs), nodes, truncated }
}

fn totals(side: &DiffSide<'_>, visits: &Visits) -> RunTotals {
    let end = side.events.last().and_then(|last| last.pointer("/payload/durationMs"));
    RunTotals {
        run_id: side.run.clone(),
        status: text(side.state, "status"),
        duration_ms: end.and_then(Value::as_u64).filter(|_| side.is_ended),
        used: visits.seen.values().flat_map(|visit| &visit.calls).fold(Used::default(), add),
    }
}

fn add(used: Used, call: &CallRecord) -> Used {
    let cost = match used.calls {
        0 => call.cost_usd,
        _ => used.cost_usd.zip(call.cost_usd).map(|(before, more)| before + more),
    };
    Used {
        calls: used.calls + 1,
        input_tokens: used.input_tokens + call.input_tokens,
        output_tokens: used.output_tokens + call.output_tokens,
        cost_usd: cost,
    }
}

/// One visit as a log shows it.
#[derive(Debug, Default)]
struct Visit {
    outcome: &'static str,
    error: Option<String>,
    outputs: Option<Value>,
    attempts: u32,
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
    prompts: Vec<String>,
    calls: Vec<CallRecord>,
}

#[derive(Debug, Default)]
struct Visits {
    order: Vec<Place>,
    seen: BTreeMap<Place, Visit>,
    /// The visit that each node is at.
    current: BTreeMap<String, u32>,
}

impl Visits {
    fn read(events: &[Value]) -> Self {
        let mut visits = Self::default();
        events.iter().for_each(|event| visits.fold(event));
        visits
    }

    fn fold(&mut self, event: &Value) {
        let (kind, node) = (text(event, "type"), text(event, "nodeId"));
        let empty = Value::Null;
        let payload = event.get("payload").unwrap_or(&empty);
        let at = text(event, "timestamp").parse().ok();
        let node = if node.is_empty() { text(payload, "nodeId") } else { node };
        if node.is_empty() {
            return;
        }
        if kind == "node.started" {
            let visit = payload.get("visit").and_then(Value::as_u64).unwrap_or(0);
            self.current.insert(node.clone(), u32::try_from(visit).unwrap_or(u32::MAX));
        }
        let outcome = match kind.as_str() {
            "node.started" => "started",
            "node.completed" => "completed",
            "node.failed" => "failed",
            "node.skipped" => "skipped",
            "node.cancelled" => "cancelled",
            "provider.usage" | "prompt.composed" => "",
            _ => return,
        };
        let place = (node.clone(), self.current.get(&node).copied().unwrap_or(0));
        if !self.seen.contains_key(&place) {
            self.order.push(place.clone());
        }
        let visit = self.seen.entry(place).or_default();
        match outcome {
            "" if kind == "provider.usage" => visit.calls.push(call_of(payload)),
            "" => visit.prompts.push(text(payload, "hash")),
            "started" => {
                visit.attempts += 1;
                visit.began = visit.began.or(at);
                (visit.outcome, visit.ended) = (outcome, None);
            }
            _ => {
                (visit.outcome, visit.ended) = (outcome, at);
                visit.outputs = payload.get("outputs").cloned();
                let code = payload.pointer("/error/code").and_then(Value::as_str);
                visit.error = code.map(str::to_owned);
            }
        }
    }
}

fn call_of(payload: &Value) -> CallRecord {
    let number = |name: &str| payload.get(name).and_then(Value::as_u64).unwrap_or(0);
    CallRecord {
        provider: text(payload, "provider"),
        model: text(payload, "model"),
        input_tokens: number("inputTokens"),
        output_tokens: number("outputTokens"),
        cost_usd: payload.get("costEstimateUsd").and_then(Value::as_f64),
    }
}

fn compare_visits(
    (node, visit): &Place,
    a: Option<&Visit>,
    b: Option<&Visit>,
    bytes: &mut usize,
) -> NodeComparison {
    let calls = |side: Option<&Visit>| side.map(|side| side.calls.clone()).unwrap_or_default();
    let (ours, theirs) = (calls(a), calls(b));
    let most = ours.len().max(theirs.len()).min(MOST_CALLS);
    let calls = (0..most).map(|place| {
        let (a, b) = (ours.get(place).cloned(), theirs.get(place).cloned());
        let op = op_of(a.as_ref(), b.as_ref(), |a, b| a == b);
        CallComparison { call: u32::try_from(place).unwrap_or(u32::MAX), op, a, b }
    });
    let is_same_output = a.map(|a| &a.outputs) == b.map(|b| &b.outputs);
    let mut record = |side: Option<&Visit>| {
        side.map(|side| {
            let mut record = side.record();
            record.outputs = side.outputs.clone().filter(|outputs| {
                let size = outputs.to_string().len();
                let fits = !is_same_output && size <= *bytes;
                *bytes -= if fits { size } else { 0 };
                fits
            });
            record
        })
    };
    NodeComparison {
        node_id: node.as_str().into(),
        visit: *visit,
        op: op_of(a, b, Visit::is_same),
        a: record(a),
        b: record(b),
        calls: calls.collect(),
    }
}

fn op_of<T>(a: Option<&T>, b: Option<&T>, is_same: impl Fn(&T, &T) -> bool) -> ComparedOp {
    match (a, b) {
        (Some(a), Some(b)) if is_same(a, b) => ComparedOp::Same,
        (Some(_), Some(_)) | (None, None) => ComparedOp::Changed,
        (Some(_), None) => ComparedOp::Removed,
        (None, Some(_)) => ComparedOp::Added,
    }
}

impl Visit {
    fn is_same(&self, other: &Self) -> bool {
        let what = |visit: &Self| (visit.outcome, visit.error.clone(), visit.prompts.clone());
        what(self) == what(other) && self.outputs == other.outputs && self.calls == other.calls
    }

    fn record(&self) -> VisitRecord {
        let took = self.began.zip(self.ended).map(|(began, ended)| ended.since(began));
        VisitRecord {
            outcome: if self.outcome.is_empty() { "started" } else { self.outcome }.to_owned(),
            error: self.error.clone(),
            outputs: None,
            attempts: self.attempts,
            duration_ms: took.and_then(|took| u64::try_from(took.as_millis()).ok()),
            prompts: self.prompts.clone(),
            used: self.calls.iter().fold(Used::default(), add),
        }
    }
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(lines: &[(&str, &str, Value)]) -> Vec<Value> {
        let tell = |(place, (kind, node, payload)): (usize, &(&str, &str, Value))| {
            json!({ "sequence": place, "type": kind, "nodeId": node, "payload": payload,
                "timestamp": format!("2025-11-16T00:00:{place:02}Z") })
        };
        lines.iter().enumerate().map(tell).collect()
    }

    fn usage(model: &str, tokens: u64, cost: f64) -> Value {
        json!({ "provider": "p", "model": model, "inputTokens": tokens, "outputTokens": 1,
            "costEstimateUsd": cost })
    }

    fn side<'a>(run: &'a RunId, events: &'a [Value], state: &'a Value) -> DiffSide<'a> {
        DiffSide { run, events, state, is_ended: true }
    }

    /// One event more at the beginning moves every place and changes no node.
    #[test]
    fn nodes_are_aligned_whatever_stands_between_them() {
        let (a, b, state) = ("run-a".into(), "run-b".into(), json!({ "status": "completed" }));
        let steps = |model: &str, more: &[(&'static str, &'static str, Value)]| {
            let mut lines = more.to_vec();
            lines.extend([
                ("node.started", "x", json!({})),
                ("node.completed", "x", json!({ "outputs": { "n": 1 } })),
                ("node.started", "say", json!({})),
                ("provider.usage", "say", usage("small", 10, 0.5)),
                ("provider.usage", "say", usage(model, 10, 0.25)),
                ("node.completed", "say", json!({ "outputs": { "text": "hi" } })),
            ]);
            log(&lines)
        };
        let ours = steps("small", &[]);
        let theirs = steps("large", &[("log.appended", "x", json!({}))]);
        let found = compare(side(&a, &ours, &state), side(&b, &theirs, &state));
        let ops: Vec<_> = found.nodes.iter().map(|it| (it.node_id.as_str(), it.op)).collect();
        assert_eq!(ops, [("x", ComparedOp::Same), ("say", ComparedOp::Changed)]);
        let calls: Vec<_> = found.nodes[1].calls.iter().map(|call| call.op).collect();
        assert_eq!(calls, [ComparedOp::Same, ComparedOp::Changed]);
        let used = Used { calls: 2, input_tokens: 20, output_tokens: 2, cost_usd: Some(0.75) };
        assert_eq!((found.a.used, found.b.used), (used, used));
        assert_eq!(found.nodes[1].a.as_ref().and_then(|it| it.duration_ms), Some(3_000));
        assert!(found.nodes[1].a.as_ref().is_some_and(|it| it.outputs.is_none()), "the same");
        assert!(!found.truncated);
    }

    #[test]
    fn visits_are_compared_one_by_one() {
        let (a, b, state) = ("run-a".into(), "run-b".into(), json!({ "status": "failed" }));
        let failed = ("node.failed", "x", json!({ "error": { "code": "bad" } }));
        let ours = log(&[("node.started", "x", json!({})), failed.clone()]);
        let theirs = log(&[
            ("node.started", "x", json!({})),
            failed,
            ("node.started", "x", json!({ "visit": 1 })),
            ("node.completed", "x", json!({ "outputs": { "n": 2 } })),
        ]);
        let found = compare(side(&a, &ours, &state), side(&b, &theirs, &state));
        let ops: Vec<_> = found.nodes.iter().map(|it| (it.visit, it.op)).collect();
        assert_eq!(ops, [(0, ComparedOp::Same), (1, ComparedOp::Added)]);
        let record = found.nodes[1].b.clone().unwrap();
        assert_eq!(
            (record.outcome.as_str(), record.outputs),
            ("completed", Some(json!({ "n": 2 })))
        );
        assert_eq!(found.nodes[0].a.clone().unwrap().error.as_deref(), Some("bad"));
    }

    #[test]
    fn an_unknown_cost_is_not_free_and_answers_are_bounded() {
        let (a, b, state) = ("run-a".into(), "run-b".into(), json!({}));
        let unpriced =
            json!({ "provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1 });
        let ours =
            log(&[("provider.usage", "x", usage("m", 1, 0.5)), ("provider.usage", "x", unpriced)]);
        let many: Vec<Value> = (0..2_000)
            .map(|n| json!({ "type": "node.skipped", "nodeId": format!("n{n}"), "payload": {} }))
            .collect();
        let found = compare(side(&a, &ours, &state), side(&b, &many, &state));
        assert_eq!(found.a.used.cost_usd, None);
        assert_eq!((found.nodes.len(), found.truncated), (MOST_VISITS, true));
    }
}
