//! What deliveries tell.

use callboard_protocol::{DeliveryOutcome, Event, TriggerDeliveryAttempted};

pub(super) fn trigger_events() -> Vec<Event> {
    let outcomes =
        [DeliveryOutcome::Delivered, DeliveryOutcome::Retrying, DeliveryOutcome::DeadLettered];
    let attempted = outcomes.map(|outcome| {
        Event::TriggerDeliveryAttempted(TriggerDeliveryAttempted {
            subscription_id: "s".into(),
            dedup_key: "k".into(),
            attempt: 1,
            outcome,
            run_id: Some("r".into()),
        })
    });
    attempted.into()
}
