//! The port to coding agents: programs that are given a task and work on it alone, with tools of their own.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use callboard_core::SecretText;
use callboard_engine::Claim;
use callboard_protocol::{Failure, NodeId, Object, RunId, Tenant};

use crate::model::{StopReason, TokenUsage, Turn};

/// The provider under which coding agents are models: `cli/claude-code`.
pub const CODING_PROVIDER: &str = "cli";

/// The coding agents of a host.
#[async_trait]
pub trait CodingAgents: fmt::Debug + Send + Sync {
    /// What an agent of this kind may use of an allowlist. Refused where it could not be held to the list.
    fn admit(&self, kind: &str, allowlist: &[String]) -> Result<Admitted, CodingError>;

    /// Has a task run. Dropping the future ends the program with everything that it started.
    async fn work(
        &self,
        task: CodingTask<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<Report, CodingError>;
}

/// What an allowlist means for a coding agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The names that mean tools which it has.
    pub tools: Vec<String>,
    /// The names that mean nothing to it.
    pub unknown: Vec<String>,
    /// Whether it can change anything, so that doing it twice is not the same as doing it once.
    pub changes_things: bool,
    /// Whether its sessions can be named before they begin, so that one that began unseen is found again.
    pub names_sessions: bool,
}

/// One thing to be done.
#[derive(Clone)]
pub struct CodingTask<'a> {
    pub kind: &'a str,
    pub tenant: &'a Tenant,
    pub run: &'a RunId,
    /// Under which the run is driven: what is kept beside it is the holder's to keep.
    pub claim: &'a Claim,
    pub node: &'a NodeId,
    pub visit: u32,
    pub prompt: &'a str,
    pub allowlist: &'a [String],
    pub begin: Begin<'a>,
    /// The effect's id: a session that can be named gets its name from it.
    pub effect: &'a str,
    /// The run's own key, where it brought one.
    pub key: Option<SecretText>,
    /// What the session had used up before, as far as that is known.
    pub spent: Option<TokenUsage>,
    /// What was decided about the question that the task before ended with.
    pub decision: Option<Decision<'a>>,
}

impl fmt::Debug for CodingTask<'_> {
    /// Leaves out what is to be done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodingTask")
            .field("kind", &self.kind)
            .field("run", &self.run)
            .field("begin", &self.begin)
            .finish_non_exhaustive()
    }
}

/// Something that a coding agent may not do without a person's permission. Kept with the effect, like [`Report`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// The effect that ended with the question.
    pub id: String,
    /// The kind of the tool, in the agent's words.
    pub tool: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Whether nothing was cut off, so that the same words ask for the same.
    pub is_whole: bool,
}

impl fmt::Debug for Permission {
    /// Leaves out what goes into the tool.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permission").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    pub permission: &'a Permission,
    /// This once.
    pub is_allowed: bool,
}

/// Where the conversation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin<'a> {
    Fresh,
    /// It may have begun, as this session or under the name that the effect gives: a fresh one only if there is none.
    Perhaps(Option<&'a str>),
    /// This session and no other: a missing one is an error.
    Resume(&'a str),
}

/// Listens to a coding agent at work.
#[async_trait]
pub trait StepSink: Send {
    /// Takes as long as it likes: the agent waits.
    async fn tell(&mut self, step: Step);

    /// No step has come for a moment: buffered text is recorded now.
    async fn pause(&mut self) {}
}

#[async_trait]
impl StepSink for Vec<Step> {
    async fn tell(&mut self, step: Step) {
        self.push(step);
    }
}

/// What a coding agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It works in this session.
    Session(String),
    Text(String),
    Thinking(String),
    /// It uses a tool of its own, under its own name for it.
    ToolCalled {
        id: String,
        tool: String,
    },
    /// Only the outcome of the tool is known, never its output.
    ToolReturned {
        id: String,
        has_failed: bool,
        bytes: u64,
        exit_code: Option<i64>,
    },
}

/// The result of a task. Kept with the effect, so that it is not run twice: fields that are added later must have
/// defaults, and old hosts ignore them.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The answer.
    pub text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The usage of this task; none where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// What the session has used up since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How often it wanted a tool that it may not use.
    #[serde(default)]
    pub denials: u64,
    /// It is not done: it waits for this. It is held for a while, and resumed by its session after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Permission>,
}

impl fmt::Debug for Report {
    /// Leaves out what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Report {
    /// The answer as a turn to be judged: the agent has called its tools itself.
    pub(crate) fn turn(&self) -> Turn {
        Turn {
            text: self.text.clone(),
            thinking: self.thinking.clone(),
            tool_calls: Vec::new(),
            stop: StopReason::Stop,
            usage: self.usage,
            provider_request_id: None,
        }
    }
}

/// A task that failed. Contains no part of the conversation and no path, so it may be shown to anyone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct CodingError {
    pub kind: String,
    pub fault: CodingFault,
    pub message: String,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodingFault {
    /// There is no such coding agent, or its program is not installed.
    Missing,
    /// It could not be held to the allowlist.
    NotHeld,
    /// The model declined.
    Declined,
    Forbidden,
    Limited,
    /// Its model provider fails temporarily.
    Trouble,
    Rejected,
    /// The session to go on with is gone.
    SessionMissing,
    TurnLimit,
    TimedOut,
    /// It died, or stopped without saying how it ended.
    Broken,
}

impl CodingFault {
    /// The protocol's word for it, or ours where it has none.
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "no_model_available",
            Self::NotHeld => "capability_not_provided",
            Self::Declined => "envelope_refusal",
            Self::Forbidden => "credential_forbidden",
            Self::Limited => "rate_limited",
            Self::Trouble => "service_unavailable",
            Self::Rejected => "validation_error",
            Self::SessionMissing => "coding_session_missing",
            Self::TurnLimit => "tool_rounds_exceeded",
            Self::TimedOut => "coding_agent_timeout",
            Self::Broken => "coding_agent_failed",
        }
    }
}

impl CodingError {
    pub fn new(kind: &str, fault: CodingFault, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), fault, message: message.into() }
    }

    pub(crate) fn failure(&self) -> Failure {
        let details = Object::from_iter([("codingAgent".to_owned(), self.kind.as_str().into())]);
        Failure::new(self.fault.code(), self.to_string()).with_details(details)
    }
}

/// A host without coding agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCodingAgents;

#[async_trait]
impl CodingAgents for NoCodingAgents {
    fn admit(&self, kind: &str, _: &[String]) -> Result<Admitted, CodingError> {
        Err(CodingError::new(kind, CodingFault::Missing, "this host has no coding agents"))
    }

    async fn work(
        &self,
        task: CodingTask<'_>,
        _: &mut dyn StepSink,
    ) -> Result<Report, CodingError> {
        self.admit(task.kind, &[]).map(|_| Report::default())
    }
}
