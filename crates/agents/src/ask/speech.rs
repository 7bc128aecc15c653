//! A model's streamed text on its way into the log.

use std::mem::take;

use async_trait::async_trait;

use callboard_core::{AgentFact, Fact};
use callboard_engine::Call;
use callboard_protocol::Timestamp;
use serde_json::Value;

use crate::model::{Delta, DeltaSink, Turn};

/// Deltas within this time of each other are recorded together, or as soon as there are so many bytes of them.
const TOGETHER_MS: i64 = 50;
const TOGETHER_BYTES: usize = 2 << 10;

/// None where the run records no reasoning of agents.
pub(crate) fn verbosity(call: &Call) -> Option<String> {
    match call.configurable.get("reasoningVerbosity").and_then(Value::as_str) {
        Some("off") => None,
        Some("full") => Some("full".to_owned()),
        _ => Some("summary".to_owned()),
    }
}

/// What a model thought in a turn; without thinking, what it said or did.
pub(crate) fn reasoning(turn: &Turn) -> String {
    let calls = turn.tool_calls.len();
    match (turn.thinking.trim(), turn.text.trim()) {
        ("", _) if turn.stop.is_refusal() => "The model declined.".to_owned(),
        ("", "") if calls > 0 => format!("The model has {calls} tools called."),
        ("", "") => "The model said nothing.".to_owned(),
        ("", text) => text.to_owned(),
        (thinking, _) => thinking.to_owned(),
    }
}

/// Receives the deltas of one try at a turn. The first ones are recorded at once.
pub(crate) struct Speech<'a> {
    call: &'a Call,
    /// How often the model was asked before within this call, if it was.
    attempt: Option<u32>,
    verbosity: Option<String>,
    text: String,
    thinking: String,
    told_at: Option<Timestamp>,
    /// Whether reasoning was recorded that is not closed yet.
    pub(crate) is_thinking: bool,
}

impl<'a> Speech<'a> {
    /// Without a verbosity, reasoning is not recorded.
    pub(crate) fn new(call: &'a Call, attempt: Option<u32>, verbosity: Option<String>) -> Self {
        Self {
            call,
            attempt,
            verbosity,
            text: String::new(),
            thinking: String::new(),
            told_at: None,
            is_thinking: false,
        }
    }

    /// Reports what is left. An answer that calls tools is not the last.
    pub(crate) async fn end(&mut self, is_last: bool) {
        let (thinking, text) = (take(&mut self.thinking), take(&mut self.text));
        self.flush(thinking, text, is_last).await;
    }

    async fn flush(&mut self, delta: String, text: String, is_last: bool) {
        let mut facts = Vec::new();
        if !delta.is_empty() {
            facts.push(AgentFact::Thinking { delta, verbosity: self.verbosity.clone() });
            self.is_thinking = true;
        }
        if !text.is_empty() || (is_last && self.told_at.is_some()) {
            facts.push(AgentFact::Text { text, is_last, attempt: self.attempt });
        }
        if facts.is_empty() {
            return;
        }
        self.told_at = Some(self.call.now());
        let facts = facts.into_iter().map(|fact| Fact::Agent { place: 0, fact }).collect();
        // An attempt that no longer counts learns so from its next outward call.
        let _ = self.call.record(facts).await;
    }

    fn is_due(&self) -> bool {
        let Some(told_at) = self.told_at else { return true };
        let passed = self.call.now().as_millis() - told_at.as_millis();
        passed >= TOGETHER_MS || self.text.len() + self.thinking.len() >= TOGETHER_BYTES
    }
}

#[async_trait]
impl DeltaSink for Speech<'_> {
    async fn tell(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(&text),
            Delta::Thinking(text) if self.verbosity.is_some() => self.thinking.push_str(&text),
            Delta::Thinking(_) => return,
        }
        if self.is_due() {
            let thinking = self.call.take_recordable(&mut self.thinking);
            let text = self.call.take_recordable(&mut self.text);
            self.flush(thinking, text, false).await;
        }
    }
}
