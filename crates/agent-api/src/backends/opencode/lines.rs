//! The lines of `opencode run --format json`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::FailureClass;
use crate::facet::{ToolBytes, ToolEnd, ToolFacet};
use crate::json::{self, Raw};
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

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Raw<'a>,
    #[serde(rename = "sessionID", borrow, default)]
    session: Raw<'a>,
    #[serde(borrow, default)]
    part: Raw<'a>,
    #[serde(borrow, default)]
    error: Raw<'a>,
}

#[derive(Default, Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Raw<'a>,
    #[serde(borrow, default)]
    reason: Raw<'a>,
    #[serde(borrow, default)]
    tokens: Raw<'a>,
    #[serde(borrow, default)]
    tool: Raw<'a>,
    #[serde(rename = "callID", borrow, default)]
    call: Raw<'a>,
    #[serde(borrow, default)]
    state: Raw<'a>,
}

#[derive(Default, Deserialize)]
struct State<'a> {
    #[serde(borrow, default)]
    status: Raw<'a>,
    #[serde(borrow, default)]
    output: Raw<'a>,
    #[serde(borrow, default)]
    metadata: Raw<'a>,
}

impl Lines {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, ..Self::default() }
    }
}

impl Mapper for Lines {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable> {
        let line: Line<'_> = json::line(line)?;
        if let Some(id) = json::string(line.session) {
            facts.push(Fact::Session(id.into_owned()));
        }
        let part: Part<'_> = json::read(line.part).unwrap_or_default();
        match json::string(line.kind).as_deref() {
            Some("step_start") => {
                self.answer.clear();
                facts.push(Fact::Status("step started".into()));
            }
            Some("text") => {
                let text = json::string(part.text).unwrap_or_default().into_owned();
                self.answer.push_str(&text);
                facts.push(Fact::Text(text));
            }
            Some("tool_use") => tool(&part, facts),
            Some("step_finish") => {
                facts.push(Fact::Usage(self.spent.and(part.tokens)));
                facts.push(Fact::Status("step finished".into()));
                // `tool-calls` and the like announce another step.
                if json::string(part.reason).as_deref() == Some("stop") {
                    let final_text = Some(std::mem::take(&mut self.answer));
                    facts.push(Fact::Ended(Terminal::Succeeded { final_text }));
                }
            }
            Some("reasoning") => {
                let text = json::string(part.text).unwrap_or_default().into_owned();
                facts.push(Fact::Thinking(text));
            }
            Some("error") => facts.push(Fact::Ended(Terminal::Failed(failure(line.error)))),
            _ => facts.push(Fact::Unknown),
        }
        Ok(())
    }

    fn diagnose(&self, line: &str) -> Option<Failure> {
        (self.conversation.is_continued() && line.contains("Session not found"))
            .then(Failure::session_not_found)
    }
}

/// A tool is told once, when it has ended.
fn tool(part: &Part<'_>, facts: &mut Vec<Fact>) {
    let (name, id) = (json::string(part.tool), json::string(part.call));
    let state: State<'_> = json::read(part.state).unwrap_or_default();
    let end = ToolEnd::failed_if(json::string(state.status).as_deref() != Some("completed"));
    let metadata: Value = json::read(state.metadata).unwrap_or_default();
    facts.push(Fact::ToolStarted(ToolFacet::started("tool_use", name.as_deref(), id.as_deref())));
    facts.push(Fact::ToolEnded(ToolFacet {
        exit_code: metadata["exit"].as_i64(),
        bytes: ToolBytes { result: json::bytes(state.output), ..ToolBytes::default() },
        ..ToolFacet::ended("tool_result", name.as_deref(), id.as_deref(), end)
    }));
}

/// Headers and body of the provider's answer stand beside the status, and stay there.
fn failure(raw: Raw<'_>) -> Failure {
    let error: Value = json::read(raw).unwrap_or_default();
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
    fn and(&mut self, raw: Raw<'_>) -> Value {
        let tokens: Value = json::read(raw).unwrap_or_default();
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
