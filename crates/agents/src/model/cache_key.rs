//! The key under which two requests to a model are the same request.

use callboard_protocol::{Object, hex};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Message, ModelRequest};

/// How a key is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRecipe {
    /// `openwop-semantic-request-v2`: everything that may change the answer counts.
    #[default]
    V2,
    /// The older one, which is blind to budgets, seeds and stop sequences.
    V1,
}

/// What counts in a request: neither who asks, nor how the answer travels. The key is no wall between tenants; a cache
/// must have one of its own.
#[derive(Clone, Default, PartialEq)]
pub struct SemanticRequest {
    pub provider: String,
    pub model: String,
    pub messages: Vec<Value>,
    /// In any order.
    pub tools: Vec<Value>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub seed: Option<u64>,
    pub stop: Vec<String>,
    pub response_format: Option<Value>,
    pub safety_settings: Option<Value>,
    /// Under `vendor.<provider>.<option>`.
    pub provider_options: Object,
}

impl std::fmt::Debug for SemanticRequest {
    /// Leaves out everything that was said.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SemanticRequest").field("model", &self.model).finish_non_exhaustive()
    }
}

impl SemanticRequest {
    /// Lower-case hexadecimal of the digest of the canonical form.
    pub fn key(&self, recipe: CacheRecipe) -> String {
        let value = Value::Object(match recipe {
            CacheRecipe::V2 => self.second(),
            CacheRecipe::V1 => self.first(),
        });
        // Plain JSON always has a canonical form.
        let canonical = serde_json_canonicalizer::to_vec(&value).unwrap_or_default();
        hex(Sha256::digest(&canonical))
    }

    fn second(&self) -> Object {
        let mut request = self.common();
        put(&mut request, "safetySettings", self.safety_settings.clone());
        put(&mut request, "maxOutputTokens", self.max_output_tokens.map(Value::from));
        put(&mut request, "seed", self.seed.map(Value::from));
        put(&mut request, "stop", (!self.stop.is_empty()).then(|| json!(self.stop)));
        let mut object = Object::new();
        object.insert("recipe".into(), "openwop-semantic-request-v2".into());
        object.insert("provider".into(), self.provider.as_str().into());
        object.insert("model".into(), self.model.as_str().into());
        object.insert("request".into(), request.into());
        let options = &self.provider_options;
        put(&mut object, "providerOptions", (!options.is_empty()).then(|| json!(options)));
        object
    }

    fn first(&self) -> Object {
        let mut object = self.common();
        object.insert("provider".into(), self.provider.as_str().into());
        object.insert("model".into(), self.model.as_str().into());
        object
    }

    fn common(&self) -> Object {
        let mut tools: Vec<&Value> = self.tools.iter().collect();
        tools.sort_by(|a, b| utf16(a).cmp(utf16(b)));
        let mut object = Object::new();
        object.insert("messages".into(), json!(self.messages));
        put(&mut object, "tools", (!tools.is_empty()).then(|| json!(tools)));
        put(&mut object, "temperature", self.temperature.map(Value::from));
        put(&mut object, "topP", self.top_p.map(Value::from));
        put(&mut object, "topK", self.top_k.map(Value::from));
        put(&mut object, "responseFormat", self.response_format.clone());
        object
    }
}

/// An absent member is left out; the canonical form of a null would differ.
fn put(object: &mut Object, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value);
    }
}

/// A tool's name in the code units that the recipe sorts by.
fn utf16(tool: &Value) -> impl Iterator<Item = u16> {
    tool["name"].as_str().unwrap_or_default().encode_utf16()
}

impl From<&ModelRequest> for SemanticRequest {
    fn from(request: &ModelRequest) -> Self {
        let system = request.system.iter().map(|it| json!({ "role": "system", "content": it }));
        let mut calls = Vec::new();
        let messages =
            system.chain(request.messages.iter().map(|it| message(it, &mut calls))).collect();
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "inputSchema": *tool.parameters,
            })
        });
        let schema = request.response_schema.as_ref();
        Self {
            provider: request.model.provider.clone(),
            model: request.model.model.clone(),
            messages,
            tools: tools.collect(),
            temperature: request.temperature,
            top_p: request.top_p,
            max_output_tokens: Some(request.max_output_tokens.into()),
            seed: request.seed,
            stop: request.stop.clone(),
            response_format: schema.map(|it| json!({ "type": "json_schema", "schema": **it })),
            ..Self::default()
        }
    }
}

/// Ids of calls name the run, and a key must not: a call is named by its place among all calls.
fn message<'m>(message: &'m Message, calls: &mut Vec<&'m str>) -> Value {
    match message {
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls: made } => {
            let made: Vec<Value> = made
                .iter()
                .map(|call| {
                    calls.push(&call.id);
                    let id = calls.len() - 1;
                    json!({ "id": id, "name": call.name, "arguments": call.arguments })
                })
                .collect();
            json!({ "role": "assistant", "content": text, "toolCalls": made })
        }
        Message::Tool { result } => {
            let id = calls.iter().position(|id| *id == result.call_id);
            json!({ "role": "tool", "toolCallId": id, "content": result.content })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ToolReply, ToolSpec, WantedCall};
    use super::*;

    fn arithmetic() -> SemanticRequest {
        SemanticRequest {
            provider: "anthropic".into(),
            model: "claude-3-5-sonnet-20240620".into(),
            messages: vec![
                json!({ "role": "system", "content": "You are a helpful assistant." }),
                json!({ "role": "user", "content": "What is 2+2?" }),
            ],
            temperature: Some(0.7),
            ..SemanticRequest::default()
        }
    }

    fn probe() -> SemanticRequest {
        SemanticRequest {
            provider: "openai".into(),
            model: "gpt-4".into(),
            messages: vec![json!({ "role": "user", "content": "v2-sensitivity-probe" })],
            temperature: Some(0.2),
            seed: Some(42),
            ..SemanticRequest::default()
        }
    }

    ///
    #[test]
    fn the_key_is_that_of_the_protocols_vectors() {
        assert_eq!(
            arithmetic().key(CacheRecipe::V2),
            "b8d3304e343970ac53f3cc7cb486b5f2ac91147262c57994abca3f5688fd9f93"
        );
        assert_eq!(
            arithmetic().key(CacheRecipe::V1),
            "fbf19853f4750ca84d7758d1bf340200de743883c59493362a58b731e4c07704"
        );
        assert_eq!(
            probe().key(CacheRecipe::V2),
            "4c9a3156bf7e5fecd088b516c4c8e39d0b1a45d74fb670413d9ce5a7c6da1cf7"
        );
    }

    ///
    #[test]
    fn everything_that_may_change_the_answer_changes_the_key() {
        let option = ("vendor.openai.logprobs".to_owned(), json!(true));
        let others = [
            SemanticRequest { seed: Some(43), ..probe() },
            SemanticRequest { stop: vec!["x".into()], ..probe() },
            SemanticRequest { max_output_tokens: Some(1), ..probe() },
            SemanticRequest { provider_options: Object::from_iter([option]), ..probe() },
            SemanticRequest { tools: vec![json!({ "name": "t" })], ..probe() },
            SemanticRequest { response_format: Some(json!({ "type": "json" })), ..probe() },
        ];
        let mut keys: Vec<String> = others.iter().map(|it| it.key(CacheRecipe::V2)).collect();
        keys.push(probe().key(CacheRecipe::V2));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
        let blind = SemanticRequest { seed: None, stop: vec!["x".into()], ..probe() };
        assert_eq!(blind.key(CacheRecipe::V1), probe().key(CacheRecipe::V1));
    }

    #[test]
    fn tools_are_sorted_by_code_units_and_not_by_code_points() {
        // U+FF21 comes before U+1F600 as a character, and after its first surrogate.
        let tools = ["\u{ff21}", "\u{1f600}", "a"].map(|name| json!({ "name": name }));
        let sorted = ["a", "\u{1f600}", "\u{ff21}"].map(|name| json!({ "name": name }));
        let of = |tools: &[Value]| SemanticRequest { tools: tools.to_vec(), ..probe() };
        assert_eq!(of(&tools).common()["tools"], json!(sorted));
        assert_eq!(of(&tools).key(CacheRecipe::V2), of(&sorted).key(CacheRecipe::V2));
    }

    fn request(invocation: &str) -> ModelRequest {
        let call_id = format!("{invocation}-0-0");
        let call = WantedCall {
            id: call_id.clone(),
            provider_id: Some(format!("toolu_{invocation}")),
            name: "read".into(),
            arguments: Object::new(),
            signatures: Vec::new(),
        };
        let result = ToolReply { call_id, name: "read".into(), content: "text".into() };
        ModelRequest {
            model: "openai/gpt-4".parse().unwrap(),
            system: Some("Be brief.".into()),
            messages: vec![
                Message::User { text: "Read it.".into() },
                Message::Assistant { text: String::new(), calls: vec![call] },
                Message::Tool { result },
            ],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "reads".into(),
                parameters: Arc::new(json!({ "type": "object" })),
            }],
            response_schema: None,
            max_output_tokens: 100,
            temperature: None,
            top_p: None,
            seed: None,
            stop: Vec::new(),
            idempotency_key: invocation.to_owned(),
            key: None,
            call_prefix: format!("{invocation}-1"),
        }
    }

    ///
    #[test]
    fn who_asks_does_not_change_the_key() {
        let key = |request| SemanticRequest::from(&request).key(CacheRecipe::V2);
        assert_eq!(key(request("inv-1")), key(request("inv-2")));
        assert_ne!(key(request("inv-1")), key(request("inv-1").longer(200)));
    }

    #[test]
    fn nothing_that_was_said_is_formatted() {
        let request = request("inv-1");
        let shown = format!("{request:?} {:?}", SemanticRequest::from(&request));
        assert!(!shown.contains("brief") && !shown.contains("Read"), "{shown}");
    }
}
