//! Schedules of the real binary: second by second, and across a kill.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::Scene;
use crate::api::Api;

/// Reached only when nothing fires.
const PATIENCE: Duration = Duration::from_secs(60);

/// The slots of the runs that a schedule has started so far, once there are this many.
async fn fired(api: &Api, schedule: &str, least: usize) -> Result<Vec<(String, bool)>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = api.get("/v1/host/callboard/runs?workflowId=noop&limit=200").await?;
        let listed: Value = serde_json::from_str(&listed)?;
        let mut slots = Vec::new();
        for run in listed["runs"].as_array().context("no list")? {
            let id = run["runId"].as_str().context("a run without an id")?;
            let run: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{id}")).await?)?;
            let told = &run["metadata"];
            if told["scheduleId"] == schedule {
                let slot = told["scheduledFor"].as_str().context("a run without a slot")?;
                slots.push((slot.to_owned(), told["isCatchUp"] == json!(true)));
            }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_second_starts_one_run_also_across_a_kill() -> Result<()> {
    let scene = Scene::new()?;
    let host = scene.start()?;
    let api = Api::of(host.url())?;
    let body = json!({ "workflowId": "noop", "cron": "* * * * * *", "overlap": "allow" });
    let made: Value = api.post("/v1/host/callboard/schedules", &body).send().await?.json().await?;
    let id = made["id"].as_str().context("not made")?.to_owned();
    let before = fired(&api, &id, 3).await?;
    host.stop("KILL")?;
    let host = scene.start()?;
    let api = Api::of(host.url())?;
    let after = fired(&api, &id, before.len() + 3).await?;
    let distinct: BTreeSet<&String> = after.iter().map(|(slot, _)| slot).collect();
    ensure!(distinct.len() == after.len(), "a slot has two runs: {after:?}");
    let caught_up = after.iter().filter(|(_, is_catch_up)| *is_catch_up).count();
    ensure!(caught_up <= 1, "{caught_up} runs to catch up: {after:?}");
    ensure!(before.iter().all(|slot| after.contains(slot)), "a slot was lost");
    Ok(())
}
