//! Memory that becomes less, as the suite asks for it: runs whose nodes write what is needed and then tidy it up.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Due, Filter, Keeper, MemoryQuery, Place};
use callboard_protocol::{HeartbeatId, Object, hex};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped, fresh};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::heartbeats::known;
use super::notes::{Note, PATIENCE, Play, entry};
use super::stage::{ended, idle, with_workflows};

/// What that heartbeat starts; it is gone when the promise is kept.
const WATCHER: &str = "callboard-sample-watcher";
/// What is there to be distilled where the suite brings nothing.
const NOTES: [&str; 3] = [
    "Customers ask for the invoice before they ask for the parcel.",
    "The warehouse closes at noon on Fridays.",
    "Refunds above one hundred euros are decided by a person.",
];
/// Two that say the same, and one that does not.
const ALIKE: [&str; 3] = ["The key is under the mat", "the key is under the mat!", "Tea at four"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Distill {
    memory_ref: String,
    token_budget: Option<u64>,
    sources: Option<Vec<Value>>,
    /// Asked for in vain: this host writes no index of what it distilled.
    #[serde(rename = "indexEmitted")]
    _index_emitted: Option<bool>,
    #[serde(default)]
    include_secret_canary: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Consolidate {
    memory_ref: String,
    #[serde(default)]
    include_secret_canary: bool,
}

pub(super) async fn distill(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Distill>,
) -> Result<Answer, Problem> {
    let given = body.sources.as_ref().filter(|sources| !sources.is_empty());
    let mut notes: Vec<Note> = match given {
        Some(sources) => sources.iter().map(Note::of).collect(),
        None => NOTES.map(Note::from).into(),
    };
    if body.include_secret_canary {
        notes.push(format!("the key is {}", canary()).into());
    }
    let configurable = body.token_budget.map(|budget| ("distillation.tokenBudget", json!(budget)));
    let play = Play {
        memory_ref: &body.memory_ref,
        notes,
        action: json!({ "memoryAction": "distill" }),
        configurable: configurable
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        // A memory of its own, so that the same sources are the same entries.
        scope_id: Some(fresh("")),
        due: None,
    };
    let (run, told) = play.run(&host, &caller, "memory.compacted").await?;
    let content = entry(&host, &caller, &told["outputId"]).await?;
    Answer::json(
        StatusCode::OK,
        &json!({
            "event": told,
            "archiveChecksum": hex(Sha256::digest(&content)),
            "indexUpdated": told["distillation"]["indexUpdated"],
            "secretLeaked": content.contains(&canary()),
            "runId": run,
        }),
    )
}

pub(super) async fn consolidate(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Consolidate>,
) -> Result<Answer, Problem> {
    let place = Place::Exactly { scope_id: String::new(), memory_ref: body.memory_ref.clone() };
    let query = MemoryQuery::new(place, host.now(), 1_000);
    let memory = host.app.engine.memory();
    // What is there stays as it is, so that a second pass finds what the first one left.
    let is_empty = memory.recall(&caller.scope, &query).await?.is_empty();
    let mut notes: Vec<Note> = if is_empty { ALIKE.map(Note::from).into() } else { Vec::new() };
    if body.include_secret_canary {
        notes.push(format!("the key is {}", canary()).into());
    }
    let play = Play {
        memory_ref: &body.memory_ref,
        notes,
        action: json!({ "memoryAction": "consolidate" }),
        configurable: Object::new(),
        scope_id: None,
        due: None,
    };
    let (run, told) = play.run(&host, &caller, "agent.memory.consolidated").await?;
    let left = memory.recall(&caller.scope, &query).await?;
    let is_leaked = left.iter().any(|record| record.content.contains(&canary()));
    let shown = json!({ "event": told, "secretLeaked": is_leaked, "runId": run });
    Answer::json(StatusCode::OK, &shown)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FireCommitment {
    memory_ref: String,
    condition: Condition,
    #[serde(default)]
    include_intention_canary: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Condition {
    Time,
    Predicate,
}

/// Promises something for now or for what a heartbeat is about to see, and lets the host look twice: once is when it
/// must fire.
pub(super) async fn fire_commitment(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<FireCommitment>,
) -> Result<Answer, Problem> {
    let now = host.now();
    let promise = format!("call back at {now}: {INTENTION}");
    let play = Play {
        memory_ref: &body.memory_ref,
        notes: vec![promise.into()],
        action: json!({ "memoryAction": "list" }),
        configurable: Object::new(),
        scope_id: None,
        due: None,
    };
    // A heartbeat of its own, so that nothing but this play can change what it sees.
    let heartbeat = HeartbeatId::from(fresh("conformance-").as_str());
    let due = match body.condition {
        Condition::Time => Due::At(now),
        Condition::Predicate => Due::On(heartbeat.clone()),
    };
    let (_, written) = play.due(&host, &caller, due).await?;
    if body.condition == Condition::Predicate {
        let change = Box::pin(change(&host, &caller, heartbeat));
        with_workflows(&host, &caller, &[idle(WATCHER)], change).await?;
    }
    let keeper = Keeper::new(host.app.engine.clone());
    for _ in 0..2 {
        keeper.keep_promises(host.now()).await?;
    }
    // Whoever of this host's own was faster: there is one run that tells of it.
    let filter =
        Filter { workflow: Some("callboard-commitment".into()), limit: 50, ..Filter::default() };
    let mut events = Vec::new();
    for listed in host.app.engine.store().list(&caller.scope, &filter).await? {
        let log = ended(&host, &caller, &listed.run_id, PATIENCE).await?;
        events.extend(log.into_iter().filter(|event| {
            event["type"] == "commitment.fired"
                && event["payload"]["memoryId"] == written["memoryId"]
        }));
    }
    let event = events.first().map(|event| event["payload"].clone());
    let mut shown = json!({ "event": event, "fireCount": events.len() });
    if body.include_intention_canary {
        shown["intentionCanary"] = json!(INTENTION);
    }
    Answer::json(StatusCode::OK, &shown)
}

/// Lets a heartbeat see one thing and then another.
async fn change(host: &Host, caller: &Caller, heartbeat: HeartbeatId) -> Result<(), Problem> {
    for seen in ["draft", "signed"] {
        let watched = known(host, caller, heartbeat.clone(), Some(WATCHER.to_owned())).await?;
        let state = Object::from_iter([("contract".to_owned(), seen.into())]);
        host.app.heartbeats.beat(watched, async move { Ok(state) }).await?;
    }
    host.app.heartbeats.remove(&caller.scope, &heartbeat).await?;
    Ok(())
}

/// What is promised, and must be in no event.
const INTENTION: &str = "CANARY-intention-never-told";

/// Looks like a key and is none. Put together here, so that scanners of source code have nothing to find.
fn canary() -> String {
    ["sk", "CANARYopenwopNEVERSECRET0aB8"].join("-")
}
