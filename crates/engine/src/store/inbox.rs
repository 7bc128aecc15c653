//! Open questions as people see them, whatever runs ask them.

use callboard_core::InterruptView;
use callboard_protocol::{InterruptKind, RosterId, RunId, Timestamp, WorkflowId};

/// Which questions an inbox shows. Empty fields filter nothing.
#[derive(Debug, Clone, Default)]
pub struct InboxFilter {
    pub kind: Option<InterruptKind>,
    pub workflow: Option<WorkflowId>,
    pub run: Option<RunId>,
    /// The standing member that the runs are attributed to.
    pub member: Option<RosterId>,
    /// Only questions that stand after this place in the list.
    pub after: Option<InboxPlace>,
    pub limit: usize,
}

/// Where a question stands in an inbox. It names no row, since that one may be answered before the next page is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InboxPlace {
    pub requested_at: Timestamp,
    pub interrupt_id: String,
}

/// One open question and the run that asks it.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxItem {
    pub run: RunId,
    pub workflow: WorkflowId,
    pub interrupt: InterruptView,
}

impl InboxItem {
    pub fn place(&self) -> InboxPlace {
        InboxPlace {
            requested_at: self.interrupt.requested_at,
            interrupt_id: self.interrupt.id.clone(),
        }
    }
}
