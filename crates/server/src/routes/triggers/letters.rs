//! What could not become a run: read page by page, without a word of its content, and played again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_engine::{DeadReason, InboundDelivery, InboundState, Subscription, TriggerIngest};
use callboard_protocol::{
    DeliveryOutcome, StateReason, SubscriptionState, Timestamp, TriggerDeliveryAttempted,
    TriggerSubscriptionStateChanged,
};
use serde::Serialize;
use serde_json::json;

use super::problem;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetters {
    deliveries: Vec<DeadLetter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// The same: clients know this page's by either name.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetter {
    subscription_id: String,
    /// The delivery's own name: only it leads to its last attempt.
    attempt_event_id: String,
    attempt: TriggerDeliveryAttempted,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_change: Option<TriggerSubscriptionStateChanged>,
    reason: &'static str,
    dead_lettered_at: Timestamp,
    expires_at: Timestamp,
}

pub(in crate::routes) async fn dead_letters(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let size = PageSize::read(&query)?;
    let bridge = &host.app.triggers;
    let subscription = bridge.find(&caller.scope, &id).await.map_err(problem)?;
    let place = |cursor: &str| place_of(&id, cursor);
    let after = query.read("cursor", "a cursor that this page gave", place)?;
    let found = bridge.dead_letters(&caller.scope, &id, after, size.and_one()).await;
    let mut found = found.map_err(problem)?;
    let has_more = size.cut(&mut found).is_some();
    let deliveries: Vec<DeadLetter> =
        found.into_iter().filter_map(|delivery| letter(&subscription, delivery)).collect();
    let last = deliveries.last().filter(|_| has_more);
    let next_cursor =
        last.map(|last| cursor_of(&id, last.dead_lettered_at, &last.attempt_event_id));
    Ok(Answer::of(
        StatusCode::OK,
        &DeadLetters { deliveries, cursor: next_cursor.clone(), next_cursor },
    ))
}

fn letter(subscription: &Subscription, delivery: InboundDelivery) -> Option<DeadLetter> {
    let InboundState::Dead { reason, at } = delivery.state else { return None };
    let kept = Duration::from_secs(u64::from(TriggerIngest::RETENTION_DAYS) * 86_400);
    // A letter that the workflow could not take left its subscription as it was.
    let ended = subscription.state == SubscriptionState::DeadLettered;
    let state_change = (ended && reason == DeadReason::RetriesExhausted).then(|| {
        TriggerSubscriptionStateChanged {
            subscription_id: subscription.id.clone(),
            source: subscription.source,
            from_state: SubscriptionState::Active,
            to_state: SubscriptionState::DeadLettered,
            reason: Some(StateReason::RetryExhausted),
        }
    });
    Some(DeadLetter {
        subscription_id: subscription.id.clone(),
        attempt_event_id: delivery.id,
        attempt: TriggerDeliveryAttempted {
            subscription_id: subscription.id.clone(),
            dedup_key: delivery.dedup_key,
            attempt: delivery.attempts,
            outcome: DeliveryOutcome::DeadLettered,
            run_id: None,
        },
        state_change,
        reason: reason.as_str(),
        dead_lettered_at: at,
        expires_at: at.plus(kept),
    })
}

/// Names its subscription, so that one of another's is recognised.
fn cursor_of(subscription: &str, at: Timestamp, id: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{subscription} {} {id}", at.as_millis()))
}

fn place_of(subscription: &str, cursor: &str) -> Option<(Timestamp, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let mut parts = text.split(' ');
    parts.next().filter(|named| *named == subscription)?;
    let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
    Some((at, parts.next()?.to_owned()))
}

pub(in crate::routes) async fn replay(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((subscription, delivery)): Path<(String, String)>,
) -> Result<Answer, Problem> {
    let run = host.app.triggers.replay(&caller.scope, &subscription, &delivery).await;
    let run = run.map_err(problem)?;
    caller.audit(&subscription, "dead letter played again");
    Ok(Answer::of(StatusCode::ACCEPTED, &json!({ "runId": run })))
}
