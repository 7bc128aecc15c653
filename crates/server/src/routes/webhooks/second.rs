//! `GET /webhooks/{webhookId}/dead-letters` of the second major: what was given up, page by page, without its content.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_engine::{DeadLetter, DeliveryLoop};
use callboard_protocol::{EventId, Timestamp, WebhookId};
use serde_json::{Value, json};

use super::no_such_webhook;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::v2::{event_names, id};

pub(in crate::routes) async fn dead_letters(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(webhook): Named<WebhookId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let size = PageSize::read_clamped(&query)?;
    let place = |cursor: &str| place_of(&webhook, cursor);
    let after = query.read("cursor", "a cursor that this page gave", place)?;
    let found =
        host.app.deliveries.letters_after(&caller.scope, &webhook, after, size.and_one()).await?;
    let mut found = found.ok_or_else(no_such_webhook)?;
    let next = size.cut(&mut found).map(|last| cursor_of(&webhook, last));
    let tenant = caller.scope.tenant.as_str();
    let deliveries: Vec<Value> =
        found.iter().map(|letter| told(tenant, &webhook, letter)).collect();
    let mut page = json!({ "deliveries": deliveries });
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    Answer::json(StatusCode::OK, &page)
}

fn told(tenant: &str, webhook: &WebhookId, letter: &DeadLetter) -> Value {
    let is_unprojectable = letter.reason == "payload_unprojectable";
    let mut told = json!({
        "deliveryId": id::bound(tenant, &format!("del_{:020}", letter.id)),
        "webhookId": id::bound(tenant, webhook.as_str()),
        "runId": id::bound(tenant, letter.run.as_str()),
        "eventId": EventId::of(&letter.run, letter.sequence),
        "eventType": event_names::second(&letter.kind).unwrap_or(&letter.kind),
        "attempts": letter.attempts,
        "deadLetteredAt": letter.dead_at,
        "expiresAt": letter.dead_at.plus(DeliveryLoop::LETTERS_KEPT),
        "reason": if is_unprojectable { "payload_unprojectable" } else { "retries_exhausted" },
    });
    let status = letter.reason.strip_prefix("answered ").and_then(|text| text.parse::<u16>().ok());
    if let Some(status) = status {
        told["lastStatus"] = status.into();
    }
    told
}

/// Names its webhook, so that one of another's is recognised.
fn cursor_of(webhook: &WebhookId, last: &DeadLetter) -> String {
    URL_SAFE_NO_PAD.encode(format!("{webhook} {} {}", last.dead_at.as_millis(), last.id))
}

fn place_of(webhook: &WebhookId, cursor: &str) -> Option<(Timestamp, u64)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let mut parts = text.split(' ');
    parts.next().filter(|named| *named == webhook.as_str())?;
    let at = Timestamp::from_millis(parts.next()?.parse().ok()?);
    Some((at, parts.next()?.parse().ok()?))
}
