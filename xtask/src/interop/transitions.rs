//! Pause, resume and cancel of a run that sleeps, with what they write. Their conflicts, keys and bulk are seen without a
//! socket, in the server's own tests.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::session::Session;
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = at_once(session).await;
    session
        .book
        .enter("pause: immediate stops a sleeping node, and resume starts it afresh", outcome);
    let outcome = cancelled(session).await;
    session.book.enter("cancel: ends a sleeping node", outcome);
    let outcome = session.settle();
    session.book.enter("transitions: every body matches its schema", outcome);
    Ok(())
}

async fn sleeping(session: &mut Session, delay_ms: u64) -> Result<String> {
    let body =
        json!({ "workflowId": "conformance-cancellable", "inputs": { "delayMs": delay_ms } });
    let run = session.create(&body).await?;
    session.until(&run, "node.started").await?;
    Ok(run)
}

fn pause(run: &str, policy: &str) -> Request {
    Request::post(
        format!("/v1/runs/{run}:pause"),
        &json!({ "drainPolicy": policy, "reason": "a look" }),
    )
}

fn resume(run: &str) -> Request {
    Request::post(format!("/v1/runs/{run}:resume"), &json!({}))
}

fn cancel(run: &str) -> Request {
    Request::post(format!("/v1/runs/{run}/cancel"), &json!({}))
}

async fn at_once(session: &mut Session) -> Result<()> {
    let run = sleeping(session, 700).await?;
    let paused = session.expect(202, pause(&run, "immediate")).await?;
    ensure!(paused["status"] == "paused" && paused["pausedAt"].is_string(), "{paused}");
    session.until(&run, "run.paused").await?;
    let snapshot = session.snapshot(&run).await?;
    ensure!(snapshot["status"] == "paused", "{}", snapshot["status"]);
    let refused = session.expect(409, pause(&run, "immediate")).await?;
    ensure!(
        refused["details"]["runStatus"] == "paused" && refused["details"]["pausedAt"].is_string(),
        "{refused}"
    );
    let resumed = session.expect(202, resume(&run)).await?;
    ensure!(resumed["status"] == "running" && resumed["resumedAt"].is_string(), "{resumed}");
    let observed = session.observe(&run, SOON).await?;
    observed.is_a_log()?;
    observed.in_order(&[
        "node.started",
        "run.paused",
        "run.resumed",
        "node.started",
        "node.completed",
        "run.completed",
    ])?;
    ensure!(
        observed.only("run.paused")?["drainPolicy"] == "immediate",
        "the policy is not recorded"
    );
    Ok(())
}

async fn cancelled(session: &mut Session) -> Result<()> {
    let run = sleeping(session, 30_000).await?;
    let outcome = session.expect(200, cancel(&run)).await?;
    ensure!(matches!(outcome["status"].as_str(), Some("cancelled" | "cancelling")), "{outcome}");
    let observed = session.observe(&run, SOON).await?;
    observed.is_a_log()?;
    ensure!(observed.snapshot["status"] == "cancelled", "{}", observed.snapshot["status"]);
    Ok(())
}
