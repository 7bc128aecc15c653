//! What events answer: the protocol's `causationId`.

use callboard_protocol::{Event, NodeId};

use super::Run;
use crate::graph::NodeIndex;

/// What an event answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Another event of the same log, by its sequence.
    Event(u64),
    /// Something outside the log that has an id of its own.
    Outside(String),
}

impl Run {
    /// What the event that comes next answers.
    pub(super) fn cause(&self, event: &Event) -> Option<Cause> {
        let answers = match event {
            // It stands right behind the suspension that it belongs to.
            Event::ConversationOpened(_) => self.version.checked_sub(1),
            Event::AgentToolReturned(payload) => {
                self.tool_called_at(payload.node_id.as_ref(), &payload.call_id)
            }
            Event::WorkflowChained(payload) => self.chain_cause(payload),
            Event::ConfidenceEscalated(payload) => self.ruling_at(payload.node_id.as_ref()),
            Event::InterruptRequested(payload) => self.ruling_at(payload.node_id.as_ref()),
            Event::NodeDispatched(payload) => self.ruling_at(payload.node_id.as_ref()),
            Event::ClarificationRequested(payload) => self.ruling_at(Some(&payload.node_id)),
            Event::RunCompleted(_) => self.ruling_of(self.orchestra.ended_by?),
            // The delivery is recorded in the same append, a few events further on.
            Event::RunStarted(_) if self.birth.delivery.is_some() => self.delivery_place(),
            _ => None,
        };
        answers.map(Cause::Event)
    }

    /// The decision that a node has made or carries out.
    fn ruling_at(&self, node: Option<&NodeId>) -> Option<u64> {
        self.ruling_of(self.place(node)?)
    }

    fn ruling_of(&self, index: NodeIndex) -> Option<u64> {
        let state = &self.nodes[index];
        let carried_out =
            state.dispatching.as_ref().and_then(|under_way| under_way.ruling.as_ref());
        state.ruling.as_ref().or(carried_out).map(|ruling| ruling.at)
    }

    fn place(&self, node: Option<&NodeId>) -> Option<NodeIndex> {
        node.and_then(|node| self.plan.index(node))
    }
}
