//! Channels of agents: resolved once, kept by replays, moved by promotions, and refused to keys that may not promote.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(15);
const FIXTURE: &str = "conformance-agent-channel-dispatch";
const AGENT: &str = "core.conformance.channel-agent";
const DOOR: &str = "/v1/host/sample/agents/deployment-transition";

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = followed(session).await;
    session
        .book
        .enter("deployment: a run follows its channel, and its replays keep what it got", outcome);
    let outcome = gated(session).await;
    session
        .book
        .enter("deployment: what is refused changes nothing, and a run tells of it", outcome);
    let outcome = session.settle();
    session.book.enter("deployment: every body matches its schema", outcome);
    Ok(())
}

async fn followed(session: &mut Session) -> Result<()> {
    let document = session.expect(200, Request::get("/.well-known/openwop")).await?;
    ensure!(document["agents"]["deployment"]["supported"] == true, "not advertised");
    let fixtures = document["fixtures"].as_array().context("no fixtures")?;
    ensure!(fixtures.contains(&json!(FIXTURE)), "{FIXTURE} is not listed");
    let first = session.create(&json!({ "workflowId": FIXTURE })).await?;
    let pinned = version(session, &first).await?;
    ensure!(replayed(session, &first).await? == pinned, "the replay got another version");

    let promotion = json!({ "scenario": "promote", "agentId": AGENT, "channel": "stable" });
    let promoted = session.expect(200, Request::post(DOOR, &promotion)).await?;
    session.note("agent-deployment", &promoted["record"]);
    let fresh = session.create(&json!({ "workflowId": FIXTURE })).await?;
    let moved = version(session, &fresh).await?;
    ensure!(moved != pinned && promoted["record"]["version"] == moved, "{moved} after {pinned}");
    ensure!(replayed(session, &first).await? == pinned, "the replay followed the channel");
    let records =
        session.expect(200, Request::get(format!("/v1/agents/{AGENT}/deployments"))).await?;
    let records = records.as_array().context("not a bare array")?;
    ensure!(records.len() >= 2, "{records:?}");
    for record in records {
        session.note("agent-deployment", record);
    }
    Ok(())
}

async fn gated(session: &mut Session) -> Result<()> {
    let pin = json!({ "scenario": "channel-pin", "channel": "stable" });
    let before = session.expect(200, Request::post(DOOR, &pin)).await?;
    let run = before["runId"].as_str().context("no run")?.to_owned();
    ensure!(before["resolvedAgentVersion"] == version(session, &run).await?, "{before}");
    for scenario in ["unauthorized", "eval-gate-unmet"] {
        let refused =
            session.expect(200, Request::post(DOOR, &json!({ "scenario": scenario }))).await?;
        ensure!(refused["allowed"] == false, "{refused}");
        let run = refused["runId"].as_str().context("no run")?.to_owned();
        let told = session.observe(&run, WITHIN).await?;
        ensure!(told.payloads("deployment.promoted").is_empty(), "{scenario} promoted");
    }
    let after = session.expect(200, Request::post(DOOR, &pin)).await?;
    ensure!(after["resolvedAgentVersion"] == before["resolvedAgentVersion"], "{after}");
    Ok(())
}

/// The version that the run's first bracket says.
async fn version(session: &mut Session, run: &str) -> Result<String> {
    let observed = session.observe(run, WITHIN).await?;
    ensure!(observed.snapshot["status"] == "completed", "{}", observed.snapshot);
    let started = observed.payloads("agent.invocation.started");
    let started: &Value = started.first().context("no bracket")?;
    ensure!(started["resolvedChannel"] == "stable", "{started}");
    let version = started["resolvedAgentVersion"].as_str().context("no version")?;
    Ok(version.to_owned())
}

async fn replayed(session: &mut Session, run: &str) -> Result<String> {
    let fork = json!({ "fromSeq": 0, "mode": "replay" });
    let fork = session.expect(201, Request::post(format!("/v1/runs/{run}:fork"), &fork)).await?;
    version(session, fork["runId"].as_str().context("no fork")?).await
}
