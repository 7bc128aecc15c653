//! The doors to the trigger bridge: deliveries and posts through the same code as everybody's.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use callboard_engine::{Incoming, Store, Subscription, TriggerDelivery};
use callboard_protocol::{Backoff, RetryPolicy, RunId, TriggerEvent, TriggerSource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::idle;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::follow::read_rest;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::routes::triggers::{Create, arrival_id, problem, subscribe};
use crate::routes::workflows;

/// The fixture that the suite runs everywhere.
const WORKFLOW: &str = "conformance-noop";
/// A workflow that is there only for as long as its subscription is made.
const PASSING: &str = "callboard-seam-passing";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Play {
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

pub(crate) async fn trigger_deliver(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let workflow = play.workflow_id.clone().unwrap_or_else(|| WORKFLOW.to_owned());
    let source = play.source.unwrap_or(TriggerSource::Queue);
    let answer = match play.scenario {
        Scenario::Exhaust => exhaust(&host, &caller).await?,
        Scenario::Deliver | Scenario::Dedup => {
            let subscription = made(&host, &caller, source, &workflow).await?;
            let times = if play.scenario == Scenario::Dedup { 2 } else { 1 };
            let event_id = play.dedup_key.unwrap_or_else(arrival_id);
            let (mut run, mut delivered) = (None, 0);
            for _ in 0..times {
                match put(&host, &subscription, &event_id).await? {
                    TriggerDelivery::Started(started) => {
                        delivered += 1;
                        run = Some(started);
                    }
                    TriggerDelivery::Duplicate(first) => run = run.or(Some(first)),
                    TriggerDelivery::Waiting | TriggerDelivery::GivenUp => {}
                }
            }
            if let Some(run) = &run {
                begun(&host, &caller, run).await?;
            }
            json!({ "runId": run, "subscriptionId": subscription.id, "outcome": "delivered",
                "deliveredCount": delivered })
        }
    };
    Ok(Answer::of(StatusCode::OK, &answer))
}

async fn made(
    host: &Host,
    caller: &Caller,
    source: TriggerSource,
    workflow: &str,
) -> Result<Subscription, Problem> {
    let create = Create {
        source,
        workflow_id: workflow.into(),
        roster_id: None,
        dedup_enabled: Some(true),
        retry_policy: Some(RetryPolicy { max_attempts: 2, backoff: Backoff::None }),
        verification: None,
        input_mapping: None,
    };
    Ok(subscribe(host, caller, create).await?.0)
}

async fn put(
    host: &Host,
    subscription: &Subscription,
    event_id: &str,
) -> Result<TriggerDelivery, Problem> {
    let event = TriggerEvent {
        queue: Some(json!({ "seam": true })),
        ..crate::routes::triggers::blank(subscription, true, host.now())
    };
    let incoming = Incoming { id: arrival_id(), event_id: Some(event_id.to_owned()), event };
    host.app.bridge.deliver(subscription.clone(), incoming).await.map_err(problem)
}

/// A workflow that is gone by the time something comes in for it.
async fn exhaust(host: &Host, caller: &Caller) -> Result<Value, Problem> {
    workflows::store(host, caller, idle(PASSING).to_string().as_bytes()).await?;
    let subscription = made(host, caller, TriggerSource::Queue, PASSING).await?;
    host.app.engine.catalog().remove(&caller.scope.tenant, &PASSING.into()).await?;
    put(host, &subscription, &arrival_id()).await?;
    // The loop would come to it; the suite does not wait.
    for _ in 0..3 {
        host.app.bridge.tick(host.now()).await?;
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
        begun(host, caller, run).await?;
    }
    Ok(json!({ "runId": run, "subscriptionId": subscription.id, "outcome": "dead-lettered",
        "deliveredCount": 0 }))
}

/// The suite reads the log as soon as it has the answer.
async fn begun(host: &Host, caller: &Caller, run: &RunId) -> Result<(), Problem> {
    let store: &Arc<dyn Store> = host.app.engine.store();
    loop {
        match store.find(&caller.scope, run).await? {
            Some(found) if !found.head.status.is_terminal() => {
                store.changed(run, found.head.version).await;
            }
            Some(_) | None => return Ok(()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Post {
    source: Option<TriggerSource>,
    body: Option<Value>,
    workflow_id: Option<String>,
}

/// Takes something in, and shows what the run was given and what its log tells of it.
pub(crate) async fn trigger_ingest(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(post): Shaped<Post>,
) -> Result<Answer, Problem> {
    let workflow = post.workflow_id.unwrap_or_else(|| WORKFLOW.to_owned());
    let source = post.source.unwrap_or(TriggerSource::Form);
    let subscription = made(&host, &caller, source, &workflow).await?;
    let body = post.body.unwrap_or_else(|| json!({ "seam": "posted" })).to_string();
    let points_outside = body.contains("\"url\"");
    let (headers, now) = (HeaderMap::new(), host.now());
    let incoming = crate::routes::triggers::read_post(
        &subscription,
        arrival_id(),
        &headers,
        body.as_bytes(),
        false,
        now,
    )?;
    let delivered = host.app.bridge.deliver(subscription, incoming).await.map_err(problem)?;
    let TriggerDelivery::Started(run) = delivered else {
        return Err(Problem::invalid("nothing was started"));
    };
    begun(&host, &caller, &run).await?;
    let opened = host.app.engine.store().open(&run).await?;
    let event = opened.and_then(|opened| opened.birth.delivery).map(|delivery| delivery.event);
    let page = read_rest(&host, &caller, &run, 0).await?;
    let events = page.map(|page| page.events).unwrap_or_default();
    let told = events.iter().find(|event| event.kind == "trigger.delivery.attempted");
    Answer::json(
        StatusCode::OK,
        &json!({ "triggerEvent": event, "deliveryEvent": told, "ssrfRefused": points_outside,
            "runId": run }),
    )
}
