//! The lines of `codex exec --json`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::item::{Item, named};
use crate::error::FailureClass;
use crate::facet::ToolFacet;
use crate::json::{self, Raw};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    thread: Option<String>,
    answer: Option<String>,
    tools: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    thread_id: Raw<'a>,
    #[serde(borrow, default)]
    message: Raw<'a>,
    #[serde(borrow, default)]
    error: Raw<'a>,
    #[serde(borrow, default)]
    usage: Raw<'a>,
    #[serde(borrow, default)]
    item: Raw<'a>,
}

#[derive(Deserialize)]
struct Described<'a> {
    #[serde(borrow, default)]
    message: Raw<'a>,
}

/// Where an item stands in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Started,
    Updated,
    Completed,
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
            Some("thread.started") => {
                let id = json::string(line.thread_id).unwrap_or_default().into_owned();
                self.thread = Some(id.clone());
                facts.push(Fact::Session(id));
            }
            Some("turn.started") => facts.push(Fact::Status("turn started".into())),
            Some("turn.completed") => {
                facts.push(Fact::Usage(usage(line.usage)));
                facts.push(Fact::Status("turn completed".into()));
                let final_text = self.answer.take();
                facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
            }
            Some("turn.failed") => {
                let message = json::read::<Described<'_>>(line.error)
                    .and_then(|error| json::string(error.message));
                facts.push(Fact::Ended(Terminal::Failed(failure(&message.unwrap_or_default()))));
            }
            // Also said of a connection that is being made again; only the turn's end decides.
            Some("error") => {
                let message = json::string(line.message).unwrap_or_default();
                let again = message.starts_with("Reconnecting");
                let said =
                    if again { "connecting to the model again" } else { "the turn has a problem" };
                facts.push(Fact::Status(said.into()));
            }
            Some("item.started") => self.item(line.item, Moment::Started, facts),
            Some("item.updated") => self.item(line.item, Moment::Updated, facts),
            Some("item.completed") => self.item(line.item, Moment::Completed, facts),
            _ => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn diagnose(&self, line: &str) -> Option<Failure> {
        (self.conversation.is_continued() && line.contains("no rollout found for thread id"))
            .then(Failure::session_not_found)
    }
}

impl Lines {
    fn item(&mut self, item: Raw<'_>, moment: Moment, facts: &mut Vec<Fact>) {
        let Some(item) = json::read::<Item<'_>>(item) else {
            return facts.push(Fact::Unknown);
        };
        let kind = json::string(item.kind).unwrap_or_default();
        match (&*kind, moment) {
            ("agent_message", Moment::Completed) => {
                let text = json::string(item.text).unwrap_or_default().into_owned();
                self.answer = Some(text.clone());
                facts.push(Fact::Text(text));
            }
            ("agent_message", Moment::Started | Moment::Updated) => {}
            ("reasoning", Moment::Completed) => {
                let text = json::string(item.text).unwrap_or_default().into_owned();
                facts.push(Fact::Thinking(text));
            }
            ("reasoning", Moment::Started | Moment::Updated) => {}
            ("todo_list", _) => facts.push(Fact::Status("the list of tasks changed".into())),
            // Not fatal, and possible before the first turn.
            ("error", _) => facts.push(Fact::Status("codex warns".into())),
            ("command_execution" | "file_change" | "mcp_tool_call" | "web_search", moment) => {
                self.tool(&kind, &item, moment, facts);
            }
            _ => facts.push(Fact::Unknown),
        }
    }

    fn tool(&mut self, kind: &str, item: &Item<'_>, moment: Moment, facts: &mut Vec<Fact>) {
        let id = json::string(item.id).unwrap_or_default();
        let name = json::string(item.tool);
        let named = |facet| named(facet, self.thread.clone());
        let started = named(ToolFacet::started(kind, name.as_deref(), Some(&id)));
        let grown = named(ToolFacet::grown(kind, name.as_deref(), Some(&id)));
        let ended = named(ToolFacet::ended(kind, name.as_deref(), Some(&id), item.end()));
        let is_new = self.tools.insert(id.into_owned());
        if is_new {
            facts.push(Fact::ToolStarted(started));
        }
        match moment {
            Moment::Started => {}
            Moment::Updated if is_new => {}
            Moment::Updated => facts.push(Fact::ToolStarted(grown)),
            Moment::Completed => {
                if item.is_declined() {
                    facts.push(Fact::Denied);
                }
                facts.push(Fact::ToolEnded(item.weighed(ended)));
            }
        }
    }
}

/// The message may hold the body of an HTTP answer: only its status is used.
pub(super) fn failure(message: &str) -> Failure {
    if let Some(status) = json::http_status(message) {
        return Failure::http(status);
    }
    if message.contains("stream disconnected") {
        return Failure::new(FailureClass::Upstream5xx, "the connection to the model broke");
    }
    if message.contains("usage limit") {
        return Failure::new(FailureClass::RateLimit, "the limit of use is reached");
    }
    Failure::new(FailureClass::Crashed, "the turn failed")
}

/// Of the whole thread, not of this run alone.
fn usage(raw: Raw<'_>) -> Value {
    let usage: Value = json::read(raw).unwrap_or_default();
    json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cached_input_tokens": usage["cached_input_tokens"].as_u64(),
        "cumulative": true,
    })
}
