//! A run about which no decision ever ends: it is given up, and everything else goes on.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::support::definitions::{self, node, workflow};
use crate::support::host::Host;

/// The promise to supervisors, from the signal to the end.
const ENDS_WITHIN: Duration = Duration::from_secs(13);
/// Another tenant than that of the runs that spin.
const OTHER: &str = "cbtest_other";

fn scene() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let workflows = folder.path().join("workflows");
    fs::create_dir(&workflows)?;
    definitions::write(&workflows)?;
    let spin = workflow("spin", vec![node("only", "core.conformance.spin", json!({}))], vec![]);
    fs::write(workflows.join("spin.json"), spin.to_string())?;
    fs::write(folder.path().join("callboard.toml"), "[limits]\ndecision_timeout_ms = 2000\n")?;
    Ok(folder)
}

fn start(folder: &TempDir) -> Result<Host> {
    let path = |name: &str| -> Result<String> {
        Ok(folder.path().join(name).to_str().context("a plain name")?.to_owned())
    };
    let (workflows, config) = (path("workflows")?, path("callboard.toml")?);
    let other = format!("{OTHER}=other");
    let arguments = ["--workflows", &workflows, "--config", &config, "--api-key", &other];
    Host::start(&folder.path().join("data"), &arguments)
}

/// Another tenant starts a run and waits for its end, and the host says that it lives.
async fn others_go_on(host: &Host, workflow: &str) -> Result<()> {
    let http = Client::builder().no_proxy().timeout(Duration::from_secs(60)).build()?;
    let health = http.get(format!("{}/healthz", host.url())).send().await?;
    ensure!(health.status().is_success(), "{health:?}");
    let runs = format!("{}/v1/runs", host.url());
    let body = json!({ "workflowId": workflow });
    let created: Value =
        http.post(&runs).bearer_auth(OTHER).json(&body).send().await?.json().await?;
    let run = created["runId"].as_str().with_context(|| created.to_string())?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = http.get(format!("{runs}/{run}")).bearer_auth(OTHER).send().await?;
        let seen: Value = seen.json().await?;
        if seen["status"] == "completed" {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{seen}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_spins_for_ever_stops_nobody_and_no_start() -> Result<()> {
    let folder = scene()?;
    let host = start(&folder)?;
    let api = Api::of(host.url())?;
    let spin = json!({ "workflowId": "spin" });
    let given_up = api.create(&spin, "given-up").await?;
    let cancelled = api.create(&spin, "cancelled").await?;
    // One over which decisions are made at once, and one for which a thread is needed.
    for workflow in ["noop", "branches"] {
        others_go_on(&host, workflow).await?;
    }
    api.act(&cancelled, "/cancel").await?;
    others_go_on(&host, "noop").await?;
    ensure!(api.finish(&given_up).await? == "failed");
    let shown: Value = serde_json::from_str(&api.get(&format!("/v1/runs/{given_up}")).await?)?;
    ensure!(shown["error"]["code"] == "run_unprocessable", "{shown}");
    ensure!(host.log().contains("run given up with run_unprocessable"), "{}", host.log());
    let end = api.finish(&cancelled).await?;
    ensure!(["cancelled", "failed"].contains(&end.as_str()), "{end}");

    let adopted = api.create(&spin, "adopted").await?;
    let asked = Instant::now();
    ensure!(host.stop("TERM")?.code() == Some(0));
    ensure!(asked.elapsed() < ENDS_WITHIN, "{:?}", asked.elapsed());
    let host = start(&folder)?;
    others_go_on(&host, "branches").await?;
    let api = Api::of(host.url())?;
    ensure!(api.finish(&adopted).await? == "failed");
    let log = api.log(&adopted).await?;
    ensure!(log.contains("run_unprocessable"), "{log}");
    Ok(())
}
