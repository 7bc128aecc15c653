//! Runs that fail because a node has used up its retries: recorded once, before the end.

use callboard_protocol::{Event, Failure, RunDeadLettered};

use super::Run;
use crate::graph::NodeIndex;

impl Run {
    /// The event of a run that a node's failure ends; none where the node was not tried again.
    pub(super) fn next_dead_letter(&self, index: NodeIndex, failure: &Failure) -> Option<Event> {
        let (state, most) = (&self.nodes[index], self.plan.node(index).max_retries);
        let is_exhausted = most > 0 && state.failures >= most;
        (is_exhausted && !self.announced.dead_letter).then(|| {
            Event::RunDeadLettered(RunDeadLettered {
                run_id: self.told_id().clone(),
                node_id: Some(self.node_id(index)),
                reason: failure.code.clone(),
                attempts: state.attempt + 1,
            })
        })
    }
}
