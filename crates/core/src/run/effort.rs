//! The work that a run is: what folding its log has been, and what deciding the next events is.

use callboard_protocol::Evaluated;

use crate::work::Work;

#[derive(Debug, Clone, Default)]
pub(super) struct Effort {
    /// What the log before the newest event took to fold.
    folded: u64,
    /// What is left for the newest event.
    pub(super) step: Work,
    /// What the last decision was.
    pub(super) decided: u64,
    /// What the expressions of the newest event came to, where the event itself does not say.
    pub(super) evaluated: Option<Evaluated>,
}

impl Effort {
    /// Another event is folded.
    pub(super) fn begin(&mut self) {
        self.folded = self.folded.saturating_add(self.step.spent());
        self.step = Work::after(self.folded);
        self.evaluated = None;
    }
}
