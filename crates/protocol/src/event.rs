//! The events of a run's log: typed where this host emits or folds them, kept as a name and raw JSON otherwise.
//!
//! Stored as `type` and `payload`. An old reader keeps an event kind that it does not know as
//! [`Event::Other`] and skips it; a new reader defaults fields that an old payload lacks; no one
//! rewrites a stored event, so an old writer cannot lose what a new one said. A payload that does
//! not decode as a known kind is [`Event::Unreadable`]: nothing may be decided on a log that holds one.

mod agent;
mod budget;
mod child;
mod conversation;
mod dead_letter;
mod envelope;
mod evaluated;
mod interrupt;
mod limit;
mod memory;
mod node;
mod orchestration;
mod policy;
mod replay;
mod roster;
mod run;
mod trigger;
mod workspace;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use agent::*;
pub use budget::*;
pub use child::*;
pub use conversation::*;
pub use dead_letter::*;
pub use envelope::*;
pub use evaluated::*;
pub use interrupt::*;
pub use limit::*;
pub use memory::*;
pub use node::*;
pub use orchestration::*;
pub use policy::*;
pub use replay::*;
pub use roster::*;
pub use run::*;
pub use trigger::*;
pub use workspace::*;

use crate::{EventId, NodeId, ProviderUsage, RunId, Timestamp};

/// An event of a kind that this host neither emits nor folds.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherEvent {
    pub kind: String,
    pub node_id: Option<NodeId>,
    pub payload: Value,
}

/// An event of a kind that this host knows, with a payload that it cannot read.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadableEvent {
    pub kind: String,
    pub node_id: Option<NodeId>,
    pub payload: Value,
    /// What is wrong with the payload; repeats nothing of what it says.
    pub why: String,
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
            Unreadable(UnreadableEvent),
        }

        impl Event {
            /// The kinds that this host types, for tests that compare them with the protocol's schemas.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The event's name on the wire.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Other(other) => &other.kind,
                    Self::Unreadable(unreadable) => &unreadable.kind,
                }
            }

            /// The payload as JSON text, as it is stored.
            pub fn payload_text(&self) -> String {
                match self {
                    $(Self::$variant(payload) => to_text(payload),)*
                    Self::Other(other) => other.payload.to_string(),
                    Self::Unreadable(unreadable) => unreadable.payload.to_string(),
                }
            }

            /// The payload as a value.
            pub fn payload(&self) -> Value {
                match self {
                    $(Self::$variant(payload) => to_value(payload),)*
                    Self::Other(other) => other.payload.clone(),
                    Self::Unreadable(unreadable) => unreadable.payload.clone(),
                }
            }

            /// Reads a stored event. Total: what cannot be typed is kept as it stands, with the reason where its
            /// kind is known.
            pub fn read(kind: &str, node_id: Option<NodeId>, payload: Value) -> Self {
                let typed = match kind {
                    $($kind => $payload::deserialize(&payload).map(Self::$variant),)*
                    _ => return Self::Other(OtherEvent { kind: kind.to_owned(), node_id, payload }),
                };
                match typed {
                    Ok(event) => event.placed(node_id),
                    Err(error) => Self::Unreadable(UnreadableEvent {
                        kind: kind.to_owned(),
                        node_id,
                        payload,
                        why: outline(&error),
                    }),
                }
            }

            /// Which stream modes show an event of this kind.
            pub fn tier_of(kind: &str) -> StreamTier {
                match kind {
                    $($kind => StreamTier::$tier,)*
                    _ => StreamTier::Debug,
                }
            }
        }
    };
}

events! {
    RunStarted(RunStarted) = "run.started", Update;
    RosterRunInitiated(RosterRunInitiated) = "roster.run.initiated", Update;
    TriggerDeliveryAttempted(TriggerDeliveryAttempted) = "trigger.delivery.attempted", Update;
    BudgetReserved(BudgetReserved) = "budget.reserved", Update;
    BudgetConsumed(BudgetConsumed) = "budget.consumed", Debug;
    BudgetThresholdCrossed(BudgetThresholdCrossed) = "budget.threshold.crossed", Update;
    BudgetExhausted(BudgetExhausted) = "budget.exhausted", Update;
    RunCompleted(RunCompleted) = "run.completed", Update;
    RunDeadLettered(RunDeadLettered) = "run.dead_lettered", Debug;
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
    AgentInvocationStarted(AgentInvocationStarted) = "agent.invocation.started", Debug;
    AgentInvocationCompleted(AgentInvocationCompleted) = "agent.invocation.completed", Debug;
    AgentPromptResolved(AgentPromptResolved) = "agent.promptResolved", Debug;
    PromptComposed(PromptComposed) = "prompt.composed", Debug;
    ProviderUsage(ProviderUsage) = "provider.usage", Debug;
    AgentReasoningDelta(AgentReasoningDelta) = "agent.reasoning.delta", Debug;
    AgentToolCalled(AgentToolCalled) = "agent.toolCalled", Debug;
    AgentToolReturned(AgentToolReturned) = "agent.toolReturned", Debug;
    EgressDecided(EgressDecided) = "egress.decided", Debug;
    AuthorizationDecided(AuthorizationDecided) = "authorization.decided", Debug;
    EnvelopeTruncated(EnvelopeTruncated) = "envelope.truncated", Debug;
    EnvelopeRetryAttempted(EnvelopeRetryAttempted) = "envelope.retry.attempted", Debug;
    EnvelopeRetryExhausted(EnvelopeRetryExhausted) = "envelope.retry.exhausted", Debug;
    EnvelopeRefusal(EnvelopeRefusal) = "envelope.refusal", Debug;
    EnvelopeRecoveryApplied(EnvelopeRecoveryApplied) = "envelope.recovery.applied", Debug;
    EnvelopeNlToFormatEngaged(EnvelopeNlToFormatEngaged) = "envelope.nlToFormat.engaged", Debug;
    ModelCapabilitySubstituted(ModelCapabilitySubstituted) = "model.capability.substituted", Debug;
    ModelCapabilityInsufficient(ModelCapabilityInsufficient) = "model.capability.insufficient", Debug;
    LogAppended(LogAppended) = "log.appended", Debug;
    AgentReasoned(AgentReasoned) = "agent.reasoned", Debug;
    AgentDecided(AgentDecided) = "agent.decided", Debug;
    AgentHandoff(AgentHandoff) = "agent.handoff", Debug;
    RunOrchestratorDecided(RunOrchestratorDecided) = "runOrchestrator.decided", Update;
    WorkflowChained(WorkflowChained) = "core.workflowChain.event", Debug;
    ConfidenceEscalated(ConfidenceEscalated) = "core.workflowChain.confidence-escalated", Update;
    ConversationOpened(ConversationOpened) = "conversation.opened", Update;
    ConversationExchanged(ConversationExchanged) = "conversation.exchanged", Update;
    ConversationClosed(ConversationClosed) = "conversation.closed", Update;
    ArtifactCreated(ArtifactCreated) = "artifact.created", Update;
    NodeDispatched(NodeDispatched) = "node.dispatched", Update;
    MemoryWritten(MemoryWritten) = "memory.written", Debug;
    MemoryCompacted(MemoryCompacted) = "memory.compacted", Debug;
    MemoryConsolidated(MemoryConsolidated) = "agent.memory.consolidated", Debug;
    WorkspaceUpdated(WorkspaceUpdated) = "workspace.updated", Update;
    ReplayDiverged(ReplayDiverged) = "replay.diverged", Debug;
    ReplayDivergedAtRefusal(ReplayDivergedAtRefusal) = "replay.divergedAtRefusal", Debug;
    ChildChanged(ChildChanged) = "callboard.child.changed", Debug;
    ModelFallback(ModelFallback) = "callboard.model.fallback", Debug;
    Vote(Vote) = "callboard.vote", Debug;
    Ask(Ask) = "callboard.ask", Debug;
    AgentSession(AgentSession) = "callboard.agent.session", Debug;
    PauseRequested(PauseRequested) = "callboard.pause.requested", Debug;
    CancelRequested(CancelRequested) = "callboard.cancel.requested", Debug;
}

impl Event {
    /// The node that the event is about, lifted onto the envelope.
    #[expect(clippy::too_many_lines, reason = "one line for each event")]
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
            Self::AgentInvocationStarted(payload) => payload.node_id.as_ref(),
            Self::AgentInvocationCompleted(payload) => payload.node_id.as_ref(),
            Self::AgentPromptResolved(payload) => Some(&payload.node_id),
            Self::PromptComposed(payload) => Some(&payload.node_id),
            Self::ProviderUsage(payload) => payload.node_id.as_ref(),
            Self::AgentReasoningDelta(payload) => payload.node_id.as_ref(),
            Self::AgentToolCalled(payload) => payload.node_id.as_ref(),
            Self::AgentToolReturned(payload) => payload.node_id.as_ref(),
            Self::EgressDecided(payload) => payload.node_id.as_ref(),
            Self::AuthorizationDecided(payload) => payload.node_id.as_ref(),
            Self::EnvelopeTruncated(payload) => Some(&payload.node_id),
            Self::EnvelopeRetryAttempted(payload) => Some(&payload.node_id),
            Self::EnvelopeRetryExhausted(payload) => Some(&payload.node_id),
            Self::EnvelopeRefusal(payload) => Some(&payload.node_id),
            Self::EnvelopeRecoveryApplied(payload) => Some(&payload.node_id),
            Self::EnvelopeNlToFormatEngaged(payload) => Some(&payload.node_id),
            Self::ModelCapabilitySubstituted(payload) => Some(&payload.node_id),
            Self::ModelCapabilityInsufficient(payload) => Some(&payload.node_id),
            Self::ModelFallback(payload) => Some(&payload.node_id),
            Self::ReplayDivergedAtRefusal(payload) => payload.node_id.as_ref(),
            Self::LogAppended(payload) => payload.node_id.as_ref(),
            Self::AgentReasoned(payload) => payload.node_id.as_ref(),
            Self::AgentDecided(payload) => payload.node_id.as_ref(),
            Self::AgentHandoff(payload) => payload.node_id.as_ref(),
            Self::RunOrchestratorDecided(payload) => payload.node_id.as_ref(),
            Self::WorkflowChained(payload) => payload.node_id.as_ref(),
            Self::ConfidenceEscalated(payload) => payload.node_id.as_ref(),
            Self::ConversationOpened(payload) => payload.node_id.as_ref(),
            Self::ConversationExchanged(payload) => payload.node_id.as_ref(),
            Self::ConversationClosed(payload) => payload.node_id.as_ref(),
            Self::ArtifactCreated(payload) => Some(&payload.node_id),
            Self::NodeDispatched(payload) => payload.node_id.as_ref(),
            Self::ChildChanged(payload) => Some(&payload.node_id),
            Self::Vote(payload) => Some(&payload.node_id),
            Self::Ask(payload) => Some(&payload.node_id),
            Self::AgentSession(payload) => Some(&payload.node_id),
            Self::LoopbackLimit(payload) => Some(&payload.node_id),
            Self::MemoryWritten(payload) => payload.node_id.as_ref(),
            Self::MemoryCompacted(payload) => payload.node_id.as_ref(),
            Self::MemoryConsolidated(payload) => payload.node_id.as_ref(),
            Self::WorkspaceUpdated(payload) => payload.node_id.as_ref(),
            Self::ChannelWritten(payload) => payload.node_id.as_ref(),
            Self::VariableChanged(payload) => payload.node_id.as_ref(),
            Self::VersionPinned(payload) => payload.node_id.as_ref(),
            Self::CapBreached(payload) => payload.node_id.as_ref(),
            Self::RunDeadLettered(payload) => payload.node_id.as_ref(),
            Self::Other(other) => other.node_id.as_ref(),
            Self::Unreadable(unreadable) => unreadable.node_id.as_ref(),
            Self::RunStarted(_)
            | Self::RosterRunInitiated(_)
            | Self::TriggerDeliveryAttempted(_)
            | Self::BudgetReserved(_)
            | Self::BudgetConsumed(_)
            | Self::BudgetThresholdCrossed(_)
            | Self::BudgetExhausted(_)
            | Self::RunCompleted(_)
            | Self::RunFailed(_)
            | Self::RunCancelled(_)
            | Self::RunPaused(_)
            | Self::RunResumed(_)
            | Self::PauseRequested(_)
            | Self::CancelRequested(_)
            | Self::ReplayDiverged(_) => None,
        }
    }

    /// Puts the node of those events whose payload does not name it where `node_id` finds it.
    fn placed(mut self, node: Option<NodeId>) -> Self {
        match &mut self {
            Self::InterruptRequested(payload) => payload.node_id = node,
            Self::NodeDispatched(payload) => payload.node_id = node,
            Self::AgentInvocationStarted(payload) => payload.node_id = node,
            Self::AgentInvocationCompleted(payload) => payload.node_id = node,
            Self::AgentReasoningDelta(payload) => payload.node_id = node,
            Self::AgentToolCalled(payload) => payload.node_id = node,
            Self::AgentToolReturned(payload) => payload.node_id = node,
            Self::EgressDecided(payload) => payload.node_id = node,
            Self::AuthorizationDecided(payload) => payload.node_id = node,
            Self::AgentReasoned(payload) => payload.node_id = node,
            Self::AgentDecided(payload) => payload.node_id = node,
            Self::AgentHandoff(payload) => payload.node_id = node,
            Self::RunOrchestratorDecided(payload) => payload.node_id = node,
            Self::WorkflowChained(payload) => payload.node_id = node,
            Self::ConfidenceEscalated(payload) => payload.node_id = node,
            Self::ConversationOpened(payload) => payload.node_id = node,
            Self::ConversationExchanged(payload) => payload.node_id = node,
            Self::ConversationClosed(payload) => payload.node_id = node,
            Self::MemoryCompacted(payload) => payload.node_id = node,
            Self::MemoryConsolidated(payload) => payload.node_id = node,
            Self::WorkspaceUpdated(payload) => payload.node_id = node,
            _ => {}
        }
        self
    }

    /// Whether an event of this kind carries what a model or a tool said.
    pub fn is_untrusted(kind: &str) -> bool {
        matches!(
            kind,
            "agent.reasoned"
                | "agent.decided"
                | "agent.reasoning.delta"
                | "agent.toolReturned"
                | "output.chunk"
        )
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

/// The kind of mistake in a payload. serde quotes the value, which must not reach a log.
fn outline(error: &serde_json::Error) -> String {
    const QUOTING: [&str; 5] =
        ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    let message = error.to_string();
    if message.starts_with("missing field") {
        return message;
    }
    let kind = QUOTING.iter().find(|kind| message.starts_with(**kind));
    (*kind.unwrap_or(&"a value that does not fit")).to_owned()
}

/// Payload structs have string keys and no custom serialisers, so writing them cannot fail.
fn to_value<T: Serialize>(payload: &T) -> Value {
    serde_json::to_value(payload).unwrap_or(Value::Null)
}

fn to_text<T: Serialize>(payload: &T) -> String {
    serde_json::to_string(payload).unwrap_or_else(|_| "null".to_owned())
}

/// A value that was said, null included: what was not said is not written.
fn said<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
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
    fn a_known_kind_with_a_foreign_payload_is_kept_and_unreadable() {
        for (payload, why) in [
            (json!("4711, a secret"), "invalid type"),
            (json!({ "nodeId": "n", "outputs": "4711, a secret" }), "invalid type"),
            (json!({ "outputs": {} }), "missing field `nodeId`"),
        ] {
            let event = Event::read("node.completed", Some("n".into()), payload.clone());
            let Event::Unreadable(unreadable) = &event else { panic!("{event:?}") };
            assert_eq!(unreadable.why, why);
            assert_eq!((event.kind(), event.payload()), ("node.completed", payload));
            assert_eq!(event.node_id(), Some(&"n".into()));
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let event = Event::NodeStarted(NodeStarted {
            node_id: "a".into(),
            type_id: "core.noop".into(),
            attempt: 1,
            visit: 2,
            evaluated: None,
        });
        assert_eq!(Event::read(event.kind(), None, event.payload()), event);
    }
}
