//! `core.hitl.*`: what the published types ask, and what an answer comes to under their schemas.

use callboard_protocol::{Failure, InterruptKind, Object, Timestamp, WorkflowNode};
use serde_json::{Value, json};

use super::Question;

/// The id of the one question of `core.hitl.ask-user`.
const QUESTION: &str = "answer";
const APPROVAL: &str = "core.hitl.approval-request";
const ASK: &str = "core.hitl.ask-user";
const FORM: &str = "core.hitl.form-request";

pub(crate) fn is_published(type_id: &str) -> bool {
    matches!(type_id, APPROVAL | ASK | FORM)
}

/// Who answered, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled<'a> {
    pub(crate) by: Option<&'a str>,
    pub(crate) at: Timestamp,
}

impl Question {
    pub(super) fn published(node: &WorkflowNode, inputs: &Object) -> Result<Self, Failure> {
        let prompt = inputs.get("prompt").and_then(Value::as_str).filter(|text| !text.is_empty());
        let prompt = prompt.ok_or_else(|| invalid("the input prompt must be a text"))?;
        let (kind, data) = match node.type_id.as_str() {
            APPROVAL => (InterruptKind::Approval, approval(node, prompt, inputs)?),
            ASK => {
                let questions = json!([{ "id": QUESTION, "question": prompt }]);
                (InterruptKind::Clarification, json!({ "questions": questions }))
            }
            _ => {
                let payload = json!({ "title": prompt, "locale": inputs.get("locale") });
                (InterruptKind::Custom, json!({ "customKind": "form", "payload": payload }))
            }
        };
        let seconds = match node.config.get("deadlineSeconds") {
            None => None,
            Some(said) => Some(said.as_u64().ok_or_else(|| {
                invalid("config.deadlineSeconds must be a whole number of at least 0")
            })?),
        };
        let timeout_ms = seconds.filter(|it| *it > 0).map(|it| it.saturating_mul(1_000));
        let resume_schema = (node.type_id.as_str() == FORM).then(|| form(node)).transpose()?;
        Ok(Self { kind, data, resume_schema, timeout_ms })
    }
}

fn approval(node: &WorkflowNode, prompt: &str, inputs: &Object) -> Result<Value, Failure> {
    let mut data = json!({
        "artifactId": node.id,
        "artifactType": "approval",
        "title": prompt,
        "actions": ["accept", "reject"],
    });
    if let Some(metadata) = inputs.get("metadata") {
        data["artifactData"] = metadata.clone();
    }
    if let Some(approvers) = node.config.get("approvers") {
        let is_texts = |list: &Vec<Value>| list.iter().all(Value::is_string);
        if !approvers.as_array().is_some_and(is_texts) {
            return Err(invalid("config.approvers must be a list of texts"));
        }
        data["approversList"] = approvers.clone();
    }
    if let Some(quorum) = node.config.get("quorum") {
        if quorum.as_u64().is_none_or(|quorum| quorum == 0) {
            return Err(invalid("config.quorum must be a whole number of at least 1"));
        }
        data["requiredApprovals"] = quorum.clone();
    }
    Ok(data)
}

/// An answer accepts with the form filled in, declines, or cancels.
fn form(node: &WorkflowNode) -> Result<Object, Failure> {
    let form = node.config.get("formSchema").filter(|form| form.is_object());
    let form = form.ok_or_else(|| invalid("config.formSchema must be an object"))?;
    let schema = json!({
        "type": "object",
        "required": ["action"],
        "properties": { "action": { "enum": ["accept", "decline", "cancel"] }, "payload": form },
        "if": { "properties": { "action": { "const": "accept" } } },
        "then": { "required": ["payload"] },
        "additionalProperties": false,
    });
    Ok(schema.as_object().cloned().unwrap_or_default())
}

/// What an answer comes to. A rejection is an outcome here, and no failure.
pub(crate) fn outputs(type_id: &str, answer: &Value, settled: Settled<'_>) -> Object {
    let (by, at) = (json!(settled.by), json!(settled.at));
    let outputs = match type_id {
        APPROVAL => {
            let is_rejected = answer["action"] == "reject";
            let decision = if is_rejected { "reject" } else { "approve" };
            let comment = answer["feedback"].as_str();
            json!({ "decision": decision, "comment": comment, "decidedBy": by, "decidedAt": at })
        }
        ASK => json!({
            "answer": answer["answers"][QUESTION],
            "answeredBy": by,
            "answeredAt": at,
        }),
        _ => {
            let mut outputs =
                json!({ "action": answer["action"], "respondedBy": by, "respondedAt": at });
            if let Some(payload) = answer.get("payload") {
                outputs["payload"] = payload.clone();
            }
            outputs
        }
    };
    outputs.as_object().cloned().unwrap_or_default()
}

fn invalid(message: &str) -> Failure {
    Failure::new("validation_error", message)
}
