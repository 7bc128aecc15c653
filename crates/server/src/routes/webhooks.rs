//! Webhooks over HTTP: registered with a secret that is shown once, listed, removed, and their dead letters.

mod letters;
mod second;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{
    Care, DeadLetter, Made, Registration, RegistrationError, Secret, UnknownPattern, Webhook,
};
use callboard_protocol::{Dialect, EventId, RunId, Timestamp, WebhookId, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, parse};
use crate::idempotency::Kept;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::v2::edge::Speaks;
use crate::v2::event_names;

/// 256 bits, written as 64 hexadecimal digits.
const SECRET_BYTES: usize = 32;

/// More than the protocol has names for, and few enough to compare each event with.
const MOST_EVENTS: usize = 200;
const MOST_TAGS: usize = 100;
const LONGEST_SECRET: usize = 256;

pub(super) use letters::{drop_one, pending, replay, replay_all};
pub(super) use second::dead_letters as second_dead_letters;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RegisterWebhook {
    url: String,
    events: Vec<String>,
    tenant_id: Option<String>,
    tags: Option<Vec<String>>,
    durable: Option<bool>,
    /// The second major lets its caller bring one.
    #[serde(skip)]
    secret: Option<Secret>,
}

/// The same as the second major closes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegisterSecond {
    url: String,
    events: Vec<String>,
    secret: Option<String>,
    tags: Option<Vec<String>>,
    signature_algorithms: Option<Vec<String>>,
}

impl RegisterSecond {
    /// Names become those of the log, and every webhook is durable.
    fn read(self) -> Result<RegisterWebhook, Problem> {
        let unknown = |name: &str| {
            Problem::invalid_at("events", &format!("no event of this major is called {name:?}"))
        };
        let first = |name: &String| {
            event_names::first_pattern(name).map(str::to_owned).ok_or_else(|| unknown(name))
        };
        let events = self.events.iter().map(first).collect::<Result<_, _>>()?;
        let algorithms = self.signature_algorithms.unwrap_or_default();
        if algorithms.iter().any(|algorithm| algorithm != "v1") {
            return Err(Problem::invalid_at("signatureAlgorithms", "this host signs with v1"));
        }
        let fits = |text: &String| (1..=LONGEST_SECRET).contains(&text.len());
        if self.secret.as_ref().is_some_and(|secret| !fits(secret)) {
            return Err(Problem::invalid_at("secret", "must have 1 to 256 bytes"));
        }
        Ok(RegisterWebhook {
            url: self.url,
            events,
            tenant_id: None,
            tags: self.tags,
            durable: Some(true),
            secret: self.secret.map(Secret::new),
        })
    }
}

#[derive(Serialize)]
struct WebhookList {
    webhooks: Vec<WebhookLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookLine {
    webhook_id: WebhookId,
    url: String,
    events: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    durable: bool,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rests_until: Option<Timestamp>,
    secret_fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    created_at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetterList {
    dead_letters: Vec<DeadLetterLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetterLine {
    delivery_id: String,
    run_id: RunId,
    event_id: EventId,
    event_type: String,
    sequence: u64,
    attempts: u32,
    reason: String,
    dead_lettered_at: Timestamp,
}

/// The webhook lives where the key lives.
pub(super) async fn register(
    State(host): State<Arc<Host>>,
    caller: Caller,
    speaks: Speaks,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    let body: RegisterWebhook = match speaks.0 {
        Dialect::V1 => parse(&body)?,
        Dialect::V2 => parse::<RegisterSecond>(&body)?.read()?,
    };
    check_tenant(&caller, body.tenant_id.as_deref())?;
    if !(1..=MOST_EVENTS).contains(&body.events.len()) {
        return Err(Problem::invalid_at("events", "must name 1 to 200 events"));
    }
    let tags = body.tags.unwrap_or_default();
    if tags.len() > MOST_TAGS {
        return Err(Problem::invalid_at("tags", "must be 100 at most"));
    }
    let is_theirs = body.secret.is_some();
    let secret = body.secret.map_or_else(make_secret, Ok)?;
    let registration = Registration {
        dialect: speaks.0,
        id: format!("wh_{}", uuid::Uuid::now_v7().simple()).into(),
        url: body.url,
        events: body.events,
        tags,
        care: if body.durable == Some(true) { Care::Durable } else { Care::BestEffort },
        secret: secret.clone(),
    };
    // The protocol's text and the clients that are published for it have different names for the same things.
    let shown = json!({
        "webhookId": registration.id, "subscriptionId": registration.id, "url": registration.url,
        "eventTypes": registration.events, "createdAt": host.now(),
    });
    host.app.keys.note(&caller, Made::Webhook(registration.id.clone())).await?;
    host.app.deliveries.register(caller.scope, registration).await.map_err(problem)?;
    Ok(match speaks.0 {
        Dialect::V1 => shown_once(shown, &secret),
        Dialect::V2 if is_theirs => Answer::of(StatusCode::CREATED, &shown).into_response(),
        Dialect::V2 => {
            let kept = Kept::As(shown.to_string());
            let mut shown = shown;
            shown["secret"] = secret.reveal().into();
            kept.mark(Answer::of(StatusCode::CREATED, &shown).into_response())
        }
    })
}

fn make_secret() -> Result<Secret, Problem> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(|error| Problem::internal(&error))?;
    Ok(Secret::new(hex(random)))
}

/// A repetition of the request learns which webhook it made, but the secret is not shown again.
fn shown_once(mut body: Value, secret: &Secret) -> Response {
    body["secretFingerprint"] = secret.fingerprint().into();
    let kept = Kept::As(body.to_string());
    body["secret"] = secret.reveal().into();
    kept.mark(Answer::of(StatusCode::CREATED, &body).into_response())
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WebhookId>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_tenant(&caller, Parameters::open(&uri)?.get("tenantId"))?;
    if host.app.deliveries.remove(&caller.scope, &id).await? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(no_such_webhook())
    }
}

/// The tenant is the key's. Naming another one reveals nothing of what is there.
fn check_tenant(caller: &Caller, named: Option<&str>) -> Result<(), Problem> {
    match named {
        Some(tenant) if tenant != caller.scope.tenant.as_str() => Err(Problem::new(
            Code::TenantMembershipRequired,
            "tenantId: the key belongs to another tenant",
        )),
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let webhooks = host.app.deliveries.list(&caller.scope).await?;
    let webhooks = webhooks.into_iter().map(|webhook| line(webhook, host.now())).collect();
    Answer::json(StatusCode::OK, &WebhookList { webhooks })
}

fn line(webhook: Webhook, now: Timestamp) -> WebhookLine {
    let circuit = &webhook.circuit;
    let is_resting = circuit.is_open(now) && !circuit.has_failed();
    let state = match () {
        () if circuit.has_failed() => "failed",
        () if is_resting => "resting",
        () => "active",
    };
    WebhookLine {
        webhook_id: webhook.id,
        url: webhook.url,
        events: webhook.events.patterns().to_vec(),
        tags: webhook.tags,
        durable: webhook.care == Care::Durable,
        state,
        rests_until: circuit.rest_until().filter(|_| is_resting),
        secret_fingerprint: webhook.fingerprint,
        workspace: webhook.scope.workspace.map(|workspace| workspace.to_string()),
        created_at: webhook.created_at,
    }
}

pub(super) async fn dead_letters(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WebhookId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["limit"])?;
    let size = PageSize::read(&query)?;
    let letters = host.app.deliveries.dead_letters(&caller.scope, &id, size.get()).await?;
    let letters = letters.ok_or_else(no_such_webhook)?;
    let dead_letters = letters.into_iter().map(dead_letter).collect();
    Answer::json(StatusCode::OK, &DeadLetterList { dead_letters })
}

fn dead_letter(letter: DeadLetter) -> DeadLetterLine {
    DeadLetterLine {
        delivery_id: format!("del_{}", letter.id),
        event_id: EventId::of(&letter.run, letter.sequence),
        run_id: letter.run,
        event_type: letter.kind,
        sequence: letter.sequence,
        attempts: letter.attempts,
        reason: letter.reason,
        dead_lettered_at: letter.dead_at,
    }
}

/// The protocol's own code for it; a hidden webhook gets the same.
fn no_such_webhook() -> Problem {
    Problem::new(Code::SubscriptionNotFound, "no such webhook")
}

fn problem(error: RegistrationError) -> Problem {
    match error {
        RegistrationError::UnknownEvent(UnknownPattern(pattern)) => {
            Problem::invalid_at("events", &format!("no event is called {pattern:?}"))
        }
        RegistrationError::Refused(why) => {
            Problem::new(Code::WebhookUrlRejected, format!("url: {why}")).with("path", "url")
        }
        RegistrationError::Store(error) => error.into(),
    }
}
