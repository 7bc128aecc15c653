//! What makes a host a platform for agents (RFC 0085): what it claims, and what stands behind the claims that only a run
//! of the whole host can show.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

/// The terms of the protocol's annex, floor and full.
const TERMS: [&str; 15] = [
    "/agents/manifestRuntime",
    "/agents/liveRuntime",
    "/toolCatalog",
    "/toolHooks",
    "/httpClient/safeFetch",
    "/providerUsage",
    "/prompts",
    "/memory",
    "/feedback",
    "/replay",
    "/authorization",
    "/memory/attribution",
    "/debugBundle",
    "/triggerBridge",
    "/httpClient/egressPolicy",
];

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let document = session.send(&Request::get("/.well-known/openwop")).await?.json()?;
    session.book.enter("platform: floor and full are claimed", claimed(&document));
    let outcome = scoped(session).await;
    session.book.enter("platform: a key sees what of discovery it can use", outcome);
    let outcome = fetched(session).await;
    session.book.enter("platform: a fetch that is blocked is told in its run's log", outcome);
    let outcome = sent(session).await;
    session.book.enter("platform: a credential goes to its audiences alone", outcome);
    let outcome = denied(session).await;
    session.book.enter("platform: whoever is unknown is denied", outcome);
    let outcome = each(session).await;
    session.book.enter("platform: each worker gets its own input", outcome);
    Ok(())
}

fn claimed(document: &Value) -> Result<()> {
    for term in TERMS {
        let supported = document.pointer(&format!("{term}/supported"));
        ensure!(supported == Some(&json!(true)), "{term}: {supported:?}");
    }
    let scope = &document["agents"]["manifestRuntime"]["installScope"];
    ensure!(scope == "tenant", "installScope is {scope}");
    Ok(())
}

async fn scoped(session: &mut Session) -> Result<()> {
    let path = "/v1/host/callboard/capabilities";
    let seen = session.expect(200, Request::get(path)).await?;
    session.note("capabilities", &seen);
    session.settle()
}

async fn fetched(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/http/safe-fetch-run";
    let body = json!({ "url": "http://169.254.169.254/latest/meta-data/" });
    let told = session.expect(200, Request::post(path, &body)).await?;
    ensure!(told["outcome"] == "blocked", "{told}");
    let run = told["runId"].as_str().context("no runId")?;
    let observed = session.observe(run, SOON).await?;
    let of = |kind: &str| observed.events.iter().find(|event| event["type"] == kind);
    let called = of("agent.toolCalled").context("no agent.toolCalled")?;
    let returned = of("agent.toolReturned").context("no agent.toolReturned")?;
    ensure!(called["payload"]["transport"] == "http", "{called}");
    ensure!(called["payload"]["callId"] == returned["payload"]["callId"], "{returned}");
    ensure!(returned["causationId"] == called["eventId"], "{returned}");
    Ok(())
}

async fn sent(session: &mut Session) -> Result<()> {
    for (scenario, decision, reason) in [
        ("out-of-audience", "denied", "out-of-audience"),
        ("provenance-unevaluable", "denied", "provenance-unevaluable"),
        ("canary", "denied", "out-of-audience"),
    ] {
        let body = json!({ "scenario": scenario });
        let told =
            session.expect(200, Request::post("/v1/host/sample/egress/decide", &body)).await?;
        ensure!(told["decision"] == decision && told["reason"] == reason, "{scenario}: {told}");
        ensure!(told["credentialAttached"] == false && told["canaryLeaked"] == false, "{told}");
        session.observe(told["runId"].as_str().context("no runId")?, SOON).await?;
    }
    Ok(())
}

async fn denied(session: &mut Session) -> Result<()> {
    let body = json!({
        "principal": "conformance-unseeded-principal", "action": "runs:cancel", "resource": "run-1",
    });
    let path = "/v1/host/sample/authorization/decide";
    let told = session.expect(200, Request::post(path, &body)).await?;
    ensure!(told["allowed"] == false, "{told}");
    Ok(())
}

/// The schemas at hand are older than these inputs, so the log of this run is not held against them.
async fn each(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/dispatch/per-item";
    let workers = ["conformance.child", "conformance.child"];
    let body = json!({
        "nextWorkerIds": workers, "inputMapping": { "contactId": "mapped", "region": "us" },
        "nextWorkerInputs": [{ "contactId": "c-1" }, { "contactId": "c-2" }],
    });
    let told = session.expect(200, Request::post(path, &body)).await?;
    for (place, contact) in ["c-1", "c-2"].into_iter().enumerate() {
        let inputs = &told["children"][place]["inputs"];
        ensure!(inputs == &json!({ "contactId": contact, "region": "us" }), "{told}");
    }
    let short = json!({ "nextWorkerIds": workers, "nextWorkerInputs": [{}] });
    session.expect(400, Request::post(path, &short)).await.map(drop)
}
