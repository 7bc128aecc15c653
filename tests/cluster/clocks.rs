//! Machines whose clocks are wrong: hosts of one database go by its clock.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::Host;
use crate::stage::{SHORT_LEASE, Story, command_on, finish, runs_of};
use crate::{Cluster, register, workflow};

/// Debian's `faketime`, which `.ci/run` installs; none where it is missing and nobody asks for it.
fn library() -> Result<Option<String>> {
    for machine in ["x86_64", "aarch64"] {
        let path = format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketime.so.1");
        if Path::new(&path).exists() {
            return Ok(Some(path));
        }
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    ensure!(!required.contains("postgres"), "faketime is not installed");
    Ok(None)
}

/// C-09: 75 seconds off, forward and back: no run is stolen, no slot moved, no event stamped with it.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_apart_steal_no_run_and_move_no_slot() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let Some(library) = library()? else { return Ok(()) };
    let start = |name: &str, off: &str| -> Result<(Host, Api)> {
        let mut command = command_on(&cluster.folder, name, &cluster.address, 4 * SHORT_LEASE);
        command.env("LD_PRELOAD", &library).env("FAKETIME", off);
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let host = Host::of(command)?;
        let api = Api::of(host.url())?;
        Ok((host, api))
    };
    let (_ahead, ahead) = start("ahead", "+75s")?;
    let (_behind, behind) = start("behind", "-75s")?;
    register(&ahead, &workflow("wait", "core.delay", json!({ "durationMs": 2_000 }))).await?;
    register(&ahead, &workflow("slot", "core.noop", json!({}))).await?;
    let began = now()?;
    let schedule = json!({ "workflowId": "slot", "cron": "* * * * * *", "overlap": "allow" });
    let made = ahead.post("/v1/host/callboard/schedules", &schedule).send().await?;
    ensure!(made.status().is_success(), "{}", made.text().await?);
    let mut runs = Vec::new();
    for number in 0..6 {
        for (name, api) in [("ahead", &ahead), ("behind", &behind)] {
            let key = format!("{name}-{number}");
            runs.push(api.create(&json!({ "workflowId": "wait" }), &key).await?);
        }
    }
    for run in &runs {
        assert_eq!(finish(&behind, run).await?, "completed");
        assert_eq!(Story::of(&ahead, run).await?.count("run.resumed"), 0, "{run} was stolen");
        let log: Value = serde_json::from_str(&behind.log(run).await?)?;
        for event in log["events"].as_array().context("no events")? {
            near(&event["timestamp"], began)?;
        }
    }
    let fired = crate::until(async || {
        let fired = runs_of(&behind, "slot").await?;
        Ok((fired.len() >= 4).then_some(fired))
    })
    .await?;
    let mut slots = std::collections::BTreeSet::new();
    for run in fired {
        let path = format!("/v1/runs/{}", run["runId"].as_str().context("no run")?);
        let run: Value = serde_json::from_str(&ahead.get(&path).await?)?;
        let slot = &run["metadata"]["scheduledFor"];
        near(slot, began)?;
        ensure!(slots.insert(slot.to_string()), "two runs for {slot}");
    }
    Ok(())
}

fn now() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// Between the start of the test, less than a wrong clock is off, and now.
fn near(time: &Value, began: Duration) -> Result<()> {
    let text = time.as_str().with_context(|| format!("no time: {time}"))?;
    let at: callboard_protocol::Timestamp = text.parse()?;
    let at = Duration::from_millis(u64::try_from(at.as_millis())?);
    let slack = Duration::from_secs(20);
    ensure!(at + slack >= began && at <= now()? + slack, "{text} is off");
    Ok(())
}
