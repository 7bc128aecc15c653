//! Events about agents at work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, NodeId};

/// How an agent was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvocationSource {
    /// A node of a workflow names the agent.
    #[default]
    WorkflowNode,
    /// A run was created for the agent alone.
    RunApi,
    /// Somebody mentioned the agent in a message.
    ChatMention,
}

/// How an invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvocationOutcome {
    Completed,
    HandedOff,
    Escalated,
    Refused,
    Failed,
}

/// Opens the bracket around one invocation. Holds nothing that was said; the node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationStarted {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub invocation_id: String,
    pub agent_id: String,
    pub source: InvocationSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_channel: Option<String>,
    #[serde(default)]
    pub tool_surface_count: usize,
    #[serde(default)]
    pub memory_bound: bool,
}

/// Closes the bracket. Holds nothing that was said; the node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInvocationCompleted {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub invocation_id: String,
    pub agent_id: String,
    pub outcome: InvocationOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_validated: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Which of the places that may hold a prompt gave it. Refs only, never the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPromptResolved {
    pub node_id: NodeId,
    pub kind: PromptKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub chain: Vec<PromptLayer>,
    pub resolved: Option<String>,
}

/// What a prompt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptKind {
    System,
    User,
    FewShot,
    SchemaHint,
}

impl PromptKind {
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::FewShot, Self::SchemaHint];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::FewShot => "few-shot",
            Self::SchemaHint => "schema-hint",
        }
    }
}

/// One place that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptLayer {
    pub layer: String,
    pub applied: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The prompt of a model call, by its digest; its text only where the host is configured to keep it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptComposed {
    pub node_id: NodeId,
    pub refs: Vec<String>,
    /// `system+user`, `system-only`, `user-only` or `agent-reasoning`.
    pub kind: String,
    pub hash: String,
    /// The words, whatever the kind; one of the next two says them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable_bindings: Option<crate::Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable_hashes: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<String>,
}

/// A piece of what an agent is thinking. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoningDelta {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub delta: String,
    /// Counts from zero within one block of thinking.
    pub sequence: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
}

/// An agent uses a tool. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCalled {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub tool_name: String,
    /// Pairs the call with its return.
    pub call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// What a tool gave back, or why it did not. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolReturned {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub tool_name: String,
    pub call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Ok,
    Error,
    Forbidden,
    RateLimited,
}

/// What an agent thought. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoned {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub reasoning: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// Not the last word on the turn: the host was lost while the agent was thinking, or a coding agent went on to
    /// use a tool of its own.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub torn: bool,
}

/// An agent's result. The node is on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub decision: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

/// Control passes from one agent to another. The node of the other stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandoff {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub from_agent_id: String,
    pub to_agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Ours: a coding agent works in this session, which a host that takes over resumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSession {
    pub node_id: NodeId,
    /// Which coding agent, as models name it: `claude-code`.
    pub coding_agent: String,
    pub session_id: String,
    /// The outward call of the visit that the session answers.
    pub call: u32,
}
