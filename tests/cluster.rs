//! Several hosts on one PostgreSQL, as processes: what one has acknowledged the others know, and whoever dies is
//! replaced. The numbers are those of the checklist of clusters.
#![cfg(test)]

#[path = "support/api.rs"]
mod api;
#[path = "cluster/clocks.rs"]
mod clocks;
#[path = "cluster/crashes.rs"]
mod crashes;
#[path = "cluster/database.rs"]
mod database;
#[path = "cluster/db.rs"]
mod db;
#[path = "cluster/failover.rs"]
mod failover;
#[expect(dead_code, reason = "hosts of a cluster are started from a command of their own")]
#[path = "support/host.rs"]
mod host;
#[path = "../crates/store/tests/given/inside.rs"]
mod inside;
#[path = "cluster/outages.rs"]
mod outages;
#[path = "cluster/proxy.rs"]
mod proxy;
#[path = "cluster/rolling.rs"]
mod rolling;
#[path = "../crates/store/tests/given/server.rs"]
mod server;
#[path = "cluster/soak.rs"]
mod soak;
#[path = "cluster/stage.rs"]
mod stage;
#[path = "cluster/starts.rs"]
mod starts;
#[path = "cluster/tls.rs"]
mod tls;
/// Where the shared helpers look for each other.
mod support {
    pub(crate) use crate::host;
}

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use api::Api;
use support::host::{Host, KEY, serve};

/// Short, so that a lost host is noticed soon.
const LEASE: &str = "1500";
const SEAL_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A database with what its hosts are started with.
struct Cluster {
    address: String,
    folder: TempDir,
}

impl Cluster {
    /// None where PostgreSQL is not installed.
    async fn new() -> Result<Option<Self>> {
        let Some(server) = server::server()? else { return Ok(None) };
        let address = server.database("template0").await?;
        Ok(Some(Self { address, folder: tempfile::tempdir()? }))
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = serve(&self.data(name));
        command.env("CALLBOARD_DATABASE_URL", &self.address).env("CALLBOARD_SEAL_KEY", SEAL_KEY);
        command.args(["--api-key", KEY, "--lease", LEASE, "--heartbeat", "300"]);
        command
    }

    /// A host with a folder of its own.
    fn host(&self, name: &str) -> Result<(Host, Api)> {
        let host = Host::of(self.command(name))?;
        let api = Api::of(host.url())?;
        Ok((host, api))
    }
}

fn workflow(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "edges": [],
        "nodes": [{
            "id": "only", "typeId": type_id, "name": "Only", "position": { "x": 0, "y": 0 },
            "config": config, "inputs": {},
        }],
        "triggers": [{ "id": "manual", "type": "manual", "enabled": true }],
        "variables": [], "metadata": {}, "settings": {},
    })
}

async fn register(api: &Api, definition: &Value) -> Result<()> {
    let answer = api.post("/v1/host/callboard/workflows", definition).send().await?;
    ensure!(answer.status().is_success(), "{}", answer.text().await?);
    Ok(())
}

async fn until<T>(mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "it never comes to that");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// C-20, C-22, C-23: runs, definitions and questions of one host are those of the others.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_host_has_answered_the_others_know() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((_one, first), (_other, second)) = (cluster.host("one")?, cluster.host("other")?);
    register(&first, &workflow("noop", "core.noop", json!({}))).await?;
    register(&second, &workflow("ask", "core.approvalGate", json!({ "title": "May I?" }))).await?;

    let run = second.create(&json!({ "workflowId": "noop" }), "once").await?;
    assert_eq!(first.finish(&run).await?, "completed");
    assert_eq!(first.log(&run).await?, second.log(&run).await?);
    // The key decides on every host (C-13).
    assert_eq!(first.create(&json!({ "workflowId": "noop" }), "once").await?, run);

    let run = first.create(&json!({ "workflowId": "ask" }), "ask").await?;
    until(async || Ok((second.status(&run).await? == "waiting-approval").then_some(()))).await?;
    let answer = json!({ "resumeValue": { "action": "accept" } });
    let path = format!("/v1/runs/{run}/interrupts/only");
    let answered = second.post(&path, &answer).send().await?;
    ensure!(answered.status().is_success(), "{}", answered.text().await?);
    assert_eq!(first.finish(&run).await?, "completed");
    // Once, from any host (C-14).
    assert_eq!(first.post(&path, &answer).send().await?.status().as_u16(), 409);
    Ok(())
}

/// C-03, C-04, C-05: a killed host's runs go on elsewhere, each once.
#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_killed_host_are_finished_by_another() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((one, first), (_other, second)) = (cluster.host("one")?, cluster.host("other")?);
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 1_000 }))).await?;
    let mut runs = Vec::new();
    for number in 0..20 {
        runs.push(first.create(&json!({ "workflowId": "wait" }), &format!("k{number}")).await?);
    }
    one.stop("KILL")?;
    for run in &runs {
        assert_eq!(second.finish(run).await?, "completed");
        let log: Value = serde_json::from_str(&second.log(run).await?)?;
        let events = log["events"].as_array().context("a log without events")?;
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(count("node.completed"), 1, "{log}");
        ensure!(count("run.resumed") <= 1, "{log}");
        let sequences: Vec<u64> = events.iter().filter_map(|it| it["sequence"].as_u64()).collect();
        let whole: Vec<u64> = (0..events.len() as u64).collect();
        assert_eq!(sequences, whole, "{log}");
    }
    Ok(())
}

/// C-06: who is asked to stop hands its runs over at once, without a trace in their logs.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_hands_its_runs_over() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((one, first), (_other, second)) = (cluster.host("one")?, cluster.host("other")?);
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 3_000 }))).await?;
    let run = first.create(&json!({ "workflowId": "wait" }), "once").await?;
    ensure!(one.stop("TERM")?.success(), "it did not end well");
    assert_eq!(second.finish(&run).await?, "completed");
    let log = second.log(&run).await?;
    ensure!(!log.contains("run.resumed"), "{log}");
    Ok(())
}

/// C-07: who was frozen beyond its lease changes nothing of what others have done since, and is of use again.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_host_changes_nothing_and_is_of_use_again() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((one, first), (_other, second)) = (cluster.host("one")?, cluster.host("other")?);
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 1_000 }))).await?;
    let run = first.create(&json!({ "workflowId": "wait" }), "once").await?;
    one.signal("STOP")?;
    assert_eq!(second.finish(&run).await?, "completed");
    let before = second.log(&run).await?;
    one.signal("CONT")?;
    let next = first.create(&json!({ "workflowId": "wait" }), "twice").await?;
    assert_eq!(first.finish(&next).await?, "completed");
    assert_eq!(second.log(&run).await?, before);
    Ok(())
}

/// C-21: a key works on every host as soon as it is made, and on none as soon as it was revoked; its streams end.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_and_revoked_for_all_hosts() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((one, first), (other, _second)) = (cluster.host("one")?, cluster.host("other")?);
    let made = first.post("/v1/host/callboard/keys", &json!({ "name": "mine" })).send().await?;
    let made: Value = made.json().await?;
    let (id, key) =
        (made["id"].as_str().context("no id")?, made["key"].as_str().context("no key")?);
    let http = reqwest::Client::builder().no_proxy().build()?;
    let status = async |key: &str| -> Result<u16> {
        let url = format!("{}/v1/host/callboard/whoami", other.url());
        Ok(http.get(url).bearer_auth(key).send().await?.status().as_u16())
    };
    assert_eq!(status(key).await?, 200);
    assert_eq!(status("cb_no-such-key").await?, 401);
    let events = format!("{}/v1/host/callboard/events", other.url());
    let mut stream = http.get(events).bearer_auth(key).send().await?;
    ensure!(stream.status().is_success(), "{}", stream.status());
    let path = format!("{}/v1/host/callboard/keys/{id}", one.url());
    ensure!(http.delete(path).bearer_auth(KEY).send().await?.status().is_success());
    assert_eq!(status(key).await?, 401, "with the next request");
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(PATIENCE, ended).await.context("the stream of a revoked key goes on")
}

/// Every host is on the list of every other; one that was killed is still there, one that stopped is not.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_list_each_other() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let ((one, first), (other, second)) = (cluster.host("one")?, cluster.host("other")?);
    let hosts = async |api: &Api| -> Result<Vec<Value>> {
        let found: Value = serde_json::from_str(&api.get("/v1/host/callboard/hosts").await?)?;
        Ok(found["hosts"].as_array().cloned().unwrap_or_default())
    };
    let listed = until(async || {
        let listed = hosts(&second).await?;
        Ok((listed.len() == 2).then_some(listed))
    });
    let listed = listed.await?;
    let at = |host: &Value| host["seen"]["address"].as_str().map(str::to_owned);
    let addresses: Vec<_> = listed.iter().filter_map(at).collect();
    ensure!(addresses.iter().any(|it| it == one.url()), "{listed:?}");
    ensure!(addresses.iter().any(|it| it == other.url()), "{listed:?}");
    let this: Vec<_> = listed.iter().filter(|it| it["seen"]["isThis"] == true).collect();
    ensure!(this.len() == 1 && at(this[0]).as_deref() == Some(other.url()), "{listed:?}");
    ensure!(listed.iter().all(|it| it["seen"]["isGone"] == false), "{listed:?}");
    let shown = hosts_command(other.url())?;
    ensure!(shown.contains(one.url()) && shown.contains(other.url()), "{shown}");

    drop(second);
    ensure!(other.stop("TERM")?.success());
    until(async || Ok((hosts(&first).await?.len() == 1).then_some(()))).await
}

fn hosts_command(url: &str) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("CALLBOARD_API_KEY", KEY).args(["hosts", "list", "--url", url]);
    Ok(String::from_utf8(command.output()?.stdout)?)
}

/// A start with an address that cannot be used leaves nothing behind.
#[test]
fn an_address_that_cannot_be_used_is_refused_before_a_folder_is_made() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let mut command = serve(&data);
    let output = command.env("CALLBOARD_DATABASE_URL", "mysql://db/callboard").output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    ensure!(said.contains("postgres://") && !data.exists(), "{said}");
    Ok(())
}

/// C-44: a host with another key does not start, and says what to do; neither is the password shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_another_seal_key_does_not_start() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, _) = cluster.host("one")?;
    let mut command = cluster.command("other");
    let output = command.env("CALLBOARD_SEAL_KEY", SEAL_KEY.replace("00", "01")).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    ensure!(said.contains("not the one that the database was sealed with"), "{said}");
    ensure!(said.contains("CALLBOARD_SEAL_KEY") && !said.contains("not-a-secret"), "{said}");
    Ok(())
}

/// C-31: a database that is away for a moment costs no run its life; requests meanwhile are told to come again.
#[tokio::test(flavor = "multi_thread")]
async fn ended_connections_cost_no_run_its_life() -> Result<()> {
    let Some(cluster) = Cluster::new().await? else { return Ok(()) };
    let (_one, first) = cluster.host("one")?;
    register(&first, &workflow("wait", "core.delay", json!({ "durationMs": 1_500 }))).await?;
    let run = first.create(&json!({ "workflowId": "wait" }), "once").await?;
    for _ in 0..3 {
        server::end_connections(&cluster.address).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(first.finish(&run).await?, "completed");
    let log = first.log(&run).await?;
    assert_eq!(log.matches("\"node.completed\"").count(), 1, "{log}");
    Ok(())
}
