//! Work items: what people put before a standing member, which the protocol leaves to the host.

use serde::{Deserialize, Serialize};

use crate::{Object, RosterId, RunId, RunStatus, Timestamp, WorkflowId};

/// One item of a member's queue.
///
/// Stored as JSON too. An old reader ignores fields that it does not know, and its next write drops them; a new
/// reader defaults those that an old item lacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkItem {
    pub work_id: String,
    pub roster_id: RosterId,
    pub title: String,
    pub workflow_id: WorkflowId,
    /// What a run of it is given.
    pub inputs: Object,
    pub state: WorkState,
    /// Who took it: the member itself, or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Why it has not begun, where something keeps it from that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it reached the front of the queue; each time it may fire once.
    pub moves: u32,
    /// The run that the last move fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// How that run stands; shown in lists, never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_status: Option<RunStatus>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkState {
    /// Not started yet. A member takes it at once, or as soon as it is no longer paused.
    Todo,
    Doing,
    Done,
}

impl WorkState {
    pub const ALL: [Self; 3] = [Self::Todo, Self::Doing, Self::Done];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Doing => "doing",
            Self::Done => "done",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// `POST …/roster/{rosterId}/work`. A member with one workflow needs no other named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddWork {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    #[serde(default)]
    pub inputs: Object,
}

/// `PATCH …/roster/{rosterId}/work/{workId}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveWork {
    pub state: WorkState,
}
