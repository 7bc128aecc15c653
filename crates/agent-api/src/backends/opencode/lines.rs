//! The lines of `opencode run --format json`.

use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Fields};
use crate::transcript::{Conversation, Fact, Failure, Mapper, Terminal, Unreadable};

#[derive(Debug, Default)]
pub(super) struct Lines {
    conversation: Conversation,
    /// Text of the current step.
    answer: String,
    spent: Spent,
}

/// Tokens of all steps so far, as far as steps say.
#[derive(Debug, Default)]
struct Spent {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
}

impl Lines {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, ..Self::default() }
    }
}

impl Mapper for Lines {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        let line = json::line(line)?;
        if let Some(id) = line.string("sessionID") {
            facts.push(Fact::Session(id.into_owned()));
        }
        let part: Fields<'_> = line.read("part").unwrap_or_default();
        match line.string("type").as_deref() {
            Some("step_start") => {
                self.answer.clear();
                facts.push(Fact::Status("step started".into()));
            }
            Some("text") => {
                let text = part.text("text");
                self.answer.push_str(&text);
                facts.push(Fact::Text(text));
            }
            Some("tool_use") => tool(&part, facts),
            Some("step_finish") => {
                facts.push(Fact::Usage(self.spent.and(&part.value("tokens"))));
                facts.push(Fact::Status("step finished".into()));
                // `tool-calls` and the like announce another step.
                if part.is("reason", "stop") {
                    let final_text = Some(std::mem::take(&mut self.answer));
                    facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
                }
            }
            Some("reasoning") => facts.push(Fact::Thinking(part.text("text"))),
            Some("error") => {
                facts.push(Fact::Ended(Terminal::Failed(failure(&line.value("error")))))
            }
            _ => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn diagnose(&self, line: &str) -> Option<Failure> {
        (self.conversation.is_continued() && line.contains("Session not found"))
            .then(Failure::session_not_found)
    }
}

/// A tool is reported once, when it has ended.
fn tool(part: &Fields<'_>, facts: &mut Vec<Fact>) {
    let (name, id) = (part.string("tool"), part.string("callID"));
    let state: Fields<'_> = part.read("state").unwrap_or_default();
    let end = ToolEnd::failed_if(!state.is("status", "completed"));
    facts.push(Fact::ToolStarted(ToolFacet::started("tool_use", name.as_deref(), id.as_deref())));
    facts.push(Fact::ToolEnded(ToolFacet {
        exit_code: state.value("metadata")["exit"].as_i64(),
        bytes: ToolBytes { result: state.bytes("output"), ..ToolBytes::default() },
        ..ToolFacet::ended("tool_result", name.as_deref(), id.as_deref(), end)
    }));
}

/// Headers and body of the provider's answer stand beside the status, and stay there.
fn failure(error: &Value) -> Failure {
    let status = error["data"]["statusCode"].as_u64().and_then(|code| u16::try_from(code).ok());
    match (status, error["name"].as_str()) {
        (Some(status), _) => Failure::http(status),
        (None, Some("ProviderAuthError")) => {
            Failure::new(FailureClass::Auth, "the model's provider does not know the caller")
        }
        (None, Some("ProviderModelNotFoundError")) => {
            Failure::new(FailureClass::ModelRejected, "the model is not known")
        }
        (None, _) => Failure::new(FailureClass::Crashed, "the agent reported a failure"),
    }
}

impl Spent {
    fn and(&mut self, tokens: &Value) -> Value {
        let add = |sum: &mut Option<u64>, more: &Value| {
            if let Some(more) = more.as_u64() {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        add(&mut self.input, &tokens["input"]);
        add(&mut self.output, &tokens["output"]);
        add(&mut self.cached, &tokens["cache"]["read"]);
        json!({
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cached_input_tokens": self.cached,
        })
    }
}
