//! The lines of `claude --output-format stream-json`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Raw};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

/// What must be remembered between lines so that nothing is told twice.
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

/// Text of one message that has been told in pieces.
#[derive(Debug, Default)]
struct Streamed {
    message: String,
    text: String,
    matched: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    subtype: Raw<'a>,
    #[serde(borrow, default)]
    session_id: Raw<'a>,
    #[serde(borrow, default)]
    parent_tool_use_id: Raw<'a>,
    #[serde(borrow, default)]
    message: Raw<'a>,
    #[serde(borrow, default)]
    event: Raw<'a>,
    #[serde(borrow, default)]
    is_api_error_message: Raw<'a>,
    #[serde(borrow, default)]
    api_error_status: Raw<'a>,
    #[serde(borrow, default)]
    is_error: Raw<'a>,
    #[serde(borrow, default)]
    stop_reason: Raw<'a>,
    #[serde(borrow, default)]
    result: Raw<'a>,
    #[serde(borrow, default)]
    errors: Raw<'a>,
    #[serde(borrow, default)]
    usage: Raw<'a>,
    #[serde(borrow, default)]
    total_cost_usd: Raw<'a>,
    #[serde(borrow, default)]
    permission_denials: Raw<'a>,
    #[serde(borrow, default)]
    attempt: Raw<'a>,
    #[serde(borrow, default)]
    max_retries: Raw<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Raw<'a>,
    #[serde(borrow, default)]
    content: Raw<'a>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    text: Raw<'a>,
    #[serde(borrow, default)]
    id: Raw<'a>,
    #[serde(borrow, default)]
    name: Raw<'a>,
    #[serde(borrow, default)]
    tool_use_id: Raw<'a>,
    #[serde(borrow, default)]
    is_error: Raw<'a>,
    #[serde(borrow, default)]
    content: Raw<'a>,
}

#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    message: Raw<'a>,
    #[serde(borrow, default)]
    content_block: Raw<'a>,
    #[serde(borrow, default)]
    delta: Raw<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    text: Raw<'a>,
    #[serde(borrow, default)]
    thinking: Raw<'a>,
}

impl Lines {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, ..Self::default() }
    }
}

impl Mapper for Lines {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        let line: Line<'_> = json::line(line)?;
        match json::string(line.kind).as_deref() {
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

fn system(line: &Line<'_>, facts: &mut Vec<Fact>) {
    let subtype = json::string(line.subtype);
    match subtype.as_deref().and_then(json::name) {
        Some("init") => {
            let id = json::string(line.session_id).unwrap_or_default();
            facts.push(Fact::Session(id.into_owned()));
        }
        Some("permission_denied") => facts.push(Fact::Denied),
        Some("api_retry") => {
            let attempt = json::integer(line.attempt).unwrap_or_default();
            let most = json::integer(line.max_retries).unwrap_or_default();
            facts.push(Fact::Status(
                format!("calling the model again ({attempt} of {most})").into(),
            ));
        }
        Some(other) => facts.push(Fact::Status(format!("system {other}").into())),
        None => facts.push(Fact::Status("system".into())),
    }
}

/// A line of a helper that the agent called is part of a tool, not of the answer.
fn is_nested(line: &Line<'_>) -> bool {
    json::string(line.parent_tool_use_id).is_some()
}

impl Lines {
    fn stream_event(&mut self, line: &Line<'_>, facts: &mut Vec<Fact>) {
        let Some(event) = json::read::<StreamEvent<'_>>(line.event) else {
            return facts.push(Fact::Unknown);
        };
        if is_nested(line) {
            return;
        }
        match json::string(event.kind).as_deref() {
            Some("message_start") => {
                let id = json::read::<Message<'_>>(event.message).and_then(|m| json::string(m.id));
                self.streamed = Streamed {
                    message: id.unwrap_or_default().into_owned(),
                    ..Streamed::default()
                };
            }
            Some("content_block_start") => {
                if let Some(block) = json::read::<Block<'_>>(event.content_block) {
                    self.tool_use(&block, facts);
                }
            }
            Some("content_block_delta") => self.delta(event.delta, facts),
            // Bookkeeping of the provider; the finished message says it again.
            Some(_) => {}
            None => facts.push(Fact::Unknown),
        }
    }

    fn delta(&mut self, delta: Raw<'_>, facts: &mut Vec<Fact>) {
        let Some(delta) = json::read::<Delta<'_>>(delta) else { return };
        match json::string(delta.kind).as_deref() {
            Some("text_delta") => {
                let text = json::string(delta.text).unwrap_or_default().into_owned();
                self.streamed.text.push_str(&text);
                facts.push(Fact::Text(text));
            }
            Some("thinking_delta") => {
                let text = json::string(delta.thinking).unwrap_or_default().into_owned();
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

    fn assistant(&mut self, line: &Line<'_>, facts: &mut Vec<Fact>) {
        if json::boolean(line.is_api_error_message) == Some(true) {
            // Words of the provider in the agent's mouth. The result tells the failure.
            let status = json::integer(line.api_error_status);
            self.refused = status.and_then(|status| u16::try_from(status).ok());
            return;
        }
        let Some(message) = json::read::<Message<'_>>(line.message) else {
            return facts.push(Fact::Unknown);
        };
        let id = json::string(message.id).unwrap_or_default();
        for block in json::read::<Vec<Block<'_>>>(message.content).unwrap_or_default() {
            match json::string(block.kind).as_deref() {
                Some("text") if !is_nested(line) => {
                    let text = json::string(block.text).unwrap_or_default();
                    let rest = self.streamed.rest(&id, &text);
                    facts.push(Fact::Text(rest.to_owned()));
                }
                Some("tool_use") => self.tool_use(&block, facts),
                _ => {}
            }
        }
    }

    /// A tool is announced in pieces and then whole.
    fn tool_use(&mut self, block: &Block<'_>, facts: &mut Vec<Fact>) {
        if json::string(block.kind).as_deref() != Some("tool_use") {
            return;
        }
        let id = json::string(block.id).unwrap_or_default();
        self.tool = Some(id.clone().into_owned());
        if self.tools.insert(id.clone().into_owned()) {
            let name = json::string(block.name);
            let tool = ToolFacet::started("tool_use", name.as_deref(), Some(&id));
            facts.push(Fact::ToolStarted(tool));
        }
    }

    fn result(&mut self, line: &Line<'_>, facts: &mut Vec<Fact>) {
        facts.push(Fact::Usage(usage(line)));
        if let Some(denials) =
            json::read::<Vec<&serde_json::value::RawValue>>(line.permission_denials)
        {
            facts.push(Fact::Denials(u64::try_from(denials.len()).unwrap_or(u64::MAX)));
        }
        // A failed call of the model has the subtype `success`: only this field decides.
        let ended = if json::string(line.stop_reason).as_deref() == Some("refusal") {
            Terminal::Failed(Failure::refused())
        } else if json::boolean(line.is_error) == Some(false) {
            let final_text = json::string(line.result).map(|text| text.into_owned());
            Terminal::Succeeded { final_text }
        } else {
            Terminal::Failed(self.failure(line))
        };
        facts.push(Fact::Ended(ended));
    }

    fn failure(&self, line: &Line<'_>) -> Failure {
        let status = json::integer(line.api_error_status).and_then(|code| u16::try_from(code).ok());
        if let Some(status) = status.or(self.refused) {
            return Failure::http(status);
        }
        let errors = json::read::<Vec<std::borrow::Cow<'_, str>>>(line.errors).unwrap_or_default();
        if self.conversation.is_continued()
            && errors.iter().any(|error| error.contains("No conversation found"))
        {
            return Failure::session_not_found();
        }
        match json::string(line.subtype).as_deref() {
            Some("error_max_turns") => {
                Failure::new(FailureClass::TurnLimit, "the agent reached its limit of turns")
            }
            _ => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
        }
    }
}

impl Streamed {
    /// The part of a finished block that was not told in pieces.
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
            // The pieces were told; a second version of them would only confuse.
            None => "",
        }
    }
}

fn user(line: &Line<'_>, facts: &mut Vec<Fact>) {
    let before = facts.len();
    let message = json::read::<Message<'_>>(line.message);
    let content = message.and_then(|message| json::read::<Vec<Block<'_>>>(message.content));
    for block in content.unwrap_or_default() {
        if json::string(block.kind).as_deref() == Some("tool_result") {
            let end = ToolEnd::failed_if(json::boolean(block.is_error) == Some(true));
            let id = json::string(block.tool_use_id);
            let mut tool = ToolFacet::ended("tool_result", None, id.as_deref(), end);
            tool.bytes = ToolBytes { result: json::bytes(block.content), ..ToolBytes::default() };
            facts.push(Fact::ToolEnded(tool));
        }
    }
    if facts.len() == before {
        facts.push(Fact::Status("user message".into()));
    }
}

fn usage(line: &Line<'_>) -> Value {
    let usage: Value = json::read(line.usage).unwrap_or_default();
    json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cached_input_tokens": usage["cache_read_input_tokens"].as_u64(),
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"].as_u64(),
        "cost_usd": json::read::<f64>(line.total_cost_usd),
    })
}
