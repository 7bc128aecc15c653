//! What holds for requests rather than for runs: registration, and what a run says of its options. Idempotency,
//! exclusive scopes, conditional reads and cursors are seen without a socket, in the server's own tests.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::session::Session;
use crate::wire::Request;

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = advisory_format(session).await;
    session.book.enter("registration: a variable's format never fails a run", outcome);
    let outcome = options_do_not_leak(session).await;
    session.book.enter("run read: tags and metadata are echoed, engineVersion is omitted", outcome);
    let outcome = session.settle();
    session.book.enter("requests: every body matches its schema", outcome);
    Ok(())
}

async fn advisory_format(session: &mut Session) -> Result<()> {
    let definition = json!({
        "id": "interop-variable-format", "name": "Advisory format", "version": "1.0",
        "nodes": [{ "id": "noop", "typeId": "core.noop", "name": "Noop", "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "edges": [], "triggers": [{ "id": "manual", "type": "manual", "enabled": true }],
        "variables": [{ "name": "mail", "type": "string", "format": "email", "defaultValue": "not an address" }],
        "metadata": {}, "settings": {},
    });
    let answer = session.ask(Request::post("/v1/host/callboard/workflows", &definition)).await?;
    ensure!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text());
    let held = session.expect(200, Request::get("/v1/workflows/interop-variable-format")).await?;
    ensure!(held == definition, "it comes back changed");
    session.note("workflow-definition", &held);
    let run = session.create(&json!({ "workflowId": "interop-variable-format" })).await?;
    let observed = session.observe(&run, Duration::from_secs(5)).await?;
    ensure!(observed.snapshot["status"] == "completed", "{}", observed.snapshot["status"]);
    Ok(())
}

async fn options_do_not_leak(session: &mut Session) -> Result<()> {
    let (tags, metadata) = (json!(["nightly", "größe"]), json!({ "ticket": { "id": 7 } }));
    let body = json!({ "workflowId": "conformance-noop", "tags": tags, "metadata": metadata });
    let run = session.create(&body).await?;
    let observed = session.observe(&run, Duration::from_secs(5)).await?;
    let snapshot = &observed.snapshot;
    ensure!(snapshot["tags"] == tags && snapshot["metadata"] == metadata, "{snapshot}");
    // Schema and text disagree on the type of engineVersion, so it is left out; the owner has no principalKind.
    ensure!(snapshot.get("engineVersion").is_none(), "engineVersion is there");
    ensure!(snapshot["owner"].get("principalKind").is_none(), "principalKind is there");
    ensure!(
        snapshot["variables"].as_object().is_none_or(|held| !held.values().any(|v| *v == tags)),
        "nodes see tags"
    );
    let started: &Value = observed.only("run.started")?;
    ensure!(
        started["owner"] == snapshot["owner"],
        "owner differs between snapshot and run.started"
    );
    Ok(())
}
