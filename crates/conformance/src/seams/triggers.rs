//! The doors to the trigger bridge: deliveries and posts through the same code as everybody's.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use callboard_engine::{Incoming, Subscription, TriggerDelivery, Verification};
use callboard_protocol::{
    Backoff, EmailContent, FormContent, Object, RetryPolicy, TriggerEvent, TriggerSource,
    WebhookContent,
};
use callboard_server::extend::{
    Answer, Caller, Host, Problem, Shaped,
    triggers::{Came, Create, Mode, arrival_id, blank, problem, read_post, subscribe, unproven},
    workflows,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::{idle, settled};

/// The fixture that the suite runs everywhere.
const WORKFLOW: &str = "conformance-noop";
/// A workflow that is there only for as long as its subscription is made.
const PASSING: &str = "callboard-seam-passing";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Play {
    scenario: Scenario,
    dedup_key: Option<String>,
    source: Option<TriggerSource>,
    workflow_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    Deliver,
    Dedup,
    Exhaust,
}

pub(super) async fn trigger_deliver(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let workflow = play.workflow_id.clone().unwrap_or_else(|| WORKFLOW.to_owned());
    let source = play.source.unwrap_or(TriggerSource::Queue);
    let answer = match play.scenario {
        Scenario::Exhaust => exhaust(&host, &caller, source).await?,
        Scenario::Deliver | Scenario::Dedup => {
            let subscription = made(&host, &caller, source, &workflow, None).await?;
            let (times, key) = match play.scenario {
                Scenario::Dedup => (2, Some(play.dedup_key.unwrap_or_else(arrival_id))),
                Scenario::Deliver | Scenario::Exhaust => (1, play.dedup_key),
            };
            let (mut run, mut delivered) = (None, 0);
            for _ in 0..times {
                match put(&host, &subscription, key.clone()).await? {
                    TriggerDelivery::Started(started) => {
                        delivered += 1;
                        run = Some(started);
                    }
                    TriggerDelivery::Duplicate(first) => run = run.or(Some(first)),
                    TriggerDelivery::Waiting
                    | TriggerDelivery::GivenUp
                    | TriggerDelivery::Filtered
                    | TriggerDelivery::Unfit(_) => {}
                }
            }
            if let Some(run) = &run {
                settled(&host, &caller, run).await?;
            }
            json!({ "runId": run, "subscriptionId": subscription.id, "outcome": "delivered",
                "deliveredCount": delivered })
        }
    };
    Ok(Answer::of(StatusCode::OK, &answer))
}

/// Of any source, also of those that no caller may register: what comes in is delivered in the same way.
async fn made(
    host: &Host,
    caller: &Caller,
    source: TriggerSource,
    workflow: &str,
    verification: Option<Mode>,
) -> Result<Subscription, Problem> {
    let create = Create {
        dedup_enabled: Some(true),
        retry_policy: Some(RetryPolicy { max_attempts: 2, backoff: Backoff::None }),
        verification,
        ..Create::of(source, workflow.into())
    };
    Ok(subscribe(host, caller, create).await?.0)
}

/// Under the suite's own key, where it brings one: it looks for that in the log.
async fn put(
    host: &Host,
    subscription: &Subscription,
    dedup_key: Option<String>,
) -> Result<TriggerDelivery, Problem> {
    let event = something(subscription, blank(subscription, true, host.now()));
    let incoming = Incoming { id: arrival_id(), event_id: None, event, files: Vec::new() };
    let (bridge, subscription) = (&host.app.triggers, subscription.clone());
    let delivered = match dedup_key {
        Some(key) => bridge.deliver_under(subscription, incoming, key).await,
        None => bridge.deliver(subscription, incoming).await,
    };
    delivered.map_err(problem)
}

/// What comes in over a subscription of this source, however little that is.
fn something(subscription: &Subscription, event: TriggerEvent) -> TriggerEvent {
    let seam = Object::from_iter([("seam".to_owned(), true.into())]);
    match subscription.source {
        TriggerSource::Webhook => {
            let (method, headers) = ("POST".to_owned(), Object::new());
            let webhook = Some(WebhookContent { method, headers, body: seam.into() });
            TriggerEvent { webhook, ..event }
        }
        TriggerSource::Email => TriggerEvent { email: Some(EmailContent::default()), ..event },
        TriggerSource::Form => TriggerEvent { form: Some(FormContent { fields: seam }), ..event },
        TriggerSource::Queue => TriggerEvent { queue: Some(seam.into()), ..event },
        TriggerSource::Schedule | TriggerSource::Heartbeat | TriggerSource::Manual => event,
    }
}

/// A workflow that is gone by the time something comes in for it.
async fn exhaust(host: &Host, caller: &Caller, source: TriggerSource) -> Result<Value, Problem> {
    workflows::store(host, caller, idle(PASSING).to_string().as_bytes()).await?;
    let subscription = made(host, caller, source, PASSING, None).await?;
    host.app.engine.catalog().remove(&caller.scope, &PASSING.into()).await?;
    put(host, &subscription, None).await?;
    // The loop would come to it; the suite does not wait.
    for _ in 0..3 {
        host.app.triggers.tick(host.now()).await?;
    }
    let filter = callboard_engine::Filter {
        workflow: Some("callboard-trigger".into()),
        tag: Some(subscription.id.clone()),
        limit: 1,
        ..callboard_engine::Filter::default()
    };
    let told = host.app.engine.store().list(&caller.scope, &filter).await?;
    let run = told.into_iter().next().map(|listed| listed.run_id);
    if let Some(run) = &run {
        settled(host, caller, run).await?;
    }
    Ok(json!({ "runId": run, "subscriptionId": subscription.id, "outcome": "dead-lettered",
        "deliveredCount": 0 }))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Post {
    source: Option<TriggerSource>,
    body: Option<Value>,
    workflow_id: Option<String>,
    verification: Option<Mode>,
    /// Where a message says that something lies which belongs to it.
    attachment_url: Option<String>,
    webhook: Option<PostedWebhook>,
}

/// A post to a webhook in all its parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PostedWebhook {
    #[serde(rename = "method")]
    _method: Option<String>,
    #[serde(default)]
    headers: Object,
    body: Option<Value>,
}

/// Takes something in, and shows what the run was given and what its log tells of it.
pub(super) async fn trigger_ingest(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(post): Shaped<Post>,
) -> Result<Answer, Problem> {
    let workflow = post.workflow_id.clone().unwrap_or_else(|| WORKFLOW.to_owned());
    let source = post.source.unwrap_or(TriggerSource::Form);
    // Who says nothing of proofs is not asked for one; the suite has no secret to sign with.
    let unasked = Mode { mode: Some(Verification::None) };
    let (body, headers) = posted(&post)?;
    let points_outside = body.contains("\"url\"");
    let verification = Some(post.verification.unwrap_or(unasked));
    let subscription = made(&host, &caller, source, &workflow, verification).await?;
    let (bridge, arrival) = (&host.app.triggers, arrival_id());
    let body = body.as_bytes();
    let unsigned = callboard_engine::Post { body, ..Default::default() };
    let believed = bridge.authenticate(&subscription.id, &unsigned).await;
    let (subscription, verdict) = believed.map_err(problem)?;
    let Ok(verified) = verdict else {
        bridge.note_refused(&subscription, arrival).await?;
        return Err(unproven());
    };
    let came = read_post(&subscription, arrival, &headers, body, verified, host.now())?;
    let Came::Incoming(incoming) = came else {
        return Err(Problem::invalid("nothing was started"));
    };
    let delivered = bridge.deliver(subscription, *incoming).await.map_err(problem)?;
    let TriggerDelivery::Started(run) = delivered else {
        return Err(Problem::invalid("nothing was started"));
    };
    let events = settled(&host, &caller, &run).await?;
    let opened = host.app.engine.store().open(&run).await?;
    let event = opened.and_then(|opened| opened.birth.delivery).map(|delivery| delivery.event);
    let told = events.iter().find(|event| event["type"] == "trigger.delivery.attempted");
    Answer::json(
        StatusCode::OK,
        &json!({ "triggerEvent": event, "deliveryEvent": told, "ssrfRefused": points_outside,
            "runId": run }),
    )
}

/// The bytes and headers that a sender would post.
fn posted(post: &Post) -> Result<(String, HeaderMap), Problem> {
    let mut headers = HeaderMap::new();
    if let Some(webhook) = &post.webhook {
        for (name, value) in &webhook.headers {
            let name = HeaderName::try_from(name.as_str()).ok();
            let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
            let (Some(name), Some(value)) = (name, value) else {
                return Err(Problem::invalid_at("webhook.headers", "must be headers with texts"));
            };
            headers.insert(name, value);
        }
    }
    let of_webhook = post.webhook.as_ref().and_then(|webhook| webhook.body.clone());
    let mut body = post.body.clone().or(of_webhook).unwrap_or_else(|| match post.source {
        Some(TriggerSource::Email) => json!({ "from": "suite@example.com" }),
        _ => json!({ "seam": "posted" }),
    });
    if let (Some(url), Some(fields)) = (&post.attachment_url, body.as_object_mut()) {
        fields.insert("attachments".to_owned(), json!([{ "filename": "attached", "url": url }]));
    }
    Ok((body.to_string(), headers))
}
