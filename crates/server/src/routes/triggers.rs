//! Trigger subscriptions over HTTP: registered, listed, paused, given new secrets, removed, and what they gave up.

mod attachments;
mod deliveries;
mod ingest;
mod letters;
mod paths;
mod presets;
mod terms;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_engine::{
    NewSubscription, Preset, SigningSecret, Subscription, TokenPlace, TriggerError, Verification,
};
use callboard_protocol::{
    Object, RetryPolicy, RosterId, SubscriptionState, TriggerSource, WorkflowId, hex,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, Shaped, parse};
use crate::idempotency::Kept;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

pub(super) use attachments::{attachment, attachments};
pub(super) use deliveries::{drop_one as drop_letter, letter, list as deliveries, replay_all};
pub use ingest::{Came, blank, read as read_post, unproven};
pub(super) use ingest::{deliver, ingest};
pub(super) use letters::{dead_letters, replay};
pub(super) use terms::presets;

/// 192 bits: for forms and mail the id in the address is all that keeps strangers out.
const ID_BYTES: usize = 24;
const SECRET_BYTES: usize = 32;
/// More would keep a sender's mistake alive for days.
const MOST_ATTEMPTS: u32 = 100;
const MOST_MAPPINGS: usize = 100;

/// What the protocol lets callers register.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Register {
    source: TriggerSource,
    workflow_id: WorkflowId,
    dedup_enabled: Option<bool>,
    retry_policy: Option<RetryPolicy>,
    verification: Option<Mode>,
    input_mapping: Option<Object>,
}

/// The same with what is ours: queues, and members.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Create {
    pub source: TriggerSource,
    pub workflow_id: WorkflowId,
    pub roster_id: Option<RosterId>,
    pub dedup_enabled: Option<bool>,
    pub retry_policy: Option<RetryPolicy>,
    pub verification: Option<Mode>,
    pub input_mapping: Option<Object>,
    pub preset: Option<Preset>,
    /// What the sender signs with, where the sender has made it.
    pub secret: Option<SigningSecret>,
    pub token: Option<TokenPlace>,
    pub filter: Option<String>,
}

impl Create {
    /// With everything as it is usual.
    pub fn of(source: TriggerSource, workflow_id: WorkflowId) -> Self {
        Self {
            source,
            workflow_id,
            roster_id: None,
            dedup_enabled: None,
            retry_policy: None,
            verification: None,
            input_mapping: None,
            preset: None,
            secret: None,
            token: None,
            filter: None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    pub mode: Option<Verification>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    state: SubscriptionState,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    /// What the sender signs with from now on, where the sender makes it.
    secret: Option<SigningSecret>,
}

pub(super) async fn register(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Register>,
) -> Result<Response, Problem> {
    if body.source == TriggerSource::Queue {
        return Err(Problem::invalid_at("source", "must be webhook, email or form"));
    }
    let body = Create {
        dedup_enabled: body.dedup_enabled,
        retry_policy: body.retry_policy,
        verification: body.verification,
        input_mapping: body.input_mapping,
        ..Create::of(body.source, body.workflow_id)
    };
    make(&host, &caller, body).await
}

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Shaped(body): Shaped<Create>,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    make(&host, &caller, body).await
}

async fn make(host: &Host, caller: &Caller, body: Create) -> Result<Response, Problem> {
    if matches!(
        body.source,
        TriggerSource::Schedule | TriggerSource::Heartbeat | TriggerSource::Manual
    ) {
        let message = "must be webhook, queue, email or form; schedules have their own path";
        return Err(Problem::invalid_at("source", message));
    }
    if let Some(mapping) = &body.input_mapping {
        let from = (body.source, body.preset.unwrap_or_default());
        paths::check_mapping(host, caller, &body.workflow_id, from, mapping).await?;
    }
    let is_given = body.secret.is_some();
    let (subscription, secret) = subscribe(host, caller, body).await?;
    caller.audit(&subscription.id, "trigger subscription made");
    // Who gave the secret has it.
    shown_once(StatusCode::CREATED, &subscription, secret.as_ref().filter(|_| !is_given))
}

/// Makes a subscription; a webhook's has a secret.
pub async fn subscribe(
    host: &Host,
    caller: &Caller,
    body: Create,
) -> Result<(Subscription, Option<SigningSecret>), Problem> {
    let terms::Judged { terms, verification, secret } = terms::judge(&body)?;
    let retry = body.retry_policy.unwrap_or_default();
    if !(1..=MOST_ATTEMPTS).contains(&retry.max_attempts) {
        return Err(Problem::invalid_at("retryPolicy.maxAttempts", "must be from 1 to 100"));
    }
    let mapping = body.input_mapping.unwrap_or_default();
    if mapping.len() > MOST_MAPPINGS {
        return Err(Problem::invalid_at("inputMapping", "must be 100 at most"));
    }
    let new = NewSubscription {
        id: make_id()?,
        owner: caller.owner(),
        mode: caller.scope.mode,
        source: body.source,
        workflow: body.workflow_id,
        roster_id: body.roster_id,
        dedup: body.dedup_enabled.unwrap_or(true),
        retry,
        verification,
        mapping,
        terms,
        secret: secret.clone(),
    };
    let subscription = host.app.triggers.register(new).await.map_err(problem)?;
    Ok((subscription, secret))
}

/// The address to post to, with the secret that signs posts. A repetition of the request does not show the secret.
fn shown_once(
    status: StatusCode,
    subscription: &Subscription,
    secret: Option<&SigningSecret>,
) -> Result<Response, Problem> {
    let mut binding = binding_of(subscription);
    if let Some(fingerprint) = &subscription.body.fingerprint {
        binding["secretFingerprint"] = json!(fingerprint);
    }
    let body = |binding: &Value| {
        Answer::json(
            status,
            &json!({ "subscription": subscription.document(), "binding": binding }),
        )
    };
    let kept = body(&binding)?;
    let Some(secret) = secret else { return Ok(kept.into_response()) };
    binding["signingSecret"] = json!(secret.reveal());
    Ok(Kept::As(kept.body).mark(body(&binding)?.into_response()))
}

/// Where things are posted to.
fn binding_of(subscription: &Subscription) -> Value {
    let id = &subscription.id;
    let ingest = format!("/v1/trigger-subscriptions/{id}/ingest");
    match subscription.source {
        TriggerSource::Webhook | TriggerSource::Form => json!({ "ingestUrl": ingest }),
        TriggerSource::Email => json!({ "ingestAddress": ingest }),
        TriggerSource::Queue => {
            json!({ "deliverUrl": format!("/v1/host/callboard/trigger-subscriptions/{id}/deliver") })
        }
        TriggerSource::Schedule | TriggerSource::Heartbeat | TriggerSource::Manual => json!({}),
    }
}

/// The protocol's document with what is ours: the protocol's own is closed.
fn own_document(subscription: &Subscription) -> Value {
    let mut document = json!(subscription.document());
    document["workflowId"] = json!(subscription.workflow);
    if let Some(member) = &subscription.roster_id {
        document["rosterId"] = json!(member);
    }
    let body = &subscription.body;
    document["inputMapping"] = json!(body.mapping);
    document["verification"] = json!(body.verification);
    if matches!(subscription.source, TriggerSource::Webhook) || body.fingerprint.is_some() {
        terms::show(&body.terms, &mut document);
    } else if let Some(filter) = &body.terms.filter {
        document["filter"] = json!(filter);
    }
    document["createdAt"] = json!(body.created_at);
    document["updatedAt"] = json!(body.updated_at);
    document["binding"] = binding_of(subscription);
    document
}

pub(super) async fn list_own(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.triggers.list(&caller.scope).await?;
    let subscriptions: Vec<Value> = found.iter().map(own_document).collect();
    Ok(Answer::of(StatusCode::OK, &json!({ "subscriptions": subscriptions })))
}

pub(super) async fn read_own(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.triggers.find(&caller.scope, &id).await.map_err(problem)?;
    Ok(Answer::of(StatusCode::OK, &own_document(&found)))
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.triggers.find(&caller.scope, &id).await.map_err(problem)?;
    if found.is_work_queue() {
        return Err(Problem::invalid("a member's queue of work goes when the member does"));
    }
    host.app.triggers.remove(&caller.scope, &id).await.map_err(problem)?;
    caller.audit(&id, "trigger subscription removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn list(State(host): State<Arc<Host>>, caller: Caller) -> Result<Answer, Problem> {
    let found = host.app.triggers.list(&caller.scope).await?;
    let subscriptions: Vec<_> = found.iter().map(Subscription::document).collect();
    Ok(Answer::of(StatusCode::OK, &json!({ "subscriptions": subscriptions })))
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Answer, Problem> {
    let found = host.app.triggers.find(&caller.scope, &id).await.map_err(problem)?;
    Ok(Answer::of(StatusCode::OK, &json!({ "subscription": found.document() })))
}

pub(super) async fn change(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
    Shaped(body): Shaped<Change>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    if !matches!(body.state, SubscriptionState::Active | SubscriptionState::Paused) {
        return Err(Problem::invalid_at("state", "must be active or paused"));
    }
    let changed = host.app.triggers.set_state(&caller.scope, &id, body.state).await;
    let changed = changed.map_err(problem)?;
    host.app.queues.wake();
    caller.audit(&id, "trigger subscription changed");
    Ok(Answer::of(StatusCode::OK, &json!({ "subscription": changed.document() })))
}

pub(super) async fn rotate(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    let known = host.app.triggers.find(&caller.scope, &id).await.map_err(problem)?;
    if known.body.fingerprint.is_none() {
        return Err(Problem::invalid("only webhooks are signed"));
    }
    let given = match body.trim_ascii() {
        b"" => None,
        body => parse::<Rotate>(body)?.secret,
    };
    let (preset, is_given) = (known.body.terms.preset, given.is_some());
    let secret = match given {
        Some(secret) => terms::checked_secret(preset, secret)?,
        None => terms::made_secret(preset)?,
    };
    let rotated = host.app.triggers.rotate(&caller.scope, &id, secret.clone()).await;
    let rotated = rotated.map_err(problem)?;
    caller.audit(&id, "signing secret rotated");
    shown_once(StatusCode::OK, &rotated, Some(&secret).filter(|_| !is_given))
}

fn random<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Problem::internal(&error))?;
    Ok(bytes)
}

fn make_id() -> Result<String, Problem> {
    Ok(format!("tsub_{}", hex(random::<ID_BYTES>()?)))
}

fn make_secret() -> Result<SigningSecret, Problem> {
    let text = STANDARD.encode(random::<SECRET_BYTES>()?);
    Ok(SigningSecret::new(format!("whsec_{text}")))
}

/// A name for something that came in, in the order of arrival.
pub fn arrival_id() -> String {
    format!("dlv_{}", uuid::Uuid::now_v7().simple())
}

pub fn problem(error: TriggerError) -> Problem {
    let message = error.to_string();
    match error {
        TriggerError::Unknown => Problem::no_such("trigger subscription"),
        TriggerError::UnknownLetter => Problem::no_such("dead letter"),
        TriggerError::UnknownWorkflow(id) => {
            Problem::invalid_at("workflowId", &format!("no workflow {:?}", id.as_str()))
        }
        TriggerError::NotTheirs(why) => Problem::invalid_at("rosterId", why),
        TriggerError::NotActive(state) => {
            Problem::new(Code::SubscriptionNotActive, message).with("state", state.as_str())
        }
        TriggerError::Paused(_) | TriggerError::GivenUp => {
            Problem::new(Code::SubscriptionNotActive, message)
        }
        TriggerError::NotYet(_) => Problem::new(Code::NotYetARun, message),
        TriggerError::Engine(error) => error.into(),
        TriggerError::Store(error) => error.into(),
    }
}
