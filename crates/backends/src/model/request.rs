//! A request in the library's types.

use std::collections::BTreeMap;
use std::sync::Arc;

use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat, ContentPart, JsonSpec,
    MessageContent, ReasoningEffort, Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};

use callboard_agents::{Message, ModelRequest, provider_name, reduce};

use super::ProviderKind;
use super::frames::Frames;

/// The longest id of a call that every provider takes back.
const LONGEST_ID: usize = 40;

pub(super) fn write(
    kind: ProviderKind,
    request: &ModelRequest,
    frames: &Arc<Frames>,
) -> (ChatRequest, ChatOptions) {
    let held = request.response_schema.as_deref().map(|schema| hold(kind, request, schema));
    let mut system = request.system.clone().unwrap_or_default();
    if let Some(Held { words: Some(words), .. }) = &held {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(words);
    }
    let mut chat = ChatRequest::new(messages(kind, request));
    chat.system = (!system.is_empty()).then_some(system);
    chat.tools = (!request.tools.is_empty()).then(|| tools(request));
    let mut options = options(kind, request, frames);
    options.response_format = held.and_then(|held| held.format);
    (chat, options)
}

fn options(kind: ProviderKind, request: &ModelRequest, frames: &Arc<Frames>) -> ChatOptions {
    let is_openai = matches!(
        kind,
        ProviderKind::OpenAi | ProviderKind::OpenAiCompatible | ProviderKind::OpenAiResponses
    );
    let is_named_in_body = is_openai || kind == ProviderKind::Anthropic;
    ChatOptions {
        max_tokens: Some(request.max_output_tokens),
        temperature: request.temperature,
        seed: request.seed,
        capture_usage: Some(true),
        // For chat completions the library makes a list as long as the stream says; there the frames are read instead.
        capture_tool_calls: Some(!frames.reads_calls()),
        raw_frame_sink: Some(Arc::<Frames>::clone(frames)),
        // A budget is not sent to OpenAI, but keeps the library from reading an effort out of a model's name.
        reasoning_effort: is_openai.then_some(ReasoningEffort::Budget(0)),
        // Merged last: whatever the library derives from the name, this is what is sent.
        extra_body: is_named_in_body.then(|| json!({ "model": request.model.model })),
        ..ChatOptions::default()
    }
}

/// How an answer is held to its schema.
struct Held {
    format: Option<ChatResponseFormat>,
    /// The instruction to the model where its output cannot be constrained.
    words: Option<String>,
}

fn hold(kind: ProviderKind, request: &ModelRequest, schema: &Value) -> Held {
    if let Some(reduced) = reduce(schema).filter(|_| is_strict(kind, request)) {
        let format = ChatResponseFormat::JsonSpec(JsonSpec::new("result", reduced));
        return Held { format: Some(format), words: None };
    }
    let words = format!(
        "Answer with one JSON value that matches this JSON Schema, and with nothing else:\n{schema}"
    );
    let format = (kind == ProviderKind::Ollama).then_some(ChatResponseFormat::JsonMode);
    Held { format, words: Some(words) }
}

/// Whether the provider can hold this model to a schema while it writes.
fn is_strict(kind: ProviderKind, request: &ModelRequest) -> bool {
    let model = request.model.model.as_str();
    let is_any = |old: &[&str]| old.iter().any(|prefix| model.starts_with(prefix));
    match kind {
        ProviderKind::Anthropic => !is_any(&[
            "claude-2",
            "claude-3",
            "claude-instant",
            "claude-opus-4-0",
            "claude-opus-4-2",
            "claude-sonnet-4-0",
            "claude-sonnet-4-2",
        ]),
        ProviderKind::OpenAi => {
            !is_any(&["gpt-3", "gpt-4-", "o1-mini", "o1-preview"]) && model != "gpt-4"
        }
        ProviderKind::OpenAiResponses | ProviderKind::OpenAiCompatible => true,
        // It refuses to be held to a schema while it may call functions.
        ProviderKind::Gemini => request.tools.is_empty(),
        // The library knows no schema there.
        ProviderKind::Ollama => false,
    }
}

fn tools(request: &ModelRequest) -> Vec<Tool> {
    let tools = request.tools.iter().map(|tool| {
        Tool::new(&tool.name)
            .with_description(&tool.description)
            .with_schema(Value::clone(&tool.parameters))
    });
    tools.collect()
}

fn messages(kind: ProviderKind, request: &ModelRequest) -> Vec<ChatMessage> {
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    let mut written = Vec::new();
    let mut results: Vec<ContentPart> = Vec::new();
    for message in &request.messages {
        if !matches!(message, Message::Tool { .. }) || kind == ProviderKind::Ollama {
            flush(&mut results, &mut written);
        }
        match message {
            Message::User { text } => written.push(ChatMessage::user(text.as_str())),
            Message::Assistant { text, calls } => {
                let said = (!text.is_empty()).then(|| ContentPart::Text(text.clone()));
                let made = calls.iter().map(|call| {
                    let id = sendable(call.provider_id.as_deref().unwrap_or(&call.id));
                    ids.insert(&call.id, id.clone());
                    let signatures = &call.signatures;
                    ContentPart::ToolCall(ToolCall {
                        call_id: id,
                        // A model may have made it up.
                        fn_name: provider_name(&call.name),
                        fn_arguments: Value::Object(call.arguments.clone()),
                        thought_signatures: (!signatures.is_empty()).then(|| signatures.clone()),
                    })
                });
                let parts: Vec<ContentPart> = said.into_iter().chain(made).collect();
                written.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
            }
            Message::Tool { result } => {
                let id = ids.get(result.call_id.as_str()).cloned();
                let response = ToolResponse::new(
                    id.unwrap_or_else(|| sendable(&result.call_id)),
                    result.content.as_str(),
                );
                let response = response.with_fn_name(provider_name(&result.name));
                results.push(ContentPart::ToolResponse(response));
            }
        }
    }
    flush(&mut results, &mut written);
    written
}

/// Results of one turn's calls go back together, as most providers want them; Ollama takes one at a time.
fn flush(results: &mut Vec<ContentPart>, written: &mut Vec<ChatMessage>) {
    if !results.is_empty() {
        written.push(ChatMessage::tool(MessageContent::from_parts(std::mem::take(results))));
    }
}

/// An id without characters that a provider refuses; its end makes calls distinct.
fn sendable(id: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fine: Vec<char> = id.chars().map(|c| if is_fine(c) { c } else { '_' }).collect();
    fine[fine.len().saturating_sub(LONGEST_ID)..].iter().collect()
}
