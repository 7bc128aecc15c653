//! The key under which two requests to a model are the same request.

use callboard_protocol::{Object, hex};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The recipe in which everything counts that may change the answer.
const RECIPE: &str = "openwop-semantic-request-v2";

/// What counts in a request: neither who asks, nor how the answer travels. The key is no wall between tenants; a cache
/// must have one of its own.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SemanticRequest {
    pub provider: String,
    pub model: String,
    pub messages: Vec<Value>,
    /// In any order.
    #[serde(default)]
    pub tools: Vec<Value>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub stop: Vec<String>,
    pub response_format: Option<Value>,
    pub safety_settings: Option<Value>,
    /// Under `vendor.<provider>.<option>`.
    #[serde(default)]
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
    pub fn key(&self) -> String {
        let options = &self.provider_options;
        let mut object = Object::new();
        object.insert("recipe".into(), RECIPE.into());
        object.insert("provider".into(), self.provider.as_str().into());
        object.insert("model".into(), self.model.as_str().into());
        object.insert("request".into(), self.request().into());
        put(&mut object, "providerOptions", (!options.is_empty()).then(|| json!(options)));
        // Plain JSON always has a canonical form.
        let canonical = serde_json_canonicalizer::to_vec(&object).unwrap_or_default();
        hex(Sha256::digest(&canonical))
    }

    fn request(&self) -> Object {
        let mut tools: Vec<&Value> = self.tools.iter().collect();
        tools.sort_by(|a, b| utf16(a).cmp(utf16(b)));
        let mut request = Object::new();
        request.insert("messages".into(), json!(self.messages));
        put(&mut request, "tools", (!tools.is_empty()).then(|| json!(tools)));
        put(&mut request, "temperature", self.temperature.map(Value::from));
        put(&mut request, "topP", self.top_p.map(Value::from));
        put(&mut request, "topK", self.top_k.map(Value::from));
        put(&mut request, "responseFormat", self.response_format.clone());
        put(&mut request, "safetySettings", self.safety_settings.clone());
        put(&mut request, "maxOutputTokens", self.max_output_tokens.map(Value::from));
        put(&mut request, "seed", self.seed.map(Value::from));
        put(&mut request, "stop", (!self.stop.is_empty()).then(|| json!(self.stop)));
        request
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

#[cfg(test)]
mod tests {
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
            arithmetic().key(),
            "b8d3304e343970ac53f3cc7cb486b5f2ac91147262c57994abca3f5688fd9f93"
        );
        assert_eq!(
            probe().key(),
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
        let mut keys: Vec<String> = others.iter().map(|it| it.key()).collect();
        keys.push(probe().key());
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
    }

    #[test]
    fn tools_are_sorted_by_code_units_and_not_by_code_points() {
        // U+FF21 comes before U+1F600 as a character, and after its first surrogate.
        let tools = ["\u{ff21}", "\u{1f600}", "a"].map(|name| json!({ "name": name }));
        let sorted = ["a", "\u{1f600}", "\u{ff21}"].map(|name| json!({ "name": name }));
        let of = |tools: &[Value]| SemanticRequest { tools: tools.to_vec(), ..probe() };
        assert_eq!(of(&tools).request()["tools"], json!(sorted));
        assert_eq!(of(&tools).key(), of(&sorted).key());
    }

    #[test]
    fn nothing_that_was_said_is_formatted() {
        let shown = format!("{:?}", probe());
        assert!(!shown.contains("sensitivity"), "{shown}");
    }
}
