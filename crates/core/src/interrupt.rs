//! Which answers to a question count.

mod approver;
mod published;
mod question;
mod resolution;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_protocol::{
    ApprovalReceived, ClarificationResolved, InterruptKind, NodeId, Object, Timestamp,
};

pub(crate) use approver::{Approver, is_named, may_decide};
pub(crate) use published::{Settled, is_published, outputs as published_outputs};
pub use question::Question;
pub(crate) use question::question_schemas;
pub use resolution::{Resolution, Via};

use crate::schema::Compiler;
use crate::secrets::{redact_fields, redact_text};

/// A question that has been asked and not settled.
#[derive(Debug, Clone)]
pub(crate) struct OpenInterrupt {
    pub(crate) id: String,
    pub(crate) question: Question,
    pub(crate) key: String,
    pub(crate) requested_at: Timestamp,
    /// Who decided what so far, where several must.
    pub(crate) votes: Vec<CastVote>,
    /// Set once it is decided; the event that it is settled is then still due.
    pub(crate) decision: Option<Decision>,
    /// Whether the event for clients from before the primitive is recorded.
    pub(crate) is_announced: bool,
}

/// What one of several approvers decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CastVote {
    pub voter: String,
    pub action: String,
}

/// What a question came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    /// None: nobody answered in time.
    pub(crate) value: Option<Value>,
    pub(crate) by: Option<String>,
    pub(crate) at: Timestamp,
}

impl Decision {
    pub(crate) fn timeout(at: Timestamp) -> Self {
        Self { value: None, by: None, at }
    }

    /// The answer as the event has it; an action of `timeout` is none.
    pub(crate) fn of_approval(received: &ApprovalReceived) -> Self {
        if received.action == "timeout" {
            return Self::timeout(received.decided_at);
        }
        let mut value = json!({ "action": received.action });
        if let Some(feedback) = &received.feedback {
            value["feedback"] = json!(feedback);
        }
        if let Some(feedback) = &received.refine_feedback {
            value["refineFeedback"] = json!(feedback);
        }
        if let Some(edited) = &received.edited_artifact_data {
            value["editedArtifactData"] = edited.clone();
        }
        Self { value: Some(value), by: received.decided_by.clone(), at: received.decided_at }
    }

    pub(crate) fn of_clarification(resolved: &ClarificationResolved, at: Timestamp) -> Self {
        let value = json!({ "answers": resolved.answers });
        Self { value: Some(value), by: resolved.answered_by.clone(), at }
    }
}

/// Why an answer does not count. The question stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    Invalid(String),
    /// An event for another question.
    Uncorrelated(String),
}

/// An answer that fits its question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Approval(ApprovalAnswer),
    Clarification {
        answers: Object,
    },
    /// An event's payload, or whatever a custom question is answered with.
    Plain(Value),
    /// Something said in a conversation.
    Turn {
        content: Value,
    },
    /// The last thing said in a conversation, and what it came to.
    Farewell {
        content: Value,
        outcome: Value,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApprovalAnswer {
    pub(crate) action: String,
    pub(crate) voter: Option<String>,
    pub(crate) feedback: Option<String>,
    pub(crate) refine_feedback: Option<Object>,
    pub(crate) edited: Option<Value>,
    pub(crate) question: Option<String>,
}

impl OpenInterrupt {
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.question.timeout_ms.map(|millis| self.requested_at.plus_millis(millis))
    }

    pub(crate) fn required_approvals(&self) -> usize {
        let count =
            self.question.data.get("requiredApprovals").and_then(Value::as_u64).unwrap_or(1);
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }

    /// How many rejections end the question.
    pub(crate) fn rejections_needed(&self) -> usize {
        let is_majority =
            self.question.data.get("rejectionPolicy").and_then(Value::as_str) == Some("majority");
        if is_majority { self.required_approvals() / 2 + 1 } else { 1 }
    }

    /// Whether this action, with the votes before it, decides the question.
    pub(crate) fn settles(&self, voter: &str, action: &str) -> bool {
        let others = self.votes.iter().filter(|vote| vote.voter != voter);
        let agreeing =
            others.filter(|vote| (vote.action == "reject") == (action == "reject")).count() + 1;
        match action {
            "reject" => agreeing >= self.rejections_needed(),
            // Asking for changes or changing it oneself is a decision, not a count.
            "refine" | "edit-accept" => true,
            _ => agreeing >= self.required_approvals(),
        }
    }

    /// Judges an answer against the question.
    pub(crate) fn judge(&self, value: &Value) -> Result<Answer, Unfit> {
        if let Some(schema) = &self.question.resume_schema {
            check_schema(schema, value)?;
        }
        match self.question.kind {
            InterruptKind::Approval => self.judge_approval(value).map(Answer::Approval),
            InterruptKind::Clarification => self.judge_clarification(value),
            InterruptKind::ExternalEvent => self.judge_event(value),
            InterruptKind::ConversationExchange => self.judge_turn(value),
            InterruptKind::Custom
            | InterruptKind::LowConfidence
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationClose => Ok(Answer::Plain(value.clone())),
        }
    }

    fn judge_approval(&self, value: &Value) -> Result<ApprovalAnswer, Unfit> {
        let fields = value
            .as_object()
            .ok_or_else(|| unfit("an approval is answered with an object that has an action"))?;
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let action = action_of(fields).ok_or_else(|| unfit("the answer has no action"))?;
        let offered: Vec<&str> = self.question.data["actions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !offered.contains(&action.as_str()) {
            return Err(unfit(&format!(
                "{action:?} is not offered; choose one of {}",
                offered.join(", ")
            )));
        }
        // No later step needs a credential in the words of a reviewer.
        let mut refine_feedback = refine_feedback_of(fields);
        refine_feedback.iter_mut().for_each(redact_fields);
        if action == "refine" {
            let scope = refine_feedback
                .as_ref()
                .and_then(|feedback| feedback.get("scope"))
                .and_then(Value::as_str);
            if !matches!(scope, Some("whole" | "section" | "items")) {
                return Err(unfit(
                    "refine needs refineFeedback with a scope of whole, section or items",
                ));
            }
        }
        // A decision that is put in the place of another is called by its name.
        let named = fields.get("decision").filter(|decision| decision.is_object());
        let edited = fields.get("editedArtifactData").or(named).cloned();
        if action == "edit-accept" && edited.is_none() {
            return Err(unfit("edit-accept needs editedArtifactData"));
        }
        let question = text("question").or_else(|| text("text"));
        if action == "ask" && question.is_none() {
            return Err(unfit("ask needs a question"));
        }
        Ok(ApprovalAnswer {
            action,
            // Who decided is the host's to say: a `decidedBy` of the caller's is nothing.
            voter: text("voter").filter(|name| !name.is_empty()),
            feedback: text("feedback").map(|feedback| redact_text(&feedback)),
            refine_feedback,
            edited,
            question,
        })
    }

    /// Answers come as a map, or as the list that the protocol's prose shows.
    fn judge_clarification(&self, value: &Value) -> Result<Answer, Unfit> {
        let answers = match value.get("answers") {
            Some(Value::Object(answers)) => answers.clone(),
            Some(Value::Array(list)) => list
                .iter()
                .filter_map(|item| {
                    Some((item.get("id")?.as_str()?.to_owned(), item.get("answer")?.clone()))
                })
                .collect(),
            _ => return Err(unfit("a clarification is answered with {\"answers\": {id: answer}}")),
        };
        for question in self.question.data["questions"].as_array().into_iter().flatten() {
            let id = question["id"].as_str().unwrap_or_default();
            let answer =
                answers.get(id).ok_or_else(|| unfit(&format!("question {id} is not answered")))?;
            match question.get("schema").and_then(Value::as_object) {
                Some(schema) => check_schema(schema, answer)?,
                None if answer.as_str().is_some_and(|text| !text.is_empty()) => {}
                None => return Err(unfit(&format!("the answer to {id} must be a text"))),
            }
        }
        Ok(Answer::Clarification { answers })
    }

    /// What is said, plainly or as the operation that the conversation's own document describes.
    fn judge_turn(&self, value: &Value) -> Result<Answer, Unfit> {
        let operation = value.get("operation").and_then(Value::as_str);
        let said = value.pointer("/turn/content").cloned();
        let turn = value.pointer("/turn/turnIndex").filter(|_| operation.is_some());
        if turn.is_some_and(|turn| Some(turn) != self.question.data.get("turnIndex")) {
            return Err(unfit(&format!(
                "turn {} is not the one that is asked for",
                turn.unwrap_or(&Value::Null)
            )));
        }
        let content = match operation {
            Some("close") => {
                let outcome = value.get("outcome").cloned().unwrap_or_default();
                return Ok(Answer::Farewell { content: said.unwrap_or_default(), outcome });
            }
            Some("exchange") => said.ok_or_else(|| unfit("exchange needs turn.content"))?,
            Some(_) | None => value.clone(),
        };
        if let Some(Value::Object(schema)) = self.question.data.get("outcomeSchema") {
            check_schema(schema, &content)?;
        }
        Ok(Answer::Turn { content })
    }

    fn judge_event(&self, value: &Value) -> Result<Answer, Unfit> {
        let payload = value.get("eventPayload").unwrap_or(value);
        for (key, expected) in self.question.data["correlation"].as_object().into_iter().flatten() {
            if payload.get(key) != Some(expected) {
                return Err(Unfit::Uncorrelated(format!(
                    "the event's {key} is not the one that this run waits for"
                )));
            }
        }
        Ok(Answer::Plain(payload.clone()))
    }
}

/// Clients from before the interrupt primitive say `decision: approved`.
fn action_of(fields: &Object) -> Option<String> {
    if let Some(action) = fields.get("action").and_then(Value::as_str) {
        return Some(action.to_owned());
    }
    match fields.get("decision").and_then(Value::as_str)? {
        "approved" => Some("accept".into()),
        "rejected" if fields.contains_key("feedback") => Some("refine".into()),
        "rejected" => Some("reject".into()),
        _ => None,
    }
}

fn refine_feedback_of(fields: &Object) -> Option<Object> {
    match (fields.get("refineFeedback"), fields.get("decision"), fields.get("feedback")) {
        (Some(Value::Object(feedback)), _, _) => Some(feedback.clone()),
        (None, Some(_), Some(text)) => {
            json!({ "scope": "whole", "text": text }).as_object().cloned()
        }
        _ => None,
    }
}

fn check_schema(schema: &Object, value: &Value) -> Result<(), Unfit> {
    // One that cannot be checked came with a definition from before such were refused. No answer can be shown to fit.
    let schema = Compiler::default()
        .compile_object(schema)
        .map_err(|why| unfit(&format!("the schema for it {why}; cancel the run")))?;
    match schema.violation(value) {
        Some(violation) => Err(unfit(&violation.to_string())),
        None => Ok(()),
    }
}

/// The key of the n-th question that a node asks in a run.
pub(crate) fn key_of(run: &str, node: &NodeId, count: u32) -> String {
    format!("{run}:{node}:{count}").chars().take(256).collect()
}

fn unfit(message: &str) -> Unfit {
    Unfit::Invalid(message.to_owned())
}
