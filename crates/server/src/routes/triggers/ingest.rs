//! What senders post: taken as what it is, believed only as far as it proves itself.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_engine::{Attachment, Incoming, Mail, Post, Preset, Subscription, TriggerDelivery};
use callboard_protocol::{
    EmailContent, FormContent, Object, Timestamp, TriggerEvent, TriggerSource, hex,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::presets::{self, Posted};
use super::{arrival_id, problem};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, Shaped, parse};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

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
    uri: Uri,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    let (post, arrival) = (posted(&headers, &uri, &body), arrival_id());
    let bridge = &host.app.triggers;
    let (subscription, verdict) = bridge.authenticate(&id, &post).await.map_err(problem)?;
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
    let preset = subscription.body.terms.preset;
    let incoming = match read(&subscription, arrival, &headers, &body, verified, host.now())? {
        Came::Trial(answer) => return Ok(Answer::of(StatusCode::OK, &answer).into_response()),
        Came::Incoming(incoming) => *incoming,
    };
    let event = incoming.event.event.clone();
    let delivered = bridge.deliver(subscription, incoming).await.map_err(problem)?;
    if preset == Preset::Slack {
        return Ok(answer_slack(event.as_deref(), &delivered).into_response());
    }
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
    let incoming = Incoming { id: arrival_id(), event_id: Some(body.id), event, files: Vec::new() };
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
        TriggerDelivery::Filtered => (StatusCode::OK, json!({ "outcome": "filtered" })),
        TriggerDelivery::Waiting => (StatusCode::ACCEPTED, json!({ "outcome": "retrying" })),
        TriggerDelivery::GivenUp | TriggerDelivery::Unfit(_) => {
            (StatusCode::OK, json!({ "outcome": "dead-lettered" }))
        }
    };
    Answer::of(status, &body)
}

/// Slack takes nothing but 200 for an answer, and shows whoever typed a command what the answer says.
fn answer_slack(event: Option<&str>, delivered: &TriggerDelivery) -> Answer {
    let mut answer = answer(delivered);
    if event == Some("slash_command") {
        let text = match delivered {
            TriggerDelivery::Started(_) | TriggerDelivery::Duplicate(_) => "Accepted.",
            TriggerDelivery::Waiting => "Accepted; it starts later.",
            TriggerDelivery::Filtered => "Not for this command.",
            TriggerDelivery::GivenUp | TriggerDelivery::Unfit(_) => "This could not be started.",
        };
        return Answer::of(StatusCode::OK, &json!({ "response_type": "ephemeral", "text": text }));
    }
    answer.status = StatusCode::OK;
    answer
}

/// What came in: something for a run, or a trial of the address.
#[derive(Debug)]
pub enum Came {
    Incoming(Box<Incoming>),
    Trial(Value),
}

/// What was posted, for those who judge it.
fn posted<'a>(headers: &HeaderMap, uri: &Uri, body: &'a [u8]) -> Post<'a> {
    let shown =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    Post { headers: shown.collect(), query: query.collect(), body }
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
        event: None,
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
) -> Result<Came, Problem> {
    let mut event = blank(subscription, verified, at);
    let sent_id = headers.get("webhook-id").and_then(|value| value.to_str().ok());
    let mut event_id = sent_id.filter(|id| Incoming::is_event_id(id)).map(str::to_owned);
    let mut files = Vec::new();
    match subscription.source {
        TriggerSource::Form => event.form = Some(FormContent { fields: fields(headers, body)? }),
        TriggerSource::Email => {
            let mail = if is_raw_mail(headers) { raw_mail(body)? } else { posted_mail(body)? };
            // A blank name would make one of all mails that have none.
            event_id = mail.id.filter(|id| !id.trim().is_empty()).or(event_id);
            event.email = Some(mail.content);
            files = mail.files;
        }
        TriggerSource::Webhook => {
            match presets::read(subscription.body.terms.preset, headers, body) {
                Posted::Trial(answer) => return Ok(Came::Trial(answer)),
                Posted::Event(posted) => {
                    event_id = posted.id.or(event_id);
                    event.event = posted.event;
                    event.webhook = Some(posted.content);
                }
            }
        }
        TriggerSource::Queue
        | TriggerSource::Schedule
        | TriggerSource::Heartbeat
        | TriggerSource::Manual => {
            return Err(Problem::no_such("trigger subscription"));
        }
    }
    Ok(Came::Incoming(Box::new(Incoming { id, event_id, event, files })))
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

fn is_raw_mail(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("message/rfc822"))
}

/// A message as it was sent. One without a name is known by all of it.
fn raw_mail(body: &[u8]) -> Result<Mail, Problem> {
    let mut mail = Mail::read(body).map_err(|error| Problem::invalid(error.to_string()))?;
    mail.id = mail.id.or_else(|| Some(format!("sha256:{}", hex(Sha256::digest(body)))));
    Ok(mail)
}

/// Attachments that came along are kept; those that are only pointed at are left where they are.
fn posted_mail(body: &[u8]) -> Result<Mail, Problem> {
    let posted: PostedMail = parse(body)?;
    let mut files = Vec::new();
    for (place, file) in posted.attachments.into_iter().enumerate() {
        if file.url.is_some() {
            tracing::info!("attachment dropped: this host follows no address in a message");
        }
        let Some(content) = file.content_base64 else { continue };
        let bytes = STANDARD.decode(content).map_err(|_| {
            Problem::invalid_at(&format!("attachments[{place}].contentBase64"), "must be base64")
        })?;
        files.push(Attachment::new(file.filename, file.media_type, &bytes));
    }
    let content = EmailContent {
        from: posted.from,
        to: posted.to,
        subject: posted.subject,
        text: posted.text,
        html: posted.html,
        attachments: files.iter().map(Attachment::reference).collect(),
        ..EmailContent::default()
    };
    Ok(Mail { id: posted.message_id, content, files })
}
