//! What a node asks of people or of the outside, read from its configuration.

use serde_json::{Value, json};

use callboard_protocol::{Failure, InterruptKind, Object, WorkflowNode};

use super::is_published;
use crate::confidence::Confidence;
use crate::schema::Schema;

/// The actions of the approval vocabulary, in the protocol's order.
const ACTIONS: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "ask"];
/// The profile under which only an authenticated caller may decide.
const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// What only a node that holds a whole conversation may raise.
const CONVERSATION: [InterruptKind; 3] = [
    InterruptKind::ConversationStart,
    InterruptKind::ConversationExchange,
    InterruptKind::ConversationClose,
];

/// What the question of an approval says as its node has it.
const SHOWN: [&str; 8] = [
    "description",
    "artifactData",
    "requiredApprovals",
    "approversList",
    "approverGroupRefs",
    "approverRoleRefs",
    "audience",
    "rejectionPolicy",
];

/// What a node asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub kind: InterruptKind,
    pub data: Value,
    pub resume_schema: Option<Object>,
    pub timeout_ms: Option<u64>,
}

impl Question {
    /// Reads the question of an approval gate, a clarification gate or a plain interrupt. What stands at the ports
    /// that the node declares goes before its configuration.
    pub(crate) fn of(node: &WorkflowNode, inputs: &Object) -> Result<Self, Failure> {
        if is_published(node.type_id.as_str()) {
            return Self::published(node, inputs);
        }
        let config = &asked_config(node, inputs)?;
        let (kind, data) = match node.type_id.as_str() {
            "core.approvalGate" => (InterruptKind::Approval, approval_data(node, config)?),
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

    /// What is asked about a proposal that its author is not sure enough of. Accepting ratifies it, rejecting fails the
    /// node, and any other answer stands in its place.
    pub fn low_confidence(
        agent_id: &str,
        threshold: Confidence,
        observed: Confidence,
        decision: Option<Value>,
    ) -> Self {
        let mut data = json!({
            "agentId": agent_id, "threshold": threshold.get(), "observed": observed.get(),
        });
        if let Some(decision) = decision {
            data["decision"] = decision;
        }
        let kind = InterruptKind::LowConfidence;
        Self { kind, data, resume_schema: None, timeout_ms: None }
    }

    /// Whether only a caller with a key of its own may decide.
    pub(crate) fn requires_auth(node: &WorkflowNode) -> bool {
        node.config.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED)
    }
}

/// The schemas that answers to a node's questions must match, each with its path.
pub(crate) fn question_schemas(node: &WorkflowNode) -> impl Iterator<Item = (String, &Object)> {
    let config = &node.config;
    let own = ["resumeSchema", "outcomeSchema", "formSchema"]
        .into_iter()
        .filter_map(|key| Some((format!("config.{key}"), config.get(key)?.as_object()?)));
    let data = config.get("data");
    let outcome = data.and_then(|data| data.get("outcomeSchema")?.as_object());
    let outcome = outcome.map(|schema| ("config.data.outcomeSchema".to_owned(), schema));
    let asked = [
        ("config", config.get("questions")),
        ("config.data", data.and_then(|data| data.get("questions"))),
    ];
    let asked = asked.into_iter().flat_map(|(path, questions)| {
        let questions = questions.and_then(Value::as_array).into_iter().flatten().enumerate();
        questions.filter_map(move |(index, question)| {
            let schema = question.get("schema")?.as_object()?;
            Some((format!("{path}.questions[{index}].schema"), schema))
        })
    });
    own.chain(outcome).chain(asked)
}

/// What a port may say of a question, whatever the node's type.
const PORTS: [&str; 4] = ["questions", "resumeSchema", "contextType", "data"];

/// The configuration with what came in at ports: those that an approval shows, and those of [`PORTS`]. At a plain
/// interrupt any other port is a part of its `data`.
fn asked_config(node: &WorkflowNode, inputs: &Object) -> Result<Object, Failure> {
    let mut config = node.config.clone();
    let is_plain = node.type_id.as_str() == "core.interrupt";
    for port in node.inputs.keys() {
        let Some(value) = inputs.get(port).cloned() else { continue };
        match port.as_str() {
            "title" | "description" | "artifactId" | "artifactType" if !is_plain => {
                config.insert(port.clone(), as_text(value).into());
            }
            "artifact" if !is_plain => {
                config.insert("artifactData".to_owned(), value);
            }
            "resumeSchema" => {
                check_form(&value)?;
                config.insert(port.clone(), value);
            }
            known if PORTS.contains(&known) || (!is_plain && SHOWN.contains(&known)) => {
                config.insert(port.clone(), value);
            }
            _ if is_plain => {
                let data = config.entry("data").or_insert_with(|| json!({}));
                if let Some(data) = data.as_object_mut() {
                    data.insert(port.clone(), value);
                }
            }
            _ => {}
        }
    }
    Ok(config)
}

/// A title is text, whatever came in for it.
fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A form that nobody could fill in is not asked for.
fn check_form(form: &Value) -> Result<(), Failure> {
    if !form.is_object() {
        return Err(invalid("the port resumeSchema must hold an object"));
    }
    match Schema::compile(form.to_string().as_bytes()) {
        Ok(_) => Ok(()),
        Err(why) => Err(invalid(&format!("the port resumeSchema holds no schema: {why}"))),
    }
}

fn approval_data(node: &WorkflowNode, config: &Object) -> Result<Value, Failure> {
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
    for key in SHOWN {
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
    let texts = |listed: &Value| {
        listed.as_array().is_some_and(|listed| listed.iter().all(Value::is_string))
    };
    for key in ["approverGroupRefs", "approverRoleRefs"] {
        if !data.get(key).is_none_or(texts) {
            return Err(invalid(&format!("config.{key} must be a list of texts")));
        }
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
    let kind = kind.filter(|kind| !CONVERSATION.contains(kind)).ok_or_else(|| {
        invalid(
            "config.kind must be approval, clarification, external-event, low-confidence or custom",
        )
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
        InterruptKind::Custom => data["customKind"].as_str().is_some_and(|kind| !kind.is_empty()),
        InterruptKind::LowConfidence => is_low_confidence(&data),
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => false,
    };
    if is_complete {
        Ok((kind, data))
    } else {
        Err(invalid("config.data does not have what its kind needs"))
    }
}

/// Who was unsure, how sure it was, and how sure it would have had to be.
fn is_low_confidence(data: &Value) -> bool {
    let is_share = |key: &str| data[key].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share));
    let agent = data["agentId"].as_str().map_or(0, |agent| agent.chars().count());
    let known = ["agentId", "threshold", "observed", "decision"];
    let is_closed = data
        .as_object()
        .is_some_and(|fields| fields.keys().all(|key| known.contains(&key.as_str())));
    (3..=256).contains(&agent) && is_share("threshold") && is_share("observed") && is_closed
}

fn invalid(message: &str) -> Failure {
    Failure::new("validation_error", message)
}
