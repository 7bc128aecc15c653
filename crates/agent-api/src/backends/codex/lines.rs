//! The lines of `codex exec --json`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::item::{Item, named};
use crate::error::FailureClass;
use crate::facet::ToolFacet;
use crate::json::{self, Fields};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    thread: Option<String>,
    answer: Option<String>,
    tools: BTreeSet<String>,
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
        let line = json::line(line)?;
        match line.string("type").as_deref() {
            Some("thread.started") => {
                let id = line.text("thread_id");
                self.thread = Some(id.clone());
                facts.push(Fact::Session(id));
            }
            Some("turn.started") => facts.push(Fact::Status("turn started".into())),
            Some("turn.completed") => {
                facts.push(Fact::Usage(usage(&line.value("usage"))));
                facts.push(Fact::Status("turn completed".into()));
                let final_text = self.answer.take();
                facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
            }
            Some("turn.failed") => {
                let error = line.value("error");
                let message = error["message"].as_str().unwrap_or_default();
                facts.push(Fact::Ended(Terminal::Failed(failure(message))));
            }
            // Also said of a connection that is being made again; only the turn's end decides.
            Some("error") => {
                let again = line.text("message").starts_with("Reconnecting");
                let said =
                    if again { "connecting to the model again" } else { "the turn has a problem" };
                facts.push(Fact::Status(said.into()));
            }
            Some("item.started") => self.item(&line, Moment::Started, facts),
            Some("item.updated") => self.item(&line, Moment::Updated, facts),
            Some("item.completed") => self.item(&line, Moment::Completed, facts),
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
    fn item(&mut self, line: &Fields<'_>, moment: Moment, facts: &mut Vec<Fact>) {
        let Some(item) = line.read::<Item<'_>>("item") else {
            return facts.push(Fact::Unknown);
        };
        let kind = item.text("type");
        match (kind.as_str(), moment) {
            ("agent_message", Moment::Completed) => {
                let text = item.text("text");
                self.answer = Some(text.clone());
                facts.push(Fact::Text(text));
            }
            ("agent_message", Moment::Started | Moment::Updated) => {}
            ("reasoning", Moment::Completed) => facts.push(Fact::Thinking(item.text("text"))),
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
        let (id, name) = (item.text("id"), item.string("tool"));
        let named = |facet| named(facet, self.thread.clone());
        let started = named(ToolFacet::started(kind, name.as_deref(), Some(&id)));
        let grown = named(ToolFacet::grown(kind, name.as_deref(), Some(&id)));
        let ended = named(ToolFacet::ended(kind, name.as_deref(), Some(&id), item.end()));
        let is_new = self.tools.insert(id);
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
fn usage(usage: &Value) -> Value {
    json!({
        "input_tokens": usage["input_tokens"].as_u64(),
        "output_tokens": usage["output_tokens"].as_u64(),
        "cached_input_tokens": usage["cached_input_tokens"].as_u64(),
        "cumulative": true,
    })
}
