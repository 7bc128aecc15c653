//! Which outward calls of a visit the log holds the outcome of: those are in its past, made on any host.

use callboard_protocol::Event;

use super::fact::AgentFact;

/// How many outcomes of outward calls a visit has recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// Calls of models and tasks of coding agents that were answered.
    pub used: u32,
    /// Models that were left for another.
    pub left: u32,
    /// Tools that have returned.
    pub returned: u32,
    /// Invocations that have ended.
    pub concluded: u32,
}

impl OutcomeCounts {
    /// Counts a fact, if it is an outcome.
    pub fn note(&mut self, fact: &AgentFact) {
        self.used += u32::from(matches!(fact, AgentFact::Used(_)));
        self.left += u32::from(matches!(fact, AgentFact::FellBack(_)));
        self.returned += u32::from(matches!(fact, AgentFact::ToolReturned(_)));
        self.concluded += u32::from(matches!(fact, AgentFact::Concluded { .. }));
    }

    pub(super) fn fold(&mut self, event: &Event) {
        self.used += u32::from(matches!(event, Event::ProviderUsage(_)));
        self.left += u32::from(matches!(event, Event::ModelFallback(_)));
        self.returned += u32::from(matches!(event, Event::AgentToolReturned(_)));
        self.concluded += u32::from(matches!(event, Event::AgentInvocationCompleted(_)));
    }
}
