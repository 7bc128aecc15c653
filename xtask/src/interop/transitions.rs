//! Pause, resume and cancel, one at a time and in bulk.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = at_once(session).await;
    session
        .book
        .enter("pause: immediate stops a sleeping node, and resume starts it afresh", outcome);
    let outcome = drained(session).await;
    session.book.enter("pause: drain-current-node lets it finish first", outcome);
    let outcome = keyed(session).await;
    session.book.enter("pause: a keyed repetition gets the first answer", outcome);
    let outcome = ended(session).await;
    session.book.enter("pause, resume: a run that has ended answers 409 with its status", outcome);
    let outcome = cancelled_twice(session).await;
    session.book.enter("cancel: a run that has ended keeps its status", outcome);
    let outcome = in_bulk(session).await;
    session.book.enter("bulk-cancel: one answer per id, in order", outcome);
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

async fn drained(session: &mut Session) -> Result<()> {
    let body = json!({ "workflowId": "conformance-channel-ttl" });
    let run = session.create(&body).await?;
    session.until(&run, "node.started").await?;
    session.expect(202, pause(&run, "drain-current-node")).await?;
    session.until(&run, "run.paused").await?;
    session.expect(202, resume(&run)).await?;
    let observed = session.observe(&run, SOON).await?;
    observed.is_a_log()?;
    observed.in_order(&["node.completed", "run.paused", "run.resumed", "run.completed"])?;
    let wait: Vec<&Value> =
        observed.events.iter().filter(|event| event["nodeId"] == "ttl-wait").collect();
    let starts = wait.iter().filter(|event| event["type"] == "node.started").count();
    ensure!(starts == 1, "the drained node started {starts} times");
    Ok(())
}

async fn keyed(session: &mut Session) -> Result<()> {
    let run = sleeping(session, 30_000).await?;
    let request = pause(&run, "immediate").header("idempotency-key", "interop-pause");
    let first = session.expect(202, request.clone()).await?;
    let again = session.expect(202, request).await?;
    ensure!(first == again, "{first} then {again}");
    let outcome = session.expect(200, cancel(&run)).await?;
    ensure!(matches!(outcome["status"].as_str(), Some("cancelled" | "cancelling")), "{outcome}");
    let observed = session.observe(&run, SOON).await?;
    ensure!(observed.snapshot["status"] == "cancelled", "{}", observed.snapshot["status"]);
    Ok(())
}

async fn finished(session: &mut Session) -> Result<String> {
    let run = session.create(&json!({ "workflowId": "conformance-noop" })).await?;
    session.observe(&run, SOON).await?;
    Ok(run)
}

async fn ended(session: &mut Session) -> Result<()> {
    let run = finished(session).await?;
    for request in [pause(&run, "immediate"), resume(&run)] {
        let refused = session.expect(409, request).await?;
        ensure!(refused["details"]["runStatus"] == "completed", "{refused}");
    }
    Ok(())
}

async fn cancelled_twice(session: &mut Session) -> Result<()> {
    let run = finished(session).await?;
    let outcome = session.expect(200, cancel(&run)).await?;
    ensure!(outcome["status"] == "completed" && outcome["runId"] == run.as_str(), "{outcome}");
    Ok(())
}

async fn in_bulk(session: &mut Session) -> Result<()> {
    let (first, second) = (sleeping(session, 30_000).await?, sleeping(session, 30_000).await?);
    let ended = finished(session).await?;
    let ids = [second.as_str(), "run_nobody", first.as_str(), ended.as_str()];
    let request = Request::post("/v1/runs:bulk-cancel", &json!({ "runIds": ids, "reason": "all" }));
    let answer = session.expect(200, request).await?;
    let results = answer["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let order: Vec<&str> = results.iter().filter_map(|result| result["runId"].as_str()).collect();
    ensure!(order == ids, "{order:?}");
    ensure!(results[0]["ok"] == true && results[2]["ok"] == true, "{answer}");
    ensure!(results[1]["ok"] == false && results[1]["error"]["code"] == "not_found", "{answer}");
    ensure!(results[3]["ok"] == false && results[3]["error"]["code"] == "run_terminal", "{answer}");
    for run in [&first, &second] {
        let observed = session.observe(run, SOON).await?;
        ensure!(observed.snapshot["status"] == "cancelled", "{}", observed.snapshot["status"]);
    }
    Ok(())
}
