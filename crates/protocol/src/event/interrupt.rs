//! Events about a question: that it was asked, who answered, how the node continued.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{NodeId, Object, RunId, Timestamp};

/// What an interrupt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptKind {
    Approval,
    Clarification,
    ExternalEvent,
    Custom,
    LowConfidence,
    #[serde(rename = "conversation.start")]
    ConversationStart,
    #[serde(rename = "conversation.exchange")]
    ConversationExchange,
    #[serde(rename = "conversation.close")]
    ConversationClose,
}

impl InterruptKind {
    pub const ALL: [Self; 8] = [
        Self::Approval,
        Self::Clarification,
        Self::ExternalEvent,
        Self::Custom,
        Self::LowConfidence,
        Self::ConversationStart,
        Self::ConversationExchange,
        Self::ConversationClose,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Clarification => "clarification",
            Self::ExternalEvent => "external-event",
            Self::Custom => "custom",
            Self::LowConfidence => "low-confidence",
            Self::ConversationStart => "conversation.start",
            Self::ConversationExchange => "conversation.exchange",
            Self::ConversationClose => "conversation.close",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether an answer is expected. A conversation opens and closes by itself.
    pub fn is_asked(self) -> bool {
        !matches!(self, Self::ConversationStart | Self::ConversationClose)
    }
}

/// A node asks a question. The payload is exactly the interrupt; the node is on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub kind: InterruptKind,
    pub key: String,
    pub data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub kind: InterruptKind,
    #[serde(default, deserialize_with = "super::said", skip_serializing_if = "Option::is_none")]
    pub resume_value: Option<Value>,
    pub run_id: RunId,
    pub resolved_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// Set after a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub kind: InterruptKind,
    pub key: String,
    /// Tells apart what shares a status: `conversation-input`, `low-confidence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who was not sure enough, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed {
    pub node_id: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<String>,
    #[serde(default, deserialize_with = "super::said", skip_serializing_if = "Option::is_none")]
    pub resume_value: Option<Value>,
}

/// Ours: one approver of several has decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub voter: String,
    /// Who cast it for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cast_by: Option<String>,
    pub action: String,
}

/// Ours: a person asked back before deciding; the interrupt stays open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
}

/// Kept for clients from before the interrupt primitive; `interrupt.requested` is the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub artifact_id: String,
    pub artifact_type: String,
    pub title: String,
    pub actions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers_list: Vec<String>,
    #[serde(default = "one")]
    pub required_approvals: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReceived {
    pub node_id: NodeId,
    /// The question that was answered. Logs from before it was recorded have it with the question alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<String>,
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    pub decided_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refine_feedback: Option<Object>,
    #[serde(default, deserialize_with = "super::said", skip_serializing_if = "Option::is_none")]
    pub edited_artifact_data: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested {
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub questions: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved {
    pub node_id: NodeId,
    /// As in [`ApprovalReceived`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<String>,
    pub answers: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

fn one() -> u32 {
    1
}
