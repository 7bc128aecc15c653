//! Exports of a run: its bundle, its spans, its diff, its annotations.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::STRANGER;
use super::session::Session;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(10);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// Stands in every canary of the protocol's suite.
const MARKER: &str = "CANARY-openwop-CONFORMANCE-NEVER-SECRET";

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = bundled(session).await;
    session.book.enter("bundle: agrees with poll, and is not kept by caches", outcome);
    let outcome = clean(session).await;
    session.book.enter("bundle: holds no canary", outcome);
    let outcome = traced(session).await;
    session.book.enter("spans: join the trace of the caller", outcome);
    let outcome = costed(session).await;
    session.book.enter("openwop-smoke-cost-emit: seven attributes and no token", outcome);
    let outcome = compared(session).await;
    session.book.enter("diff: equal runs are equal, others part where they part", outcome);
    let outcome = annotated(session).await;
    session.book.enter("annotations: kept beside an ended run, for its tenant alone", outcome);
    let outcome = hidden(session).await;
    session.book.enter("artifacts: a key is asked for before anything is looked up", outcome);
    let outcome = doors(session).await;
    session.book.enter("seams: closed to strangers, open for probes", outcome);
    let outcome = session.settle();
    session.book.enter("observations: every body matches its schema", outcome);
    Ok(())
}

async fn ended(session: &mut Session, body: &Value) -> Result<String> {
    let run = session.create(body).await?;
    session.observe(&run, WITHIN).await?;
    Ok(run)
}

async fn bundle(session: &mut Session, run: &str) -> Result<Value> {
    let answer = session.ask(Request::get(format!("/v1/runs/{run}/debug-bundle"))).await?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    ensure!(answer.header("cache-control") == Some("no-store"), "a cache may keep it");
    let bundle = answer.json()?;
    session.note("debug-bundle", &bundle);
    Ok(bundle)
}

async fn bundled(session: &mut Session) -> Result<()> {
    let run = ended(session, &json!({ "workflowId": "conformance-multi-node" })).await?;
    let bundle = bundle(session, &run).await?;
    let log = session.log(&run).await?;
    ensure!(bundle["events"] == json!(log), "the events are not those of the poll");
    ensure!(bundle["metrics"]["eventCount"] == json!(log.len()), "{}", bundle["metrics"]);
    let path = format!("/v1/runs/{run}/debug-bundle?maxEvents=1");
    let short = session.expect(200, Request::get(path)).await?;
    ensure!(short["truncated"] == true && short["truncatedReason"].is_string(), "not said: cut");
    ensure!(short["metrics"]["eventCount"] == json!(log.len()), "{}", short["metrics"]);
    Ok(())
}

async fn clean(session: &mut Session) -> Result<()> {
    let canary = format!("cred_{MARKER}-OpaqueRefAlphaNumX9Y8Z7");
    let body = json!({ "workflowId": "conformance-noop", "inputs": { "userField": canary } });
    let run = ended(session, &body).await?;
    let bundle = bundle(session, &run).await?;
    ensure!(!bundle.to_string().contains(MARKER), "the canary is in the bundle");
    let log = session.log(&run).await?;
    ensure!(!json!(log).to_string().contains(MARKER), "the canary is in the log");
    ensure!(bundle["redactionApplied"] == true && bundle["redactionMode"] == "mask", "not said");
    Ok(())
}

async fn traced(session: &mut Session) -> Result<()> {
    let create = Request::post("/v1/runs", &json!({ "workflowId": "conformance-noop" }));
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let run = session.create_with(create.header("traceparent", &parent)).await?;
    session.observe(&run, WITHIN).await?;
    let bundle = bundle(session, &run).await?;
    let spans = bundle["spans"].as_array().context("no spans")?;
    ensure!(spans.len() >= 3 && spans[0]["name"] == "openwop.run", "{spans:?}");
    ensure!(spans.iter().all(|span| span["traceId"] == TRACE), "another trace");
    ensure!(spans[0]["parentSpanId"] == "00f067aa0ba902b7", "another parent");
    let path = format!("/v1/host/sample/test/otel/spans?runId={run}");
    let scraped = session.expect(200, Request::get(path)).await?;
    ensure!(
        scraped["spans"].as_array().map(Vec::len) == Some(spans.len()),
        "the door shows others"
    );
    Ok(())
}

async fn compared(session: &mut Session) -> Result<()> {
    let body = |day: &str| json!({ "workflowId": "conformance-noop", "inputs": { "day": day } });
    let first = ended(session, &body("monday")).await?;
    for (day, diverged) in [("monday", Value::Null), ("friday", json!(0))] {
        let other = ended(session, &body(day)).await?;
        let path = format!("/v1/runs/{first}:diff?against={other}");
        let diff = session.expect(200, Request::get(path)).await?;
        session.note("run-diff-response", &diff);
        ensure!(diff["divergedAtSeq"] == diverged, "{day}: {}", diff["divergedAtSeq"]);
    }
    let missing = Request::get(format!("/v1/runs/{first}:diff?against=run_nope"));
    ensure!(session.ask(missing).await?.status == 404, "an unknown run has something to compare");
    Ok(())
}

async fn annotated(session: &mut Session) -> Result<()> {
    let run = ended(session, &json!({ "workflowId": "conformance-noop" })).await?;
    let path = format!("/v1/runs/{run}/annotations");
    let body =
        json!({ "signal": { "kind": "rating", "rating": 5 }, "note": format!("sk-{MARKER}-x1") });
    let made = session.expect(201, Request::post(path.clone(), &body)).await?;
    session.note("annotation", &made);
    let listed = session.expect(200, Request::get(path.clone())).await?;
    ensure!(listed["annotations"] == json!([made]), "{listed}");
    ensure!(!listed.to_string().contains(MARKER), "the canary was kept");
    let foreign = session.send(&Request::get(path).bearer(STRANGER)).await?;
    ensure!(foreign.status == 404, "a stranger gets {}", foreign.status);
    Ok(())
}

async fn costed(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": "openwop-smoke-cost-emit" })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    observed.in_order(&["run.started", "node.completed", "run.completed"])?;
    let path = format!("/v1/host/sample/test/otel/spans?runId={run}");
    let spans = session.expect(200, Request::get(path)).await?;
    let named = |span: &&Value| span["name"] == "openwop.node.conformance.cost.emit.attempt";
    let spans = spans["spans"].as_array().context("no spans")?;
    let attempt = spans.iter().find(named).context("no span of the attempt")?;
    let attributes = attempt["attributes"].as_object().context("no attributes")?;
    let of_cost = attributes.keys().filter(|name| name.starts_with("openwop.cost.")).count();
    ensure!(of_cost == 7, "{of_cost} attributes of cost");
    ensure!(!json!(spans).to_string().contains(MARKER), "a token is in a span");
    let cost = &observed.snapshot["metrics"]["openwopCost"];
    let expected = json!({ "usd": 0.00123, "tokens": { "input": 100, "output": 50 }, "provider": "anthropic" });
    ensure!(*cost == expected, "the run has cost {cost}");
    Ok(())
}

async fn hidden(session: &mut Session) -> Result<()> {
    let path = "/v1/runs/run_nope/artifacts/none";
    ensure!(session.send(&Request::get(path)).await?.status == 401, "looked up without a key");
    ensure!(session.ask(Request::get(path)).await?.status == 404, "found something");
    Ok(())
}

async fn doors(session: &mut Session) -> Result<()> {
    let probe = "/v1/host/sample/test/runs/__probe__/events";
    ensure!(session.send(&Request::get(probe)).await?.status == 401, "a door without a key");
    let empty = session.expect(200, Request::get(probe)).await?;
    ensure!(empty == json!({ "events": [] }), "{empty}");
    let toggle = "/v1/host/sample/test/capability-toggle";
    let set = Request::post(toggle, &json!({ "name": "__probe__", "value": true }));
    let set = session.expect(200, set).await?;
    ensure!(set["overlay"]["__probe__"] == true, "{set}");
    let reset = Request::post("/v1/host/sample/test/reset", &json!({}));
    let reset = session.expect(200, reset).await?;
    ensure!(reset == json!({ "ok": true }), "{reset}");
    Ok(())
}
