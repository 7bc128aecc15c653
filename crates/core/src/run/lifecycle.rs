//! Where a run is between its birth and its end, and how long it has been at it.

use callboard_protocol::{Failure, RunStatus, Timestamp};

use super::millis;
use crate::birth::Birth;

#[derive(Debug, Clone)]
pub(super) struct Lifecycle {
    pub(super) phase: Phase,
    pub(super) started_at: Option<Timestamp>,
    /// Time spent paused does not count towards the run's duration.
    pub(super) paused_ms: u64,
    /// The time of the newest event.
    pub(super) updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Pending,
    Running,
    Paused { since: Timestamp },
    Ended { status: RunStatus, at: Timestamp, error: Option<Failure> },
}

impl Lifecycle {
    pub(super) fn of(birth: &Birth) -> Self {
        Self {
            phase: Phase::Pending,
            started_at: None,
            paused_ms: 0,
            // A fork's time begins with the history that it takes over.
            updated_at: birth.fork.as_ref().map_or(birth.created_at, |_| Timestamp::default()),
        }
    }

    pub(super) fn start(&mut self, at: Timestamp) {
        self.phase = Phase::Running;
        self.started_at = Some(at);
    }

    pub(super) fn pause(&mut self, at: Timestamp) {
        self.phase = Phase::Paused { since: at };
    }

    pub(super) fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::Paused { .. })
    }

    /// A resume ends a pause, and so does a cancel: the nodes that it stopped are still to be ended.
    pub(super) fn end_pause(&mut self, at: Timestamp) {
        if let Phase::Paused { since } = self.phase {
            self.paused_ms += millis(at.since(since));
            self.phase = Phase::Running;
        }
    }

    pub(super) fn end(&mut self, status: RunStatus, at: Timestamp, error: Option<Failure>) {
        self.phase = Phase::Ended { status, at, error };
    }

    pub(super) fn duration_ms(&self, at: Timestamp) -> u64 {
        // A pause that is still on has not been added to the paused time yet.
        let at = if let Phase::Paused { since } = self.phase { since } else { at };
        let elapsed = self.started_at.map_or(0, |started| millis(at.since(started)));
        elapsed.saturating_sub(self.paused_ms)
    }
}
