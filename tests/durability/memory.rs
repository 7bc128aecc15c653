//! What families remember while the real binary is killed again and again: nothing is lost, doubled or seen too early.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::api::Api;
use crate::families::is_across;
use crate::ledger::{all_runs, now};
use crate::support::definitions::{edge, node, workflow};
use crate::{Chance, SEED, Scene};

const KILLS: u64 = 4;
const DIARIES_PER_ROUND: u64 = 5;
/// A diary writes once itself, and each of its two pages does.
const NOTES: usize = 3;
/// Shorter than most diaries take, so that kills fall between their writes.
const LONGEST_ROUND_MS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_remembered_is_there_once_and_not_before_its_time() -> Result<()> {
    let scene = Scene::new()?;
    let seed = std::env::var("CALLBOARD_TEST_SEED").ok().map_or(Ok(SEED), |seed| seed.parse())?;
    let mut chance = Chance(seed);
    let (mut orders, mut kills) = (BTreeMap::new(), Vec::new());
    for round in 0..KILLS {
        let disturbed = disturb(&scene, &mut orders, &mut chance, round).await;
        kills.push(disturbed.with_context(|| format!("seed {seed}, round {round}"))?);
    }
    let host = scene.start()?;
    let api = Api::of(host.url())?;
    let mut diaries = BTreeSet::new();
    for (key, body) in &orders {
        let run = api.create(body, key).await?;
        ensure!(api.finish(&run).await? == "completed", "{run}: {}", api.log(&run).await?);
        ensure!(diaries.insert(run.clone()), "{run} answers two requests");
    }
    let told = MemoryStory::read(&api).await?;
    told.check(&diaries, &journal(&api).await?).with_context(|| format!("seed {seed}"))?;
    let is_hit = kills.iter().any(|kill| told.logs.values().any(|log| is_across(log, kill)));
    ensure!(is_hit, "no kill hit a diary: choose another seed than {seed}");
    // Whoever begins now sees all of it.
    let last = api.create(&diary("last", 0), "last").await?;
    ensure!(api.finish(&last).await? == "completed", "{}", api.log(&last).await?);
    let seen = seen(&log(&api, &last).await?, "after")?;
    ensure!(seen.len() == (diaries.len() + 1) * NOTES, "the last diary sees {}", seen.len());
    Ok(())
}

fn diary(name: &str, delay_ms: u64) -> Value {
    json!({ "workflowId": "diary", "inputs": { "name": name, "delayMs": delay_ms } })
}

async fn disturb(
    scene: &Scene,
    orders: &mut BTreeMap<String, Value>,
    chance: &mut Chance,
    round: u64,
) -> Result<Timestamp> {
    let host = scene.start()?;
    let api = Api::of(host.url())?;
    if round == 0 {
        for definition in [page(), book()] {
            let stored = api.post("/v1/host/callboard/workflows", &definition).send().await?;
            ensure!(stored.status() == 201, "{}", stored.text().await?);
        }
    }
    for number in 0..DIARIES_PER_ROUND {
        let key = format!("diary-{round}-{number}");
        let body = diary(&key, chance.below(250));
        api.create(&body, &key).await?;
        orders.insert(key, body);
    }
    tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_ROUND_MS))).await;
    let killed = now();
    host.stop("KILL")?;
    Ok(killed)
}

/// Every entry that stands in the journal, by its id.
async fn journal(api: &Api) -> Result<BTreeMap<String, Value>> {
    let mut entries = BTreeMap::new();
    let mut path = "/v1/host/callboard/memory?scopeId=diary&limit=50".to_owned();
    loop {
        let page: Value = serde_json::from_str(&api.get(&path).await?)?;
        for entry in page["entries"].as_array().context("a list of entries")? {
            let id = entry["id"].as_str().context("an entry without a name")?.to_owned();
            ensure!(entry["version"] == 1, "{id} was written twice: {entry}");
            ensure!(entries.insert(id.clone(), entry.clone()).is_none(), "{id} is listed twice");
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => {
                path = format!("/v1/host/callboard/memory?scopeId=diary&limit=50&cursor={cursor}");
            }
            None => return Ok(entries),
        }
    }
}

/// What the logs say.
struct MemoryStory {
    logs: BTreeMap<String, Vec<Value>>,
    /// Child → parent.
    parents: BTreeMap<String, String>,
}

impl MemoryStory {
    async fn read(api: &Api) -> Result<Self> {
        let (mut logs, mut parents) = (BTreeMap::new(), BTreeMap::new());
        for run in all_runs(api).await? {
            let shown: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{run}")).await?)?;
            if let Some(parent) = shown["parentRunId"].as_str() {
                parents.insert(run.clone(), parent.to_owned());
            }
            logs.insert(run.clone(), log(api, &run).await?);
        }
        Ok(Self { logs, parents })
    }

    /// Journal and logs tell of the same entries, and every read saw what it had to see.
    fn check(&self, diaries: &BTreeSet<String>, journal: &BTreeMap<String, Value>) -> Result<()> {
        ensure!(self.logs.len() == diaries.len() * NOTES, "{} runs", self.logs.len());
        ensure!(journal.len() == self.logs.len(), "{} entries", journal.len());
        let mut written: BTreeMap<&str, &str> = BTreeMap::new();
        for (run, log) in &self.logs {
            let told: Vec<&Value> =
                log.iter().filter(|event| event["type"] == "memory.written").collect();
            ensure!(told.len() == 1, "{run} tells of {} writes", told.len());
            let id = told[0]["payload"]["memoryId"].as_str().context("no id")?;
            let entry = journal.get(id).with_context(|| format!("{id} of {run} is lost"))?;
            ensure!(entry["author"]["runId"] == run.as_str(), "{id} is not {run}'s: {entry}");
            ensure!(written.insert(run, id).is_none(), "{run} is there twice");
        }
        for run in self.logs.keys() {
            self.check_seen(run, &written, journal).with_context(|| run.clone())?;
        }
        Ok(())
    }

    /// A page sees itself and its diary's note; a diary sees all of its own. Of others, nobody sees what was written
    /// after it had begun itself.
    fn check_seen(
        &self,
        run: &str,
        written: &BTreeMap<&str, &str>,
        journal: &BTreeMap<String, Value>,
    ) -> Result<()> {
        let diary = self.parents.get(run).map_or(run, String::as_str);
        let is_diary = diary == run;
        let family = |other: &str| {
            other == diary || self.parents.get(other).map(String::as_str) == Some(diary)
        };
        let seen = seen(&self.logs[run], if is_diary { "after" } else { "look" })?;
        let began: Timestamp = time(&self.logs[run][0]["timestamp"])?;
        for (author, id) in written {
            let is_seen = seen.contains(*id);
            if family(author) {
                let is_due = is_diary || *author == run || *author == diary;
                ensure!(is_seen == is_due, "{id} of {author}: seen {is_seen}, due {is_due}");
            } else if time(&journal[*id]["createdAt"])? > began {
                ensure!(!is_seen, "{id} of {author} was seen before its time");
            }
        }
        Ok(())
    }
}

async fn log(api: &Api, run: &str) -> Result<Vec<Value>> {
    let mut log: Value = serde_json::from_str(&api.log(run).await?)?;
    let events = log["events"].as_array_mut().context("a log without events")?;
    Ok(std::mem::take(events))
}

/// The entries that a node of a run listed.
fn seen(log: &[Value], node: &str) -> Result<BTreeSet<String>> {
    let end = log.iter().find(|it| it["type"] == "node.completed" && it["nodeId"] == node);
    let list = end.and_then(|end| end["payload"]["outputs"]["memoryList"].as_array());
    let list = list.with_context(|| format!("{node} lists nothing: {log:?}"))?;
    Ok(list.iter().filter_map(|entry| entry["id"].as_str()).map(str::to_owned).collect())
}

fn time(value: &Value) -> Result<Timestamp> {
    Ok(serde_json::from_value(value.clone())?)
}

fn memory(id: &str, action: &str) -> Value {
    let mut node =
        node(id, "core.identity", json!({ "memoryAction": action, "memoryRef": "diary" }));
    if action == "write" {
        node["inputs"] = json!({ "content": { "type": "variable", "variableName": "name" } });
    }
    node
}

fn named(mut definition: Value) -> Value {
    let name = json!({ "name": "name", "type": "string", "defaultValue": "nobody" });
    if let Some(variables) = definition["variables"].as_array_mut() {
        variables.push(name);
    }
    definition
}

fn page() -> Value {
    let mut wait = node("wait", "core.delay", json!({}));
    wait["inputs"] = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    let nodes = vec![wait, memory("write", "write"), memory("look", "list")];
    named(workflow("page", nodes, vec![edge("wait", "write"), edge("write", "look")]))
}

fn book() -> Value {
    let call = json!({ "workflowId": "page",
        "inputMapping": { "name": "name", "delayMs": "delayMs" } });
    let nodes = vec![
        memory("before", "write"),
        node("left", "core.subWorkflow", call.clone()),
        node("right", "core.subWorkflow", call),
        memory("after", "list"),
    ];
    let edges = vec![
        edge("before", "left"),
        edge("before", "right"),
        edge("left", "after"),
        edge("right", "after"),
    ];
    named(workflow("diary", nodes, edges))
}
