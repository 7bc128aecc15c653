//! What keeps a run from going on as its graph says.

use callboard_protocol::{CancelRequested, CapBreached, Event, Failure, PauseRequested};

use super::Entry;
use super::unreadable::Unreadable;

#[derive(Debug, Clone, Default)]
pub(super) struct Stops {
    /// A pause that waits for what is under way.
    pub(super) drain: Option<PauseRequested>,
    pub(super) cancel: Option<CancelRequested>,
    pub(super) breach: Option<CapBreached>,
    /// A fold that cannot go on: the run fails with this.
    pub(super) fault: Option<Failure>,
    /// The first event that this build cannot read: nothing is decided any more.
    pub(super) unreadable: Option<Unreadable>,
}

impl Stops {
    pub(super) fn fold(&mut self, entry: &Entry) {
        match &entry.event {
            Event::PauseRequested(payload) => self.drain = Some(payload.clone()),
            Event::CancelRequested(payload) => self.cancel = Some(payload.clone()),
            Event::CapBreached(payload) if payload.kind.ends_the_run() => {
                self.breach = Some(payload.clone());
            }
            // What it said is lost to this build, so nothing that follows from the log is known any more.
            Event::Unreadable(event) => {
                self.unreadable.get_or_insert_with(|| Unreadable::at(entry.sequence, event));
            }
            _ => {}
        }
    }

    /// Whether the run is to end: it was cancelled, broke a limit or cannot be folded.
    pub(super) fn ends_the_run(&self) -> bool {
        self.cancel.is_some() || self.breach.is_some() || self.fault.is_some()
    }
}
