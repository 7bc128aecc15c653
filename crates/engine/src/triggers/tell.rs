//! Runs that tell what became of subscriptions: the events that belong to no run of a workflow.

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_core::STATEMENT;
use callboard_protocol::{
    DeliveryOutcome, StateReason, SubscriptionState, TriggerDeliveryAttempted,
    TriggerSubscriptionStateChanged,
};

use super::delivery::InboundDelivery;
use super::subscription::Subscription;
use crate::deployments::Telling;

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-trigger";

/// Tells that a subscription has moved.
pub(super) fn moved(
    subscription: &Subscription,
    to: SubscriptionState,
    reason: Option<StateReason>,
) -> Telling {
    telling(subscription, &[change(subscription, to, reason)])
}

/// Tells of every attempt at an delivery that was given up, and that its subscription is.
pub(super) fn given_up(subscription: &Subscription, delivery: &InboundDelivery) -> Telling {
    let (to, reason) = (SubscriptionState::DeadLettered, Some(StateReason::RetryExhausted));
    let attempts = attempts(subscription, delivery);
    let statements: Vec<Value> = attempts.chain([change(subscription, to, reason)]).collect();
    telling(subscription, &statements)
}

/// The same for one that its subscription outlives.
pub(super) fn unfit(subscription: &Subscription, delivery: &InboundDelivery) -> Telling {
    telling(subscription, &attempts(subscription, delivery).collect::<Vec<_>>())
}

fn attempts(
    subscription: &Subscription,
    delivery: &InboundDelivery,
) -> impl Iterator<Item = Value> {
    (1..=delivery.attempts).map(|attempt| {
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
        json!({ "type": "trigger.delivery.attempted", "payload": payload })
    })
}

fn change(
    subscription: &Subscription,
    to: SubscriptionState,
    reason: Option<StateReason>,
) -> Value {
    let payload = TriggerSubscriptionStateChanged {
        subscription_id: subscription.id.clone(),
        source: subscription.source,
        from_state: subscription.state,
        to_state: to,
        reason,
    };
    json!({ "type": "trigger.subscription.state.changed", "payload": payload })
}

fn telling(subscription: &Subscription, statements: &[Value]) -> Telling {
    let name = |place: usize| format!("step{place}");
    let nodes: Vec<Value> = statements
        .iter()
        .enumerate()
        .map(|(place, config)| {
            json!({ "id": name(place), "typeId": STATEMENT, "name": "Tell",
                "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
        })
        .collect();
    let edges: Vec<Value> = (1..nodes.len())
        .map(|place| {
            json!({ "id": format!("e{place}"), "sourceNodeId": name(place - 1),
                "targetNodeId": name(place) })
        })
        .collect();
    let definition = json!({
        "id": WORKFLOW, "name": "Trigger", "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    Telling {
        workflow: WORKFLOW.into(),
        definition: Arc::from(definition.to_string()),
        owner: subscription.owner(),
        mode: subscription.place.mode,
        tags: vec![subscription.id.clone()],
    }
}
