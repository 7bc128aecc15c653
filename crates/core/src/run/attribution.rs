//! Records for whom a run is, what it may use and what delivered it: once, before anything but the start.

use callboard_protocol::{DeliveryOutcome, Event, TriggerDeliveryAttempted};

use super::{Phase, Run};
use crate::birth::Opening;

impl Run {
    /// What a log begins with and this one lacks. Whatever asks something of a run that has not begun says this
    /// first, in the same append.
    pub(super) fn opening(&self) -> Vec<Event> {
        Opening::ALL.into_iter().filter_map(|one| self.next_opening(one)).collect()
    }

    fn next_opening(&self, one: Opening) -> Option<Event> {
        match one {
            Opening::Start => (self.lifecycle.phase == Phase::Pending).then(|| self.started()),
            Opening::Attribution => self.next_attribution(),
            Opening::Budget => self.next_reserved().filter(|_| !self.is_reserved()),
            Opening::Delivery => self.next_delivery(),
        }
    }

    /// Where the log records the delivery: where the source of a replay did, else with the opening that comes next.
    pub(super) fn delivery_place(&self) -> Option<u64> {
        let is_delivery = |event: &Event| matches!(event, Event::TriggerDeliveryAttempted(_));
        let mut source = self.script.entries().iter();
        if let Some(original) = source.find(|entry| is_delivery(&entry.event)) {
            return Some(original.sequence);
        }
        let place = self.opening().iter().position(is_delivery)?;
        Some(self.version + place as u64)
    }

    pub(super) fn next_attribution(&self) -> Option<Event> {
        let owed = self.birth.attribution.clone().filter(|_| !self.announced.attribution);
        owed.map(Event::RosterRunInitiated)
    }

    pub(super) fn next_delivery(&self) -> Option<Event> {
        let owed = self.birth.delivery.as_ref().filter(|_| !self.announced.delivery)?;
        Some(Event::TriggerDeliveryAttempted(TriggerDeliveryAttempted {
            subscription_id: owed.subscription_id.clone(),
            dedup_key: owed.dedup_key.clone(),
            attempt: owed.attempt,
            outcome: DeliveryOutcome::Delivered,
            run_id: Some(self.told_id().clone()),
        }))
    }
}
