//! A member's schedule in the real binary: second by second, killed at any moment.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::api::Api;
use crate::ledger::now;
use crate::{Chance, SEED, members};

/// Reached only when nothing fires.
const PATIENCE: Duration = Duration::from_secs(60);
const KILLS: usize = 4;
/// A little more than the second between two slots, so that kills fall before, into and after a fire.
const LONGEST_WAIT_MS: u64 = 1_200;

/// A run that a schedule has started.
#[derive(Debug)]
struct Fired {
    run: String,
    is_catch_up: bool,
}

/// What a schedule has started so far, by slot, once there is this much.
async fn fired(api: &Api, schedule: &str, least: usize) -> Result<BTreeMap<Timestamp, Fired>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/v1/host/callboard/runs?workflowId={}&limit=200", members::WORKFLOW);
        let listed: Value = serde_json::from_str(&api.get(&path).await?)?;
        let mut slots = BTreeMap::new();
        for run in listed["runs"].as_array().context("no list")? {
            let id = run["runId"].as_str().context("a run without an id")?;
            let run: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{id}")).await?)?;
            let told = &run["metadata"];
            ensure!(told["scheduleId"] == schedule, "not the schedule's: {run}");
            let slot = told["scheduledFor"].as_str().context("a run without a slot")?.parse()?;
            let is_catch_up = told["isCatchUp"] == json!(true);
            let twice = slots.insert(slot, Fired { run: id.to_owned(), is_catch_up });
            ensure!(twice.is_none(), "two runs for {slot:?}: {twice:?} and {id}");
        }
        if slots.len() >= least {
            return Ok(slots);
        }
        if Instant::now() > deadline {
            bail!("only {} runs have started", slots.len());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Every second has one run while a host is there; a time without one has one run at most, for its last second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_second_starts_one_run_for_its_member_whenever_the_host_is_killed() -> Result<()> {
    let scene = members::scene()?;
    let mut host = members::start(&scene)?;
    let mut api = Api::of(host.url())?;
    let member = members::hire(&api).await?;
    let body = json!({ "workflowId": members::WORKFLOW, "cron": "* * * * * *", "overlap": "allow",
        "rosterId": member, "inputs": { "message": "The printer is on fire." } });
    let made: Value = api.post("/v1/host/callboard/schedules", &body).send().await?.json().await?;
    let id = made["id"].as_str().with_context(|| format!("not made: {made}"))?.to_owned();
    let seed = std::env::var("CALLBOARD_TEST_SEED").ok().map_or(Ok(SEED), |seed| seed.parse())?;
    let mut chance = Chance(seed);
    let (mut count, mut outages) = (0, Vec::new());
    for kill in 0..KILLS {
        let told = || format!("seed {seed}, kill {kill}");
        count = fired(&api, &id, count + 2).await.with_context(told)?.len();
        tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_WAIT_MS))).await;
        let down = now();
        host.stop("KILL")?;
        host = members::start(&scene)?;
        outages.push((down, now()));
        api = Api::of(host.url())?;
    }
    let all = fired(&api, &id, count + 2).await?;
    let slots: Vec<Timestamp> = all.keys().copied().collect();
    let second = Duration::from_secs(1);
    for pair in slots.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        // The host was there when it fired the one and was there again for the other.
        let lies_around = |(down, up): &(Timestamp, Timestamp)| before <= *down && after <= *up;
        ensure!(
            after.since(before) == second || outages.iter().any(lies_around),
            "seed {seed}: nothing was started between {before:?} and {after:?}; down {outages:?}"
        );
    }
    let caught_up = all.values().filter(|fired| fired.is_catch_up).count();
    ensure!(caught_up <= KILLS, "seed {seed}: {caught_up} runs to catch up: {all:?}");
    for fired in all.values() {
        members::attributed(&api, &fired.run, &member, "schedule").await?;
    }
    Ok(())
}
