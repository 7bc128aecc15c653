//! A run's options for all its model calls: `configurable.temperature` and `configurable.maxTokens`.

use callboard_protocol::Object;
use serde_json::Value;

/// What a run wants of its models. What it does not say is up to the node or the host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CallOptions {
    pub(crate) temperature: Option<f64>,
    /// The longest answer. One that was cut off is not asked for again with more.
    pub(crate) max_tokens: Option<u32>,
}

impl CallOptions {
    /// Both were checked when the run was created.
    pub(crate) fn of(configurable: &Object) -> Self {
        let tokens = configurable.get("maxTokens").and_then(Value::as_u64);
        Self {
            temperature: configurable.get("temperature").and_then(Value::as_f64),
            max_tokens: tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        }
    }

    /// How long an answer may be where the run does not say, and at most.
    pub(crate) fn budget(&self, usual: u32, ceiling: u32) -> u32 {
        self.max_tokens.map_or(usual, |tokens| tokens.min(ceiling))
    }

    /// How far the budget of an answer may be raised that was cut off.
    pub(crate) fn ceiling(&self, ceiling: u32) -> u32 {
        self.max_tokens.map_or(ceiling, |tokens| tokens.min(ceiling))
    }
}
