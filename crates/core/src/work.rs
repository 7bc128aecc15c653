//! How much work a run may be: counted by what is looked at, never by the clock, so that every replay comes to the same.
//!
//! A unit is about a byte that is read, copied or compared; a value counts as [`EACH`] beside its text. On the machine
//! that this was measured on a unit takes three to five nanoseconds.

use callboard_protocol::Failure;

/// What a value is worth beside its text, and a rule of a schema that looks at one.
pub(crate) const EACH: u64 = 16;
/// For one event, for one expression, for one check against a schema: half a second. Sorting 400,000 numbers fits, and
/// so does reading the heaviest value of a run six times over.
pub(crate) const STEP: u64 = 1 << 27;
/// After so much one decide emits nothing more and owes `Continue`, as after its longest batch. Between two decides
/// others have their turn, and a host that is asked to stop does.
pub(crate) const DECISION: u64 = 1 << 27;
/// For all that folding the log of a run evaluates, since every new holder folds it from its beginning: 16 of the
/// heaviest steps, or ten thousand that read 200 kilobytes each.
const RUN: u64 = 1 << 31;
/// The most that one decide can come to: it stops after `DECISION`, and the last event was asked for and is folded.
pub const MOST_WORK: u64 = DECISION + 2 * STEP;

/// The code of a failure for too much of it.
pub(crate) const WORK_LIMIT_EXCEEDED: &str = "work_limit_exceeded";

/// What the work on one event has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    left: u64,
    spent: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self { left: STEP, spent: 0 }
    }
}

impl Work {
    /// For an event of a run whose log took `before` to fold up to it.
    pub(crate) fn after(before: u64) -> Self {
        Self { left: STEP.min(RUN.saturating_sub(before)), spent: 0 }
    }

    pub(crate) fn of(units: u64) -> Self {
        Self { left: units, spent: 0 }
    }

    /// Counts before the work is done. What is left once it was too little is nothing.
    pub(crate) fn spend(&mut self, units: u64) -> Result<(), TooMuchWork> {
        let is_enough = units <= self.left;
        let taken = units.min(self.left);
        self.left -= taken;
        self.spent += taken;
        if is_enough {
            return Ok(());
        }
        self.left = 0;
        Err(TooMuchWork)
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }
}

/// The limit of a step, or of a whole run, is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "takes more work than one step ({STEP} units) or one run ({RUN}) may take: read smaller values, look at each fewer \
     times, or leave it to a tool"
)]
pub(crate) struct TooMuchWork;

impl From<TooMuchWork> for Failure {
    fn from(error: TooMuchWork) -> Self {
        Self::new(WORK_LIMIT_EXCEEDED, format!("deciding this {error}"))
    }
}
