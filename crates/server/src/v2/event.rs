//! One stored event as a document of the second major.

use std::collections::BTreeMap;

use callboard_core::{Born, Cause};
use callboard_engine::Recorded;
use callboard_protocol::{EVENT_SCHEMA_VERSION, Event, EventId, NodeId, Object};
use serde_json::{Value, json};

use super::payload::{self, Question, Unseated};
use super::{event_names, id};
use crate::problem::{Code, Problem};

/// What nodes have asked so far, for those events that tell less of it than the second major wants to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(BTreeMap<Option<NodeId>, Question>);

impl Asked {
    /// Whether an event can only be told by somebody who has seen what stands before it.
    pub(crate) fn is_needed_for(kind: &str) -> bool {
        matches!(
            kind,
            "approval.requested"
                | "approval.received"
                | "clarification.requested"
                | "clarification.resolved"
        )
    }

    pub(crate) fn note(&mut self, event: &Recorded) {
        if !matches!(event.kind.as_str(), "interrupt.requested" | "node.suspended") {
            return;
        }
        let payload: Object = serde_json::from_str(&event.payload).unwrap_or_default();
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let question = self.0.entry(event.node.clone()).or_default();
        if event.kind == "node.suspended" {
            question.interrupt = text("interruptId");
        } else {
            // The key of a question is its id.
            *question = Question { interrupt: text("key"), request: Some(payload) };
        }
    }

    fn by(&self, node: Option<&NodeId>) -> Question {
        self.0.get(&node.cloned()).cloned().unwrap_or_default()
    }
}

/// The document, or why there is none.
pub(crate) fn document(event: &Recorded, born: &Born, asked: &Asked) -> Result<Value, Problem> {
    let second = event_names::second(&event.kind).ok_or_else(|| {
        Problem::new(Code::EventTypeUnmapped, "the second major has no name for a stored event")
            .with("type", event.kind.as_str())
            .with("sequence", event.sequence)
    })?;
    let tenant = born.owner.tenant.as_str();
    let mut payload: Value =
        serde_json::from_str(&event.payload).map_err(|error| Problem::internal(&error))?;
    if let (true, Value::Object(fields)) = (Event::is_untrusted(&event.kind), &mut payload) {
        fields.insert("contentTrust".to_owned(), "untrusted".into());
    }
    let question = asked.by(event.node.as_ref());
    let payload = payload::project((&event.kind, second), payload, born, &question)
        .map_err(|unseated| unprojectable(event, second, unseated))?;
    let mut document = Object::new();
    let mut put = |name: &str, value: Value| drop(document.insert(name.to_owned(), value));
    put("eventId", json!(EventId::of(&event.run, event.sequence)));
    put("runId", id::bound(tenant, event.run.as_str()).into());
    if let Some(node) = &event.node {
        if !id::is_authored(node.as_str()) {
            return Err(unprojectable(event, second, Unseated(vec!["nodeId".to_owned()])));
        }
        put("nodeId", json!(node));
    }
    put("type", second.into());
    put("payload", payload);
    put("timestamp", json!(event.at));
    put("sequence", event.sequence.into());
    put("schemaVersion", EVENT_SCHEMA_VERSION.into());
    put("engineVersion", event.engine_version.into());
    match &event.cause {
        Some(Cause::Event(sequence)) => {
            put("causationId", json!(EventId::of(&event.run, *sequence)));
        }
        Some(Cause::Outside(id)) => put("causationId", id.as_str().into()),
        None => {}
    }
    Ok(document.into())
}

fn unprojectable(event: &Recorded, second: &str, Unseated(keys): Unseated) -> Problem {
    let message = "a stored event holds what the second major has no seat for";
    Problem::new(Code::PayloadUnprojectable, message)
        .with("type", second)
        .with("keys", keys)
        .with("eventId", json!(EventId::of(&event.run, event.sequence)))
        .with("sequence", event.sequence)
}
