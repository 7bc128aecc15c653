//! The events of a run while it is active.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::{MESSAGE_BYTES, bound_channel, bound_data, cut, split, split_text};
use crate::facet::ToolFacet;
use crate::kind::AgentKind;
use crate::permission::PermissionRequest;

/// The closed set of kinds. What fits none of them is `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentEventKind {
    TextOutput,
    ToolCall,
    ToolResult,
    Status,
    Error,
    Unknown,
}

/// One event. `text` is there for `TextOutput` only, `message` for `Status` and `Error`; `data` holds facets
/// and never a line, an input or an output of the agent, but for what an attended run asks permission for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentEvent {
    pub agent_kind: AgentKind,
    pub kind: AgentEventKind,
    pub channel: Option<String>,
    pub text: Option<String>,
    pub message: Option<String>,
    pub data: Option<Value>,
}

impl AgentEvent {
    /// The channel of status events whose message is a piece of the model's thinking.
    pub const THINKING: &'static str = "thinking";
    /// The channel of status events that ask for permission; see [`PermissionRequest`].
    pub const PERMISSION: &'static str = "permission";

    fn bare(agent_kind: &AgentKind, kind: AgentEventKind) -> Self {
        let agent_kind = agent_kind.clone();
        Self { agent_kind, kind, channel: None, text: None, message: None, data: None }
    }

    /// Text of the answer; see [`AgentEvent::bounded`] for its length.
    #[must_use]
    pub fn text_output(kind: &AgentKind, text: impl Into<String>) -> Self {
        Self {
            channel: Some("assistant".into()),
            text: Some(text.into()),
            ..Self::bare(kind, AgentEventKind::TextOutput)
        }
    }

    #[must_use]
    pub fn status(kind: &AgentKind, message: impl Into<String>) -> Self {
        Self {
            channel: Some("status".into()),
            message: Some(message.into()),
            ..Self::bare(kind, AgentEventKind::Status)
        }
    }

    /// What the model thinks: status that a host may show, in pieces that fit into a message.
    #[must_use]
    pub fn thinking(kind: &AgentKind, text: impl Into<String>) -> Vec<Self> {
        let piece =
            |message| Self { channel: Some(Self::THINKING.into()), ..Self::status(kind, message) };
        split(text.into(), MESSAGE_BYTES).into_iter().map(piece).collect()
    }

    #[must_use]
    pub fn permission(kind: &AgentKind, request: &PermissionRequest) -> Self {
        Self {
            channel: Some(Self::PERMISSION.into()),
            data: Some(request.to_data()),
            ..Self::status(kind, "permission is asked for")
        }
    }

    /// The message must be safe to show.
    #[must_use]
    pub fn error(kind: &AgentKind, message: impl Into<String>) -> Self {
        Self {
            channel: Some("error".into()),
            message: Some(message.into()),
            ..Self::bare(kind, AgentEventKind::Error)
        }
    }

    #[must_use]
    pub fn tool_call(kind: &AgentKind, tool: &ToolFacet) -> Self {
        Self {
            channel: Some("tool".into()),
            data: Some(tool.to_data()),
            ..Self::bare(kind, AgentEventKind::ToolCall)
        }
    }

    #[must_use]
    pub fn tool_result(kind: &AgentKind, tool: &ToolFacet) -> Self {
        Self {
            channel: Some("tool".into()),
            data: Some(tool.to_data()),
            ..Self::bare(kind, AgentEventKind::ToolResult)
        }
    }

    #[must_use]
    pub fn unknown(kind: &AgentKind) -> Self {
        Self::bare(kind, AgentEventKind::Unknown)
    }

    /// The same event within its bounds: a long text becomes several events, in order.
    #[must_use]
    pub fn bounded(self) -> Vec<Self> {
        let mut event = Self {
            channel: bound_channel(self.channel),
            message: self.message.map(|message| cut(message, MESSAGE_BYTES)),
            data: self.data.map(bound_data),
            ..self
        };
        let Some(text) = event.text.take() else {
            return vec![event];
        };
        split_text(text)
            .into_iter()
            .map(|piece| Self { text: Some(piece), ..event.clone() })
            .collect()
    }
}
