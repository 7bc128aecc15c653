//! The output of one run, line by line, as events with an outcome.

use std::borrow::Cow;
use std::fmt;
use std::process::ExitStatus;

use serde_json::{Value, json};

use crate::bounds::{FINAL_TEXT_BYTES, SESSION_ID_BYTES, bound_data, cut};
use crate::error::{AgentError, FailureClass};
use crate::event::AgentEvent;
use crate::facet::{ToolFacet, session_data};
use crate::handle::AgentCompletion;
use crate::kind::AgentKind;
use crate::permission::{Decision, PermissionRequest};

/// What a line says, in the words that all agents share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    Session(String),
    Text(String),
    /// What the model thinks while it thinks.
    Thinking(String),
    Status(Cow<'static, str>),
    ToolStarted(ToolFacet),
    ToolEnded(ToolFacet),
    /// The agent was not allowed to use a tool.
    Denied,
    /// The agent waits until this has been decided.
    Asked(PermissionRequest),
    /// Replaces what was known of the denials: the agent's own count.
    Denials(u64),
    Usage(Value),
    /// An unknown kind of line.
    Unknown,
    Ended(Terminal),
    /// A message for the agent.
    Answer(Value),
    /// The agent gets no more messages.
    HangUp,
}

/// The record with which an agent says how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Terminal {
    Succeeded { final_text: Option<String> },
    Failed(Failure),
}

/// Whether a run names a session that has to exist. Only then can one be missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conversation {
    #[default]
    New,
    Continued,
}

impl Conversation {
    pub(crate) fn is_continued(self) -> bool {
        self == Self::Continued
    }
}

/// A failure in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: FailureClass,
    pub(crate) message: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(class: FailureClass, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class, message: message.into() }
    }

    pub(crate) fn http(status: u16) -> Self {
        let class = FailureClass::from_http(status);
        Self::new(class, format!("the model's provider answered with HTTP {status}"))
    }

    pub(crate) fn refused() -> Self {
        Self::new(FailureClass::Refused, "the model declined to answer")
    }

    pub(crate) fn session_not_found() -> Self {
        Self::new(FailureClass::SessionMissing, "session not found")
    }
}

/// A line that is not in the agent's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// One agent's language. Pure: the same lines always give the same facts.
pub(crate) trait Mapper: Send {
    fn read(&mut self, line: &str, facts: &mut Vec<Fact>) -> Result<(), Unreadable>;

    /// What a line on standard error means, if it decides anything.
    fn diagnose(&self, _line: &str) -> Option<Failure> {
        None
    }

    /// What an exit code means when no record said how the run ended.
    fn explain(&self, _code: i32) -> Option<Failure> {
        None
    }

    /// Takes a decision about something that was asked for.
    fn decide(&mut self, _decision: &Decision, _facts: &mut Vec<Fact>) {}

    /// Whether the agent waits for a decision.
    fn asks(&self) -> bool {
        false
    }

    /// Whether the process ends because we hung up, so that its exit status says nothing.
    fn ends_when_told(&self) -> bool {
        false
    }
}

/// Reads what an agent printed. It never fails, never panics, and passes on nothing but typed, bounded fields.
pub struct Transcript {
    kind: AgentKind,
    mapper: Box<dyn Mapper>,
    lines: u64,
    facts: Vec<Fact>,
    session: Option<String>,
    session_refused: bool,
    usage: Option<Value>,
    denials: u64,
    terminal: Option<Terminal>,
    diagnosis: Option<Failure>,
    answers: Vec<Value>,
    hung_up: bool,
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transcript")
            .field("kind", &self.kind)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

impl Transcript {
    pub(crate) fn new(kind: AgentKind, mapper: impl Mapper + 'static) -> Self {
        Self {
            kind,
            mapper: Box::new(mapper),
            lines: 0,
            facts: Vec::new(),
            session: None,
            session_refused: false,
            usage: None,
            denials: 0,
            terminal: None,
            diagnosis: None,
            answers: Vec::new(),
            hung_up: false,
        }
    }

    /// Reads one line of standard output, without its line feed.
    pub fn read_line(&mut self, line: &[u8]) -> Vec<AgentEvent> {
        self.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            return Vec::new();
        }
        let mut facts = std::mem::take(&mut self.facts);
        let read = str::from_utf8(line).map_err(|_| Unreadable);
        let read = read.and_then(|line| self.mapper.read(line, &mut facts));
        let mut events = Vec::with_capacity(facts.len());
        if read == Err(Unreadable) {
            facts.clear();
            events.push(self.unreadable("unreadable", line.len()));
        }
        for fact in facts.drain(..) {
            self.take(fact, &mut events);
        }
        self.facts = facts;
        events
    }

    /// Counts a line that was too long to be read.
    pub fn skip_line(&mut self, bytes: usize) -> Vec<AgentEvent> {
        self.lines += 1;
        vec![self.unreadable("oversize_line", bytes)]
    }

    /// Reads one line of standard error. It becomes no event.
    pub fn read_error_line(&mut self, line: &[u8]) {
        if self.diagnosis.is_none() {
            self.diagnosis = self.mapper.diagnose(&String::from_utf8_lossy(line));
        }
    }

    /// The session's id, once a line has said it.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The outcome of the run: success needs both exit code 0 and a record that reports it.
    pub fn conclude(&mut self, status: ExitStatus) -> Result<AgentCompletion, AgentError> {
        let failure = match self.terminal.take() {
            Some(Terminal::Failed(failure)) => failure,
            Some(Terminal::Succeeded { final_text })
                if status.success() || self.mapper.ends_when_told() =>
            {
                let final_text = final_text.map(|text| cut(text, FINAL_TEXT_BYTES));
                return Ok(AgentCompletion { status, final_text, data: self.completion_data() });
            }
            Some(Terminal::Succeeded { .. }) => crashed(status, "after its answer"),
            None if status.success() => Failure::new(FailureClass::Protocol, "incomplete"),
            None => self
                .diagnosis
                .take()
                .or_else(|| self.mapper.explain(status.code()?))
                .unwrap_or_else(|| crashed(status, "without a result")),
        };
        Err(AgentError::Backend {
            message: failure.message.into_owned(),
            class: failure.class,
            exit: Some(status.into()),
        })
    }

    pub(crate) fn kind(&self) -> &AgentKind {
        &self.kind
    }

    /// Takes a decision about something that the agent asked for.
    pub(crate) fn decide(&mut self, decision: &Decision) -> Vec<AgentEvent> {
        let (mut facts, mut events) = (Vec::new(), Vec::new());
        self.mapper.decide(decision, &mut facts);
        facts.into_iter().for_each(|fact| self.take(fact, &mut events));
        events
    }

    /// Whether the agent waits for a decision.
    pub(crate) fn asks(&self) -> bool {
        self.mapper.asks()
    }

    /// The messages for the agent, in order.
    pub(crate) fn take_answers(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    fn unreadable(&self, class: &str, bytes: usize) -> AgentEvent {
        let line = self.lines;
        AgentEvent::error(&self.kind, format!("{class}: line {line} of {bytes} bytes was skipped"))
    }

    fn take(&mut self, fact: Fact, events: &mut Vec<AgentEvent>) {
        let kind = &self.kind;
        let event = match fact {
            Fact::Session(id) => match self.take_session(id) {
                Some(event) => event,
                None => return,
            },
            Fact::Text(text) if text.is_empty() => return,
            Fact::Text(text) => {
                return events.extend(AgentEvent::text_output(kind, text).bounded());
            }
            Fact::Thinking(text) => {
                return events.extend(AgentEvent::thinking(kind, text));
            }
            Fact::Status(message) => AgentEvent::status(kind, message),
            Fact::ToolStarted(tool) => AgentEvent::tool_call(kind, &tool),
            Fact::ToolEnded(tool) => AgentEvent::tool_result(kind, &tool),
            Fact::Denied => {
                self.denials += 1;
                AgentEvent::status(kind, "a tool was denied")
            }
            Fact::Asked(request) => AgentEvent::permission(kind, &request),
            Fact::Unknown => AgentEvent::unknown(kind),
            Fact::Denials(count) => return self.denials = count,
            Fact::Usage(usage) => return self.usage = Some(usage),
            Fact::Ended(terminal) => return self.terminal = Some(terminal),
            Fact::Answer(answer) => return self.answers.push(answer),
            Fact::HangUp => return self.hung_up = true,
        };
        events.extend(event.bounded());
    }

    /// Tells the session once, however often the agent repeats it.
    fn take_session(&mut self, id: String) -> Option<AgentEvent> {
        if self.session.is_some() || self.session_refused || id.trim().is_empty() {
            return None;
        }
        if id.len() > SESSION_ID_BYTES {
            self.session_refused = true;
            return Some(AgentEvent::status(&self.kind, "the session's id is too long to be kept"));
        }
        let mut event = AgentEvent::status(&self.kind, "session started");
        event.data = Some(session_data(&id));
        self.session = Some(id);
        Some(event)
    }

    fn completion_data(&mut self) -> Option<Value> {
        let mut data = self.session.as_deref().map_or_else(|| json!({}), session_data);
        data["permission_denials"] = self.denials.into();
        if let Some(usage) = self.usage.take() {
            data["usage"] = usage;
        }
        Some(bound_data(data))
    }
}

fn crashed(status: ExitStatus, when: &str) -> Failure {
    let exit = crate::error::Exit::from(status);
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("the agent exited with code {code} {when}"),
        (None, Some(signal)) => format!("the agent was ended by signal {signal} {when}"),
        (None, None) => format!("the agent ended {when}"),
    };
    Failure::new(FailureClass::Crashed, how)
}
