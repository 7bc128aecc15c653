//! The lines of `gemini -o stream-json`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Raw};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    /// Text since the last tool.
    answer: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    session_id: Raw<'a>,
    #[serde(borrow, default)]
    role: Raw<'a>,
    #[serde(borrow, default)]
    content: Raw<'a>,
    #[serde(borrow, default)]
    tool_name: Raw<'a>,
    #[serde(borrow, default)]
    tool_id: Raw<'a>,
    #[serde(borrow, default)]
    status: Raw<'a>,
    #[serde(borrow, default)]
    output: Raw<'a>,
    #[serde(borrow, default)]
    severity: Raw<'a>,
    #[serde(borrow, default)]
    error: Raw<'a>,
    #[serde(borrow, default)]
    stats: Raw<'a>,
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
            Some("init") => {
                let id = json::string(line.session_id).unwrap_or_default();
                facts.push(Fact::Session(id.into_owned()));
            }
            Some("message") => {
                // The other role is the prompt's echo.
                if json::string(line.role).as_deref() == Some("assistant") {
                    let text = json::string(line.content).unwrap_or_default().into_owned();
                    self.answer.push_str(&text);
                    facts.push(Fact::Text(text));
                }
            }
            Some("tool_use") => {
                self.answer.clear();
                let (name, id) = (json::string(line.tool_name), json::string(line.tool_id));
                let tool = ToolFacet::started("tool_use", name.as_deref(), id.as_deref());
                facts.push(Fact::ToolStarted(tool));
            }
            Some("tool_result") => facts.push(Fact::ToolEnded(tool_result(&line))),
            Some("error") => {
                let warns = json::string(line.severity).as_deref() == Some("warning");
                let said = if warns { "gemini warns" } else { "gemini has a problem" };
                facts.push(Fact::Status(said.into()));
            }
            Some("result") => {
                facts.push(Fact::Usage(usage(line.stats)));
                let succeeded = json::string(line.status).as_deref() == Some("success");
                facts.push(Fact::Ended(if succeeded {
                    Terminal::Succeeded { final_text: Some(std::mem::take(&mut self.answer)) }
                } else {
                    Terminal::Failed(failure(line.error))
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

fn tool_result(line: &Line<'_>) -> ToolFacet {
    let end = ToolEnd::failed_if(json::string(line.status).as_deref() != Some("success"));
    let id = json::string(line.tool_id);
    let mut tool = ToolFacet::ended("tool_result", None, id.as_deref(), end);
    tool.bytes = ToolBytes { result: json::bytes(line.output), ..ToolBytes::default() };
    tool
}

/// The message may hold the body of an HTTP answer: only its status is used.
fn failure(error: Raw<'_>) -> Failure {
    let error: Value = json::read(error).unwrap_or_default();
    match json::http_status(error["message"].as_str().unwrap_or_default()) {
        Some(status) => Failure::http(status),
        None => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
    }
}

fn usage(raw: Raw<'_>) -> Value {
    let stats: Value = json::read(raw).unwrap_or_default();
    json!({
        "input_tokens": stats["input_tokens"].as_u64(),
        "output_tokens": stats["output_tokens"].as_u64(),
        "cached_input_tokens": stats["cached"].as_u64(),
    })
}
