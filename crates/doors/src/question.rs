//! A run's question at a door: what is asked, the form that a client can show for it, and the answer that the form makes.

use callboard_protocol::InterruptKind;
use serde_json::{Map, Value, json};

use crate::caller::text;
use crate::run::cut;

/// The longest question that is shown in one piece.
const LONGEST_HEADLINE: usize = 2000;
/// A form of more fields is for the console.
const MOST_FIELDS: usize = 20;
/// The types that a client's form may have.
const PRIMITIVE: [&str; 4] = ["string", "number", "integer", "boolean"];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) node: String,
    pub(crate) id: String,
    pub(crate) kind: InterruptKind,
    /// Whether an answer with this key counts.
    pub(crate) may_decide: bool,
    data: Value,
    resume_schema: Option<Value>,
}

impl Question {
    /// One of the questions that an inbox lists.
    pub(crate) fn read(listed: Value) -> Option<Self> {
        Some(Self {
            node: listed["nodeId"].as_str()?.to_owned(),
            id: listed["interruptId"].as_str()?.to_owned(),
            kind: InterruptKind::from_name(listed["kind"].as_str()?)?,
            may_decide: listed["mayDecide"].as_bool().unwrap_or(false),
            data: listed.get("data").cloned().unwrap_or_default(),
            resume_schema: listed.get("resumeSchema").cloned(),
        })
    }

    /// What is asked, in one line. It is a text from outside.
    pub(crate) fn headline(&self) -> String {
        headline(self.kind, &self.data)
    }

    /// Whether only a person may answer: an approval is never a model's to give.
    pub(crate) fn is_for_people(&self) -> bool {
        matches!(self.kind, InterruptKind::Approval | InterruptKind::LowConfidence)
    }

    /// What an answer is to look like, for whoever writes one without a form.
    pub(crate) fn expects(&self) -> Value {
        match (&self.resume_schema, self.kind) {
            (Some(schema), _) => schema.clone(),
            (None, InterruptKind::Clarification) => {
                let answers: Map<String, Value> = self
                    .parts()
                    .map(|(id, part)| {
                        (
                            id.to_owned(),
                            field(&part["schema"], &part["question"]).unwrap_or_default(),
                        )
                    })
                    .collect();
                json!({ "type": "object", "required": ["answers"], "properties": {
                    "answers": { "type": "object", "properties": answers },
                } })
            }
            (None, _) => self.data.get("outcomeSchema").cloned().unwrap_or_else(|| json!({})),
        }
    }

    /// The form that a client shows: an object of plain fields. None: the question needs more than such a form.
    pub(crate) fn form(&self) -> Option<Value> {
        let (properties, required) = match self.kind {
            InterruptKind::Approval => (self.decision(self.actions()), vec!["action"]),
            InterruptKind::LowConfidence => {
                (self.decision(vec!["accept".into(), "reject".into()]), vec!["action"])
            }
            InterruptKind::Clarification => {
                let ask = |(id, part): (&str, &Value)| {
                    Some((id.to_owned(), field(&part["schema"], &part["question"])?))
                };
                let fields: Option<Map<String, Value>> = self.parts().map(ask).collect();
                let required = self.parts().map(|(id, _)| id).collect();
                (fields?, required)
            }
            InterruptKind::ConversationExchange if self.data.get("outcomeSchema").is_none() => {
                let reply = json!({ "type": "string", "title": "Reply" });
                (Map::from_iter([("reply".to_owned(), reply)]), vec!["reply"])
            }
            InterruptKind::ExternalEvent => return None,
            InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => flat(self.resume_schema.as_ref()?)?,
        };
        let is_showable = (1..=MOST_FIELDS).contains(&properties.len());
        is_showable
            .then(|| json!({ "type": "object", "properties": properties, "required": required }))
    }

    /// The answer that a filled form makes.
    pub(crate) fn answer(&self, mut filled: Value) -> Value {
        match self.kind {
            InterruptKind::Approval | InterruptKind::LowConfidence => {
                decided(text(&filled, "action"), text(&filled, "remark"))
            }
            InterruptKind::Clarification => json!({ "answers": filled }),
            InterruptKind::ConversationExchange if self.data.get("outcomeSchema").is_none() => {
                filled["reply"].take()
            }
            InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => filled,
        }
    }

    fn actions(&self) -> Vec<Value> {
        self.data["actions"].as_array().cloned().unwrap_or_default()
    }

    fn decision(&self, actions: Vec<Value>) -> Map<String, Value> {
        let action = json!({ "type": "string", "title": "Decision", "enum": actions });
        let remark = json!({ "type": "string", "title": "Remark" });
        let takes_remark = self.kind == InterruptKind::Approval;
        let remark = takes_remark.then(|| ("remark".to_owned(), remark));
        Map::from_iter([("action".to_owned(), action)].into_iter().chain(remark))
    }

    /// The single things that a clarification asks, by id.
    fn parts(&self) -> impl Iterator<Item = (&str, &Value)> {
        let listed = self.data["questions"].as_array().into_iter().flatten();
        listed.filter_map(|part| Some((part["id"].as_str()?, part)))
    }
}

/// An approval's answer, with the remark where its action carries one.
fn decided(action: &str, remark: &str) -> Value {
    let mut answer = json!({ "action": action });
    match action {
        _ if remark.is_empty() => {}
        "refine" => answer["refineFeedback"] = json!({ "scope": "whole", "text": remark }),
        "ask" => answer["question"] = remark.into(),
        _ => answer["feedback"] = remark.into(),
    }
    answer
}

/// A field of a form; none where the schema is of nothing plain. Without a schema it is a text.
fn field(schema: &Value, title: &Value) -> Option<Value> {
    let kind = schema["type"].as_str().unwrap_or("string");
    if !PRIMITIVE.contains(&kind) {
        return None;
    }
    let mut field = json!({ "type": kind });
    if let Some(title) = title.as_str() {
        field["title"] = cut(title, LONGEST_HEADLINE).into();
    }
    let choices = schema["enum"].as_array().filter(|choices| choices.iter().all(Value::is_string));
    if let (Some(choices), "string") = (choices, kind) {
        field["enum"] = choices.clone().into();
    }
    Some(field)
}

/// The fields of an object that has plain ones only.
fn flat(schema: &Value) -> Option<(Map<String, Value>, Vec<&str>)> {
    let properties = schema["properties"].as_object()?;
    let make = |(name, inner): (&String, &Value)| {
        inner["type"].as_str()?;
        let title = inner.get("title").or(inner.get("description")).unwrap_or(&Value::Null);
        Some((name.clone(), field(inner, title)?))
    };
    let fields: Option<Map<String, Value>> = properties.iter().map(make).collect();
    let required = schema["required"].as_array().into_iter().flatten();
    Some((fields?, required.filter_map(Value::as_str).collect()))
}

/// What an event says that is asked.
pub(crate) fn headline_of(payload: &Value) -> String {
    let kind = InterruptKind::from_name(text(payload, "kind"));
    kind.map(|kind| headline(kind, &payload["data"])).unwrap_or_default()
}

fn headline(kind: InterruptKind, data: &Value) -> String {
    let line = match kind {
        InterruptKind::Clarification => {
            let asked = data["questions"].as_array().into_iter().flatten();
            asked.filter_map(|part| part["question"].as_str()).collect::<Vec<_>>().join(" ")
        }
        InterruptKind::LowConfidence => format!(
            "{} is {} sure, {} is needed: {}",
            text(data, "agentId"),
            data["observed"],
            data["threshold"],
            data["decision"]
        ),
        InterruptKind::ExternalEvent => text(data, "eventType").to_owned(),
        InterruptKind::Custom => text(data, "customKind").to_owned(),
        InterruptKind::Approval | InterruptKind::ConversationStart => {
            text(data, "title").to_owned()
        }
        InterruptKind::ConversationExchange => text(data, "prompt").to_owned(),
        InterruptKind::ConversationClose => text(data, "reason").to_owned(),
    };
    cut(&line, LONGEST_HEADLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: &str, data: Value, schema: Value) -> Question {
        let listed = json!({ "nodeId": "n", "interruptId": "i", "kind": kind, "data": data, "resumeSchema": schema });
        Question::read(listed).unwrap()
    }

    #[test]
    fn an_approval_is_a_choice_and_its_remark_goes_where_the_action_has_it() {
        let asked = question("approval", json!({ "actions": ["accept", "refine"] }), Value::Null);
        assert_eq!(
            asked.form().unwrap()["properties"]["action"]["enum"],
            json!(["accept", "refine"])
        );
        assert!(asked.is_for_people());
        let answer = asked.answer(json!({ "action": "refine", "remark": "shorter" }));
        assert_eq!(answer["refineFeedback"]["text"], "shorter");
        assert_eq!(asked.answer(json!({ "action": "accept" })), json!({ "action": "accept" }));
    }

    #[test]
    fn a_clarification_is_a_field_for_each_part_and_nothing_else_is_forced_into_a_form() {
        let parts = json!({ "questions": [
            { "id": "when", "question": "When?" },
            { "id": "many", "question": "How many?", "schema": { "type": "integer" } },
        ] });
        let asked = question("clarification", parts, Value::Null);
        let form = asked.form().unwrap();
        assert_eq!(form["properties"]["many"]["type"], "integer");
        assert_eq!(form["required"], json!(["when", "many"]));
        assert_eq!(asked.answer(json!({ "when": "now" })), json!({ "answers": { "when": "now" } }));

        let list =
            json!({ "questions": [{ "id": "a", "question": "?", "schema": { "type": "array" } }] });
        assert_eq!(question("clarification", list, Value::Null).form(), None);
        let nested = json!({ "properties": { "a": { "type": "object" } } });
        assert_eq!(question("custom", json!({}), nested).form(), None);
        assert_eq!(question("external-event", json!({}), Value::Null).form(), None);
    }
}
