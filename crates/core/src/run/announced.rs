//! Events that a log holds at most once, and holds already.

use callboard_protocol::Event;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Announced {
    /// For whom the run is.
    pub(super) attribution: bool,
    /// The delivery that started the run.
    pub(super) delivery: bool,
    /// That the run is given up.
    pub(super) dead_letter: bool,
    /// The summary that a completed run leaves in memory.
    pub(super) summary: bool,
}

impl Announced {
    pub(super) fn fold(&mut self, event: &Event) {
        self.attribution |= matches!(event, Event::RosterRunInitiated(_));
        self.delivery |= matches!(event, Event::TriggerDeliveryAttempted(_));
        self.dead_letter |= matches!(event, Event::RunDeadLettered(_));
    }
}
