//! The port to language models: one turn, its deltas, its result.

mod answer;
mod assembly;
mod basis;
mod cache_key;
mod capability;
mod error;
mod options;
mod price;
mod reason;
mod reduce;
mod scripted;
mod sent;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_core::SecretText;
use callboard_protocol::{Object, RunId};

pub use answer::{
    BUDGET_MULTIPLIER, Exhausted, ExhaustedReason, Recovery, RecoveryPath, SCHEMA_ROUNDS, Tries,
    Verdict, judge,
};
pub use assembly::{AssembledCall, Overflow, ToolCallAssembly};
pub(crate) use basis::RequestBasis;
pub use cache_key::SemanticRequest;
pub use capability::{Demands, Gate, MODEL_CAPABILITIES, Substitution, gate};
pub use error::{Fault, ModelError, Phase, RetryAdvice};
pub(crate) use options::CallOptions;
pub use price::{Price, PriceTable};
pub use reason::ProviderReason;
pub use reduce::{reduce, restore};
pub use scripted::{Scripted, scripted_answer};
pub(crate) use sent::with_sent;
pub use sent::{RecordedCall, SentRequest, recorded_calls};
pub use table::{ModelRef, ModelRefError, ModelTable, NoModel, ResolvedModel};

/// Answers one turn of a conversation.
#[async_trait]
pub trait Model: fmt::Debug + Send + Sync {
    /// Calls once: no retries, no repairs, no fallback. Deltas are reported as they come, and are void when
    /// an error follows. Dropping the future ends the call.
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError>;

    /// How the next turns would end, as far as that can be known without a call.
    fn rehearse(&self, _model: &ModelRef, _call_prefix: &str, _turns: usize) -> Vec<StopReason> {
        Vec::new()
    }
}

/// Listens to a turn while it is made.
#[async_trait]
pub trait DeltaSink: Send {
    /// Takes as long as it likes: the time is not counted as the provider's silence.
    async fn tell(&mut self, delta: Delta);
}

/// Nobody listens.
#[async_trait]
impl DeltaSink for () {
    async fn tell(&mut self, _: Delta) {}
}

#[async_trait]
impl DeltaSink for Vec<Delta> {
    async fn tell(&mut self, delta: Delta) {
        self.push(delta);
    }
}

/// A piece of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Thinking(String),
}

/// Everything that a model gets in one turn.
#[derive(Clone)]
pub struct ModelRequest {
    pub model: ModelRef,
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    /// What the answer must match, as its author wrote it.
    pub response_schema: Option<Arc<Value>>,
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    pub seed: Option<u64>,
    /// The effect's id, for providers that know a repeated call by it.
    pub idempotency_key: String,
    /// The run's own key, where it brought one; otherwise the provider is asked with the host's.
    pub key: Option<SecretText>,
    /// `{invocation}-{step}`: the ids of this turn's tool calls begin with it.
    pub call_prefix: String,
    /// The run that asks, for whoever says what it waits for. No provider sees it.
    pub run: Option<RunId>,
}

impl ModelRequest {
    /// The id of the turn's tool call at `index`.
    pub fn call_id(&self, index: usize) -> String {
        format!("{}-{index}", self.call_prefix)
    }
}

impl fmt::Debug for ModelRequest {
    /// Leaves out everything that was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("model", &self.model)
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("max_output_tokens", &self.max_output_tokens)
            .finish_non_exhaustive()
    }
}

/// One entry of a conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    User { text: String },
    Assistant { text: String, calls: Vec<WantedCall> },
    Tool { result: ToolReply },
}

/// What a tool gave back, for the model to read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    /// Our id of the call.
    pub call_id: String,
    pub name: String,
    pub content: String,
}

/// A tool that the model may call, under a name that every provider takes.
#[derive(Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub parameters: Arc<Value>,
}

/// A tool that the model wants to be called. Whether it may is for the caller to check.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WantedCall {
    /// Ours: the same when the turn is made again.
    pub id: String,
    /// The provider's, if it has one: it goes back with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    pub name: String,
    pub arguments: Object,
    /// Opaque marks that some providers want back with the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
}

/// The result of a turn. Kept with the effect, so that it is not paid for twice: fields that are added later must have
/// defaults, and old hosts ignore them.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The answer, or what a refusing model said instead.
    pub text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<WantedCall>,
    pub stop: StopReason,
    /// None where the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What the provider calls this answer, to ask its support about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_request_id: Option<String>,
}

/// Why a turn ended, in one vocabulary for all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Stop,
    /// The budget of output tokens, or the model's window, was used up.
    Length,
    ToolCalls,
    /// A filter of the provider stepped in.
    ContentFilter,
    /// The model declined.
    Refusal,
}

impl StopReason {
    /// Both end the same way: outcome `refused`, and no second try.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::ContentFilter | Self::Refusal)
    }
}

/// Tokens as the provider counted them; those of its cache are among the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

macro_rules! silent {
    ($($type:ident: $field:ident),*) => {$(
        impl fmt::Debug for $type {
            /// Leaves out everything that was said.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type))
                    .field(stringify!($field), &self.$field)
                    .finish_non_exhaustive()
            }
        }
    )*};
}

silent!(ToolReply: call_id, ToolSpec: name, WantedCall: id, Turn: stop);

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User { .. } => "User",
            Self::Assistant { .. } => "Assistant",
            Self::Tool { .. } => "Tool",
        })
    }
}

/// All models of a host, by the name of their provider.
#[derive(Debug, Clone)]
pub struct Models(BTreeMap<String, Arc<dyn Model>>);

impl Default for Models {
    /// The built-in provider is always there.
    fn default() -> Self {
        Self(BTreeMap::new()).with(Scripted::PROVIDER, Arc::new(Scripted))
    }
}

impl Models {
    #[must_use]
    pub fn with(mut self, provider: &str, model: Arc<dyn Model>) -> Self {
        self.0.insert(provider.to_owned(), model);
        self
    }

    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[async_trait]
impl Model for Models {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let provider = request.model.provider.as_str();
        match self.0.get(provider) {
            Some(model) => model.turn(request, deltas).await,
            None => Err(ModelError::new(provider, Fault::UnknownProvider)),
        }
    }

    fn rehearse(&self, model: &ModelRef, call_prefix: &str, turns: usize) -> Vec<StopReason> {
        let known = self.0.get(&model.provider);
        known.map(|known| known.rehearse(model, call_prefix, turns)).unwrap_or_default()
    }
}
