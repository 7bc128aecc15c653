//! Agents of packs: the published ones as a host would judge them, and the fixtures that name agents.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::STRANGER;
use super::session::Session;
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(10);
const INSTALLED: &str = "core.conformance.agent-pack.installed-agent";

pub(crate) async fn check(session: &mut Session, binary: &Path, registry: &Path) -> Result<()> {
    session.book.enter(
        "packs: 24 are proven, 23 install, one lacks something",
        published(binary, registry),
    );
    let outcome = inventory(session).await;
    session.book.enter("agents: the inventory is sorted, whole and without prompts", outcome);
    let outcome = dispatched(session).await;
    session.book.enter("agents: the first that is listed dispatches", outcome);
    let outcome = invoked_live(session).await;
    session
        .book
        .enter("agents: three live invocations, bracketed and held to what is allowed", outcome);
    let outcome = handed_over(session).await;
    session.book.enter("conformance-agent-pack-handoff-schema-validation: three legs", outcome);
    let outcome = named(session).await;
    session.book.enter("conformance-agent-identity, -pack-provenance: the pin shows", outcome);
    let outcome = as_registry(session).await;
    session.book.enter("packs: read as from a registry, and nothing without a key", outcome);
    let outcome = session.settle();
    session.book.enter("agents: every body matches its schema", outcome);
    Ok(())
}

async fn as_registry(session: &mut Session) -> Result<()> {
    let search = || Request::get("/v1/packs/-/search?q=");
    let unknown = session.send(&search()).await?;
    ensure!(unknown.status == 200, "{}", unknown.text());
    ensure!(unknown.json()?["results"] == json!([]), "a stranger finds {}", unknown.text());
    let found = session.expect(200, search()).await?;
    let first = found["results"].as_array().and_then(|found| found.first()).context("no packs")?;
    let (name, version) = (&first["name"], &first["version"]);
    let (name, version) = name.as_str().zip(version.as_str()).context("no name")?;
    let page = Request::get(format!("/v1/packs/{name}/-/{version}.json"));
    let page = session.expect(200, page).await?;
    ensure!(page["name"] == name && page["version"] == version, "{page}");
    for (path, status) in [
        ("not-reverse-dns/-/1.0.json", 400),
        ("private.x.y/-/not-a-version.json", 400),
        ("private.x.y/-/0.0.0-conformance.json", 404),
        ("private.x.y/-/0.0.0-conformance.sig", 404),
    ] {
        let answer = session.send(&Request::get(format!("/v1/packs/{path}"))).await?;
        ensure!(answer.status == status && answer.json()?["error"].is_string(), "{path}");
    }
    Ok(())
}

/// What `packs verify --all` says of the registry.
fn published(binary: &Path, registry: &Path) -> Result<()> {
    let asked = Command::new(binary)
        .args(["packs", "verify", "--all", "--json", "--registry"])
        .arg(registry)
        .output()?;
    let said: Value = serde_json::from_slice(&asked.stdout)
        .with_context(|| String::from_utf8_lossy(&asked.stderr).into_owned())?;
    let packs = said["packs"].as_array().context("no packs")?;
    ensure!(packs.len() == 24, "{} packs", packs.len());
    ensure!(said["proven"] == 24, "{} proven", said["proven"]);
    let installs = packs.iter().filter(|pack| pack["installs"] == true).count();
    ensure!(installs == 23, "{installs} install");
    let refused: Vec<String> =
        packs.iter().filter(|pack| pack["installs"] != true).map(Value::to_string).collect();
    let names_it = |text: &String| text.contains("host.fs");
    ensure!(refused.iter().all(names_it), "a refusal names no capability");
    Ok(())
}

async fn inventory(session: &mut Session) -> Result<()> {
    let body = session.expect(200, Request::get("/v1/agents")).await?;
    session.note("agent-inventory-response", &body);
    let agents = body["agents"].as_array().context("no agents")?;
    ensure!(body["total"] == json!(agents.len()) && !agents.is_empty(), "{}", body["total"]);
    ensure!(agents.iter().map(|agent| agent["agentId"].as_str()).is_sorted(), "not sorted");
    ensure!(!body.to_string().contains("systemPrompt"), "a prompt is shown");
    let unknown = session.expect(404, Request::get("/v1/agents/core.no.body")).await?;
    ensure!(unknown["error"] == "not_found", "{unknown}");
    let path = "/v1/host/callboard/packs";
    let foreign = session.send(&Request::get(path).bearer(STRANGER)).await?.json()?;
    ensure!(!foreign.to_string().contains("\"tenant\""), "a stranger sees a tenant's pack");
    Ok(())
}

async fn dispatched(session: &mut Session) -> Result<()> {
    let listed = session.expect(200, Request::get("/v1/agents")).await?;
    let agent = listed["agents"][0]["agentId"].as_str().context("no agent")?.to_owned();
    let body = json!({ "task": {}, "validateHandoff": false, "availableTools": [] });
    let path = format!("/v1/host/sample/agents/{agent}/dispatch");
    let report = session.expect(200, Request::post(path, &body)).await?;
    ensure!(report["status"] == "completed", "{report}");
    let events = report["events"].as_array().context("no events")?;
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let expected = [
        "agent.invocation.started",
        "agent.promptResolved",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
    ];
    ensure!(kinds == expected, "{kinds:?}");
    ensure!(events.iter().all(|event| event["agentId"] == agent.as_str()), "{report}");
    let run = session.create(&json!({ "agentId": INSTALLED, "inputs": { "x": 1 } })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    observed.in_order(&["run.started", "agent.reasoned", "agent.decided", "run.completed"])?;
    ensure!(observed.snapshot["agent"]["agentId"] == INSTALLED, "{}", observed.snapshot["agent"]);
    Ok(())
}

/// The three legs of the protocol's own scenarios for live agents, read from the durable log.
async fn invoked_live(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/agents/live-invoke";
    for (body, outcome) in [
        (json!({ "source": "run-api" }), "completed"),
        (
            json!({ "returnSchemaRef": "conformance-strict-handoff", "forceInvalidResult": true }),
            "failed",
        ),
        (json!({ "attemptTool": "conformance-disallowed-tool" }), "completed"),
    ] {
        let report = session.expect(200, Request::post(path, &body)).await?;
        ensure!(report["outcome"] == outcome, "{body}: {report}");
        let run = report["runId"].as_str().context("no run")?.to_owned();
        let observed = session.observe(&run, WITHIN).await?;
        let told: Vec<&Value> = observed
            .events
            .iter()
            .filter(|event| event["type"].as_str().is_some_and(|kind| kind.starts_with("agent.")))
            .collect();
        let (first, last) = (told.first().context("silence")?, told.last().context("silence")?);
        ensure!(first["type"] == "agent.invocation.started", "{first}");
        ensure!(last["type"] == "agent.invocation.completed", "{last}");
        let ids = [first, last].map(|event| &event["payload"]["invocationId"]);
        ensure!(ids[0] == ids[1] && *ids[0] == report["invocationId"], "{ids:?}");
        if outcome == "failed" {
            ensure!(last["payload"]["schemaValidated"] != true, "{last}");
        }
        let is_call = |event: &&&Value| event["type"] == "agent.toolCalled";
        ensure!(!told.iter().any(|event| is_call(&event)), "a tool outside the list was called");
    }
    Ok(())
}

async fn handed_over(session: &mut Session) -> Result<()> {
    for (inputs, code) in [
        (json!({ "text": "Invoice 42", "extractionFields": ["total"] }), None),
        (json!({ "text": "Invoice 42" }), Some("handoff_task_schema_violation")),
        (
            json!({ "scenario": "mock-return-violation", "text": "x", "extractionFields": ["a"] }),
            Some("handoff_return_schema_violation"),
        ),
    ] {
        let workflow = "conformance-agent-pack-handoff-schema-validation";
        let run = session.create(&json!({ "workflowId": workflow, "inputs": inputs })).await?;
        let observed = session.observe(&run, WITHIN).await?;
        let failed = observed.payloads("node.failed");
        let found = failed.first().and_then(|payload| payload["error"]["code"].as_str());
        ensure!(found == code, "{inputs}: {found:?}");
    }
    Ok(())
}

async fn named(session: &mut Session) -> Result<()> {
    for (workflow, agent) in [
        ("conformance-agent-identity", "core.conformance.identity-agent"),
        ("conformance-agent-pack-provenance", "core.conformance.pack-installed-agent"),
    ] {
        let run = session.create(&json!({ "workflowId": workflow })).await?;
        let observed = session.observe(&run, WITHIN).await?;
        let shown = &observed.snapshot["agent"];
        ensure!(observed.snapshot["status"] == "completed", "{workflow} did not complete");
        ensure!(shown["agentId"] == agent, "{workflow}: {shown}");
        let provenance = workflow.ends_with("provenance").then_some(INSTALLED);
        ensure!(shown["sourceManifestId"].as_str() == provenance, "{workflow}: {shown}");
    }
    Ok(())
}
