//! Tells for whom a run is: once, before anything but the start.

use callboard_protocol::Event;

use super::{Phase, Run};

impl Run {
    /// What a log begins with and this one lacks. Whatever asks something of a run that has not begun says this
    /// first, in the same append.
    pub(super) fn opening(&self) -> Vec<Event> {
        let started = (self.phase == Phase::Pending).then(|| self.started());
        started.into_iter().chain(self.next_attribution()).collect()
    }

    pub(super) fn next_attribution(&self) -> Option<Event> {
        let owed = self.birth.attribution.clone().filter(|_| !self.is_attributed);
        owed.map(Event::RosterRunInitiated)
    }
}
