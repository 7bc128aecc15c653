//! Durability of the real binary: killed at any moment, it loses nothing that it acknowledged and does nothing twice.

#[path = "support/api.rs"]
mod api;
#[path = "durability/backups.rs"]
mod backups;
#[path = "durability/families.rs"]
mod families;
#[path = "durability/hooks.rs"]
mod hooks;
#[path = "support/ledger.rs"]
mod ledger;
#[path = "durability/members.rs"]
mod members;
#[path = "durability/memory.rs"]
mod memory;
#[path = "support/receiver.rs"]
mod receiver;
#[path = "durability/schedules.rs"]
mod schedules;
mod support;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use api::Api;
use ledger::{Ledger, Order, now};
use support::definitions;
use support::host::{Host, KEY};

/// `CALLBOARD_TEST_SEED` tries other moments; a failure names seed and round.
const SEED: u64 = 0x0c0f_fee0_ddba_11ad;
const ROUNDS: u64 = 5;
const RUNS_PER_ROUND: u64 = 40;
/// Longer than the longest delay of a run, so that kills fall into all of a round.
const LONGEST_ROUND_MS: u64 = 700;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_done_twice() -> Result<()> {
    let scene = Scene::new()?;
    let seed = std::env::var("CALLBOARD_TEST_SEED").ok().map_or(Ok(SEED), |seed| seed.parse())?;
    let mut chance = Chance(seed);
    let mut ledger = Ledger::default();
    for round in 0..ROUNDS {
        let disturbed = disturb(&scene, &mut ledger, &mut chance, round).await;
        disturbed.with_context(|| format!("seed {seed}, round {round}"))?;
    }
    let started = now();
    let host = scene.start()?;
    ledger.end_outage(started);
    let api = Api::of(host.url())?;
    ledger.compare(&api).await?;
    ledger.repeat_every_request(&api).await?;
    ledger.finish_all(&api).await?;
    ledger.check_list(&api).await?;
    ledger.check_logs(&api).await?;
    ledger.keep_ended(&api).await?;
    ensure!(ledger.kept() == usize::try_from(ROUNDS * RUNS_PER_ROUND)?, "every run has ended");
    let mut host = host;
    for signal in ["TERM", "KILL"] {
        host.stop(signal)?;
        host = scene.start()?;
        ledger
            .compare(&Api::of(host.url())?)
            .await
            .with_context(|| format!("after SIG{signal}"))?;
    }
    Ok(())
}

/// Starts a host, gives it forty runs at once, and kills it somewhere in the middle.
async fn disturb(
    scene: &Scene,
    ledger: &mut Ledger,
    chance: &mut Chance,
    round: u64,
) -> Result<()> {
    let started = now();
    let host = scene.start()?;
    ledger.end_outage(started);
    let api = Api::of(host.url())?;
    ledger.compare(&api).await?;
    let orders = (0..RUNS_PER_ROUND).map(|number| order(round, number, chance)).collect();
    let work = Work::begin(&api, orders);
    tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_ROUND_MS))).await;
    if round % 2 == 1 {
        ledger.keep_ended(&api).await?;
    }
    work.is_over.store(true, Ordering::SeqCst);
    host.stop("KILL")?;
    ledger.begin_outage(now());
    ledger.add(work.finish().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_misses_nothing_while_the_host_is_killed_and_comes_back() -> Result<()> {
    let scene = Scene::new()?;
    let host = scene.start()?;
    let url = host.url().to_owned();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_callboard"));
    follower.env_clear().env("CALLBOARD_URL", &url).env("CALLBOARD_API_KEY", KEY);
    follower.args(["run", "delay", "--input", "{\"delayMs\": 1500}", "--follow", "--json"]);
    let follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let api = Api::of(&url)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let run = loop {
        let list: Value =
            serde_json::from_str(&api.get("/v1/host/callboard/runs?status=running").await?)?;
        if let Some(run) = list["runs"][0]["runId"].as_str() {
            break run.to_owned();
        }
        ensure!(Instant::now() < deadline, "the run does not begin: {list}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    host.stop("KILL")?;
    let address = url.strip_prefix("http://").context("an address")?;
    let host = scene.start_with(&["--listen", address])?;
    let watched = tokio::task::spawn_blocking(|| follower.wait_with_output()).await??;
    ensure!(watched.status.success(), "{}", String::from_utf8_lossy(&watched.stderr));
    let seen: Vec<Value> = String::from_utf8(watched.stdout)?
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let log: Value = serde_json::from_str(&Api::of(host.url())?.log(&run).await?)?;
    assert_eq!(json!(seen), log["events"], "what was watched is the log");
    assert!(seen.iter().any(|event| event["type"] == "run.resumed"), "{seen:?}");
    Ok(())
}

/// A data folder and the workflows to run in it.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("workflows"))?;
        definitions::write(&folder.path().join("workflows"))?;
        Ok(Self { folder })
    }

    fn start(&self) -> Result<Host> {
        self.start_with(&[])
    }

    fn start_with(&self, arguments: &[&str]) -> Result<Host> {
        let workflows = self.folder.path().join("workflows");
        let workflows = workflows.to_str().context("a folder with a plain name")?;
        Host::start(
            &self.folder.path().join("data"),
            &[&["--workflows", workflows], arguments].concat(),
        )
    }
}

/// A run of a random kind, each with its own key.
fn order(round: u64, number: u64, chance: &mut Chance) -> Order {
    let delay = json!({ "delayMs": 50 + chance.below(450) });
    let (workflow, then) = match number % 10 {
        0 => ("noop", None),
        1 => ("chain", None),
        2 | 3 => ("delay", None),
        4 => ("flaky", None),
        5 => ("rounds", None),
        6 => ("speech", None),
        7 => ("branches", None),
        8 => ("delay", Some("/cancel")),
        _ => ("branches", Some(":pause")),
    };
    let mut body = json!({ "workflowId": workflow, "inputs": delay });
    if workflow == "speech" {
        let script = json!({ "tokens": ["one ", "two ", "three"], "delayMsPerToken": 40 });
        body["configurable"] = json!({ "mockProvider": { "id": "stream-text", "config": script } });
    }
    Order {
        key: format!("key-{round}-{number}"),
        workflow,
        body,
        then,
        after_ms: chance.below(300),
        run: None,
    }
}

/// Requests in flight. Whoever is refused after the kill has nothing to complain about.
struct Work {
    tasks: JoinSet<Result<()>>,
    orders: Arc<Mutex<Vec<Order>>>,
    is_over: Arc<AtomicBool>,
}

impl Work {
    fn begin(api: &Api, orders: Vec<Order>) -> Self {
        let mut tasks = JoinSet::new();
        let is_over = Arc::new(AtomicBool::new(false));
        let done = Arc::new(Mutex::new(Vec::new()));
        for order in orders {
            let (api, is_over, done) = (api.clone(), is_over.clone(), done.clone());
            tasks.spawn(async move {
                let mut order = order;
                let outcome = carry_out(&api, &mut order).await;
                done.lock().unwrap_or_else(PoisonError::into_inner).push(order);
                if is_over.load(Ordering::SeqCst) { Ok(()) } else { outcome }
            });
        }
        Self { tasks, orders: done, is_over }
    }

    /// Every order, with its run where the host acknowledged one.
    async fn finish(mut self) -> Result<Vec<Order>> {
        while let Some(done) = self.tasks.join_next().await {
            done??;
        }
        Ok(std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

async fn carry_out(api: &Api, order: &mut Order) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(order.after_ms)).await;
    let run = api.create(&order.body, &order.key).await?;
    order.run = Some(run.clone());
    match order.then {
        Some(verb) => api.act(&run, verb).await,
        None => Ok(()),
    }
}

/// A little generator of numbers that are the same in every run of the test.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
