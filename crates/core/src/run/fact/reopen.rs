//! What was recorded of an agent in a visit that failed, when the visit goes on after all.

use super::RecordedFacts;

impl RecordedFacts {
    /// Another invocation begins where the last one failed: both are recorded, and the calls between them that were
    /// answered stay so.
    pub(in crate::run) fn reopen(&mut self) {
        for kind in ["agent.invocation.started", "agent.invocation.completed"] {
            if let Some(count) = self.counts.get_mut(kind) {
                *count = count.saturating_sub(1);
            }
        }
        self.outcomes.concluded = self.outcomes.concluded.saturating_sub(1);
    }
}
