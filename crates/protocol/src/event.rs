//! The events of a run's log: typed where this host emits or folds them, kept as a name and raw JSON otherwise.
//!
//! Stored as `type` and `payload`. An old reader keeps an event kind that it does not know as
//! [`Event::Other`] and skips it; a new reader defaults fields that an old payload lacks; nobody
//! rewrites a stored event, so an old writer cannot lose what a new one said.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ChannelName, DrainPolicy, EventId, NodeId, Object, Owner, Principal, Reducer, RunId, Timestamp,
    TypeId, WorkflowId,
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        limit: u64,
        observed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
    }
    NodeResumed {
        node_id: NodeId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
    }
}

/// Which limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    NodeExecutions,
    RunDuration,
}

/// What an interrupt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterruptKind {
    Approval,
    Clarification,
    ExternalEvent,
    Custom,
}

impl InterruptKind {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "approval" => Some(Self::Approval),
            "clarification" => Some(Self::Clarification),
            "external-event" => Some(Self::ExternalEvent),
            "custom" => Some(Self::Custom),
            _ => None,
        }
    }
}

/// An event of a kind that this host neither emits nor folds.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherEvent {
    pub kind: String,
    pub node_id: Option<NodeId>,
    pub payload: Value,
}

/// Which SSE modes show an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTier {
    /// `updates`, `values` and `debug`.
    Update,
    /// `values` and `debug`.
    Value,
    /// `messages` and `debug`.
    Message,
    /// `debug` alone.
    Debug,
}

macro_rules! events {
    ($($variant:ident($payload:ident) = $kind:literal, $tier:ident;)*) => {
        /// One fact of a run.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $($variant($payload),)*
            Other(OtherEvent),
        }

        impl Event {
            /// The kinds that this host types, for tests that compare them with the protocol's schemas.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The event's name on the wire.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Other(other) => &other.kind,
                }
            }

            /// The payload as JSON text, as it is stored.
            pub fn payload_text(&self) -> String {
                match self {
                    $(Self::$variant(payload) => to_text(payload),)*
                    Self::Other(other) => other.payload.to_string(),
                }
            }

            /// The payload as a value.
            pub fn payload(&self) -> Value {
                match self {
                    $(Self::$variant(payload) => to_value(payload),)*
                    Self::Other(other) => other.payload.clone(),
                }
            }

            /// Reads a stored event. Total: what cannot be typed is kept as it stands.
            pub fn read(kind: &str, node_id: Option<NodeId>, payload: Value) -> Self {
                let typed = match kind {
                    $($kind => typed::<$payload>(&payload).map(Self::$variant),)*
                    _ => None,
                };
                match typed {
                    // The one payload that is closed and does not name its node.
                    Some(Self::InterruptRequested(interrupt)) => {
                        Self::InterruptRequested(InterruptRequested { node_id, ..interrupt })
                    }
                    Some(event) => event,
                    None => Self::Other(OtherEvent { kind: kind.to_owned(), node_id, payload }),
                }
            }

            /// Which stream modes show an event of this kind.
            pub fn tier_of(kind: &str) -> StreamTier {
                match kind {
                    $($kind => StreamTier::$tier,)*
                    "node.dispatched" | "artifact.created" => StreamTier::Update,
                    _ => StreamTier::Debug,
                }
            }
        }
    };
}

events! {
    RunStarted(RunStarted) = "run.started", Update;
    RunCompleted(RunCompleted) = "run.completed", Update;
    RunFailed(RunFailed) = "run.failed", Update;
    RunCancelled(RunCancelled) = "run.cancelled", Update;
    RunPaused(RunPaused) = "run.paused", Update;
    RunResumed(RunResumed) = "run.resumed", Update;
    NodeStarted(NodeStarted) = "node.started", Value;
    NodeCompleted(NodeCompleted) = "node.completed", Update;
    NodeFailed(NodeFailed) = "node.failed", Update;
    NodeRetried(NodeRetried) = "node.retried", Debug;
    NodeSkipped(NodeSkipped) = "node.skipped", Update;
    NodeCancelled(NodeCancelled) = "node.cancelled", Update;
    ChannelWritten(ChannelWritten) = "channel.written", Debug;
    VariableChanged(VariableChanged) = "variable.changed", Debug;
    OutputChunk(OutputChunk) = "output.chunk", Message;
    VersionPinned(VersionPinned) = "version.pinned", Debug;
    LoopbackLimit(LoopbackLimit) = "workflow.loopback-limit", Debug;
    CapBreached(CapBreached) = "cap.breached", Debug;
    InterruptRequested(InterruptRequested) = "interrupt.requested", Update;
    InterruptResolved(InterruptResolved) = "interrupt.resolved", Update;
    NodeSuspended(NodeSuspended) = "node.suspended", Update;
    NodeResumed(NodeResumed) = "node.resumed", Update;
    ApprovalRequested(ApprovalRequested) = "approval.requested", Update;
    ApprovalReceived(ApprovalReceived) = "approval.received", Update;
    ClarificationRequested(ClarificationRequested) = "clarification.requested", Update;
    ClarificationResolved(ClarificationResolved) = "clarification.resolved", Update;
    Vote(Vote) = "callboard.vote", Debug;
    Ask(Ask) = "callboard.ask", Debug;
    PauseRequested(PauseRequested) = "callboard.pause.requested", Debug;
    CancelRequested(CancelRequested) = "callboard.cancel.requested", Debug;
}

impl Event {
    /// The node that the event is about, lifted onto the envelope.
    pub fn node_id(&self) -> Option<&NodeId> {
        match self {
            Self::NodeStarted(payload) => Some(&payload.node_id),
            Self::NodeCompleted(payload) => Some(&payload.node_id),
            Self::NodeFailed(payload) => Some(&payload.node_id),
            Self::NodeRetried(payload) => Some(&payload.node_id),
            Self::NodeSkipped(payload) => Some(&payload.node_id),
            Self::NodeCancelled(payload) => Some(&payload.node_id),
            Self::OutputChunk(payload) => Some(&payload.node_id),
            Self::InterruptRequested(payload) => payload.node_id.as_ref(),
            Self::InterruptResolved(payload) => Some(&payload.node_id),
            Self::NodeSuspended(payload) => Some(&payload.node_id),
            Self::NodeResumed(payload) => Some(&payload.node_id),
            Self::ApprovalRequested(payload) => Some(&payload.node_id),
            Self::ApprovalReceived(payload) => Some(&payload.node_id),
            Self::ClarificationRequested(payload) => Some(&payload.node_id),
            Self::ClarificationResolved(payload) => Some(&payload.node_id),
            Self::Vote(payload) => Some(&payload.node_id),
            Self::Ask(payload) => Some(&payload.node_id),
            Self::LoopbackLimit(payload) => Some(&payload.node_id),
            Self::ChannelWritten(payload) => payload.node_id.as_ref(),
            Self::VariableChanged(payload) => payload.node_id.as_ref(),
            Self::VersionPinned(payload) => payload.node_id.as_ref(),
            Self::CapBreached(payload) => payload.node_id.as_ref(),
            Self::Other(other) => other.node_id.as_ref(),
            Self::RunStarted(_)
            | Self::RunCompleted(_)
            | Self::RunFailed(_)
            | Self::RunCancelled(_)
            | Self::RunPaused(_)
            | Self::RunResumed(_)
            | Self::PauseRequested(_)
            | Self::CancelRequested(_) => None,
        }
    }

    /// Whether an event of this kind ends its run's log.
    pub fn is_terminal(kind: &str) -> bool {
        matches!(kind, "run.completed" | "run.failed" | "run.cancelled")
    }
}

/// One event on the wire (`RunEventDoc`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    pub event_id: EventId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(rename = "type")]
    pub kind: String,
    pub payload: Value,
    pub timestamp: Timestamp,
    pub sequence: u64,
    pub schema_version: u32,
    pub engine_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<EventId>,
}

fn typed<T: DeserializeOwned>(payload: &Value) -> Option<T> {
    T::deserialize(payload).ok()
}

/// Payload structs have string keys and no custom serialisers, so writing them cannot fail.
fn to_value<T: Serialize>(payload: &T) -> Value {
    serde_json::to_value(payload).unwrap_or(Value::Null)
}

fn to_text<T: Serialize>(payload: &T) -> String {
    serde_json::to_string(payload).unwrap_or_else(|_| "null".to_owned())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_kind_is_kept_as_it_stands() {
        let event = Event::read("acme.canvas.published", Some("n1".into()), json!({ "x": [1] }));
        assert_eq!(event.kind(), "acme.canvas.published");
        assert_eq!(event.payload(), json!({ "x": [1] }));
        assert_eq!(event.node_id(), Some(&"n1".into()));
    }

    #[test]
    fn a_known_kind_with_a_foreign_payload_is_kept_too() {
        let event = Event::read("node.completed", None, json!("just text"));
        assert!(
            matches!(&event, Event::Other(other) if other.kind == "node.completed"),
            "{event:?}"
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        let event = Event::NodeStarted(NodeStarted {
            node_id: "a".into(),
            type_id: "core.noop".into(),
            attempt: 1,
            visit: 2,
        });
        assert_eq!(Event::read(event.kind(), None, event.payload()), event);
    }
}
