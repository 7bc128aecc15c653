//! Fields of a provider's frames that the library leaves out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;

use callboard_agents::ToolCallAssembly;

use super::ProviderKind;

/// No provider sends more in one frame.
const LARGEST_FRAME: usize = 8 << 20;
/// No answer is longer, frames and all.
const LARGEST_ANSWER: usize = 64 << 20;

/// Reads along while the library reads a stream.
pub(super) struct Frames {
    kind: ProviderKind,
    notes: Mutex<Notes>,
}

#[derive(Default)]
pub(super) struct Notes {
    /// Frames so far, empty ones too: a sign of life.
    pub(super) count: u64,
    bytes: usize,
    /// There is more than this host takes.
    pub(super) is_too_large: bool,
    /// What the provider calls the answer.
    pub(super) id: Option<String>,
    /// What a refusing model said.
    pub(super) refusal: Option<String>,
    /// Why an answer is incomplete.
    pub(super) incomplete: Option<String>,
    /// The provider's code of a failure that it reported in the stream.
    pub(super) failure: Option<String>,
    /// The question was not let through to the model.
    pub(super) is_blocked: bool,
    pub(super) calls: ToolCallAssembly,
}

impl Frames {
    pub(super) fn new(kind: ProviderKind) -> Self {
        Self { kind, notes: Mutex::default() }
    }

    /// Whether the provider has ids of its own for tool calls.
    pub(super) fn names_calls(&self) -> bool {
        !matches!(self.kind, ProviderKind::Gemini | ProviderKind::Ollama)
    }

    /// Whether tool calls are put together here.
    pub(super) fn reads_calls(&self) -> bool {
        matches!(self.kind, ProviderKind::OpenAi | ProviderKind::OpenAiCompatible)
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut notes = self.notes();
        notes.count += 1;
        notes.bytes = notes.bytes.saturating_add(frame.data.len());
        if frame.data.len() > LARGEST_FRAME || notes.bytes > LARGEST_ANSWER {
            notes.is_too_large = true;
        }
        if notes.is_too_large {
            return;
        }
        // What is not JSON is an end mark, or garbage that the library will call_failure over.
        let Some(data) = frame.json() else { return };
        match self.kind {
            ProviderKind::Anthropic => keep(&mut notes.id, &data["message"]["id"]),
            ProviderKind::OpenAi | ProviderKind::OpenAiCompatible => notes.chat(&data),
            ProviderKind::OpenAiResponses => notes.responses(&data),
            ProviderKind::Gemini => {
                keep(&mut notes.id, &data["responseId"]);
                notes.is_blocked |= data["promptFeedback"]["blockReason"].is_string();
            }
            ProviderKind::Ollama => {}
        }
    }
}

impl Notes {
    fn chat(&mut self, data: &Value) {
        keep(&mut self.id, &data["id"]);
        let delta = &data["choices"][0]["delta"];
        self.refuse(&delta["refusal"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let Some(index) = call["index"].as_u64() else { continue };
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap_or_default();
            let added =
                self.calls.add(index, call["id"].as_str(), function["name"].as_str(), arguments);
            self.is_too_large |= added.is_err();
        }
    }

    fn responses(&mut self, data: &Value) {
        let response = &data["response"];
        keep(&mut self.id, &response["id"]);
        match data["type"].as_str().unwrap_or_default() {
            "response.refusal.delta" => self.refuse(&data["delta"]),
            "response.refusal.done" if self.refusal.is_none() => self.refuse(&data["refusal"]),
            "response.incomplete" => {
                keep(&mut self.incomplete, &response["incomplete_details"]["reason"]);
            }
            "response.failed" => keep(&mut self.failure, &response["error"]["code"]),
            _ => {}
        }
    }

    fn refuse(&mut self, words: &Value) {
        if let Some(words) = words.as_str().filter(|words| !words.is_empty()) {
            self.refusal.get_or_insert_default().push_str(words);
        }
    }
}

fn keep(place: &mut Option<String>, value: &Value) {
    if place.is_none() {
        *place = value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    }
}
