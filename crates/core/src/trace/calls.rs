//! Spans of model calls and tool calls, under OpenTelemetry's names for generative AI.
//!
//! A log says when a call's outcome was recorded; it began when the node's event before that was. What was said is
//! left out unless it is asked for, and always where the definition marks anything sensitive.

use callboard_protocol::{
    AgentInvocationStarted, AgentToolCalled, AgentToolReturned, Event, ModelFallback, NodeId,
    ProviderUsage, Timestamp, ToolStatus,
};
use serde_json::{Value, json};

use super::fold::Tracer;
use super::{Content, SpanContext, SpanKind, SpanStatus};
use crate::run::Entry;
use crate::secrets::redact;

/// Bytes of one value that a span shows at most: collectors refuse spans that are too large.
const LONGEST_CONTENT: usize = 16 * 1024;
/// What an attempt fails with when its model could not be asked.
const TROUBLE: [&str; 6] = [
    "credential_forbidden",
    "credential_required",
    "no_model_available",
    "rate_limited",
    "service_unavailable",
    "validation_error",
];

/// Who asks, which model is asked, and since when.
#[derive(Debug)]
pub(super) struct OpenCalls {
    pub(super) visit: u32,
    /// When the node recorded something last that was not part of an answer under way.
    since: Timestamp,
    /// Answers of models in this visit so far.
    answered: u32,
    /// Provider and model, where an agent said which one it asks.
    model: Option<(String, String)>,
    last_answer: Option<usize>,
    /// Calls of tools that have not returned, by their ids.
    tools: Vec<(String, usize)>,
}

impl OpenCalls {
    pub(super) fn new(visit: u32, since: Timestamp) -> Self {
        let (answered, model, last_answer, tools) = (0, None, None, Vec::new());
        Self { visit, since, answered, model, last_answer, tools }
    }
}

/// OpenTelemetry's own names of providers that are called otherwise here.
pub(super) fn provider_name(provider: &str) -> &str {
    match provider {
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

impl Tracer<'_> {
    /// Opens and closes the spans of calls. The node's own spans are open when this comes.
    pub(super) fn take_call(&mut self, entry: &Entry) {
        match &entry.event {
            Event::AgentInvocationStarted(payload) => self.invoked(payload),
            Event::ProviderUsage(payload) => self.answered(payload, entry),
            Event::ModelFallback(payload) => self.fell_back(payload, entry),
            Event::EnvelopeTruncated(payload) => self.finished(&payload.node_id, "length"),
            Event::EnvelopeRefusal(payload) => self.finished(&payload.node_id, "content_filter"),
            Event::AgentToolCalled(payload) => self.tool_called(payload, entry),
            Event::AgentToolReturned(payload) => self.tool_returned(payload, entry),
            _ => {}
        }
        let is_part_of_an_answer = matches!(
            entry.event,
            Event::OutputChunk(_) | Event::AgentReasoningDelta(_) | Event::LogAppended(_)
        );
        let open = entry.event.node_id().and_then(|node| self.open.get_mut(node));
        if let Some(open) = open.filter(|_| !is_part_of_an_answer) {
            open.calls.since = entry.at;
        }
    }

    fn invoked(&mut self, payload: &AgentInvocationStarted) {
        let open = payload.node_id.as_ref().and_then(|node| self.open.get_mut(node));
        let Some(open) = open else { return };
        open.calls.model = payload.resolved_provider.clone().zip(payload.resolved_model.clone());
        let Some(attempt) = open.attempt else { return };
        self.set(attempt, "gen_ai.operation.name", "invoke_agent");
        self.set(attempt, "gen_ai.agent.id", &payload.agent_id);
    }

    /// One answer of a model.
    fn answered(&mut self, payload: &ProviderUsage, entry: &Entry) {
        let Some(node) = &payload.node_id else { return };
        let Some(open) = self.open.get_mut(node) else { return };
        let ordinal = open.calls.answered;
        open.calls.answered += 1;
        open.calls.model = Some((payload.provider.clone(), payload.model.clone()));
        let place = self.chat(node, (&payload.provider, &payload.model), entry);
        let Some(place) = place else { return };
        self.set(place, "gen_ai.response.model", &payload.model);
        self.set(place, "gen_ai.usage.input_tokens", payload.input_tokens);
        self.set(place, "gen_ai.usage.output_tokens", payload.output_tokens);
        if let Some(read) = payload.cache_read_tokens {
            self.set(place, "gen_ai.usage.cache_read.input_tokens", read);
        }
        if let Some(written) = payload.cache_write_tokens {
            self.set(place, "gen_ai.usage.cache_creation.input_tokens", written);
        }
        self.set(place, "openwop.call_ordinal", ordinal);
        if let Some(open) = self.open.get_mut(node) {
            open.calls.last_answer = Some(place);
        }
        self.end(place, &SpanStatus::OK, entry.at);
    }

    /// A model that kept failing, before another one is asked.
    fn fell_back(&mut self, payload: &ModelFallback, entry: &Entry) {
        let asked = (payload.original_provider.as_str(), payload.original_model.as_str());
        if let Some(place) = self.chat(&payload.node_id, asked, entry) {
            self.set(place, "error.type", &payload.reason);
            self.end(place, &SpanStatus::error(&payload.reason), entry.at);
        }
        if let Some(open) = self.open.get_mut(&payload.node_id) {
            let next = (payload.fallback_provider.clone(), payload.fallback_model.clone());
            open.calls.model = Some(next);
        }
    }

    /// The model's answer was none that counts.
    fn finished(&mut self, node: &NodeId, reason: &str) {
        let place = self.open.get(node).and_then(|open| open.calls.last_answer);
        if let Some(place) = place {
            self.set(place, "gen_ai.response.finish_reasons", [reason]);
        }
    }

    /// An attempt ends: what was under way in it ends too, and the model that let it fail is shown.
    pub(super) fn end_calls(&mut self, node: &NodeId, code: Option<&str>, entry: &Entry) {
        let Some(open) = self.open.get_mut(node) else { return };
        let tools = std::mem::take(&mut open.calls.tools);
        let model = open.calls.model.clone().filter(|_| tools.is_empty());
        for (_, place) in tools {
            self.end(place, &SpanStatus::UNSET, entry.at);
        }
        let Some(code) = code.filter(|code| TROUBLE.contains(code)) else { return };
        let Some((provider, model)) = model else { return };
        if let Some(place) = self.chat(node, (&provider, &model), entry) {
            self.set(place, "error.type", code);
            self.end(place, &SpanStatus::error(code), entry.at);
        }
    }

    fn chat(
        &mut self,
        node: &NodeId,
        (provider, model): (&str, &str),
        entry: &Entry,
    ) -> Option<usize> {
        let open = self.open.get(node)?;
        let began = open.calls.since;
        let place = self.call(node, format!("chat {model}"), began, entry)?;
        self.spans[place].kind = SpanKind::Client;
        self.set(place, "gen_ai.operation.name", "chat");
        self.set(place, "gen_ai.provider.name", provider_name(provider));
        self.set(place, "gen_ai.request.model", model);
        Some(place)
    }

    fn tool_called(&mut self, payload: &AgentToolCalled, entry: &Entry) {
        let Some(node) = &payload.node_id else { return };
        let name = format!("execute_tool {}", payload.tool_name);
        let Some(place) = self.call(node, name, entry.at, entry) else { return };
        self.set(place, "gen_ai.operation.name", "execute_tool");
        self.set(place, "gen_ai.tool.name", &payload.tool_name);
        self.set(place, "gen_ai.tool.call.id", &payload.call_id);
        self.set(place, "gen_ai.agent.id", &payload.agent_id);
        if let Some(transport) = &payload.transport {
            self.set(place, "openwop.tool_transport", transport);
        }
        self.show(place, "gen_ai.tool.call.arguments", payload.inputs.as_ref());
        if let Some(open) = self.open.get_mut(node) {
            open.calls.tools.push((payload.call_id.clone(), place));
        }
    }

    fn tool_returned(&mut self, payload: &AgentToolReturned, entry: &Entry) {
        let open = payload.node_id.as_ref().and_then(|node| self.open.get_mut(node));
        let Some(open) = open else { return };
        let tools = &mut open.calls.tools;
        let Some(at) = tools.iter().position(|(id, _)| *id == payload.call_id) else { return };
        let (_, place) = tools.remove(at);
        let began = self.spans[place].started_at;
        // It is recorded when the model is asked next, which may be later.
        let ended = payload.duration_ms.and_then(|took| i64::try_from(took).ok()).map(|took| {
            Timestamp::from_millis(began.as_millis().saturating_add(took)).min(entry.at)
        });
        let failed = match (&payload.error, payload.status) {
            (Some(error), _) => Some(error.code.clone()),
            (None, Some(ToolStatus::Ok) | None) => None,
            (None, Some(status)) => json!(status).as_str().map(str::to_owned),
        };
        self.show(place, "gen_ai.tool.call.result", payload.outcome.as_ref());
        let status = match &failed {
            Some(code) => {
                self.set(place, "error.type", code);
                SpanStatus::error(code)
            }
            None => SpanStatus::OK,
        };
        self.end(place, &status, ended.unwrap_or(entry.at));
    }

    /// A call below the node's attempt that is under way.
    fn call(
        &mut self,
        node: &NodeId,
        name: String,
        began: Timestamp,
        entry: &Entry,
    ) -> Option<usize> {
        let open = self.open.get(node)?;
        let (visit, parent) = (open.calls.visit, open.attempt.unwrap_or(open.node));
        let parent = Some(self.spans[parent].span_id.clone());
        // Every event opens one call at most.
        let context = SpanContext::of_call(self.birth, entry.sequence);
        let place = self.begin(name, context, parent, began);
        self.set(place, "openwop.node_id", node);
        self.set(place, "openwop.node_visit", visit);
        self.set(place, "openwop.event_seq", entry.sequence);
        Some(place)
    }

    fn show(&mut self, place: usize, name: &str, value: Option<&Value>) {
        if let (Content::Shown, Some(value)) = (self.content, value) {
            self.spans[place].attributes.insert(name.to_owned(), span_text(value).into());
        }
    }
}

/// What was said, as the text of a span: without what looks like a credential, and cut where it is long.
pub fn span_text(value: &Value) -> String {
    let mut value = value.clone();
    redact(&mut value);
    let mut text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.truncate(text.floor_char_boundary(LONGEST_CONTENT));
    text
}
