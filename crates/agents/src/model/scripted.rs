//! The built-in provider `scripted`: deterministic, free, and no model at all.

mod directive;
#[cfg(test)]
mod tests;
mod value;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_protocol::Object;

use super::{
    Delta, DeltaSink, Fault, Message, Model, ModelError, ModelRequest, StopReason, TokenUsage,
    Turn, WantedCall, answer,
};
use directive::{Directive, Times};

/// Answers from the shape of the question. What it writes says that it is scripted.
///
/// A task may steer it with directives in double brackets: see `docs/guides/models.md`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scripted;

impl Scripted {
    pub const PROVIDER: &'static str = "scripted";
    pub const MODEL: &'static str = "scripted";
}

/// Sure enough for any usual threshold, unsure enough to be seen as an estimate.
const CONFIDENCE: f64 = 0.9;
/// As much of the task as fits on a line.
const SUMMARY: usize = 100;

#[async_trait]
impl Model for Scripted {
    async fn turn(
        &self,
        request: &ModelRequest,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        let script = Script::of(request)?;
        let turn = script.play(request)?;
        for word in turn.text.split_inclusive(' ') {
            deltas.tell(Delta::Text(word.to_owned())).await;
        }
        Ok(turn)
    }
}

/// What an agent answers where no model is asked: a value for its result's schema, or a sentence.
pub fn scripted_answer(schema: Option<&Value>, persona: &str) -> Value {
    let text = format!("[scripted] answer of {persona}");
    match schema {
        Some(schema) => value::satisfy(schema, text, CONFIDENCE),
        None => json!({ "text": text }),
    }
}

/// What a task asks of the scripted model.
struct Script {
    directives: Vec<Directive>,
    summary: String,
}

impl Script {
    fn of(request: &ModelRequest) -> Result<Self, ModelError> {
        let said = request.messages.iter().filter_map(|message| match message {
            Message::User { text } => Some(text.as_str()),
            Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let said: Vec<&str> = said.collect();
        let (directives, rest) = directive::read(&said.join("\n"))
            .ok_or_else(|| ModelError::new(Scripted::PROVIDER, Fault::Rejected))?;
        Ok(Self { directives, summary: summarise(&rest) })
    }

    fn play(&self, request: &ModelRequest) -> Result<Turn, ModelError> {
        let is_repair = request.system.as_deref().is_some_and(|it| it.contains(answer::REPAIR));
        let applies = |times: &Times| !(is_repair && *times == Times::Once);
        let mut confidence = CONFIDENCE;
        let mut text = None;
        for directive in &self.directives {
            match directive {
                Directive::Error(status) => {
                    return Err(ModelError::of_status(Scripted::PROVIDER, *status, None));
                }
                Directive::Refuse => {
                    let text = "[scripted] I was told to refuse.".to_owned();
                    return Ok(turn(request, text, StopReason::Refusal));
                }
                Directive::Filter => {
                    return Ok(turn(request, String::new(), StopReason::ContentFilter));
                }
                Directive::Truncate { below } if request.max_output_tokens < *below => {
                    return Ok(turn(request, "{\"scripted".to_owned(), StopReason::Length));
                }
                Directive::Truncate { .. } | Directive::Tool { .. } => {}
                Directive::Invalid(times) if applies(times) => {
                    text = Some("[scripted] this is not JSON".to_owned());
                }
                Directive::Violate(times) if applies(times) => {
                    text = Some("{\"scripted\":[\"not what the schema asks for\"]}".to_owned());
                }
                Directive::Invalid(_) | Directive::Violate(_) => {}
                Directive::Confidence(given) => confidence = *given,
                Directive::Say(given) => text = Some(given.clone()),
            }
        }
        if let Some(call) = self.next_call(request).filter(|_| !is_repair) {
            let mut made = turn(request, String::new(), StopReason::ToolCalls);
            made.tool_calls.push(call);
            return Ok(made);
        }
        let text = text.unwrap_or_else(|| self.answer(request, confidence));
        Ok(turn(request, text, StopReason::Stop))
    }

    /// One tool in each turn, in the order of the directives.
    fn next_call(&self, request: &ModelRequest) -> Option<WantedCall> {
        let is_call = |message: &&Message| match message {
            Message::Assistant { calls, .. } => !calls.is_empty(),
            Message::User { .. } | Message::Tool { .. } => false,
        };
        let made = request.messages.iter().filter(is_call).count();
        let tools = self.directives.iter().filter_map(|directive| match directive {
            Directive::Tool { name, arguments } => Some((name, arguments)),
            _ => None,
        });
        let (name, arguments): (&String, &Object) = tools.into_iter().nth(made)?;
        Some(WantedCall {
            id: request.call_id(0),
            provider_id: None,
            name: name.clone(),
            arguments: arguments.clone(),
            signatures: Vec::new(),
        })
    }

    fn answer(&self, request: &ModelRequest, confidence: f64) -> String {
        match &request.response_schema {
            None => format!("[scripted] No model was asked. The task was: {}", self.summary),
            Some(schema) => {
                let text = format!("[scripted] {}", self.summary);
                value::satisfy(schema, text, confidence).to_string()
            }
        }
    }
}

fn summarise(text: &str) -> String {
    let lines = text.lines().filter(|line| !is_marker(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    match line.char_indices().nth(SUMMARY) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether a line only marks where untrusted text begins or ends.
fn is_marker(line: &str) -> bool {
    let code = line.strip_prefix("BEGIN ").or_else(|| line.strip_prefix("END "));
    let is_code = |code: &str| code.len() == 32 && code.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(line, "<UNTRUSTED>" | "</UNTRUSTED>") || code.is_some_and(is_code)
}

fn turn(request: &ModelRequest, text: String, stop: StopReason) -> Turn {
    let told = request.messages.iter().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } => text.len(),
        Message::Tool { result } => result.content.len(),
    });
    let told = told.sum::<usize>() + request.system.as_deref().map_or(0, str::len);
    let usage =
        TokenUsage { input: tokens(told), output: tokens(text.len()), ..TokenUsage::default() };
    Turn {
        text,
        thinking: String::new(),
        tool_calls: Vec::new(),
        stop,
        usage: Some(usage),
        provider_request_id: None,
    }
}

/// Four bytes make a token, near enough for a number that costs nothing.
fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}
