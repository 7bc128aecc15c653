//! Deliveries to a webhook that are on their way, and dead letters that are sent again or dropped.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{Letters, Resent};
use callboard_protocol::{EventId, RunId, Timestamp, WebhookId};
use serde::Serialize;
use serde_json::json;

use super::no_such_webhook;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    run_id: RunId,
    event_id: EventId,
    event_type: String,
    sequence: u64,
    /// Attempts that were made.
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
}

pub(in crate::routes) async fn pending(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WebhookId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["limit"])?;
    let size = PageSize::read(&query)?;
    let found = host.app.deliveries.pending(&caller.scope, &id, size.get()).await?;
    let deliveries = found.ok_or_else(no_such_webhook)?.into_iter().map(|waiting| Pending {
        event_id: EventId::of(&waiting.planned.run, waiting.planned.sequence),
        run_id: waiting.planned.run,
        event_type: waiting.planned.kind,
        sequence: waiting.planned.sequence,
        attempts: waiting.planned.attempts,
        due_at: waiting.due_at,
    });
    Answer::json(StatusCode::OK, &json!({ "deliveries": deliveries.collect::<Vec<_>>() }))
}

/// `del_7`, as the list of dead letters names them.
fn one(delivery: &str) -> Result<Letters, Problem> {
    let id = delivery.strip_prefix("del_").and_then(|id| id.parse().ok());
    id.map(Letters::One).ok_or_else(|| Problem::no_such("dead letter"))
}

async fn resend(
    host: &Host,
    caller: &Caller,
    id: &WebhookId,
    which: Letters,
) -> Result<Answer, Problem> {
    let resent = host.app.deliveries.resend(&caller.scope, id, which).await?;
    match resent.ok_or_else(no_such_webhook)? {
        Resent::Failed => Err(Problem::new(
            Code::SubscriptionNotActive,
            "the webhook has failed for good and gets nothing more; register it anew",
        )),
        Resent::Letters(0) if which != Letters::All => Err(Problem::no_such("dead letter")),
        Resent::Letters(count) => {
            caller.audit(id, "dead letters sent again");
            Ok(Answer::of(StatusCode::ACCEPTED, &json!({ "deliveries": count })))
        }
    }
}

pub(in crate::routes) async fn replay_all(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WebhookId>,
) -> Result<Answer, Problem> {
    resend(&host, &caller, &id, Letters::All).await
}

pub(in crate::routes) async fn replay(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((id, delivery)): Path<(WebhookId, String)>,
) -> Result<Answer, Problem> {
    resend(&host, &caller, &id, one(&delivery)?).await
}

pub(in crate::routes) async fn drop_one(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path((id, delivery)): Path<(WebhookId, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let dropped = host.app.deliveries.drop_letters(&caller.scope, &id, one(&delivery)?).await?;
    match dropped.ok_or_else(no_such_webhook)? {
        0 => Err(Problem::no_such("dead letter")),
        _ => {
            caller.audit(&id, "dead letter dropped");
            Ok(StatusCode::NO_CONTENT.into_response())
        }
    }
}
