//! Tells for whom a run is, with what it may use and what delivered it: once, before anything but the start.

use callboard_protocol::{DeliveryOutcome, Event, TriggerDeliveryAttempted};

use super::{Phase, Run};

impl Run {
    /// What a log begins with and this one lacks. Whatever asks something of a run that has not begun says this
    /// first, in the same append.
    pub(super) fn opening(&self) -> Vec<Event> {
        let started = (self.phase == Phase::Pending).then(|| self.started());
        let reserved = self.next_reserved().filter(|_| !self.is_reserved());
        let told = self.next_attribution().into_iter().chain(reserved).chain(self.next_delivery());
        started.into_iter().chain(told).collect()
    }

    pub(super) fn next_attribution(&self) -> Option<Event> {
        let owed = self.birth.attribution.clone().filter(|_| !self.is_attributed);
        owed.map(Event::RosterRunInitiated)
    }

    pub(super) fn next_delivery(&self) -> Option<Event> {
        let owed = self.birth.delivery.as_ref().filter(|_| !self.is_delivered)?;
        Some(Event::TriggerDeliveryAttempted(TriggerDeliveryAttempted {
            subscription_id: owed.subscription_id.clone(),
            dedup_key: owed.dedup_key.clone(),
            attempt: owed.attempt,
            outcome: DeliveryOutcome::Delivered,
            run_id: Some(self.told_id().clone()),
        }))
    }
}
