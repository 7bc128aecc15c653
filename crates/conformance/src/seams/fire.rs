//! `POST /v1/host/sample/effect-seams/fire`: a run that goes once through one way out of this host, as its manifest
//! names them. The way itself is the one that every run takes; only where it leads is the suite's.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_agents::CODING_PROVIDER;
use callboard_engine::{
    Care, Circuit, EventFilter, Key, Kind, LogPosition, Order, Secret, Target, Webhook, Webhooks,
};
use callboard_protocol::{Dialect, EventId, Object, RunId, Timestamp, WebhookId};
use callboard_server::extend::{Answer, Caller, Host, Problem, Seam, Shaped, fresh};
use serde::Deserialize;
use serde_json::{Value, json};

use super::live_invoke::{DEFAULT as AGENT, any_task};
use super::second_major::{bound, post_once};
use super::stage::{answer, definition, ended, idle, node, settled, with_workflows};

/// Nobody answers there, and the attempt is made all the same.
const NOBODY: &str = "http://127.0.0.1:1/";
/// A tool that every host with tools has.
const TOOL: &str = "openwop:core.openwop.http.fetch";
/// How long a post that nobody takes may need to be tried once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether it was.
const GLANCE: Duration = Duration::from_millis(20);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Fire {
    seam: String,
    receiver_url: Option<String>,
}

pub(super) async fn fire_seam(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(fire): Shaped<Fire>,
) -> Result<Answer, Problem> {
    let seam = Seam::find(&host, &fire.seam)
        .ok_or_else(|| Problem::invalid_at("seam", "must be a row of the host's effect seams"))?;
    if let Some(url) = &fire.receiver_url {
        let admitted = host.app.deliveries.admit_callback(&caller.scope.tenant, url).await;
        admitted.map_err(|error| Problem::invalid_at("receiverUrl", &error.to_string()))?;
    }
    let url = fire.receiver_url.as_deref().unwrap_or(NOBODY);
    let (host, caller) = (&*host, &caller);
    let run = match seam {
        Seam::HttpNodes => post_once(host, caller, url, 1).await?,
        Seam::ModelCalls => invoke(host, caller, json!({ "provider": "scripted" })).await?,
        Seam::CodingAgents => {
            let agent = host.app.config.coding_agents.first();
            let with = json!({ "provider": CODING_PROVIDER, "model": agent });
            invoke(host, caller, with).await?
        }
        Seam::Tools => {
            let mut call = node("call", "callboard.tool", &json!({ "tool": TOOL }));
            call["inputs"] = json!({ "arguments": { "type": "static", "value": { "url": url } } });
            play(host, caller, &[call], |order| order).await?
        }
        Seam::Webhooks => announce(host, caller, url).await?,
        Seam::RunCallbacks => ask(host, caller, url).await?,
    };
    Answer::json(StatusCode::CREATED, &json!({ "runId": bound(caller, run.as_str()) }))
}

/// An agent that asks this model, whatever comes of it.
async fn invoke(host: &Host, caller: &Caller, model: Value) -> Result<RunId, Problem> {
    let order = Order {
        inputs: any_task(host, caller, &AGENT.into())?,
        configurable: Object::from_iter([("ai".to_owned(), model)]),
        ..Order::new(Target::Agent(AGENT.to_owned()), caller.owner(), caller.scope.mode)
    };
    let run = host.app.engine.create(order, None).await?.run;
    settled(host, caller, &run).await?;
    Ok(run)
}

/// A run of these nodes, up to its end or to where it waits.
async fn play(
    host: &Host,
    caller: &Caller,
    nodes: &[Value],
    ordered: impl FnOnce(Order) -> Order,
) -> Result<RunId, Problem> {
    let id = fresh("callboard-sample-fire-");
    let definitions = [definition(&id, nodes)];
    let played = async {
        let target = Target::Workflow(id.as_str().into());
        let order = ordered(Order::new(target, caller.owner(), caller.scope.mode));
        let run = host.app.engine.create(order, None).await?.run;
        settled(host, caller, &run).await?;
        Ok(run)
    };
    with_workflows(host, caller, &definitions, played).await
}

/// A run whose end a webhook is told of.
async fn announce(host: &Host, caller: &Caller, url: &str) -> Result<RunId, Problem> {
    let webhooks = Webhooks::new(Arc::clone(host.app.engine.store()));
    let id = WebhookId::from(fresh("wh_").replace('-', ""));
    let secret = Secret::new(fresh("secret-"));
    let events = EventFilter::read(vec!["run.completed".to_owned()])
        .map_err(|error| Problem::internal(&error))?;
    let webhook = Webhook {
        id: id.clone(),
        scope: caller.scope.clone(),
        url: url.to_owned(),
        events,
        tags: vec![id.to_string()],
        care: Care::Durable,
        fingerprint: secret.fingerprint(),
        created_at: host.app.engine.clock().now(),
        since: LogPosition::default(),
        circuit: Circuit::default(),
        dialect: Dialect::V2,
    };
    webhooks.register_webhook(webhook, secret).await?;
    let nodes = idle("announced")["nodes"].as_array().cloned().unwrap_or_default();
    // Other runs of the caller are not told of.
    let ordered = |order| Order { tags: vec![id.to_string()], ..order };
    let played = play(host, caller, &nodes, ordered).await;
    let tried = tried_once(host, caller, &webhooks, &id).await;
    webhooks.remove_webhook(&caller.scope, &id).await?;
    tried?;
    played
}

/// A run that asks somebody at an address of its own.
async fn ask(host: &Host, caller: &Caller, url: &str) -> Result<RunId, Problem> {
    let gate = json!({ "title": "Accepted by the seam", "actions": ["accept", "reject"] });
    let nodes = [node("gate", "core.approvalGate", &gate)];
    let ordered = |order| Order { callback_url: Some(url.to_owned()), ..order };
    let run = play(host, caller, &nodes, ordered).await?;
    let events = settled(host, caller, &run).await?;
    let asked = events.iter().find(|event| event["type"] == "interrupt.requested");
    let asked = asked.and_then(|event| event["sequence"].as_u64()).unwrap_or_default();
    let key = Key::of([format!("cb_{}", EventId::of(&run, asked)).as_str()]);
    let end = host.app.engine.clock().now().plus(PATIENCE);
    while glance(host, end).await
        && let Some(posted) = host.app.engine.store().get(Kind::Callback, &key).await?
        && posted.read::<Value>()?["attempts"] == 0
    {}
    answer(host, caller, &run, "gate", json!({ "action": "accept" })).await?;
    ended(host, caller, &run, PATIENCE).await?;
    Ok(run)
}

/// Waits until a delivery of the webhook was tried, or for as long as that may take.
async fn tried_once(
    host: &Host,
    caller: &Caller,
    webhooks: &Webhooks,
    id: &WebhookId,
) -> Result<(), Problem> {
    let end = host.app.engine.clock().now().plus(PATIENCE);
    let mut was_pending = false;
    while glance(host, end).await {
        let pending = webhooks.pending(&caller.scope, id, 1).await?.unwrap_or_default();
        let first = pending.first();
        if first.map_or(was_pending, |letter| letter.planned.attempts > 0) {
            break;
        }
        was_pending |= first.is_some();
    }
    Ok(())
}

/// Waits a moment; answers whether there is time for another look.
async fn glance(host: &Host, end: Timestamp) -> bool {
    let clock = host.app.engine.clock();
    clock.sleep_until(clock.now().plus(GLANCE)).await;
    clock.now() < end
}
