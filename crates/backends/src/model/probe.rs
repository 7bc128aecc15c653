//! Whether a provider is reachable, accepts the key and has a model, without sending a prompt.

use std::time::Duration;

use callboard_agents::{Fault, ModelError};
use serde_json::Value;

use super::{LiveModel, fault};

/// A list of models is a small answer; a person waits for it.
const WITHIN: Duration = Duration::from_secs(10);
/// The longest published lists have some hundreds of models; more than this is no list of them.
const LONGEST_LIST: usize = 4 << 20;

impl LiveModel {
    /// Asks for the list of models, and reads no more than how that went.
    pub async fn probe(&self) -> Result<(), ModelError> {
        self.look_at(self.settings.base_url.models(self.settings.kind)).await.map(drop)
    }

    /// Whether the provider has a model: where one can be asked about by its name, or by its list.
    pub async fn has(&self, model: &str) -> Result<bool, ModelError> {
        let Some(address) = self.settings.base_url.model(self.settings.kind, model) else {
            return self.lists(model).await;
        };
        match self.look_at(address).await {
            Err(ModelError { fault: Fault::NotFound, .. }) => Ok(false),
            looked => looked.map(|_| true),
        }
    }

    /// A list that cannot be read says nothing against a model.
    async fn lists(&self, model: &str) -> Result<bool, ModelError> {
        let mut listed = self.look_at(self.settings.base_url.models(self.settings.kind)).await?;
        let mut text = Vec::new();
        while let Ok(Some(piece)) = listed.chunk().await {
            text.extend_from_slice(&piece);
            if text.len() > LONGEST_LIST {
                return Ok(true);
            }
        }
        Ok(is_listed(&text, model).unwrap_or(true))
    }

    async fn look_at(&self, address: String) -> Result<reqwest::Response, ModelError> {
        let provider = self.settings.name.as_str();
        let mut asked = self.client()?.get(address).timeout(WITHIN);
        for (name, value) in self.headers()? {
            asked = asked.header(name, value);
        }
        let answer = asked.send().await.map_err(|error| self.failed(fault::transport(&error)))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let wait = fault::retry_after(answer.headers());
        Err(ModelError::of_status(provider, answer.status().as_u16(), wait))
    }
}

/// Looks for a model in a list of OpenAI's form or of Ollama's, where a name without a tag means `latest`.
fn is_listed(list: &[u8], model: &str) -> Option<bool> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let (of_openai, of_ollama) = (list["data"].as_array(), list["models"].as_array());
    let items = of_openai.or(of_ollama)?;
    let names = items.iter().flat_map(|item| [&item["id"], &item["name"], &item["model"]]);
    let same = |name: &str| name == model || name.strip_suffix(":latest") == Some(model);
    Some(names.filter_map(Value::as_str).any(same))
}

#[cfg(test)]
mod tests {
    use super::is_listed;

    #[test]
    fn a_model_is_looked_for_in_the_list_of_either_form() {
        let openai = br#"{"data": [{"id": "qwen3"}, {"id": "llama:latest"}]}"#;
        let ollama = br#"{"models": [{"name": "qwen3:latest", "model": "qwen3:latest"}]}"#;
        assert_eq!(is_listed(openai, "qwen3"), Some(true));
        assert_eq!(is_listed(openai, "qwen"), Some(false));
        for model in ["qwen3", "qwen3:latest"] {
            assert_eq!(is_listed(ollama, model), Some(true), "{model}");
        }
        assert_eq!(is_listed(ollama, "qwen3:8b"), Some(false));
        for unreadable in [&b"<html>"[..], br#"{"object": "list"}"#] {
            assert_eq!(is_listed(unreadable, "qwen3"), None);
        }
    }
}
