//! What the tests of faults share: hosts with leases of their own, logs that are looked through, requests that are
//! repeated until they come through.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::host::{Host, KEY, serve};
use crate::{Cluster, PATIENCE, SEAL_KEY};

/// For tests in which nobody is to lose a run, however slow the machine is.
pub(crate) const LONG_LEASE: u64 = 60_000;
/// For tests in which creations may be written without an answer: nobody drives such a run until its lease has ended.
pub(crate) const CRASH_LEASE: u64 = 10_000;
/// For tests in which a run is to be lost soon.
pub(crate) const SHORT_LEASE: u64 = 1_500;

pub(crate) fn command_on(folder: &TempDir, name: &str, address: &str, lease: u64) -> Command {
    let mut command = serve(&folder.path().join(name));
    command.env("CALLBOARD_DATABASE_URL", address).env("CALLBOARD_SEAL_KEY", SEAL_KEY);
    let (lease, heartbeat) = (lease.to_string(), (lease / 5).to_string());
    command.args(["--api-key", KEY, "--lease", &lease, "--heartbeat", &heartbeat]);
    command
}

pub(crate) fn host_on(
    folder: &TempDir,
    name: &str,
    address: &str,
    lease: u64,
) -> Result<(Host, Api)> {
    let host = Host::of(command_on(folder, name, address, lease))?;
    let api = Api::of(host.url())?;
    Ok((host, api))
}

impl Cluster {
    /// A host of this cluster, with another lease than the others.
    pub(crate) fn host_with(&self, name: &str, lease: u64) -> Result<(Host, Api)> {
        host_on(&self.folder, name, &self.address, lease)
    }

    /// The port of the server.
    pub(crate) fn port(&self) -> Result<u16> {
        let port = self.address.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/'));
        Ok(port.context("no port")?.0.parse()?)
    }
}

/// A log without a gap, with one start and one end, of visits that each end once.
#[derive(Debug)]
pub(crate) struct Story {
    events: Vec<Value>,
}

impl Story {
    pub(crate) async fn of(api: &Api, run: &str) -> Result<Self> {
        let mut log: Value = serde_json::from_str(&api.log(run).await?)?;
        let Value::Array(events) = log["events"].take() else { anyhow::bail!("no events: {log}") };
        let story = Self { events };
        let sequences = story.events.iter().map(|event| event["sequence"].as_u64());
        ensure!(sequences.eq((0..story.events.len() as u64).map(Some)), "a gap: {story:?}");
        ensure!(story.count("run.started") == 1, "{story:?}");
        let ends = ["run.completed", "run.failed", "run.cancelled"].map(|kind| story.count(kind));
        ensure!(ends.iter().sum::<usize>() == 1, "{story:?}");
        for event in story.events.iter().filter(|event| event["type"] == "node.completed") {
            let same = |other: &&Value| {
                other["type"] == event["type"] && other["nodeId"] == event["nodeId"]
            };
            ensure!(
                story.events.iter().filter(same).count() == 1,
                "a visit ended twice: {story:?}"
            );
        }
        Ok(story)
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event["type"] == kind).count()
    }
}

/// Creates a run, again with the same key where the answer was lost or the host had to refuse.
pub(crate) async fn insist(apis: &[Api], workflow: &str, key: &str) -> Result<String> {
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut tries = apis.iter().cycle();
    loop {
        let api = tries.next().context("no host")?;
        match api.create(&json!({ "workflowId": workflow }), key).await {
            Ok(run) => return Ok(run),
            Err(error) => ensure!(std::time::Instant::now() < deadline, "{key}: {error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The end of a run, as soon as one of the hosts can tell.
pub(crate) async fn finish(api: &Api, run: &str) -> Result<String> {
    crate::until(async || match api.status(run).await {
        Ok(status) if matches!(status.as_str(), "completed" | "failed" | "cancelled") => {
            Ok(Some(status))
        }
        // Refused for now, or still going on.
        _ => Ok(None),
    })
    .await
    .with_context(|| format!("{run} does not end"))
}

/// Every run of a workflow, by the list.
pub(crate) async fn runs_of(api: &Api, workflow: &str) -> Result<Vec<Value>> {
    let mut runs = Vec::new();
    let start = format!("/v1/host/callboard/runs?workflowId={workflow}&limit=100");
    let mut path = start.clone();
    loop {
        let mut page: Value = serde_json::from_str(&api.get(&path).await?)?;
        if let Value::Array(found) = page["runs"].take() {
            runs.extend(found);
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("{start}&cursor={cursor}"),
            None => return Ok(runs),
        }
    }
}
