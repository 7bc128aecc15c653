//! Memory that becomes less, as the suite asks for it: runs whose nodes write what is needed and then tidy it up.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{Filter, Keeper, MemoryQuery, Order, Place, Target};
use callboard_protocol::{Object, RunId, Timestamp, hex};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::stage::{definition, ended, node};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Shaped;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::routes::workflows;

/// Longer than any of these runs takes.
const PATIENCE: Duration = Duration::from_secs(15);
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
pub(crate) struct Distill {
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
pub(crate) struct Consolidate {
    memory_ref: String,
    #[serde(default)]
    include_secret_canary: bool,
}

pub(crate) async fn distill(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Distill>,
) -> Result<Answer, Problem> {
    let given = body.sources.as_ref().filter(|sources| !sources.is_empty());
    let mut notes: Vec<String> = match given {
        Some(sources) => sources.iter().map(note).collect(),
        None => NOTES.map(str::to_owned).into(),
    };
    if body.include_secret_canary {
        notes.push(format!("the key is {}", canary()));
    }
    let configurable = body.token_budget.map(|budget| ("distillation.tokenBudget", json!(budget)));
    let play = Play {
        memory_ref: &body.memory_ref,
        notes,
        action: "distill",
        configurable: configurable
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        // A memory of its own, so that the same sources are the same entries.
        scope_id: Some(uuid::Uuid::now_v7().to_string()),
        due_at: None,
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

pub(crate) async fn consolidate(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Consolidate>,
) -> Result<Answer, Problem> {
    let place = Place::Exactly { scope_id: String::new(), memory_ref: body.memory_ref.clone() };
    let query = MemoryQuery::new(place, host.now(), 1_000);
    let memory = host.app.engine.memory();
    // What is there stays as it is, so that a second pass finds what the first one left.
    let is_empty = memory.recall(&caller.scope, &query).await?.is_empty();
    let mut notes: Vec<String> =
        if is_empty { ALIKE.map(str::to_owned).into() } else { Vec::new() };
    if body.include_secret_canary {
        notes.push(format!("the key is {}", canary()));
    }
    let play = Play {
        memory_ref: &body.memory_ref,
        notes,
        action: "consolidate",
        configurable: Object::new(),
        scope_id: None,
        due_at: None,
    };
    let (run, told) = play.run(&host, &caller, "agent.memory.consolidated").await?;
    let left = memory.recall(&caller.scope, &query).await?;
    let is_leaked = left.iter().any(|record| record.content.contains(&canary()));
    let shown = json!({ "event": told, "secretLeaked": is_leaked, "runId": run });
    Answer::json(StatusCode::OK, &shown)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FireCommitment {
    memory_ref: String,
    condition: String,
    #[serde(default)]
    include_intention_canary: bool,
}

/// Promises something for now, and lets the host look twice: once is when it must fire.
pub(crate) async fn fire_commitment(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<FireCommitment>,
) -> Result<Answer, Problem> {
    match body.condition.as_str() {
        "time" => {}
        "predicate" => {
            let message = "commitments of this host wait for a time, and for nothing else";
            return Err(Problem::new(Code::CapabilityNotProvided, message));
        }
        _ => return Err(Problem::invalid_at("condition", "must be time or predicate")),
    }
    let now = host.now();
    let promise = format!("call back at {now}: {INTENTION}");
    let play = Play {
        memory_ref: &body.memory_ref,
        notes: vec![promise],
        action: "list",
        configurable: Object::new(),
        scope_id: None,
        due_at: None,
    };
    let (_, written) = play.due(&host, &caller, now).await?;
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

/// What is promised, and must be in no event.
const INTENTION: &str = "CANARY-intention-never-told";

/// A run that writes notes, one after the other, and then does something with all that is there.
struct Play<'a> {
    memory_ref: &'a str,
    notes: Vec<String>,
    action: &'a str,
    configurable: Object,
    scope_id: Option<String>,
    due_at: Option<Timestamp>,
}

impl Play<'_> {
    /// The same with notes that are due at once; answers what was told of the first.
    async fn due(
        mut self,
        host: &Host,
        caller: &Caller,
        at: Timestamp,
    ) -> Result<(RunId, Value), Problem> {
        self.due_at = Some(at);
        self.run(host, caller, "memory.written").await
    }

    /// The run and what it told of the kind that is asked for.
    async fn run(
        self,
        host: &Host,
        caller: &Caller,
        kind: &str,
    ) -> Result<(RunId, Value), Problem> {
        let id = format!("callboard-sample-memory-{}", uuid::Uuid::now_v7());
        let definition = self.definition(&id);
        workflows::store(host, caller, definition.to_string().as_bytes()).await?;
        let order = Order {
            configurable: self.configurable,
            scope_id: self.scope_id,
            ..Order::new(Target::Workflow(id.as_str().into()), caller.owner(), caller.scope.mode)
        };
        let created = host.app.engine.create(order, None).await;
        host.app.engine.catalog().remove(&caller.scope.tenant, &id.as_str().into()).await?;
        let run = created?.run;
        let events = ended(host, caller, &run, PATIENCE).await?;
        let told = |kind: &str| events.iter().find(|event| event["type"] == kind);
        if let Some(told) = told(kind) {
            return Ok((run, told["payload"].clone()));
        }
        let error = told("run.failed").map(|failed| failed["payload"]["error"].clone());
        let message = error.as_ref().and_then(|error| error["message"].as_str());
        let message = message.unwrap_or("nothing came of it").to_owned();
        let is_over = error.is_some_and(|error| error["code"] == "token_budget_exceeded");
        let code = if is_over { Code::TokenBudgetExceeded } else { Code::InvalidArgument };
        Err(Problem::new(code, &message).with("runId", run.to_string()))
    }

    fn definition(&self, id: &str) -> Value {
        let node = |id: &str, mut config: Value| {
            config["memoryRef"] = json!(self.memory_ref);
            node(id, "core.identity", &config)
        };
        let write = |(place, note): (usize, &String)| {
            let mut config = json!({ "memoryAction": "write", "content": note });
            if let Some(due_at) = self.due_at {
                config["dueAt"] = json!(due_at);
            }
            node(&format!("write-{place}"), config)
        };
        let mut nodes: Vec<Value> = self.notes.iter().enumerate().map(write).collect();
        nodes.push(node("tidy", json!({ "memoryAction": self.action })));
        definition(id, &nodes)
    }
}

fn note(source: &Value) -> String {
    let content = source.get("content").unwrap_or(source);
    content.as_str().map_or_else(|| content.to_string(), str::to_owned)
}

async fn entry(host: &Host, caller: &Caller, id: &Value) -> Result<String, Problem> {
    let id = id.as_str().unwrap_or_default().into();
    let versions = host.app.engine.memory().memory_history(&caller.scope, &id).await?;
    let newest = versions.into_iter().next().ok_or_else(|| Problem::no_such("memory entry"))?;
    Ok(newest.content)
}

/// Looks like a key and is none. Put together here, so that scanners of source code have nothing to find.
fn canary() -> String {
    ["sk", "CANARYopenwopNEVERSECRET0aB8"].join("-")
}
