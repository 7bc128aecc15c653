//! An answer read from its stream.

use std::time::Duration;

use futures_util::StreamExt as _;
use genai::chat::{ChatStream, ChatStreamEvent, StopReason as Reason, StreamEnd, Usage};
use serde_json::Value;

use callboard_agents::{
    Delta, DeltaSink, Fault, ModelError, ModelRequest, Phase, StopReason, TokenUsage, Turn,
    WantedCall,
};
use callboard_protocol::Object;

use super::frames::Frames;
use super::{Timeouts, fault};

/// No turn needs more.
const MOST_CALLS: usize = 64;

/// Reads one answer.
pub(super) struct Reader<'r> {
    pub(super) provider: &'r str,
    pub(super) request: &'r ModelRequest,
    pub(super) frames: &'r Frames,
}

/// The deltas so far.
#[derive(Default)]
struct Received {
    text: String,
    thinking: String,
}

/// A call as the provider made it; without arguments where they were cut off.
struct Made {
    id: Option<String>,
    name: String,
    arguments: Option<Object>,
    signatures: Vec<String>,
}

impl Reader<'_> {
    pub(super) async fn read(
        &self,
        mut stream: ChatStream,
        timeouts: Timeouts,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let mut told = Received::default();
        loop {
            let event = self.next(&mut stream, timeouts).await?;
            if self.frames.notes().is_too_large {
                return Err(self.failed(Fault::TooLarge));
            }
            let delta = match event {
                Some(Ok(ChatStreamEvent::End(end))) => return self.finish(told, end),
                Some(Ok(event)) => told.hear(event),
                Some(Err(_)) | None if self.frames.notes().is_blocked => {
                    return Ok(self.turn(told, StopReason::ContentFilter, None));
                }
                Some(Err(error)) => {
                    let code = self.frames.notes().failure.clone();
                    return Err(fault::in_stream(self.provider, &error, code.as_deref()));
                }
                None => return Err(self.failed(Fault::Broken)),
            };
            if let Some(delta) = delta {
                deltas.tell(delta).await;
            }
        }
    }

    /// The next event. A frame without one is a sign of life, and the wait begins anew; a frame that never ends is
    /// silence.
    async fn next(
        &self,
        stream: &mut ChatStream,
        timeouts: Timeouts,
    ) -> Result<Option<Result<ChatStreamEvent, genai::Error>>, ModelError> {
        loop {
            let seen = self.frames.notes().count;
            let (within, phase): (Duration, Phase) = match seen {
                0 => (timeouts.first_byte, Phase::FirstByte),
                _ => (timeouts.idle, Phase::NextByte),
            };
            match tokio::time::timeout(within, stream.next()).await {
                Ok(event) => return Ok(event),
                Err(_) if self.frames.notes().count > seen => {}
                Err(_) => return Err(self.failed(Fault::TimedOut(phase))),
            }
        }
    }

    fn finish(&self, told: Received, end: StreamEnd) -> Result<Turn, ModelError> {
        let usage = end.captured_usage.as_ref().and_then(counted);
        let Some(reason) = end.captured_stop_reason.clone() else {
            return match self.frames.notes().is_blocked {
                true => Ok(self.turn(told, StopReason::ContentFilter, usage)),
                // Some readers make up an end where the stream just stopped.
                false => Err(self.failed(Fault::Broken)),
            };
        };
        let stop = self.stop(&reason)?;
        if stop.is_refusal() || stop == StopReason::Length {
            // Whatever was to be called, the turn did not come to it.
            return Ok(self.turn(told, stop, usage));
        }
        let made = self.made(end);
        if made.len() > MOST_CALLS {
            return Err(self.failed(Fault::TooLarge));
        }
        if made.is_empty() && stop == StopReason::ToolCalls {
            return Err(self.failed(Fault::Malformed));
        }
        let stop = if made.is_empty() { stop } else { StopReason::ToolCalls };
        let mut turn = self.turn(told, stop, usage);
        for (index, made) in made.into_iter().enumerate() {
            let Some(arguments) = made.arguments.filter(|_| !made.name.is_empty()) else {
                return Err(self.failed(Fault::Malformed));
            };
            turn.tool_calls.push(WantedCall {
                id: self.request.call_id(index),
                provider_id: made.id,
                name: made.name,
                arguments,
                signatures: made.signatures,
            });
        }
        Ok(turn)
    }

    fn stop(&self, reason: &Reason) -> Result<StopReason, ModelError> {
        let notes = self.frames.notes();
        if notes.refusal.is_some() {
            return Ok(StopReason::Refusal);
        }
        Ok(match reason {
            Reason::Completed(_) | Reason::StopSequence(_) => StopReason::Stop,
            Reason::MaxTokens(_) if notes.incomplete.as_deref() == Some("content_filter") => {
                StopReason::ContentFilter
            }
            Reason::MaxTokens(_) => StopReason::Length,
            Reason::ToolCall(_) => StopReason::ToolCalls,
            Reason::ContentFilter(raw) if raw == "refusal" => StopReason::Refusal,
            Reason::ContentFilter(_) => StopReason::ContentFilter,
            // A call that the provider itself could not read, an unloaded model, a word that we do not know.
            Reason::Other(_) => return Err(self.failed(Fault::Malformed)),
        })
    }

    fn made(&self, end: StreamEnd) -> Vec<Made> {
        if self.frames.reads_calls() {
            let calls = std::mem::take(&mut self.frames.notes().calls);
            let calls = calls.finish().into_iter().map(|call| Made {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                signatures: Vec::new(),
            });
            return calls.collect();
        }
        let calls = end.captured_into_tool_calls().unwrap_or_default().into_iter();
        let calls = calls.map(|call| Made {
            // Gemini and Ollama have no ids of their own; the library makes some up.
            id: Some(call.call_id).filter(|_| self.frames.names_calls()),
            name: call.fn_name,
            arguments: whole(call.fn_arguments),
            signatures: call.thought_signatures.unwrap_or_default(),
        });
        calls.collect()
    }

    fn turn(&self, told: Received, stop: StopReason, usage: Option<TokenUsage>) -> Turn {
        let mut notes = self.frames.notes();
        let refusal = notes.refusal.take().filter(|_| stop == StopReason::Refusal);
        Turn {
            text: refusal.unwrap_or(told.text),
            thinking: told.thinking,
            tool_calls: Vec::new(),
            stop,
            usage,
            provider_request_id: notes.id.take(),
        }
    }

    fn failed(&self, fault: Fault) -> ModelError {
        ModelError::new(self.provider, fault)
    }
}

impl Received {
    fn hear(&mut self, event: ChatStreamEvent) -> Option<Delta> {
        match event {
            ChatStreamEvent::Chunk(chunk) => {
                self.text.push_str(&chunk.content);
                Some(Delta::Text(chunk.content))
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.thinking.push_str(&chunk.content);
                Some(Delta::Thinking(chunk.content))
            }
            ChatStreamEvent::Start
            | ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::Heartbeat
            | ChatStreamEvent::End(_) => None,
        }
    }
}

/// A bare text is a call that was cut off, and must never be made.
fn whole(arguments: Value) -> Option<Object> {
    match arguments {
        Value::Object(arguments) => Some(arguments),
        Value::Null => Some(Object::new()),
        Value::String(text) if text.trim().is_empty() => Some(Object::new()),
        Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// None where the provider counted nothing.
fn counted(usage: &Usage) -> Option<TokenUsage> {
    let number = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let details = usage.prompt_tokens_details.as_ref();
    let (input, output) = (number(usage.prompt_tokens), number(usage.completion_tokens));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(TokenUsage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cache_read: details.and_then(|details| number(details.cached_tokens)),
        cache_write: details.and_then(|details| number(details.cache_creation_tokens)),
    })
}
