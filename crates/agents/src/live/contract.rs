//! The schema of a model's answer, and the confidence that it reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use callboard_core::{AgentPin, Confidence};

use crate::pack::Schema;

/// Where a model states its confidence if the result has no place for it.
const OWN_FIELD: &str = "_confidence";
/// The result's own place for it, which most published agents have.
const THEIR_FIELD: &str = "confidence";
/// Agents of more versions than this are not in use at once.
const MOST_KEPT: usize = 1_000;

/// How an agent's answer is asked for and taken apart.
#[derive(Debug)]
pub(super) struct Contract {
    /// The schema that the model gets; none where it answers with text.
    pub(super) asked: Option<Arc<Value>>,
    /// The same, to judge an answer by.
    pub(super) judged: Option<Schema>,
    /// The schema as the pack has it.
    promised: Option<Arc<Value>>,
    stated: Stated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stated {
    InResult,
    Beside,
    Nowhere,
}

impl Contract {
    fn new(result: Option<&Schema>) -> Self {
        let Some(schema) = result else {
            return Self { asked: None, judged: None, promised: None, stated: Stated::Nowhere };
        };
        let plain = |stated| Self {
            asked: Some(Arc::clone(&schema.source)),
            judged: Some(schema.clone()),
            promised: Some(Arc::clone(&schema.source)),
            stated,
        };
        if is_number(&schema.source["properties"][THEIR_FIELD]) {
            return plain(Stated::InResult);
        }
        let share = json!({
            "type": "number", "minimum": 0, "maximum": 1,
            "description": "How sure you are of this answer, from 0 to 1.",
        });
        // What is no share is no signal, and no reason to refuse what was answered.
        let both = with_field(&schema.source, share).zip(with_field(&schema.source, json!({})));
        match both {
            Some((asked, judged)) => Self {
                asked: Some(asked.source),
                judged: Some(judged),
                promised: Some(Arc::clone(&schema.source)),
                stated: Stated::Beside,
            },
            None => plain(Stated::Nowhere),
        }
    }

    /// Whether it was made for this very schema: another tenant may have another pack of the same name.
    fn is_for(&self, result: Option<&Schema>) -> bool {
        match (&self.promised, result) {
            (None, None) => true,
            (Some(promised), Some(schema)) => Arc::ptr_eq(promised, &schema.source),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// The result itself, and how sure the model is of it. Only a number from 0 to 1 is a signal.
    pub(super) fn take_apart(&self, mut said: Value) -> (Value, Option<Confidence>) {
        let stated = match self.stated {
            Stated::InResult => said.get(THEIR_FIELD).cloned(),
            Stated::Beside => said.as_object_mut().and_then(|fields| fields.remove(OWN_FIELD)),
            Stated::Nowhere => None,
        };
        (said, Confidence::read(stated.as_ref()))
    }
}

fn is_number(schema: &Value) -> bool {
    schema["type"] == json!("number")
}

/// The schema with a place for confidence; none where it is no plain object that could have one.
fn with_field(source: &Value, confidence: Value) -> Option<Schema> {
    if source["type"] != json!("object") || !source["properties"].is_object() {
        return None;
    }
    let mut extended = source.clone();
    extended["properties"][OWN_FIELD] = confidence;
    Schema::compile(extended.to_string().as_bytes()).ok()
}

/// Contracts by agent and version: compiling a schema costs more than an answer of the scripted model.
#[derive(Debug, Default)]
pub struct Contracts(Mutex<BTreeMap<(String, String), Arc<Contract>>>);

impl Contracts {
    pub(super) fn of(&self, pin: &AgentPin, result: Option<&Schema>) -> Arc<Contract> {
        let key = (pin.agent_id.clone(), pin.version.clone());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(contract) = kept.get(&key).filter(|kept| kept.is_for(result)) {
            return Arc::clone(contract);
        }
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        let contract = Arc::new(Contract::new(result));
        kept.insert(key, Arc::clone(&contract));
        contract
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(schema: Value) -> Contract {
        Contract::new(Some(&Schema::compile(schema.to_string().as_bytes()).unwrap()))
    }

    #[test]
    fn a_result_with_a_place_for_confidence_keeps_it() {
        let contract = contract(json!({
            "type": "object", "properties": { "confidence": { "type": "number" } },
        }));
        let (result, confidence) = contract.take_apart(json!({ "confidence": 0.25 }));
        assert_eq!(result, json!({ "confidence": 0.25 }));
        assert_eq!(confidence.map(Confidence::get), Some(0.25));
    }

    #[test]
    fn a_closed_result_gets_a_place_that_is_taken_away_again() {
        let closed = json!({
            "type": "object", "properties": { "x": { "type": "string" } },
            "additionalProperties": false,
        });
        let contract = contract(closed);
        let said = json!({ "x": "y", "_confidence": 0.5 });
        assert_eq!(contract.judged.as_ref().unwrap().violations(&said), [""; 0]);
        let (result, confidence) = contract.take_apart(said);
        assert_eq!(result, json!({ "x": "y" }));
        assert_eq!(confidence.map(Confidence::get), Some(0.5));
    }

    #[test]
    fn whatever_is_no_share_is_no_signal() {
        let contract = contract(json!({ "type": "object", "properties": {} }));
        for said in [json!(1.5), json!(-1), json!("0.2"), json!(null)] {
            let answer = json!({ "_confidence": said });
            assert_eq!(contract.judged.as_ref().unwrap().violations(&answer), [""; 0], "{said}");
            let (_, confidence) = contract.take_apart(answer);
            assert_eq!(confidence, None, "{said}");
        }
    }
}
