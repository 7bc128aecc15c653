//! A run's question, and how a line of text answers it.

use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{InterruptKind, NodeId, Object, RunId, Timestamp, WorkflowId};

use crate::screen::words;

/// One open question, as the host lists it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    pub(crate) run_id: RunId,
    pub(crate) workflow_id: WorkflowId,
    pub(crate) node_id: NodeId,
    pub(crate) interrupt_id: String,
    pub(crate) kind: InterruptKind,
    pub(crate) data: Value,
    pub(crate) resume_schema: Option<Object>,
    pub(crate) requested_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    #[serde(default)]
    pub(crate) votes: Vec<Value>,
}

impl Question {
    /// What is asked, in one line.
    pub(crate) fn headline(&self) -> String {
        headline(self.kind, &self.data)
    }

    /// What can be chosen, where the question is an approval.
    pub(crate) fn actions(&self) -> Vec<&str> {
        self.data["actions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether an action is possible here. The host lists those of an approval; to a decision of low confidence
    /// any other value would be the result, which a mistyped word rarely is meant to be.
    pub(crate) fn takes(&self, answer: &Value) -> Result<(), String> {
        let (action, has_more) =
            (&answer["action"], answer.as_object().is_some_and(|it| it.len() > 1));
        match (self.kind, action.as_str().unwrap_or_default()) {
            (InterruptKind::LowConfidence, "accept") if has_more => {
                Err("accept takes no remark here".to_owned())
            }
            (InterruptKind::LowConfidence, "accept" | "reject") => Ok(()),
            (InterruptKind::LowConfidence, _) => {
                Err(format!("{action} is not offered; choose one of accept, reject"))
            }
            _ => Ok(()),
        }
    }

    /// The proposal that is asked about; an answer may replace it.
    pub(crate) fn proposal(&self) -> Option<&Value> {
        let artifact = self.data.get("artifactData");
        match self.kind {
            InterruptKind::LowConfidence => self.data.get("decision"),
            InterruptKind::Approval if self.data["artifactType"] == json!(DECISION) => {
                artifact.and_then(|artifact| artifact.get("decision"))
            }
            InterruptKind::Approval => artifact,
            InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => None,
        }
    }

    /// Beside a proposal of low confidence: what the agent was to do, and why it proposes this.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let is_unsure = self.kind == InterruptKind::LowConfidence;
        let shown = ["task", "reason"].into_iter().filter(move |_| is_unsure);
        shown.filter_map(|key| Some((key, self.data.get(key)?)))
    }

    /// The answer that puts something else in the place of what was proposed.
    pub(crate) fn replace(&self, other: Value) -> Value {
        match self.kind {
            InterruptKind::Approval => {
                json!({ "action": "edit-accept", "editedArtifactData": other })
            }
            InterruptKind::LowConfidence
            | InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => other,
        }
    }

    /// The single things that a clarification asks.
    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        let listed = self.data["questions"].as_array().into_iter().flatten();
        listed.filter_map(Part::of).collect()
    }

    /// Reads an answer from one line: a word or JSON, whatever fits the kind. Whether it counts is the host's to say.
    pub(crate) fn read(&self, line: &str) -> Result<Value, String> {
        let line = line.trim();
        let json = serde_json::from_str::<Value>(line).ok();
        match (self.kind, json) {
            (_, Some(value @ Value::Object(_))) => Ok(value),
            (InterruptKind::Approval, Some(_)) => Err(format!(
                "{line} is no answer to an approval; write {} or a JSON object",
                self.actions().join(", ")
            )),
            (InterruptKind::Approval, None) => Ok(approval(line, None)),
            (InterruptKind::Clarification, _) => match self.parts().as_slice() {
                [only] => Ok(json!({ "answers": { only.id: only.read(line) } })),
                several => Err(format!(
                    "{} things are asked; write {{\"answers\": {{\"{}\": …}}}}",
                    several.len(),
                    several.iter().map(|part| part.id).collect::<Vec<_>>().join("\": …, \"")
                )),
            },
            (InterruptKind::ExternalEvent, _) => {
                Err("an event is a JSON object with what the run waits for".to_owned())
            }
            (InterruptKind::LowConfidence, None) if matches!(line, "accept" | "reject") => {
                Ok(approval(line, None))
            }
            (InterruptKind::LowConfidence, None) => Err(format!(
                "{line:?} is no verdict; write accept, reject, or another result as JSON"
            )),
            // What is said is a text, also where it looks like a number.
            (InterruptKind::ConversationExchange, _) => Ok(match self.data.get("outcomeSchema") {
                Some(schema) => read_by(schema, line),
                None => line.into(),
            }),
            (
                InterruptKind::Custom
                | InterruptKind::LowConfidence
                | InterruptKind::ConversationStart
                | InterruptKind::ConversationClose,
                json,
            ) => Ok(json.unwrap_or_else(|| line.into())),
        }
    }

    /// How to answer from another terminal.
    pub(crate) fn how_to_answer(&self) -> String {
        let how = match self.kind {
            InterruptKind::Approval | InterruptKind::LowConfidence => " --action ACTION",
            InterruptKind::Clarification => "",
            InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => " --value JSON",
        };
        format!("`callboard inbox answer {} {}{how}`", self.run_id, self.node_id)
    }
}

/// What an approval is about that a supervisor was not sure of.
const DECISION: &str = "orchestrator-decision";

/// One of the things that a clarification asks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part<'q> {
    pub(crate) id: &'q str,
    pub(crate) text: &'q str,
    pub(crate) schema: Option<&'q Value>,
}

impl<'q> Part<'q> {
    fn of(item: &'q Value) -> Option<Self> {
        let text = item["question"].as_str()?;
        Some(Self { id: item["id"].as_str()?, text, schema: item.get("schema") })
    }

    /// Where no schema says otherwise, an answer is a text, also one that looks like a number.
    pub(crate) fn read(&self, text: &str) -> Value {
        self.schema.map_or_else(|| text.into(), |schema| read_by(schema, text))
    }
}

/// Reads a value of the type that the schema names; what does not fit stays a text, for the host to judge.
pub(crate) fn read_by(schema: &Value, text: &str) -> Value {
    if schema["type"] == json!("string") {
        return text.into();
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// An approval's answer, with the remark where its action carries one.
pub(crate) fn approval(action: &str, remark: Option<&str>) -> Value {
    let mut answer = json!({ "action": action });
    match (action, remark) {
        (_, None) => {}
        ("refine", Some(text)) => {
            answer["refineFeedback"] = json!({ "scope": "whole", "text": text })
        }
        ("ask", Some(text)) => answer["question"] = text.into(),
        (_, Some(text)) => answer["feedback"] = text.into(),
    }
    answer
}

/// What is asked, in one line.
pub(crate) fn headline(kind: InterruptKind, data: &Value) -> String {
    let text = |key: &str| data[key].as_str().unwrap_or_default();
    let line = match kind {
        InterruptKind::Approval => text("title").to_owned(),
        InterruptKind::Clarification => {
            let asked = data["questions"].as_array().into_iter().flatten();
            asked.filter_map(|item| item["question"].as_str()).collect::<Vec<_>>().join(" ")
        }
        InterruptKind::ExternalEvent => {
            format!("{} {}", text("eventType"), words::preview(&data["correlation"]))
        }
        InterruptKind::Custom => text("customKind").to_owned(),
        InterruptKind::LowConfidence => {
            let (sure, needed) = (&data["observed"], &data["threshold"]);
            let decision = data.get("decision").map(words::preview).unwrap_or_default();
            let task = data.get("task").map(words::preview).unwrap_or_default();
            let task = if task.is_empty() { task } else { format!(" for {task}") };
            format!("{} is {sure} sure, {needed} is needed: {decision}{task}", text("agentId"))
        }
        InterruptKind::ConversationStart => text("title").to_owned(),
        InterruptKind::ConversationExchange => text("prompt").to_owned(),
        InterruptKind::ConversationClose => text("reason").to_owned(),
    };
    words::plain(&line).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: InterruptKind, data: Value) -> Question {
        Question {
            run_id: "run_1".into(),
            workflow_id: "w".into(),
            node_id: "gate".into(),
            interrupt_id: "run_1-2".into(),
            kind,
            data,
            resume_schema: None,
            requested_at: Timestamp::default(),
            expires_at: None,
            votes: Vec::new(),
        }
    }

    fn check(kind: InterruptKind, data: Value, cases: &[(&str, Option<Value>)]) {
        let question = question(kind, data);
        for (line, expected) in cases {
            assert_eq!(question.read(line).ok(), *expected, "{kind:?}: {line}");
        }
    }

    #[test]
    fn an_approval_is_answered_with_a_word_or_an_object() {
        let data = json!({ "title": "Go?", "actions": ["accept", "reject"] });
        let reject = json!({ "action": "reject", "feedback": "no" });
        check(
            InterruptKind::Approval,
            data,
            &[
                (" accept\n", Some(json!({ "action": "accept" }))),
                (r#"{"action": "reject", "feedback": "no"}"#, Some(reject)),
                ("maybe", Some(json!({ "action": "maybe" }))),
                ("7", None),
            ],
        );
    }

    #[test]
    fn one_question_is_answered_with_plain_text() {
        let asked = |schema: Value| json!({ "questions": [{ "id": "q1", "question": "Which?", "schema": schema }] });
        let answer = |value: Value| Some(json!({ "answers": { "q1": value } }));
        let plain = json!({ "questions": [{ "id": "q1", "question": "Which?" }] });
        check(
            InterruptKind::Clarification,
            plain,
            &[
                ("dark blue", answer(json!("dark blue"))),
                ("42", answer(json!("42"))),
                (r#"{"answers":{"q1":"x"}}"#, answer(json!("x"))),
            ],
        );
        let integer = asked(json!({ "type": "integer" }));
        check(InterruptKind::Clarification, integer, &[("42", answer(json!(42)))]);
        let text = asked(json!({ "type": "string" }));
        check(InterruptKind::Clarification, text, &[("42", answer(json!("42")))]);
        let two = json!({ "questions": [{ "id": "a", "question": "?" }, { "id": "b", "question": "?" }] });
        check(InterruptKind::Clarification, two, &[("blue", None)]);
    }

    #[test]
    fn a_turn_is_what_was_typed_unless_its_schema_wants_more() {
        let kind = InterruptKind::ConversationExchange;
        check(
            kind,
            json!({ "prompt": "?" }),
            &[("42", Some("42".into())), ("hi", Some("hi".into()))],
        );
        let number = json!({ "prompt": "?", "outcomeSchema": { "type": "integer" } });
        check(kind, number, &[("42", Some(json!(42))), ("hi", Some("hi".into()))]);
    }

    #[test]
    fn an_unsure_decision_is_ratified_by_a_word() {
        let accept = json!({ "action": "accept" });
        let other = json!({ "next": "hold" });
        let cases = [
            ("accept", Some(accept)),
            (r#"{"next":"hold"}"#, Some(other)),
            ("7", Some(json!(7))),
            ("acept", None),
        ];
        check(InterruptKind::LowConfidence, json!({}), &cases);
        let unsure = question(InterruptKind::LowConfidence, json!({}));
        assert_eq!(unsure.takes(&approval("reject", Some("no"))), Ok(()));
        assert!(unsure.takes(&approval("accept", Some("fine"))).is_err());
        let typo = unsure.takes(&approval("acept", None));
        assert_eq!(typo, Err(r#""acept" is not offered; choose one of accept, reject"#.to_owned()));
    }

    #[test]
    fn an_unsure_decision_is_shown_with_its_task_and_reason() {
        let data = json!({ "agentId": "desk.triager", "observed": 0.3, "threshold": 0.7,
            "decision": { "kind": "bug" }, "task": { "message": "It burns" }, "reason": "smoke" });
        let unsure = question(InterruptKind::LowConfidence, data.clone());
        let shown: Vec<_> = unsure.doubts().collect();
        assert_eq!(shown, [("task", &data["task"]), ("reason", &data["reason"])]);
        let headline = unsure.headline();
        assert!(headline.contains("bug") && headline.contains("It burns"), "{headline}");
        let other = question(InterruptKind::Approval, data);
        assert_eq!(other.doubts().count(), 0);
    }

    #[test]
    fn what_was_proposed_can_be_replaced() {
        let decision = json!({ "kind": "terminate" });
        let unsure = question(InterruptKind::LowConfidence, json!({ "decision": decision }));
        assert_eq!((unsure.proposal(), unsure.replace(json!(7))), (Some(&decision), json!(7)));
        let floor = json!({ "artifactType": "orchestrator-decision",
            "artifactData": { "observed": 0.3, "decision": decision } });
        let floor = question(InterruptKind::Approval, floor);
        assert_eq!(floor.proposal(), Some(&decision));
        let edited = json!({ "action": "edit-accept", "editedArtifactData": 7 });
        assert_eq!(floor.replace(json!(7)), edited);
        let plain = json!({ "artifactType": "approval", "artifactData": [1] });
        assert_eq!(question(InterruptKind::Approval, plain).proposal(), Some(&json!([1])));
    }

    #[test]
    fn other_kinds_take_json() {
        check(
            InterruptKind::ExternalEvent,
            json!({}),
            &[(r#"{"order":7}"#, Some(json!({ "order": 7 }))), ("accept", None), ("7", None)],
        );
        check(
            InterruptKind::Custom,
            json!({}),
            &[("[1]", Some(json!([1]))), ("so", Some("so".into()))],
        );
    }

    #[test]
    fn a_remark_stands_where_its_action_wants_it() {
        assert_eq!(approval("reject", Some("no")), json!({ "action": "reject", "feedback": "no" }));
        let refine =
            json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "no" } });
        assert_eq!(approval("refine", Some("no")), refine);
        assert_eq!(approval("ask", Some("why?")), json!({ "action": "ask", "question": "why?" }));
    }

    #[test]
    fn a_headline_is_one_plain_line() {
        let data = json!({ "questions": [{ "question": "Which\n\u{1b}[2Jcolour?" }, { "question": "When?" }] });
        assert_eq!(headline(InterruptKind::Clarification, &data), "Which [2Jcolour? When?");
        let event = json!({ "eventType": "paid", "correlation": { "order": 7 } });
        assert_eq!(headline(InterruptKind::ExternalEvent, &event), r#"paid {"order":7}"#);
        let unsure = json!({ "agentId": "core.judge", "observed": 0.4, "threshold": 0.7, "decision": "ship" });
        let told = headline(InterruptKind::LowConfidence, &unsure);
        assert_eq!(told, r#"core.judge is 0.4 sure, 0.7 is needed: "ship""#);
    }
}
