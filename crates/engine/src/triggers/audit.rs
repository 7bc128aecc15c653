//! The runs that state what became of subscriptions: events that belong to the run of no workflow.

use callboard_protocol::{
    DeliveryOutcome, StateReason, SubscriptionState, TriggerDeliveryAttempted,
    TriggerSubscriptionStateChanged,
};

use super::delivery::InboundDelivery;
use super::subscription::Subscription;
use crate::audit::AuditRun;

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-trigger";

/// States that a subscription has moved.
pub(super) fn moved(
    subscription: &Subscription,
    to: SubscriptionState,
    reason: Option<StateReason>,
) -> AuditRun {
    state_changed(audit(subscription), 0, subscription, to, reason)
}

/// States every attempt at a delivery that was given up, and that its subscription is.
pub(super) fn given_up(subscription: &Subscription, delivery: &InboundDelivery) -> AuditRun {
    let (to, reason) = (SubscriptionState::DeadLettered, Some(StateReason::RetryExhausted));
    let attempts = undeliverable(subscription, delivery);
    state_changed(attempts, delivery.attempts, subscription, to, reason)
}

/// States every attempt at a delivery that its subscription outlives.
pub(super) fn undeliverable(subscription: &Subscription, delivery: &InboundDelivery) -> AuditRun {
    (1..=delivery.attempts).fold(audit(subscription), |audit, attempt| {
        let is_last = attempt == delivery.attempts;
        let outcome =
            if is_last { DeliveryOutcome::DeadLettered } else { DeliveryOutcome::Retrying };
        let payload = TriggerDeliveryAttempted {
            subscription_id: subscription.id.clone(),
            dedup_key: delivery.dedup_key.clone(),
            attempt,
            outcome,
            run_id: None,
        };
        audit.stating(&step(attempt - 1), "trigger.delivery.attempted", &payload)
    })
}

fn state_changed(
    audit: AuditRun,
    place: u32,
    subscription: &Subscription,
    to: SubscriptionState,
    reason: Option<StateReason>,
) -> AuditRun {
    let payload = TriggerSubscriptionStateChanged {
        subscription_id: subscription.id.clone(),
        source: subscription.source,
        from_state: subscription.state,
        to_state: to,
        reason,
    };
    audit.stating(&step(place), "trigger.subscription.state.changed", &payload)
}

fn step(place: u32) -> String {
    format!("step{place}")
}

fn audit(subscription: &Subscription) -> AuditRun {
    let audit = AuditRun::new(WORKFLOW, subscription.owner(), subscription.place.mode);
    audit.tagged(&subscription.id)
}
