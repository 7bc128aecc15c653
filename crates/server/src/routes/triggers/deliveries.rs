//! What came in over a subscription, with attempts and latency; dead letters with their content, played again or dropped.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use callboard_core::redact;
use callboard_engine::{InboundDelivery, InboundState, MOST_DELIVERIES};
use callboard_protocol::{RunId, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::problem;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

/// Dead letters that are played again by one request.
const MOST_REPLAYED: usize = 100;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deliveries {
    deliveries: Vec<Line>,
    /// How many the newest were looked for among.
    looked_at_most: usize,
    /// How many the filter has left out since the subscription was made.
    filtered: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    delivery_id: String,
    state: &'static str,
    attempts: u32,
    received_at: Timestamp,
    /// From its arrival until it became a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Letter {
    delivery: Line,
    /// What came in, without what looks like a credential.
    event: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    run_ids: Vec<RunId>,
    /// Those that could not become a run now, and why.
    left: Vec<Left>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Left {
    delivery_id: String,
    reason: String,
}

impl Line {
    /// Something that the filter left out.
    fn filtered(delivery_id: String, received_at: Timestamp) -> Self {
        Self {
            delivery_id,
            state: "filtered",
            attempts: 0,
            received_at,
            latency_ms: None,
            run_id: None,
            next_attempt_at: None,
            reason: None,
        }
    }
}

impl From<&InboundDelivery> for Line {
    fn from(delivery: &InboundDelivery) -> Self {
        let mut line = Self {
            delivery_id: delivery.id.clone(),
            state: "waiting",
            attempts: delivery.attempts,
            received_at: delivery.received_at,
            latency_ms: None,
            run_id: None,
            next_attempt_at: None,
            reason: delivery.error.clone(),
        };
        match &delivery.state {
            InboundState::Waiting { due_at } => line.next_attempt_at = Some(*due_at),
            InboundState::Delivered { run, at } => {
                line.state = "delivered";
                line.latency_ms = Some(at.since(delivery.received_at).as_millis());
                line.run_id = Some(run.clone());
            }
            InboundState::Dead { reason, .. } => {
                line.state = "dead-lettered";
                line.reason = line.reason.or_else(|| Some(reason.as_str().to_owned()));
            }
        }
        line
    }
}

pub(in crate::routes) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["limit"])?;
    let size = PageSize::read(&query)?;
    let found = host.app.triggers.deliveries(&caller.scope, &id, size.get()).await;
    let mut deliveries: Vec<Line> = found.map_err(problem)?.iter().map(Line::from).collect();
    let left_out = host.app.triggers.filtered(&caller.scope, &id).await?;
    deliveries.extend(left_out.last.into_iter().map(|(id, at)| Line::filtered(id, at)));
    deliveries.sort_by_key(|line| std::cmp::Reverse(line.received_at));
    deliveries.truncate(size.get());
    let (looked_at_most, filtered) = (MOST_DELIVERIES, left_out.count);
    Answer::json(StatusCode::OK, &Deliveries { deliveries, looked_at_most, filtered })
}

pub(in crate::routes) async fn letter(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((subscription, delivery)): Path<(String, String)>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.triggers.dead_letter(&caller.scope, &subscription, &delivery).await;
    let found = found.map_err(problem)?;
    let text = found.event.as_deref().unwrap_or("null");
    let mut event: Value = serde_json::from_str(text).unwrap_or_default();
    redact(&mut event);
    Answer::json(StatusCode::OK, &Letter { delivery: Line::from(&found), event })
}

pub(in crate::routes) async fn replay_all(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Answer, Problem> {
    let ingest = &host.app.triggers;
    let letters = ingest.dead_letters(&caller.scope, &id, None, MOST_REPLAYED).await;
    let mut replayed = Replayed { run_ids: Vec::new(), left: Vec::new() };
    // The oldest first: that is the order in which they came.
    for letter in letters.map_err(problem)?.into_iter().rev().filter(|it| it.event.is_some()) {
        match ingest.replay(&caller.scope, &id, &letter.id).await {
            Ok(run) => replayed.run_ids.push(run),
            Err(error) => {
                let (delivery_id, reason) = (letter.id, error.to_string());
                replayed.left.push(Left { delivery_id, reason });
            }
        }
    }
    caller.audit(&id, "dead letters played again");
    Answer::json(StatusCode::OK, &replayed)
}

pub(in crate::routes) async fn drop_one(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((subscription, delivery)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let dropped = host.app.triggers.drop_letter(&caller.scope, &subscription, &delivery).await;
    dropped.map_err(problem)?;
    caller.audit(&subscription, "dead letter dropped");
    Ok(axum::response::IntoResponse::into_response(StatusCode::NO_CONTENT))
}
