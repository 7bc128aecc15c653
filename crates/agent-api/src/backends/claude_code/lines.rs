//! The lines of `claude --output-format stream-json`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Fields};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

/// State between lines, so that nothing is reported twice.
#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    streamed: Streamed,
    tools: BTreeSet<String>,
    /// The tool whose input is being written.
    tool: Option<String>,
    /// The status of the last call of the model that failed.
    refused: Option<u16>,
}

/// Text of one message that has been reported in pieces.
#[derive(Debug, Default)]
struct Streamed {
    message: String,
    text: String,
    matched: usize,
}

impl Lines {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, ..Self::default() }
    }
}

impl Mapper for Lines {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        let line = json::line(line)?;
        match line.string("type").as_deref() {
            Some("system") => system(&line, facts),
            Some("stream_event") => self.stream_event(&line, facts),
            Some("assistant") => self.assistant(&line, facts),
            Some("user") => user(&line, facts),
            Some("result") => self.result(&line, facts),
            Some("rate_limit_event") => facts.push(Fact::Status("rate limits changed".into())),
            _ => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn diagnose(&self, line: &str) -> Option<Failure> {
        if self.conversation.is_continued()
            && line.contains("No conversation found with session ID")
        {
            return Some(Failure::session_not_found());
        }
        let refused = line.contains("cannot be used with root/sudo privileges");
        refused.then(|| {
            Failure::new(
                FailureClass::Permission,
                "claude refuses to run without permissions as root",
            )
        })
    }
}

fn system(line: &Fields<'_>, facts: &mut Vec<Fact>) {
    let subtype = line.string("subtype");
    match subtype.as_deref().and_then(json::name) {
        Some("init") => facts.push(Fact::Session(line.text("session_id"))),
        Some("permission_denied") => facts.push(Fact::Denied),
        Some("api_retry") => {
            let attempt = line.read::<i64>("attempt").unwrap_or_default();
            let most = line.read::<i64>("max_retries").unwrap_or_default();
            facts.push(Fact::Status(
                format!("calling the model again ({attempt} of {most})").into(),
            ));
        }
        Some(other) => facts.push(Fact::Status(format!("system {other}").into())),
        None => facts.push(Fact::Status("system".into())),
    }
}

/// A line of a helper that the agent called is part of a tool, not of the answer.
fn is_nested(line: &Fields<'_>) -> bool {
    line.string("parent_tool_use_id").is_some()
}

impl Lines {
    fn stream_event(&mut self, line: &Fields<'_>, facts: &mut Vec<Fact>) {
        let Some(event) = line.read::<Fields<'_>>("event") else {
            return facts.push(Fact::Unknown);
        };
        if is_nested(line) {
            return;
        }
        match event.string("type").as_deref() {
            Some("message_start") => {
                let message: Fields<'_> = event.read("message").unwrap_or_default();
                self.streamed = Streamed { message: message.text("id"), ..Streamed::default() };
            }
            Some("content_block_start") => {
                if let Some(block) = event.read("content_block") {
                    self.tool_use(&block, facts);
                }
            }
            Some("content_block_delta") => self.delta(&event, facts),
            // Bookkeeping of the provider; the finished message says it again.
            Some(_) => {}
            None => facts.push(Fact::Unknown),
        }
    }

    fn delta(&mut self, event: &Fields<'_>, facts: &mut Vec<Fact>) {
        let Some(delta) = event.read::<Fields<'_>>("delta") else { return };
        match delta.string("type").as_deref() {
            Some("text_delta") => {
                let text = delta.text("text");
                self.streamed.text.push_str(&text);
                facts.push(Fact::Text(text));
            }
            Some("thinking_delta") => {
                let text = delta.text("thinking");
                if !text.is_empty() {
                    facts.push(Fact::Thinking(text));
                }
            }
            Some("input_json_delta") => {
                let tool = ToolFacet::grown("tool_use", None, self.tool.as_deref());
                facts.push(Fact::ToolStarted(tool));
            }
            _ => {}
        }
    }

    fn assistant(&mut self, line: &Fields<'_>, facts: &mut Vec<Fact>) {
        if line.read("is_api_error_message") == Some(true) {
            // The provider's error as the agent's text. The result reports the failure.
            self.refused = line.read("api_error_status");
            return;
        }
        let Some(message) = line.read::<Fields<'_>>("message") else {
            return facts.push(Fact::Unknown);
        };
        let id = message.text("id");
        for block in message.read::<Vec<Fields<'_>>>("content").unwrap_or_default() {
            match block.string("type").as_deref() {
                Some("text") if !is_nested(line) => {
                    let text = block.text("text");
                    let rest = self.streamed.rest(&id, &text);
                    facts.push(Fact::Text(rest.to_owned()));
                }
                Some("tool_use") => self.tool_use(&block, facts),
                _ => {}
            }
        }
    }

    /// A tool is announced in pieces and then whole.
    fn tool_use(&mut self, block: &Fields<'_>, facts: &mut Vec<Fact>) {
        if !block.is("type", "tool_use") {
            return;
        }
        let id = block.text("id");
        self.tool = Some(id.clone());
        if self.tools.insert(id.clone()) {
            let name = block.string("name");
            let tool = ToolFacet::started("tool_use", name.as_deref(), Some(&id));
            facts.push(Fact::ToolStarted(tool));
        }
    }

    fn result(&mut self, line: &Fields<'_>, facts: &mut Vec<Fact>) {
        facts.push(Fact::Usage(usage(line)));
        if let Some(denials) = line.read::<Vec<&RawValue>>("permission_denials") {
            facts.push(Fact::Denials(u64::try_from(denials.len()).unwrap_or(u64::MAX)));
        }
        // A failed call of the model has the subtype `success`: only this field decides.
        let ended = if line.is("stop_reason", "refusal") {
            Terminal::Failed(Failure::refused())
        } else if line.read("is_error") == Some(false) {
            let final_text = line.string("result").map(Cow::into_owned);
            Terminal::Succeeded { final_text }
        } else {
            Terminal::Failed(self.failure(line))
        };
        facts.push(Fact::Ended(ended));
    }

    fn failure(&self, line: &Fields<'_>) -> Failure {
        if let Some(status) = line.read("api_error_status").or(self.refused) {
            return Failure::http(status);
        }
        let errors = line.read::<Vec<Cow<'_, str>>>("errors").unwrap_or_default();
        if self.conversation.is_continued()
            && errors.iter().any(|error| error.contains("No conversation found"))
        {
            return Failure::session_not_found();
        }
        match line.string("subtype").as_deref() {
            Some("error_max_turns") => {
                Failure::new(FailureClass::TurnLimit, "the agent reached its limit of turns")
            }
            _ => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
        }
    }
}

impl Streamed {
    /// The part of a finished block that was not reported in pieces.
    fn rest<'t>(&mut self, message: &str, text: &'t str) -> &'t str {
        if message != self.message || self.text.is_empty() {
            return text;
        }
        let told = &self.text[self.matched..];
        if told.starts_with(text) {
            self.matched += text.len();
            return "";
        }
        match text.strip_prefix(told) {
            Some(rest) => {
                self.matched = self.text.len();
                rest
            }
            // The pieces were reported; a second version of them would only confuse.
            None => "",
        }
    }
}

fn user(line: &Fields<'_>, facts: &mut Vec<Fact>) {
    let before = facts.len();
    let message: Fields<'_> = line.read("message").unwrap_or_default();
    let content = message.read::<Vec<Fields<'_>>>("content");
    for block in content.unwrap_or_default() {
        if block.is("type", "tool_result") {
            let end = ToolEnd::failed_if(block.read("is_error") == Some(true));
            let id = block.string("tool_use_id");
            let mut tool = ToolFacet::ended("tool_result", None, id.as_deref(), end);
            tool.bytes = ToolBytes { result: block.bytes("content"), ..ToolBytes::default() };
            facts.push(Fact::ToolEnded(tool));
        }
    }
    if facts.len() == before {
        facts.push(Fact::Status("user message".into()));
    }
}

fn usage(line: &Fields<'_>) -> Value {
    let usage = line.value("usage");
    json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cached_input_tokens": usage["cache_read_input_tokens"].as_u64(),
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"].as_u64(),
        "cost_usd": line.read::<f64>("total_cost_usd"),
    })
}
