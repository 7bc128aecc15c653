//! The two structured shapes that `data` may have: about a tool, about the session.

use serde::Serialize;
use serde_json::{Value, json};

use crate::capability;

/// Metadata of one use of a tool. What went in or came out is counted, never kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolFacet {
    pub backend_item_id: Option<String>,
    pub thread_id: Option<String>,
    pub turn_id: Option<String>,
    /// An open set: `command_execution`, `file_change`, `mcp_tool_call`, `web_search`, `tool_use`, `tool_result`.
    pub kind: String,
    pub phase: ToolPhase,
    pub status: ToolStatus,
    pub exit_code: Option<i64>,
    pub bytes: ToolBytes,
    pub tool_name: Option<String>,
    pub tool_use_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPhase {
    Start,
    Delta,
    Complete,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Pending,
    Running,
    Completed,
    Failed,
    Unknown,
}

/// How many bytes a tool gave, as far as the agent says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ToolBytes {
    pub stdout: u64,
    pub stderr: u64,
    pub diff: u64,
    pub result: u64,
}

/// Longest name or id that is passed on; agents use far less.
const LABEL_BYTES: usize = 256;

impl ToolFacet {
    pub(crate) fn started(kind: &str, name: Option<&str>, id: Option<&str>) -> Self {
        Self {
            backend_item_id: None,
            thread_id: None,
            turn_id: None,
            tool_name: name.and_then(label),
            tool_use_id: id.and_then(label),
            kind: kind.into(),
            phase: ToolPhase::Start,
            status: ToolStatus::Running,
            exit_code: None,
            bytes: ToolBytes::default(),
        }
    }

    pub(crate) fn grown(kind: &str, name: Option<&str>, id: Option<&str>) -> Self {
        Self { phase: ToolPhase::Delta, ..Self::started(kind, name, id) }
    }

    pub(crate) fn ended(kind: &str, name: Option<&str>, id: Option<&str>, end: ToolEnd) -> Self {
        let (phase, status) = match end {
            ToolEnd::Completed => (ToolPhase::Complete, ToolStatus::Completed),
            ToolEnd::Failed => (ToolPhase::Fail, ToolStatus::Failed),
        };
        Self { phase, status, ..Self::started(kind, name, id) }
    }

    #[must_use]
    pub fn to_data(&self) -> Value {
        json!({ "schema": capability::TOOLS_STRUCTURED, "tool": self })
    }
}

/// How the use of a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolEnd {
    Completed,
    Failed,
}

impl ToolEnd {
    pub(crate) fn failed_if(failed: bool) -> Self {
        if failed { Self::Failed } else { Self::Completed }
    }
}

fn label(text: &str) -> Option<String> {
    (!text.is_empty() && text.len() <= LABEL_BYTES).then(|| text.to_owned())
}

/// The session facet: which session this run is, so that it can be resumed.
#[must_use]
pub fn session_data(id: &str) -> Value {
    json!({ "schema": capability::SESSION_HANDLE, "session": { "id": id } })
}

/// Reads the session's id back from the `data` of an event or a completion.
#[must_use]
pub fn session_id(data: &Value) -> Option<&str> {
    (data["schema"] == capability::SESSION_HANDLE).then(|| data["session"]["id"].as_str())?
}
