//! Supervisors, those they give work to, and agents that are not sure: the shipped fixtures of that family.

mod agents;
mod attest;
mod confidence;
mod handoffs;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names = handoffs::names();
    names.extend(confidence::NAMES);
    names.extend(agents::NAMES);
    names
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let document = session.send(&Request::get("/.well-known/openwop")).await?.json()?;
    enter(
        session,
        "discovery: orchestration is advertised as it is enforced",
        advertised(&document),
    );
    handoffs::check(session).await;
    confidence::check(session).await;
    agents::check(session).await;
    attest::check(session).await;
    Ok(())
}

fn advertised(document: &Value) -> Result<()> {
    let model = &document["multiAgent"]["executionModel"];
    let expected = json!({ "supported": true, "version": 5, "confidenceEscalationFloor": 0.5,
        "confidenceEscalationInterruptKind": "approval", "crossChildMemoryConcurrency": "strict",
        "crossHostCausation": { "supported": true, "ancestryEndpointSupported": true,
            "hostId": model["crossHostCausation"]["hostId"] },
        "replayDeterminism": { "supported": true, "llmCacheKeyRecipe": "spec-rfc-0041",
            "refusalDivergenceEmission": true },
        "statefulResume": true, "transcriptWindow": 1_000 });
    ensure!(*model == expected, "{model}");
    ensure!(model["crossHostCausation"]["hostId"].is_string(), "{model}");
    for key in ["orchestrator", "dispatch", "dispatchMapping", "subRunAttestation"] {
        ensure!(document["agents"][key] == true, "agents.{key}");
    }
    ensure!(document["conformance"]["mockAgent"] == true, "conformance.mockAgent");
    ensure!(document["limits"]["maxLoopIterations"].is_u64(), "limits.maxLoopIterations");
    Ok(())
}

/// Writes down how a check came out, and whether every body on its way matched its schema.
fn enter(session: &mut Session, name: &str, outcome: Result<()>) {
    let outcome = outcome.and(session.settle());
    session.book.enter(name, outcome);
}

async fn completed(session: &mut Session, fixture: &str) -> Result<Observed> {
    let run = session.create(&json!({ "workflowId": fixture })).await?;
    ended(session, &run, "completed").await
}

async fn ended(session: &mut Session, run: &str, status: &str) -> Result<Observed> {
    let observed = session.observe(run, SOON).await?;
    ensure!(observed.snapshot["status"] == status, "{run} {}", observed.snapshot["status"]);
    observed.is_a_log()?;
    Ok(observed)
}

/// Waits until the run asks a person.
async fn waiting(session: &mut Session, fixture: &str) -> Result<(String, Vec<Value>)> {
    let run = session.create(&json!({ "workflowId": fixture })).await?;
    let log = session.follow(&run, SOON, |page| page["runStatus"] == "waiting-approval").await?;
    session.snapshot(&run).await?;
    Ok((run, log))
}

async fn answer(session: &mut Session, run: &str, node: &str, value: &Value) -> Result<()> {
    let body = json!({ "resumeValue": value });
    let request = Request::post(format!("/v1/runs/{run}/interrupts/{node}"), &body);
    session.expect(200, request).await.map(drop)
}

fn of_kind<'a>(log: &'a [Value], kind: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == kind).collect()
}

fn only<'a>(log: &'a [Value], kind: &str) -> Result<&'a Value> {
    let found = of_kind(log, kind);
    ensure!(found.len() == 1, "{} events {kind}, not one", found.len());
    found.first().copied().context("no such event")
}
