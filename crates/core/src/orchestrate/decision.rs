//! One decision of a supervisor, read from the JSON that a plan, an agent or a person gives.

use serde_json::Value;

use callboard_protocol::{Object, WorkflowId};

use crate::confidence::Confidence;

/// The longest name of a worker that the protocol's schema admits.
const LONGEST_WORKER: usize = 256;

/// A decision that fits the protocol's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct OrchestratorDecision {
    pub kind: DecisionKind,
    pub confidence: Option<Confidence>,
    /// As it was given, without a confidence that states nothing.
    pub value: Value,
}

/// What is to happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionKind {
    NextWorker {
        workers: Vec<WorkflowId>,
        /// What each of them is given beside what is mapped: as many as workers, which is checked where the decision is
        /// carried out.
        inputs: Option<Vec<Object>>,
    },
    AskUser {
        prompt: String,
    },
    Terminate,
}

impl OrchestratorDecision {
    /// Reads a decision, or says what is wrong with it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("a decision is an object with a kind")?;
        let (kind, known): (DecisionKind, &[&str]) =
            match fields.get("kind").and_then(Value::as_str) {
                Some("next-worker") => (
                    DecisionKind::NextWorker {
                        workers: workers(fields)?,
                        inputs: worker_inputs(fields)?,
                    },
                    &["kind", "nextWorkerIds", "nextWorkerInputs", "confidence"],
                ),
                Some("ask-user") => {
                    let prompt = text(fields, "prompt")?.ok_or("ask-user needs a prompt")?;
                    (DecisionKind::AskUser { prompt }, &["kind", "prompt"])
                }
                Some("terminate") => {
                    text(fields, "reason")?;
                    criteria(fields)?;
                    (DecisionKind::Terminate, &["kind", "reason", "confidence", "successCriteria"])
                }
                _ => return Err("kind must be next-worker, ask-user or terminate".to_owned()),
            };
        if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("unknown field {key}"));
        }
        let confidence = Confidence::read(fields.get("confidence"));
        let mut kept = fields.clone();
        if confidence.is_none() {
            kept.remove("confidence");
        }
        Ok(Self { kind, confidence, value: kept.into() })
    }
}

fn workers(fields: &Object) -> Result<Vec<WorkflowId>, String> {
    let listed = fields.get("nextWorkerIds").and_then(Value::as_array);
    let listed = listed.filter(|listed| !listed.is_empty());
    let listed = listed.ok_or("next-worker needs nextWorkerIds with at least one id")?;
    let name = |worker: &Value| {
        let name = worker.as_str().unwrap_or_default();
        match (1..=LONGEST_WORKER).contains(&name.chars().count()) {
            true => Ok(WorkflowId::from(name)),
            false => {
                Err(format!("nextWorkerIds must be texts of 1 to {LONGEST_WORKER} characters"))
            }
        }
    };
    listed.iter().map(name).collect()
}

fn worker_inputs(fields: &Object) -> Result<Option<Vec<Object>>, String> {
    let Some(given) = fields.get("nextWorkerInputs") else { return Ok(None) };
    let items = given.as_array().map(|items| items.iter().map(|item| item.as_object().cloned()));
    let read = items.and_then(Iterator::collect::<Option<Vec<_>>>);
    read.map(Some).ok_or_else(|| "nextWorkerInputs must list objects".to_owned())
}

fn text(fields: &Object, key: &str) -> Result<Option<String>, String> {
    match fields.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key} must be a text that says something")),
    }
}

fn criteria(fields: &Object) -> Result<(), String> {
    let Some(criteria) = fields.get("successCriteria") else { return Ok(()) };
    let is_criterion = |criterion: &Value| {
        let has_key = criterion["key"].as_str().is_some_and(|key| !key.is_empty());
        let is_closed = criterion.as_object().is_some_and(|fields| fields.len() == 2);
        has_key && criterion["met"].is_boolean() && is_closed
    };
    match criteria.as_array().is_some_and(|criteria| criteria.iter().all(is_criterion)) {
        true => Ok(()),
        false => Err("successCriteria must list a key and a met each".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_schema_admits_is_read() {
        let decisions = [
            json!({ "kind": "next-worker", "nextWorkerIds": ["a", "b"], "confidence": 0.3 }),
            json!({ "kind": "next-worker", "nextWorkerIds": ["a", "a"],
                "nextWorkerInputs": [{ "id": 1 }] }),
            json!({ "kind": "ask-user", "prompt": "Which?" }),
            json!({ "kind": "terminate" }),
            json!({ "kind": "terminate", "reason": "done", "confidence": 1,
                "successCriteria": [{ "key": "answered", "met": true }] }),
        ];
        for decision in decisions {
            let read = OrchestratorDecision::read(&decision).map(|read| read.value);
            assert_eq!(read, Ok(decision));
        }
    }

    #[test]
    fn what_it_does_not_admit_is_refused() {
        let decisions = [
            json!("terminate"),
            json!({ "kind": "dance" }),
            json!({ "nextWorkerIds": ["a"] }),
            json!({ "kind": "next-worker" }),
            json!({ "kind": "next-worker", "nextWorkerIds": [] }),
            json!({ "kind": "next-worker", "nextWorkerIds": [""] }),
            json!({ "kind": "next-worker", "nextWorkerIds": ["x".repeat(257)] }),
            json!({ "kind": "next-worker", "nextWorkerIds": ["a"], "workers": 1 }),
            json!({ "kind": "next-worker", "nextWorkerIds": ["a"], "nextWorkerInputs": {} }),
            json!({ "kind": "next-worker", "nextWorkerIds": ["a"], "nextWorkerInputs": ["x"] }),
            json!({ "kind": "terminate", "nextWorkerInputs": [] }),
            json!({ "kind": "ask-user", "prompt": "" }),
            json!({ "kind": "ask-user", "prompt": "?", "confidence": 0.9 }),
            json!({ "kind": "terminate", "reason": 7 }),
            json!({ "kind": "terminate", "successCriteria": [{ "key": "a" }] }),
        ];
        for decision in decisions {
            assert!(OrchestratorDecision::read(&decision).is_err(), "{decision}");
        }
    }

    #[test]
    fn a_confidence_that_states_nothing_is_left_out() {
        for silent in [json!(-1), json!(7), json!("sure"), json!(null)] {
            let decision = json!({ "kind": "terminate", "confidence": silent });
            let read = OrchestratorDecision::read(&decision).expect("a decision");
            assert_eq!((read.confidence, read.value), (None, json!({ "kind": "terminate" })));
        }
    }
}
