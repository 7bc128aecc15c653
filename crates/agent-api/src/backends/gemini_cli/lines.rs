//! The lines of `gemini -o stream-json`.

use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Fields};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    /// Text since the last tool.
    answer: String,
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
            Some("init") => facts.push(Fact::Session(line.text("session_id"))),
            Some("message") => {
                // The other role is the prompt's echo.
                if line.is("role", "assistant") {
                    let text = line.text("content");
                    self.answer.push_str(&text);
                    facts.push(Fact::Text(text));
                }
            }
            Some("tool_use") => {
                self.answer.clear();
                let (name, id) = (line.string("tool_name"), line.string("tool_id"));
                let tool = ToolFacet::started("tool_use", name.as_deref(), id.as_deref());
                facts.push(Fact::ToolStarted(tool));
            }
            Some("tool_result") => facts.push(Fact::ToolEnded(tool_result(&line))),
            Some("error") => {
                let warns = line.is("severity", "warning");
                let said = if warns { "gemini warns" } else { "gemini has a problem" };
                facts.push(Fact::Status(said.into()));
            }
            Some("result") => {
                facts.push(Fact::Usage(usage(&line.value("stats"))));
                let succeeded = line.is("status", "success");
                facts.push(Fact::Ended(if succeeded {
                    Terminal::Succeeded { final_text: Some(std::mem::take(&mut self.answer)) }
                } else {
                    Terminal::Failed(failure(&line.value("error")))
                }));
            }
            _ => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn diagnose(&self, line: &str) -> Option<Failure> {
        (self.conversation.is_continued() && line.contains("Error resuming session"))
            .then(Failure::session_not_found)
    }

    fn explain(&self, code: i32) -> Option<Failure> {
        // Other codes are an HTTP status without its upper bits.
        let status = u16::try_from(code).ok()? + 256;
        match code {
            42 => Some(Failure::new(FailureClass::InvalidRequest, "gemini refused its input")),
            53 => {
                Some(Failure::new(FailureClass::TurnLimit, "the agent reached its limit of turns"))
            }
            55 => Some(Failure::new(FailureClass::Permission, "gemini does not trust the folder")),
            144..=255 => Some(Failure::http(status)),
            _ => None,
        }
    }
}

fn tool_result(line: &Fields<'_>) -> ToolFacet {
    let end = ToolEnd::failed_if(!line.is("status", "success"));
    let id = line.string("tool_id");
    let mut tool = ToolFacet::ended("tool_result", None, id.as_deref(), end);
    tool.bytes = ToolBytes { result: line.bytes("output"), ..ToolBytes::default() };
    tool
}

/// The message may hold the body of an HTTP answer: only its status is used.
fn failure(error: &Value) -> Failure {
    match json::http_status(error["message"].as_str().unwrap_or_default()) {
        Some(status) => Failure::http(status),
        None => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
    }
}

fn usage(stats: &Value) -> Value {
    json!({
        "input_tokens": stats["input_tokens"].as_u64(),
        "output_tokens": stats["output_tokens"].as_u64(),
        "cached_input_tokens": stats["cached"].as_u64(),
    })
}
