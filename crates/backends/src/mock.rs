//! `core.ai.callPrompt` against the deterministic mock providers that test keys may ask for.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Fact, Outcome, RetryClass};
use callboard_engine::{Activity, Call};
use callboard_protocol::{ChunkMeta, Failure, Object, Usage};

/// The model that the `stream-text` mock claims to be.
const MODEL: &str = "mock-stream-text-v1";

/// An AI call. Without a mock provider there is no model here, and the node fails with that reason.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallPrompt;

#[async_trait]
impl Activity for CallPrompt {
    async fn perform(&self, call: Call) -> Outcome {
        match call.configurable.get("mockProvider").and_then(StreamText::of) {
            Some(script) => script.play(&call).await,
            None => no_provider(&call),
        }
    }
}

/// What the `stream-text` mock says, and how fast.
#[derive(Debug)]
struct StreamText {
    tokens: Vec<String>,
    delay: Duration,
    finish_reason: String,
    usage: Usage,
    model: String,
}

impl StreamText {
    fn of(provider: &Value) -> Option<Self> {
        if provider.get("id")?.as_str()? != "stream-text" {
            return None;
        }
        let config = provider.get("config").and_then(Value::as_object).cloned().unwrap_or_default();
        let text = |key: &str, default: &str| {
            config.get(key).and_then(Value::as_str).unwrap_or(default).to_owned()
        };
        let tokens = match config.get("tokens").and_then(Value::as_array) {
            Some(tokens) => tokens.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            None => vec!["mock".to_owned(), " response".to_owned()],
        };
        Some(Self {
            delay: Duration::from_millis(
                config.get("delayMsPerToken").and_then(Value::as_u64).unwrap_or(0),
            ),
            finish_reason: text("finishReason", "stop"),
            usage: usage(config.get("usage"), &tokens),
            model: text("model", MODEL),
            tokens,
        })
    }

    /// Records one chunk per token. Those that an earlier attempt has recorded are skipped.
    async fn play(self, call: &Call) -> Outcome {
        let count = self.tokens.len();
        for (place, token) in self.tokens.iter().enumerate() {
            let index = u32::try_from(place).unwrap_or(u32::MAX);
            if index < call.facts_recorded {
                continue;
            }
            if !self.delay.is_zero() {
                call.pause(self.delay).await;
            }
            let is_last = place + 1 == count;
            let fact = Fact::Chunk {
                index,
                text: token.clone(),
                is_last,
                meta: is_last.then(|| self.meta()),
            };
            if call.record(vec![fact]).await.is_err() {
                return failed("superseded", "the run moved on without this attempt");
            }
        }
        let mut outputs = Object::new();
        outputs.insert("text".into(), self.tokens.concat().into());
        outputs.insert("finishReason".into(), self.finish_reason.clone().into());
        outputs.insert("model".into(), self.model.clone().into());
        outputs.insert("usage".into(), json!(self.usage));
        Outcome::Done { outputs }
    }

    fn meta(&self) -> ChunkMeta {
        ChunkMeta {
            finish_reason: Some(self.finish_reason.clone()),
            model: Some(self.model.clone()),
            usage: Some(self.usage.clone()),
            provider: Some("mock".into()),
        }
    }
}

fn usage(given: Option<&Value>, tokens: &[String]) -> Usage {
    let number = |key: &str| given.and_then(|usage| usage.get(key)).and_then(Value::as_u64);
    let completion_tokens = number("completionTokens").unwrap_or(tokens.len() as u64);
    let prompt_tokens = number("promptTokens").unwrap_or(1);
    let total_tokens =
        number("totalTokens").unwrap_or(prompt_tokens.saturating_add(completion_tokens));
    Usage { prompt_tokens, completion_tokens, total_tokens }
}

fn no_provider(call: &Call) -> Outcome {
    let mut details = Object::new();
    details.insert("capability".into(), "aiProviders".into());
    let message = format!(
        "node {} needs aiProviders, and no model provider is configured",
        call.attempt.node
    );
    let failure = Failure::new("capability_not_provided", message).with_details(details);
    Outcome::Failed { failure, class: RetryClass::Final }
}

fn failed(code: &str, message: &str) -> Outcome {
    Outcome::Failed { failure: Failure::new(code, message), class: RetryClass::Final }
}
