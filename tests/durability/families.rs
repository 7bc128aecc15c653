//! Runs within runs, questions and durable webhooks, while the real binary is killed again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use callboard_protocol::Timestamp;

use crate::api::Api;
use crate::ledger::{all_runs, now};
use crate::receiver::Receiver;
use crate::support::host::Host;
use crate::{Chance, SEED, Scene};

const KILLS: u64 = 4;
const FAMILIES_PER_ROUND: u64 = 5;
/// Shorter than most families take, so that kills find some under way.
const LONGEST_ROUND_MS: u64 = 400;
/// Reached only when something is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_is_lost_or_doubled_and_every_event_is_told() -> Result<()> {
    let scene = Scene::new()?;
    let receiver = Receiver::start()?;
    let seed = std::env::var("CALLBOARD_TEST_SEED").ok().map_or(Ok(SEED), |seed| seed.parse())?;
    let mut chance = Chance(seed);
    let (mut orders, mut kills) = (BTreeMap::new(), Vec::new());
    for round in 0..KILLS {
        let disturbed = disturb(&scene, &receiver, &mut orders, &mut chance, round).await;
        kills.push(disturbed.with_context(|| format!("seed {seed}, round {round}"))?);
    }
    let host = start(&scene)?;
    let api = Api::of(host.url())?;
    let editor = editor(&api, 0);
    let mut parents = BTreeSet::new();
    for (key, body) in &orders {
        let run = api.create(body, key).await?;
        ensure!(api.finish(&run).await? == "completed", "{run}: {}", api.log(&run).await?);
        ensure!(parents.insert(run.clone()), "{run} answers two requests");
    }
    drop(editor);
    let logs = check_families(&api, &parents).await.with_context(|| format!("seed {seed}"))?;
    let is_hit = kills.iter().any(|kill| logs.values().any(|log| is_across(log, kill)));
    ensure!(is_hit, "no kill hit a family: choose another seed than {seed}");
    check_webhook(&receiver, &logs).await.with_context(|| format!("seed {seed}"))
}

fn start(scene: &Scene) -> Result<Host> {
    scene.start_with(&["--allow-private-egress"])
}

/// Starts a host, gives it families to run and somebody who answers them, and kills it somewhere in the middle.
async fn disturb(
    scene: &Scene,
    receiver: &Receiver,
    orders: &mut BTreeMap<String, Value>,
    chance: &mut Chance,
    round: u64,
) -> Result<Timestamp> {
    let host = start(scene)?;
    let api = Api::of(host.url())?;
    if round == 0 {
        let hook = json!({ "url": receiver.url(), "events": ["*"], "durable": true });
        api.post("/v1/webhooks", &hook).send().await?.error_for_status()?;
    }
    for number in 0..FAMILIES_PER_ROUND {
        let inputs = json!({ "delayMs": 50 + chance.below(500) });
        let body = json!({ "workflowId": "family", "inputs": inputs });
        let key = format!("family-{round}-{number}");
        api.create(&body, &key).await?;
        orders.insert(key, body);
    }
    let editor = editor(&api, chance.below(100));
    tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_ROUND_MS))).await;
    let killed = now();
    host.stop("KILL")?;
    drop(editor);
    Ok(killed)
}

/// Whether a log began before this moment and ended after it.
pub(crate) fn is_across(log: &[Value], moment: &Timestamp) -> bool {
    let at = |event: Option<&Value>| -> Option<Timestamp> {
        serde_json::from_value(event?["timestamp"].clone()).ok()
    };
    at(log.first()).is_some_and(|first| first < *moment)
        && at(log.last()).is_some_and(|last| *moment < last)
}

/// Accepts whatever is asked, some time after it was, until it is dropped.
fn editor(api: &Api, after_ms: u64) -> JoinSet<()> {
    let api = api.clone();
    let mut editor = JoinSet::new();
    editor.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(20 + after_ms)).await;
            // The host may be gone, or somebody may have been quicker.
            let _ = accept_all(&api).await;
        }
    });
    editor
}

async fn accept_all(api: &Api) -> Result<()> {
    let inbox: Value = serde_json::from_str(&api.get("/v1/host/callboard/inbox").await?)?;
    for asked in inbox["interrupts"].as_array().context("no interrupts")? {
        let (run, node) = (asked["runId"].as_str(), asked["nodeId"].as_str());
        let (run, node) = (run.context("no run")?, node.context("no node")?);
        let accept = json!({ "resumeValue": { "action": "accept" } });
        api.post(&format!("/v1/runs/{run}/interrupts/{node}"), &accept).send().await?;
    }
    Ok(())
}

/// One child for each call of each parent, all of them ended; answers every log.
async fn check_families(
    api: &Api,
    parents: &BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<Value>>> {
    let (mut logs, mut calls) = (BTreeMap::new(), BTreeSet::new());
    for run in all_runs(api).await? {
        let shown: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{run}")).await?)?;
        ensure!(shown["status"] == "completed", "{run} is {}", shown["status"]);
        let mut log: Value = serde_json::from_str(&api.log(&run).await?)?;
        let events = log["events"].as_array_mut().context("a log without events")?;
        if let Some(parent) = shown["parentRunId"].as_str() {
            ensure!(parents.contains(parent), "{run} has a parent that nobody asked for: {parent}");
            let call = (parent.to_owned(), shown["parentNodeId"].to_string());
            ensure!(calls.insert(call), "{} of {parent} was called twice", shown["parentNodeId"]);
        } else {
            ensure!(parents.contains(&run), "nobody asked for {run}");
            let dispatched = events.iter().filter(|event| event["type"] == "node.dispatched");
            ensure!(dispatched.count() == 2, "{run}: {events:?}");
        }
        logs.insert(run, std::mem::take(events));
    }
    ensure!(calls.len() == parents.len() * 2, "{} children of {}", calls.len(), parents.len());
    Ok(logs)
}

/// Everything arrives; and since a webhook gets one request at a time, whatever came before something else was
/// settled and never comes again.
async fn check_webhook(receiver: &Receiver, logs: &BTreeMap<String, Vec<Value>>) -> Result<()> {
    let events = logs.values().flatten().filter_map(|event| event["eventId"].as_str());
    let expected: BTreeSet<String> = events.map(str::to_owned).collect();
    let deadline = Instant::now() + PATIENCE;
    let seen = loop {
        let seen = receiver.seen();
        let missing = expected.iter().find(|event| !seen.contains(event));
        match missing {
            None => break seen,
            Some(event) if Instant::now() > deadline => bail!("{event} was never told"),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let mut settled = seen.clone();
    settled.dedup();
    let distinct: BTreeSet<&String> = settled.iter().collect();
    ensure!(distinct.len() == settled.len(), "what was settled came again: {seen:?}");
    let again = seen.len() - settled.len();
    ensure!(again <= usize::try_from(KILLS)?, "{again} repetitions for {KILLS} kills");
    ensure!(distinct.iter().all(|event| expected.contains(*event)), "an event of no log");
    Ok(())
}
