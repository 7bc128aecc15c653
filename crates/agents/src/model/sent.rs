//! What a model was sent, kept with its answer: the first request of a visit whole, each later one as what differs.
//!
//! Stored under [`SENT`] in the outcome of the call's effect. A host from before there was any keeps none and ignores it;
//! an outcome without it shows its answer alone.

use serde_json::{Map, Value, json};

use callboard_protocol::Object;

use super::ModelRequest;

/// Where it stands in a recorded outcome.
const SENT: &str = "sent";
/// How many messages of the request before stay as they were.
const KEEPS: &str = "keeps";
const MESSAGES: &str = "messages";

/// The newest request of a visit.
#[derive(Debug, Clone, Default)]
pub struct SentRequest {
    whole: Object,
    /// A request before this one was not kept, so that something may be missing here.
    is_partial: bool,
}

/// A call of a model as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// Model, system text, messages, tools, schema and options.
    pub request: Object,
    /// Whether all of the request was kept.
    pub is_whole: bool,
    pub answer: Value,
}

impl SentRequest {
    /// What is to be kept of a request that comes after this one.
    pub(crate) fn difference(&self, request: &ModelRequest) -> Value {
        let mut now = describe(request);
        let messages = take_messages(&mut now);
        let before = self.messages();
        let kept = messages.iter().zip(before).take_while(|(new, old)| new == old).count();
        now.retain(|name, value| self.whole.get(name) != Some(value));
        now.insert(KEEPS.to_owned(), json!(kept));
        now.insert(MESSAGES.to_owned(), messages.into_iter().skip(kept).collect());
        Value::Object(now)
    }

    /// Goes on to the request that a recorded outcome holds; answers whether it holds one.
    pub(crate) fn follow(&mut self, outcome: &Value) -> bool {
        let Some(sent) = outcome.get(SENT).and_then(Value::as_object) else { return false };
        let keeps = sent.get(KEEPS).and_then(Value::as_u64).unwrap_or(0);
        let keeps = usize::try_from(keeps).unwrap_or(usize::MAX);
        self.is_partial |= self.messages().len() < keeps;
        let mut messages: Vec<Value> = self.messages().iter().take(keeps).cloned().collect();
        let new = sent.get(MESSAGES).and_then(Value::as_array);
        messages.extend(new.into_iter().flatten().cloned());
        for (name, value) in sent.iter().filter(|(name, _)| *name != KEEPS) {
            self.whole.insert(name.clone(), value.clone());
        }
        self.whole.insert(MESSAGES.to_owned(), Value::Array(messages));
        true
    }

    fn messages(&self) -> &[Value] {
        let messages = self.whole.get(MESSAGES).and_then(Value::as_array);
        messages.map(Vec::as_slice).unwrap_or_default()
    }
}

/// An outcome with what was sent for it.
pub(crate) fn with_sent(mut outcome: Value, sent: Value) -> Value {
    if let Some(fields) = outcome.as_object_mut() {
        fields.insert(SENT.to_owned(), sent);
    }
    outcome
}

/// The calls of models among the outcomes of a visit, in their order, each with all that was sent.
pub fn recorded_calls(outcomes: impl IntoIterator<Item = Value>) -> Vec<RecordedCall> {
    let mut sent = SentRequest::default();
    let mut calls = Vec::new();
    for mut outcome in outcomes {
        if !sent.follow(&outcome) {
            continue;
        }
        if let Some(fields) = outcome.as_object_mut() {
            fields.remove(SENT);
        }
        let (request, is_whole) = (sent.whole.clone(), !sent.is_partial);
        calls.push(RecordedCall { request, is_whole, answer: outcome });
    }
    calls
}

/// Everything of a request but its credentials.
fn describe(request: &ModelRequest) -> Object {
    let tools = request.tools.iter().map(|tool| {
        json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters })
    });
    let mut described = Map::new();
    let mut put = |name: &str, value: Value| described.insert(name.to_owned(), value);
    put("model", json!(request.model.to_string()));
    put("system", json!(request.system));
    put(MESSAGES, json!(request.messages));
    put("tools", tools.collect());
    put("responseSchema", json!(request.response_schema));
    put("maxOutputTokens", json!(request.max_output_tokens));
    put("temperature", json!(request.temperature));
    put("seed", json!(request.seed));
    described
}

fn take_messages(described: &mut Object) -> Vec<Value> {
    match described.remove(MESSAGES) {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, ModelRef};
    use super::*;

    fn request(texts: &[&str], system: &str) -> ModelRequest {
        ModelRequest {
            model: ModelRef { provider: "p".to_owned(), model: "m".to_owned() },
            system: Some(system.to_owned()),
            messages: texts.iter().map(|text| Message::User { text: (*text).to_owned() }).collect(),
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: 9,
            temperature: None,
            seed: None,
            idempotency_key: "key".to_owned(),
            key: None,
            call_prefix: String::new(),
            run: None,
        }
    }

    #[test]
    fn a_request_is_rebuilt_from_what_differs() {
        let requests = [
            request(&["a"], "s"),
            request(&["a", "b", "c"], "s"),
            request(&["a", "x"], "s, again"),
        ];
        let (mut sent, mut outcomes) = (SentRequest::default(), Vec::new());
        for request in &requests {
            let outcome = with_sent(json!({ "text": "ok" }), sent.difference(request));
            sent.follow(&outcome);
            outcomes.push(outcome);
            outcomes.push(json!({ "a tool's": "outcome" }));
        }
        assert!(
            outcomes[2].to_string().len() < 200,
            "what is the same is kept once: {}",
            outcomes[2]
        );
        let calls = recorded_calls(outcomes.clone());
        let rebuilt: Vec<&Object> = calls.iter().map(|call| &call.request).collect();
        assert_eq!(
            rebuilt,
            requests.iter().map(describe).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
        assert!(calls.iter().all(|call| call.is_whole && call.answer == json!({ "text": "ok" })));
        outcomes.remove(0);
        assert!(!recorded_calls(outcomes)[0].is_whole, "the first is not there");
    }
}
