//! What senders post: taken as what it is, believed only as far as it proves itself.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_core::is_too_deep;
use callboard_engine::{Incoming, Signed, Subscription, TriggerDelivery};
use callboard_protocol::{
    AttachmentRef, EmailContent, FormContent, Object, Timestamp, TriggerEvent, TriggerSource,
    WebhookContent, hex,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{arrival_id, problem};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, Shaped, parse};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

/// The headers that a run may see. Whatever could be a credential is not among them.
const SHOWN_HEADERS: [&str; 6] = [
    "content-type",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "x-github-event",
    "x-event-type",
];
const LONGEST_QUEUE_ID: usize = 256;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct QueueDelivery {
    id: String,
    #[serde(default)]
    payload: Value,
}

/// A message as a mail gateway posts it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PostedMail {
    message_id: Option<String>,
    from: String,
    #[serde(default)]
    to: Vec<String>,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    text: String,
    html: Option<String>,
    #[serde(default)]
    attachments: Vec<PostedFile>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PostedFile {
    filename: Option<String>,
    media_type: Option<String>,
    content_base64: Option<String>,
    /// Not followed: an address in a stranger's message leads wherever the stranger likes.
    url: Option<String>,
}

pub(in crate::routes) async fn ingest(
    State(host): State<Arc<Host>>,
    Named(id): Named<String>,
    headers: HeaderMap,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    let (signed, arrival, bridge) = (signed(&headers), arrival_id(), &host.app.triggers);
    let (subscription, verdict) = bridge.authenticate(&id, signed, &body).await.map_err(problem)?;
    let verified = match verdict {
        Ok(verified) => verified,
        Err(error) => {
            tracing::info!(subscription = id, reason = %error, "post refused");
            if host.posts.is_worth_noting(&subscription) {
                bridge.note_refused(&subscription, arrival).await?;
            }
            return Err(unproven());
        }
    };
    host.posts.believed(&subscription, verified)?;
    let incoming = read(&subscription, arrival, &headers, &body, verified, host.now())?;
    let delivered = bridge.deliver(subscription, incoming).await.map_err(problem)?;
    Ok(answer(&delivered).into_response())
}

pub fn unproven() -> Problem {
    Problem::new(Code::SignatureInvalid, "the signature does not fit, or is too old")
}

pub(in crate::routes) async fn deliver(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
    Shaped(body): Shaped<QueueDelivery>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let subscription = host.app.triggers.find(&caller.scope, &id).await.map_err(problem)?;
    if subscription.source != TriggerSource::Queue {
        return Err(Problem::invalid("only queues are delivered to; post to the ingest address"));
    }
    if subscription.is_work_queue() {
        return Err(Problem::invalid(
            "only items of work come over it; add one to the member's work",
        ));
    }
    if !(1..=LONGEST_QUEUE_ID).contains(&body.id.chars().count()) {
        return Err(Problem::invalid_at("id", "must have 1 to 256 characters"));
    }
    let event =
        TriggerEvent { queue: Some(body.payload), ..blank(&subscription, true, host.now()) };
    let incoming = Incoming { id: arrival_id(), event_id: Some(body.id), event };
    let delivered = host.app.triggers.deliver(subscription, incoming).await.map_err(problem)?;
    if let TriggerDelivery::Unfit(why) = &delivered {
        let body = json!({ "outcome": "dead-lettered", "message": why });
        return Ok(Answer::of(StatusCode::OK, &body));
    }
    Ok(answer(&delivered))
}

pub(crate) fn answer(delivered: &TriggerDelivery) -> Answer {
    let (status, body) = match delivered {
        TriggerDelivery::Started(run) => {
            (StatusCode::ACCEPTED, json!({ "outcome": "delivered", "runId": run }))
        }
        TriggerDelivery::Duplicate(run) => {
            (StatusCode::OK, json!({ "outcome": "duplicate", "runId": run }))
        }
        TriggerDelivery::Waiting => (StatusCode::ACCEPTED, json!({ "outcome": "retrying" })),
        TriggerDelivery::GivenUp | TriggerDelivery::Unfit(_) => {
            (StatusCode::OK, json!({ "outcome": "dead-lettered" }))
        }
    };
    Answer::of(status, &body)
}

/// The three headers of Standard Webhooks, if each is there once.
fn signed(headers: &HeaderMap) -> Option<Signed<'_>> {
    let one = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none());
        value.and_then(|value| value.to_str().ok())
    };
    Some(Signed {
        id: one("webhook-id")?,
        timestamp: one("webhook-timestamp")?,
        signature: one("webhook-signature")?,
    })
}

pub fn blank(subscription: &Subscription, verified: bool, at: Timestamp) -> TriggerEvent {
    TriggerEvent {
        source: subscription.source,
        subscription_id: subscription.id.clone(),
        delivery_id: String::new(),
        dedup_key: None,
        received_at: at,
        verified,
        content_trust: "untrusted".to_owned(),
        webhook: None,
        email: None,
        form: None,
        queue: None,
    }
}

/// Reads a post by what its subscription expects.
pub fn read(
    subscription: &Subscription,
    id: String,
    headers: &HeaderMap,
    body: &[u8],
    verified: bool,
    at: Timestamp,
) -> Result<Incoming, Problem> {
    let mut event = blank(subscription, verified, at);
    let sent_id = headers.get("webhook-id").and_then(|value| value.to_str().ok());
    let mut event_id = sent_id.filter(|id| Incoming::is_event_id(id)).map(str::to_owned);
    match subscription.source {
        TriggerSource::Form => event.form = Some(FormContent { fields: fields(headers, body)? }),
        TriggerSource::Email => {
            let (message_id, mail) = mail(body)?;
            // A blank name would make one of all mails that have none.
            event_id = message_id.filter(|id| !id.trim().is_empty()).or(event_id);
            event.email = Some(mail);
        }
        TriggerSource::Webhook => {
            let read = serde_json::from_slice(body).ok();
            let body = read
                .filter(|body| !is_too_deep(body))
                .unwrap_or_else(|| Value::String(String::from_utf8_lossy(body).into_owned()));
            event.webhook =
                Some(WebhookContent { method: "POST".to_owned(), headers: shown(headers), body });
        }
        TriggerSource::Queue
        | TriggerSource::Schedule
        | TriggerSource::Heartbeat
        | TriggerSource::Manual => {
            return Err(Problem::no_such("trigger subscription"));
        }
    }
    Ok(Incoming { id, event_id, event })
}

fn shown(headers: &HeaderMap) -> Object {
    let named = SHOWN_HEADERS.into_iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.to_owned(), value.into()))
    });
    named.collect()
}

/// A form as browsers send it, or a JSON object.
fn fields(headers: &HeaderMap, body: &[u8]) -> Result<Object, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        let pairs = form_urlencoded::parse(body.trim_ascii());
        return Ok(pairs.map(|(name, value)| (name.into_owned(), (*value).into())).collect());
    }
    parse(body)
}

/// Attachments that came along are named by their digest; those that are only pointed at are left where they are.
fn mail(body: &[u8]) -> Result<(Option<String>, EmailContent), Problem> {
    let posted: PostedMail = parse(body)?;
    let mut attachments = Vec::new();
    for (place, file) in posted.attachments.into_iter().enumerate() {
        if file.url.is_some() {
            tracing::info!("attachment dropped: this host follows no address in a message");
        }
        let Some(content) = file.content_base64 else { continue };
        let bytes = STANDARD.decode(content).map_err(|_| {
            Problem::invalid_at(&format!("attachments[{place}].contentBase64"), "must be base64")
        })?;
        let hex = hex(Sha256::digest(&bytes));
        attachments.push(AttachmentRef {
            handle: format!("sha256:{hex}"),
            filename: file.filename,
            media_type: file.media_type,
            bytes: bytes.len() as u64,
        });
    }
    let (from, to, subject) = (posted.from, posted.to, posted.subject);
    let mail =
        EmailContent { from, to, subject, text: posted.text, html: posted.html, attachments };
    Ok((posted.message_id, mail))
}
