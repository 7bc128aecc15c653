//! Child runs and forks: the fixtures that start others, and forks of whatever has run here.

mod children;
mod definitions;
mod effects;
mod forks;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use crate::wire::Request;

pub(crate) use children::names;

const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    children::check(session).await;
    definitions::register(session).await?;
    effects::check(session).await;
    forks::check(session).await
}

/// Writes down how a check came out, and whether every body on its way matched its schema.
fn enter(session: &mut Session, name: &str, outcome: Result<()>) {
    let outcome = outcome.and(session.settle());
    session.book.enter(name, outcome);
}

async fn fork(session: &mut Session, source: &str, body: &Value) -> Result<String> {
    let request = Request::post(format!("/v1/runs/{source}:fork"), body);
    let forked = session.expect(201, request).await?;
    let run = forked["runId"].as_str().context("a fork without runId")?.to_owned();
    ensure!(run != source, "the fork is its source");
    let expected = json!({
        "runId": run, "sourceRunId": source, "fromSeq": body.get("fromSeq").unwrap_or(&json!(0)),
        "mode": body["mode"], "status": "pending", "eventsUrl": format!("/v1/runs/{run}/events"),
    });
    ensure!(forked == expected, "{forked}");
    Ok(run)
}

/// A replay of an ended run, followed to its end.
async fn replay(session: &mut Session, source: &str, from: usize) -> Result<Observed> {
    let run = fork(session, source, &json!({ "mode": "replay", "fromSeq": from })).await?;
    session.observe(&run, SOON).await
}

/// What two replays must agree in.
fn told(run: &Observed) -> Vec<[&Value; 3]> {
    run.events.iter().map(|event| [&event["type"], &event["nodeId"], &event["payload"]]).collect()
}

async fn cancel(session: &mut Session, run: &str) -> Result<()> {
    let request = Request::post(format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough" }));
    let cancelled = session.expect(200, request).await?;
    ensure!(
        cancelled["status"] == "cancelled" || cancelled["status"] == "cancelling",
        "{cancelled}"
    );
    Ok(())
}

/// Waits until the run shows this status.
async fn until(session: &mut Session, run: &str, status: &str) -> Result<Value> {
    for _ in 0..500 {
        let snapshot = session.snapshot(run).await?;
        if snapshot["status"] == status {
            return Ok(snapshot);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("{run} never was {status}")
}
