//! Events of a conversation. Their payloads are closed, so the node is on the envelope.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{NodeId, Object};

/// A node opens a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationOpened {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub conversation_id: String,
    /// Who speaks for the host, if it is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub initial_turn: ConversationTurn,
    /// What every answer must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Object>,
}

/// Somebody has answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationExchanged {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub conversation_id: String,
    pub turn_index: u32,
    pub turn: ConversationTurn,
}

/// The last event of its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationClosed {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub conversation_id: String,
    pub turn_index: u32,
    pub final_turn: ConversationTurn,
    /// The outcome of the conversation; null after a timeout.
    #[serde(default)]
    pub outcome: Value,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationTurn {
    /// The same in every replay, so that a turn folds once.
    pub message_id: String,
    /// `user`, `system` or an agent's id.
    pub from: String,
    #[serde(default)]
    pub content: Value,
    /// Milliseconds since the epoch.
    pub ts: i64,
    pub role: TurnRole,
    pub turn_index: u32,
    /// Always present for agents; for users, if they were authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker_id: Option<String>,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnRole {
    User,
    Agent,
    System,
}

impl TurnRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }
}
