//! R55: a replay makes no outward call, and fails closed where its source has no outcome.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::definitions::{ORDINAL_LOOP, SIDE_EFFECT};
use super::{SOON, cancel, enter, replay, told};
use crate::interop::expectations::Observed;
use crate::interop::session::Session;
use crate::wire::Request;

pub(super) async fn check(session: &mut Session) {
    let outcome = never_made(session).await;
    enter(session, &format!("{SIDE_EFFECT}: what the source never did fails closed"), outcome);
    let outcome = made_once(session).await;
    enter(session, &format!("{SIDE_EFFECT}: what the source did is not done again"), outcome);
    let outcome = claimed_once(session).await;
    enter(session, "an outward call that many executors reach is made once", outcome);
    let outcome = second_round(session).await;
    enter(session, &format!("{ORDINAL_LOOP}: one round's outcome is not another's"), outcome);
}

/// R65: several executors reach one call, all call it the same, and one makes it.
async fn claimed_once(session: &mut Session) -> Result<()> {
    for executors in [2, 5] {
        let seam = "/v1/host/sample/test/idempotency/concurrent-claim";
        let request = Request::post(seam, &json!({ "executors": executors }));
        let raced = session.expect(200, request).await?;
        let ids = raced["mintedIds"].as_array().context("no ids")?;
        ensure!(ids.len() == executors && raced["attempted"] == json!(executors), "{raced}");
        ensure!(ids.iter().all(|id| *id == ids[0]) && raced["delivered"] == 1, "{raced}");
    }
    Ok(())
}

/// The source is cancelled before its effect.
async fn never_made(session: &mut Session) -> Result<()> {
    let before = calls(session).await?;
    let inputs = json!({ "delayMs": 30_000 });
    let run = session.create(&json!({ "workflowId": SIDE_EFFECT, "inputs": inputs })).await?;
    session.until(&run, "node.started").await?;
    cancel(session, &run).await?;
    let source = session.observe(&run, SOON).await?;
    ensure!(source.snapshot["status"] == "cancelled", "the source {}", source.snapshot["status"]);
    let fork = replay(session, &run, 0).await?;
    fails_closed(&fork, 0)?;
    ensure!(calls(session).await? == before, "somebody was called");
    Ok(())
}

/// The effect's outcome is taken over.
async fn made_once(session: &mut Session) -> Result<()> {
    let before = calls(session).await?;
    let inputs = json!({ "delayMs": 10 });
    let run = session.create(&json!({ "workflowId": SIDE_EFFECT, "inputs": inputs })).await?;
    let source = session.observe(&run, SOON).await?;
    ensure!(calls(session).await? == before + 1, "the source called nobody");
    for from in 0..source.events.len() {
        let fork = replay(session, &run, from).await?;
        ensure!(told(&fork) == told(&source), "from {from}: {}", fork.kinds().join(", "));
    }
    ensure!(calls(session).await? == before + 1, "a replay called somebody");
    Ok(())
}

/// The source is cancelled between the first round of its effect and the second.
async fn second_round(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": ORDINAL_LOOP })).await?;
    let waits = |page: &Value| {
        let events = page["events"].as_array().into_iter().flatten();
        events.into_iter().any(|event| event["type"] == "node.started" && event["nodeId"] == "wait")
    };
    session.follow(&run, SOON, waits).await?;
    let before = calls(session).await?;
    cancel(session, &run).await?;
    session.observe(&run, SOON).await?;
    let fork = replay(session, &run, 0).await?;
    fails_closed(&fork, 1)?;
    ensure!(calls(session).await? == before, "somebody was called");
    Ok(())
}

/// The effect ended well this often, and then failed for want of an outcome.
fn fails_closed(fork: &Observed, completed: usize) -> Result<()> {
    ensure!(fork.snapshot["status"] == "failed", "the fork {}", fork.snapshot["status"]);
    fork.is_a_log()?;
    let failed = fork.only("node.failed")?;
    ensure!(failed["nodeId"] == "effect", "{failed}");
    ensure!(failed["error"]["code"] == "replay_source_missing", "{failed}");
    let done = fork.payloads("node.completed");
    let done = done.iter().filter(|payload| payload["nodeId"] == "effect").count();
    ensure!(done == completed, "the effect completed {done} times");
    Ok(())
}

/// How many outward calls the host has made.
async fn calls(session: &mut Session) -> Result<u64> {
    let text = session.send(&Request::get("/metrics")).await?.text();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("callboard_conformance_effects_total "));
    line.map_or(Ok(0), |count| count.trim().parse().context("a count that is no number"))
}
