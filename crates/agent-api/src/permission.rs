//! What an agent asks permission for, in runs that a person attends.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::bounds::cut;
use crate::event::AgentEvent;
use crate::handle::AgentRunControl;

/// Bytes of a title that are worth reading.
const TITLE_BYTES: usize = 1024;
/// Bytes of an input that a person can be expected to judge; a quarter of what an event may hold.
const INPUT_BYTES: usize = 16 * 1024;
/// Decisions on their way; an agent waits for each.
const DECISIONS: usize = 8;

/// One use of a tool that was not granted. Unlike other events it shows the input, since a person has to judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRequest {
    /// Names the request within its run.
    pub id: String,
    /// The kind of the tool, in the agent's words.
    pub tool: String,
    pub title: String,
    /// What the tool would be given, as JSON.
    pub input: Option<String>,
    /// Whether it says something and nothing was cut off, so that another request with the same words asks for the same.
    pub is_whole: bool,
}

impl PermissionRequest {
    pub(crate) fn new(id: String, tool: &str, title: &str, input: Option<String>) -> Self {
        let says_something = !title.is_empty() || input.is_some();
        let is_whole = says_something
            && title.len() <= TITLE_BYTES
            && input.as_ref().is_none_or(|input| input.len() <= INPUT_BYTES);
        Self {
            id,
            tool: cut(tool.to_owned(), TITLE_BYTES),
            title: cut(title.to_owned(), TITLE_BYTES),
            input: input.map(|input| cut(input, INPUT_BYTES)),
            is_whole,
        }
    }

    pub(crate) fn to_data(&self) -> Value {
        json!({ "permission": self })
    }

    /// Reads the request back from an event.
    #[must_use]
    pub fn of(event: &AgentEvent) -> Option<Self> {
        let is_ours = event.channel.as_deref() == Some(AgentEvent::PERMISSION);
        let data = event.data.as_ref().filter(|_| is_ours)?;
        Self::deserialize(&data["permission"]).ok()
    }
}

/// A decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// This once.
    Granted,
    Denied,
}

/// A run whose permission requests wait for a person's decision.
#[derive(Debug)]
pub struct AttendedRun {
    pub control: AgentRunControl,
    pub decisions: Decisions,
}

/// The way back to an agent that asks.
#[derive(Debug, Clone)]
pub struct Decisions {
    sender: mpsc::Sender<Decision>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) id: String,
    pub(crate) permission: Permission,
}

impl Decisions {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Decision>) {
        let (sender, receiver) = mpsc::channel(DECISIONS);
        (Self { sender }, receiver)
    }

    /// Says what was decided about a request. False: the run is over.
    pub async fn decide(&self, id: &str, permission: Permission) -> bool {
        self.sender.send(Decision { id: id.to_owned(), permission }).await.is_ok()
    }

    /// Whether no one listens any more.
    #[must_use]
    pub fn are_over(&self) -> bool {
        self.sender.is_closed()
    }
}
