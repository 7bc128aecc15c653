//! What each event says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::{Amount, BudgetDimension, Consumption};
use crate::{
    ChannelName, DrainPolicy, FileVersion, NodeId, Object, Owner, Principal, Reducer, Remembered,
    RunId, RunStatus, Timestamp, TypeId, WorkflowId,
};

/// Why something failed, as the log, the snapshot and `run.failed` tell it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Object>,
}

impl Failure {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    #[must_use]
    pub fn with_details(mut self, details: Object) -> Self {
        self.details = Some(details);
        self
    }
}

macro_rules! payload {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
    )*};
}

payload! {
    /// First event of every log.
    RunStarted {
        workflow_id: WorkflowId,
        #[serde(default)]
        inputs: Object,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transport: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine_version: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Object>,
    }
    RunCompleted {
        #[serde(default)]
        outputs: Object,
        #[serde(default)]
        duration_ms: u64,
    }
    RunFailed {
        error: Failure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed_node_id: Option<NodeId>,
        #[serde(default)]
        duration_ms: u64,
    }
    RunCancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<Principal>,
        #[serde(default)]
        duration_ms: u64,
        /// The parent whose cancel reached this run; none where somebody cancelled the run itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<RunId>,
    }
    RunPaused {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default)]
        drain_policy: DrainPolicy,
    }
    /// After a pause, or when a new holder took over a run whose last one died.
    RunResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    NodeStarted {
        node_id: NodeId,
        type_id: TypeId,
        #[serde(default)]
        attempt: u32,
        /// How often a loop came back to the node.
        #[serde(default, skip_serializing_if = "is_zero")]
        visit: u32,
    }
    NodeCompleted {
        node_id: NodeId,
        #[serde(default)]
        outputs: Object,
        #[serde(default)]
        duration_ms: u64,
    }
    NodeFailed {
        node_id: NodeId,
        error: Failure,
        attempts: u32,
    }
    NodeRetried {
        node_id: NodeId,
        /// The number of the attempt to come.
        attempt: u32,
        #[serde(default)]
        delay_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_error: Option<Failure>,
        /// Nothing has failed for good: somebody wants to be left alone until then.
        #[serde(default, skip_serializing_if = "is_false")]
        postponed: bool,
    }
    NodeSkipped {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    NodeCancelled {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// Carries the write's input, not what it reduced to.
    ChannelWritten {
        channel: ChannelName,
        value: Value,
        reducer: Reducer,
        written_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema_version: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_engine_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_run_id: Option<RunId>,
    }
    VariableChanged {
        name: String,
        #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
        previous: Option<Value>,
        #[serde(default)]
        next: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    }
    OutputChunk {
        node_id: NodeId,
        run_id: RunId,
        chunk: String,
        is_last: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<ChunkMeta>,
        /// Which try at the answer it belongs to; the text of a later one replaces that of the earlier.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    }
    ChunkMeta {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish_reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
    }
    Usage {
        #[serde(default)]
        prompt_tokens: u64,
        #[serde(default)]
        completion_tokens: u64,
        #[serde(default)]
        total_tokens: u64,
    }
    VersionPinned {
        change_id: String,
        version: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
    }
    LoopbackLimit {
        node_id: NodeId,
        iterations: u32,
        #[serde(default)]
        limit: u32,
    }
    CapBreached {
        kind: CapKind,
        limit: Amount,
        observed: Amount,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// Tells apart what shares a kind: `dispatch-iterations` counts as `node-executions`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Object>,
    }
    /// A node asks somebody. The payload is exactly the interrupt; the node stands on the envelope.
    InterruptRequested {
        #[serde(skip)]
        node_id: Option<NodeId>,
        kind: InterruptKind,
        key: String,
        data: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_schema: Option<Object>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    }
    InterruptResolved {
        node_id: NodeId,
        interrupt_id: String,
        kind: InterruptKind,
        #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
        resume_value: Option<Value>,
        run_id: RunId,
        resolved_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolved_by: Option<String>,
        /// Set where nobody answered in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    NodeSuspended {
        node_id: NodeId,
        interrupt_id: String,
        kind: InterruptKind,
        key: String,
        /// Tells apart what shares a status: `conversation-input`, `low-confidence`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who was not sure enough, where that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threshold: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        observed: Option<f64>,
    }
    NodeResumed {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<String>,
        #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
        resume_value: Option<Value>,
    }
    /// Kept for clients from before the interrupt primitive; `interrupt.requested` is the truth.
    ApprovalRequested {
        node_id: NodeId,
        interrupt_id: String,
        artifact_id: String,
        artifact_type: String,
        title: String,
        actions: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvers_list: Vec<String>,
        #[serde(default = "one")]
        required_approvals: u32,
    }
    ApprovalReceived {
        node_id: NodeId,
        action: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<String>,
        decided_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refine_feedback: Option<Object>,
        #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
        edited_artifact_data: Option<Value>,
    }
    ClarificationRequested {
        node_id: NodeId,
        interrupt_id: String,
        questions: Vec<Value>,
    }
    ClarificationResolved {
        node_id: NodeId,
        answers: Object,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
    }
    /// A completed node's outputs are an artifact of the type that the definition names.
    ArtifactCreated {
        artifact_id: String,
        artifact_type: String,
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Whether the type's schema is known here and the outputs were checked against it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        registered: Option<bool>,
    }
    /// What an agent thought. The node stands on the envelope.
    AgentReasoned {
        #[serde(skip)]
        node_id: Option<NodeId>,
        agent_id: String,
        reasoning: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verbosity: Option<String>,
        /// Not the last word on the turn: the host was lost while the agent was thinking, or a coding agent went on to
        /// use a tool of its own.
        #[serde(default, skip_serializing_if = "is_false")]
        torn: bool,
    }
    /// What an agent came to. The node stands on the envelope.
    AgentDecided {
        #[serde(skip)]
        node_id: Option<NodeId>,
        agent_id: String,
        decision: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
    }
    /// Control passes from one agent to another. The node of the other stands on the envelope.
    AgentHandoff {
        #[serde(skip)]
        node_id: Option<NodeId>,
        from_agent_id: String,
        to_agent_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// Ours: a coding agent works in this session, which a host that takes over resumes.
    AgentSession {
        node_id: NodeId,
        /// Which coding agent, as models name it: `claude-code`.
        coding_agent: String,
        session_id: String,
        /// The outward call of the visit that the session answers.
        call: u32,
    }
    /// Ours: one approver of several has decided.
    Vote {
        node_id: NodeId,
        interrupt_id: String,
        voter: String,
        action: String,
    }
    /// Ours: somebody asked back before deciding; the interrupt stays open.
    Ask {
        node_id: NodeId,
        interrupt_id: String,
        question: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_by: Option<String>,
    }
    /// Ours: a drain was accepted and waits for running nodes.
    PauseRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// Ours: a cancel was accepted; what is still running is being stopped.
    CancelRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cancelled_by: Option<Principal>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<RunId>,
    }
    /// A node has started a run of its own. The payload is closed; the node stands on the envelope.
    NodeDispatched {
        #[serde(skip)]
        node_id: Option<NodeId>,
        child_run_id: RunId,
        child_workflow_id: WorkflowId,
    }
    /// Ours: what a parent has learnt of its child, with what it takes over from one that completed.
    ChildChanged {
        node_id: NodeId,
        child_run_id: RunId,
        status: RunStatus,
        #[serde(default, skip_serializing_if = "Object::is_empty")]
        outputs: Object,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// What the child remembered, which the parent sees from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<Remembered>,
        /// The files that the child wrote, which the parent's next turn sees.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileVersion>,
        /// What the child used, in sum, of what its parent may use.
        #[serde(default, skip_serializing_if = "Consumption::is_nothing")]
        used: Consumption,
    }
}

/// Which limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    NodeExecutions,
    RunDuration,
    LoopIterations,
    /// A model was asked too often for one answer.
    Schema,
    BudgetTokens,
    BudgetCost,
    BudgetToolCalls,
    BudgetRetries,
}

impl CapKind {
    /// Whether the run ends when this is reached; otherwise only the node does.
    pub fn ends_the_run(self) -> bool {
        match self {
            Self::NodeExecutions
            | Self::RunDuration
            | Self::LoopIterations
            | Self::BudgetTokens
            | Self::BudgetCost
            | Self::BudgetToolCalls
            | Self::BudgetRetries => true,
            Self::Schema => false,
        }
    }

    /// The kind of a budget's dimension.
    pub fn of_budget(dimension: BudgetDimension) -> Self {
        match dimension {
            BudgetDimension::Tokens => Self::BudgetTokens,
            BudgetDimension::Cost => Self::BudgetCost,
            BudgetDimension::ToolCalls => Self::BudgetToolCalls,
            BudgetDimension::Retries => Self::BudgetRetries,
        }
    }
}

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

    /// Whether somebody has to answer. A conversation opens and closes by itself.
    pub fn is_asked(self) -> bool {
        !matches!(self, Self::ConversationStart | Self::ConversationClose)
    }
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A value that was said, null included: what was not said is not written.
fn said<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
