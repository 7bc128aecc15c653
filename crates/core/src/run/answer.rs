//! What an answer makes of the node that asked.

use serde_json::{Value, json};

use callboard_protocol::{Failure, InterruptKind, Object, Timestamp, TypeId};

use crate::interrupt::{Settled, is_published, published_outputs};

/// How a node's question was settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub interrupt_id: String,
    pub kind: InterruptKind,
    /// What was asked about.
    pub data: Value,
    /// None: nobody answered in time.
    pub value: Option<Value>,
    /// Whose answer it is.
    pub by: Option<String>,
    pub at: Timestamp,
}

impl Answered {
    /// What the answer comes to: itself, unless it decides about something that was proposed.
    pub fn result(&self) -> Result<Value, Failure> {
        let is_approval = self.kind == InterruptKind::Approval;
        let Some(value) = &self.value else {
            return Err(match is_approval {
                true => Failure::new("approval_rejected", "nobody approved in time"),
                false => Failure::new("interrupt_timeout", "nobody answered in time"),
            });
        };
        let said = |default: &str| value["feedback"].as_str().unwrap_or(default).to_owned();
        if is_approval && value["action"] == json!("reject") {
            return Err(Failure::new("approval_rejected", said("the approval was rejected")));
        }
        if self.kind != InterruptKind::LowConfidence {
            return Ok(value.clone());
        }
        if is_ratification(value) {
            return Ok(self.data.get("decision").cloned().unwrap_or_default());
        }
        if is_rejection(value) {
            return Err(Failure::new("low_confidence_rejected", said("the decision was rejected")));
        }
        Ok(value.clone())
    }

    /// The answer, and under `artifactData` what was accepted: as it was shown, or as it was edited.
    pub(super) fn outputs(&self, type_id: &TypeId) -> Result<Object, Failure> {
        if let (true, Some(answer)) = (is_published(type_id.as_str()), &self.value) {
            let settled = Settled { by: self.by.as_deref(), at: self.at };
            return Ok(published_outputs(type_id.as_str(), answer, settled));
        }
        let mut outputs = match self.result()? {
            Value::Object(fields) => fields,
            other => Object::from_iter([("value".to_owned(), other)]),
        };
        if self.kind == InterruptKind::Approval {
            let edited =
                outputs.get("editedArtifactData").or_else(|| self.data.get("artifactData"));
            if let Some(accepted) = edited.cloned() {
                outputs.insert("artifactData".to_owned(), accepted);
            }
        }
        Ok(outputs)
    }
}

/// Whether an answer says yes or no to what was proposed, and puts nothing in its place.
pub(super) fn is_verdict(value: &Value) -> bool {
    is_ratification(value) || is_rejection(value)
}

fn is_ratification(value: &Value) -> bool {
    *value == json!({ "action": "accept" })
}

/// A rejection may say why; with anything else beside it, it is a decision of its own.
fn is_rejection(value: &Value) -> bool {
    let Some(fields) = value.as_object() else { return false };
    fields.get("action") == Some(&json!("reject"))
        && fields.keys().all(|key| matches!(key.as_str(), "action" | "feedback"))
}
