//! What a node asks of people or of the outside, and which answers count.

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_protocol::{
    ApprovalReceived, ClarificationResolved, Failure, InterruptKind, NodeId, Object, Timestamp,
    WorkflowNode,
};

/// The actions of the approval vocabulary, in the protocol's order.
const ACTIONS: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];
/// The profile under which only an authenticated caller may decide.
const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// What a node asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub kind: InterruptKind,
    pub data: Value,
    pub resume_schema: Option<Object>,
    pub timeout_ms: Option<u64>,
}

impl Question {
    /// Reads the question of an approval gate, a clarification gate or a plain interrupt.
    pub(crate) fn of(node: &WorkflowNode) -> Result<Self, Failure> {
        let config = &node.config;
        let (kind, data) = match node.type_id.as_str() {
            "core.approvalGate" => (InterruptKind::Approval, approval_data(node)?),
            "core.clarificationGate" => (InterruptKind::Clarification, clarification_data(config)?),
            _ => plain(config)?,
        };
        let timeout_ms = match config.get("timeoutMs") {
            None => None,
            Some(given) => Some(
                given
                    .as_u64()
                    .ok_or_else(|| invalid("config.timeoutMs must be an integer of at least 0"))?,
            ),
        };
        Ok(Self {
            kind,
            data,
            resume_schema: config.get("resumeSchema").and_then(Value::as_object).cloned(),
            timeout_ms: timeout_ms.filter(|millis| *millis > 0),
        })
    }

    /// Whether only a caller with a key of its own may decide.
    pub(crate) fn requires_auth(node: &WorkflowNode) -> bool {
        node.config.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED)
    }
}

fn approval_data(node: &WorkflowNode) -> Result<Value, Failure> {
    let config = &node.config;
    let text = |key: &str, default: &str| {
        config
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .unwrap_or(default)
            .to_owned()
    };
    let actions: Vec<String> = match config.get("actions") {
        None => vec!["accept".into(), "reject".into()],
        Some(given) => serde_json::from_value(given.clone())
            .map_err(|_| invalid("config.actions must be a list of texts"))?,
    };
    let mut seen = std::collections::BTreeSet::new();
    let is_known =
        actions.iter().all(|action| ACTIONS.contains(&action.as_str()) && seen.insert(action));
    if actions.is_empty() || !is_known {
        return Err(invalid(
            "config.actions must be some of accept, reject, refine, edit-accept and ask, each once",
        ));
    }
    let mut data = json!({
        "artifactId": text("artifactId", node.id.as_str()),
        "artifactType": node.artifact_type.clone().unwrap_or_else(|| text("artifactType", "approval")),
        "title": text("title", &node.name),
        "actions": actions,
    });
    for key in
        ["description", "artifactData", "requiredApprovals", "approversList", "rejectionPolicy"]
    {
        if let Some(value) = config.get(key) {
            data[key] = value.clone();
        }
    }
    if data
        .get("requiredApprovals")
        .is_some_and(|count| count.as_u64().is_none_or(|count| count == 0))
    {
        return Err(invalid("config.requiredApprovals must be an integer of at least 1"));
    }
    if !matches!(
        data.get("rejectionPolicy").map(Value::as_str),
        None | Some(Some("single-veto" | "majority"))
    ) {
        return Err(invalid("config.rejectionPolicy must be single-veto or majority"));
    }
    Ok(data)
}

fn clarification_data(config: &Object) -> Result<Value, Failure> {
    let questions =
        config.get("questions").and_then(Value::as_array).filter(|questions| !questions.is_empty());
    let questions =
        questions.ok_or_else(|| invalid("config.questions must list at least one question"))?;
    let is_question = |question: &Value| {
        ["id", "question"].iter().all(|key| {
            question.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        })
    };
    if !questions.iter().all(is_question) {
        return Err(invalid("each of config.questions needs an id and a question"));
    }
    let mut data = json!({ "questions": questions });
    if let Some(context) = config.get("contextType") {
        data["contextType"] = context.clone();
    }
    Ok(data)
}

fn plain(config: &Object) -> Result<(InterruptKind, Value), Failure> {
    let kind = config.get("kind").and_then(Value::as_str).and_then(InterruptKind::from_name);
    let kind = kind.ok_or_else(|| {
        invalid("config.kind must be approval, clarification, external-event or custom")
    })?;
    let data =
        config.get("data").filter(|data| data.is_object()).cloned().unwrap_or_else(|| json!({}));
    let has = |key: &str| data.get(key).is_some();
    let is_complete = match kind {
        InterruptKind::Approval => {
            ["artifactId", "artifactType", "title", "actions"].into_iter().all(has)
        }
        InterruptKind::Clarification => has("questions"),
        InterruptKind::ExternalEvent => {
            has("eventType") && data.get("correlation").is_some_and(Value::is_object)
        }
        InterruptKind::Custom => has("customKind"),
    };
    if is_complete {
        Ok((kind, data))
    } else {
        Err(invalid("config.data does not have what its kind needs"))
    }
}

/// A question that has been asked and not settled.
#[derive(Debug, Clone)]
pub(crate) struct OpenInterrupt {
    pub(crate) id: String,
    pub(crate) question: Question,
    pub(crate) key: String,
    pub(crate) requested_at: Timestamp,
    /// Who decided what so far, where several must.
    pub(crate) votes: Vec<CastVote>,
    /// Set once it is decided; that it is settled is then still to be told.
    pub(crate) decision: Option<Decision>,
    /// Whether clients from before the primitive have been told.
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

    /// The answer as the event tells it; an action of `timeout` is none.
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
    /// An event for somebody else's question.
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
            InterruptKind::Custom => Ok(Answer::Plain(value.clone())),
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
        let refine_feedback = refine_feedback_of(fields);
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
        let edited = fields.get("editedArtifactData").cloned();
        if action == "edit-accept" && edited.is_none() {
            return Err(unfit("edit-accept needs editedArtifactData"));
        }
        let question = text("question").or_else(|| text("text"));
        if action == "ask" && question.is_none() {
            return Err(unfit("ask needs a question"));
        }
        Ok(ApprovalAnswer {
            action,
            voter: text("voter").or_else(|| text("decidedBy")),
            feedback: text("feedback"),
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

/// Whether this person is among those who may decide; an empty list admits everybody.
pub(crate) fn may_decide(data: &Value, voter: &str) -> bool {
    let approvers = data.get("approversList").and_then(Value::as_array);
    approvers.is_none_or(|list| {
        list.is_empty() || list.iter().any(|listed| listed.as_str() == Some(voter))
    })
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
    let compiled: Result<Validator, _> =
        jsonschema::draft202012::new(&Value::Object(schema.clone()));
    // A schema that does not compile was accepted with its definition; it cannot judge anything.
    let Ok(compiled) = compiled else { return Ok(()) };
    match compiled.iter_errors(value).next() {
        Some(error) => Err(unfit(&format!("{}{error}", error.instance_path()))),
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

fn invalid(message: &str) -> Failure {
    Failure::new("validation_error", message)
}
