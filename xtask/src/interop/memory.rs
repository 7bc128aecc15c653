//! Memory: the fixtures that probe it, its owner, its expiry, and forks that see the past.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::STRANGER;
use super::expectations::Observed;
use super::session::{PATIENCE, Session};
use crate::wire::Request;

const WITHIN: Duration = Duration::from_secs(10);
const MEMORY: &str = "/v1/host/callboard/memory";

/// What discovery must list.
pub(crate) fn names() -> [&'static str; 4] {
    [
        "conformance-agent-memory-roundtrip",
        "conformance-agent-memory-ttl",
        "conformance-agent-memory-redaction",
        "conformance-agent-memory-cross-tenant",
    ]
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = round_trip(session).await;
    session.book.enter("M-50, M-58: conformance-agent-memory-roundtrip", outcome);
    let outcome = lifetime(session).await;
    session.book.enter("M-51: conformance-agent-memory-ttl", outcome);
    let outcome = redaction(session).await;
    session.book.enter("M-53: conformance-agent-memory-redaction", outcome);
    let outcome = tenants(session).await;
    session.book.enter("M-52: conformance-agent-memory-cross-tenant", outcome);
    let outcome = replayed(session).await;
    session.book.enter("M-59, M-70: a replay tells the same ids, a branch sees the past", outcome);
    let outcome = expired(session).await;
    session.book.enter("M-71: a fork without its memory is refused to the letter", outcome);
    let outcome = across_runs(session).await;
    session.book.enter("M-60: a child's entry lives from when the child wrote it", outcome);
    let outcome = distilled(session).await;
    session.book.enter("M-63: a distillation keeps to its budget, secrets and place", outcome);
    let outcome = compacted(session).await;
    session.book.enter("M-63: what is put together keeps marks, place and count", outcome);
    let outcome = consolidated(session).await;
    session.book.enter("M-64: a second consolidation finds nothing to do", outcome);
    let outcome = promised(session).await;
    session.book.enter("S-29: a commitment is told of once, without its words", outcome);
    let outcome = people(session).await;
    session.book.enter("memory: found, put back and forgotten by its own tenant", outcome);
    let outcome = session.settle();
    session.book.enter("memory: every body matches its schema", outcome);
    Ok(())
}

async fn play(session: &mut Session, fixture: &str) -> Result<Observed> {
    let run = session.create(&json!({ "workflowId": fixture })).await?;
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    ensure!(observed.snapshot["status"] == "completed", "{}", observed.snapshot["error"]);
    Ok(observed)
}

fn ids(observed: &Observed) -> Vec<Value> {
    let written = observed.payloads("memory.written");
    written.into_iter().map(|payload| payload["memoryId"].clone()).collect()
}

async fn round_trip(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-agent-memory-roundtrip").await?;
    let readback = &observed.snapshot["variables"]["memoryReadback"];
    session.note("memory-entry", readback);
    let written = observed.only("memory.written")?;
    ensure!(written["memoryId"] == readback["id"], "{written}");
    ensure!(written["memoryRef"] == "conformance/agent-memory-roundtrip", "{written}");
    ensure!(written["agentId"] == "core.conformance.memory-agent", "{written}");
    let content = readback["content"].as_str().context("no content")?;
    let log = json!(observed.payloads("memory.written")).to_string();
    ensure!(!log.contains(content), "content in the log: {log}");
    Ok(())
}

async fn lifetime(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-agent-memory-ttl").await?;
    let list = &observed.snapshot["variables"]["memoryList"];
    let entries = list.as_array().context("no list")?;
    ensure!(!entries.is_empty(), "nothing is listed");
    for entry in entries {
        session.note("memory-entry", entry);
        let expires = entry["expiresAt"].as_str().context("an entry without end")?;
        let now = observed.snapshot["completedAt"].as_str().context("no end")?;
        ensure!(expires > now, "{expires} is over at {now}");
    }
    Ok(())
}

async fn redaction(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-agent-memory-redaction").await?;
    let readback = &observed.snapshot["variables"]["memoryReadback"];
    let content = readback["content"].as_str().context("no content")?;
    ensure!(content.contains("[REDACTED:conformance-test-secret]"), "{content}");
    Ok(())
}

async fn tenants(session: &mut Session) -> Result<()> {
    // Somebody of another tenant remembers something under the very name that is probed.
    let node = json!({
        "id": "only", "typeId": "core.identity", "name": "only", "position": { "x": 0, "y": 0 }, "inputs": {},
        "config": { "memoryAction": "write", "memoryRef": "conformance/another-tenant/agent-memory" },
    });
    let theirs = json!({
        "id": "theirs", "name": "theirs", "version": "1.0", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    });
    let stored = Request::post("/v1/host/callboard/workflows", &theirs).bearer(STRANGER);
    let stored = session.send(&stored).await?.status;
    ensure!(stored == 201 || stored == 200, "{stored}");
    let started = Request::post("/v1/runs", &json!({ "workflowId": "theirs" })).bearer(STRANGER);
    ensure!(session.send(&started).await?.status == 201, "not started");
    let deadline = Instant::now() + PATIENCE;
    let listed = loop {
        let listed = session.send(&Request::get(MEMORY).bearer(STRANGER)).await?.json()?;
        if listed["entries"].as_array().is_some_and(|entries| !entries.is_empty()) {
            break listed;
        }
        ensure!(Instant::now() < deadline, "the stranger remembers nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let observed = play(session, "conformance-agent-memory-cross-tenant").await?;
    let variables = &observed.snapshot["variables"];
    ensure!(variables["crossTenantProbe"] == json!([]), "{}", variables["crossTenantProbe"]);
    let own = variables["ownerProbe"].as_array().context("no ownerProbe")?;
    ensure!(own.iter().any(|entry| entry["id"] == variables["ownerEntryId"]), "{variables}");
    let id = listed["entries"][0]["id"].as_str().context("no id")?;
    session.expect(404, Request::get(format!("{MEMORY}/{id}"))).await?;
    Ok(())
}

async fn replayed(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-agent-memory-ttl").await?;
    let seen = observed.snapshot["variables"]["memoryList"].clone();
    play(session, "conformance-agent-memory-ttl").await?;
    let path = format!("/v1/runs/{}:fork", observed.run);
    let body = json!({ "mode": "replay", "fromSeq": 0 });
    let fork = session.expect(201, Request::post(path.as_str(), &body)).await?;
    let replay = session.observe(fork["runId"].as_str().context("no run")?, WITHIN).await?;
    ensure!(ids(&replay) == ids(&observed), "{:?}", ids(&replay));
    ensure!(replay.snapshot["variables"]["memoryList"] == seen, "another list");
    let body = json!({ "mode": "branch", "fromSeq": 1 });
    let fork = session.expect(201, Request::post(path.as_str(), &body)).await?;
    let branch = session.observe(fork["runId"].as_str().context("no run")?, WITHIN).await?;
    let list = branch.snapshot["variables"]["memoryList"].as_array().context("no list")?;
    // Its own entry in the place of the source's, and what stood there before both.
    let before = seen.as_array().context("no list")?;
    ensure!(list.len() == before.len() && list[1..] == before[1..], "{list:?}");
    ensure!(list[0] != before[0], "{list:?}");
    Ok(())
}

async fn expired(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-noop").await?;
    let expire = json!({ "runId": observed.run });
    let expire = Request::post("/v1/host/sample/test/memory/expire-snapshots", &expire);
    ensure!(session.ask(expire).await?.status == 204, "not expired");
    let path = format!("/v1/runs/{}:fork", observed.run);
    let body = json!({ "mode": "replay", "fromSeq": 0 });
    let refused = session.expect(422, Request::post(path.as_str(), &body)).await?;
    let keys: BTreeSet<&String> = refused.as_object().context("no object")?.keys().collect();
    let keys: Vec<&String> = keys.into_iter().collect();
    ensure!(keys == ["details", "error", "message"], "{keys:?}");
    ensure!(refused["error"] == "replay_memory_snapshot_unavailable", "{refused}");
    let details =
        json!({ "fromSeq": 0, "sourceRunId": observed.run, "reason": "retention_expired" });
    ensure!(refused["details"] == details, "{refused}");
    Ok(())
}

async fn across_runs(session: &mut Session) -> Result<()> {
    let body = json!({ "ttlSeconds": 3600, "childWriteOffsetMs": 500 });
    let path = "/v1/host/sample/test/memory/cross-run-ttl-roundtrip";
    let reply = session.expect(200, Request::post(path, &body)).await?;
    let time = |name: &Value| name.as_str().context("no time").and_then(millis);
    let (wrote, began) = (time(&reply["childWroteAt"])?, time(&reply["parentStartedAt"])?);
    ensure!(wrote - began >= 500, "{reply}");
    ensure!(time(&reply["entry"]["expiresAt"])? - wrote == 3_600_000, "{reply}");
    Ok(())
}

async fn distilled(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/memory/distill";
    let body = json!({ "memoryRef": "interop/distill", "tokenBudget": 200,
        "sources": ["one long note", "another long note"], "includeSecretCanary": true });
    let first = session.expect(200, Request::post(path, &body)).await?;
    let spent = &first["event"]["distillation"];
    ensure!(spent["tokensUsed"].as_u64() <= spent["tokenBudget"].as_u64(), "{first}");
    ensure!(first["secretLeaked"] == false, "{first}");
    let again = session.expect(200, Request::post(path, &body)).await?;
    ensure!(first["archiveChecksum"] == again["archiveChecksum"], "{first} {again}");
    let run = first["runId"].as_str().context("no run")?;
    let observed = session.observe(run, WITHIN).await?;
    observed.is_a_log()?;
    let told = observed.only("memory.compacted")?;
    let output = told["outputId"].as_str().context("no output")?.to_owned();
    let entry = session.expect(200, Request::get(format!("{MEMORY}/{output}"))).await?;
    let provenance = json!(format!("compacted-from:{run}"));
    ensure!(entry["tags"].as_array().is_some_and(|tags| tags.contains(&provenance)), "{entry}");
    let tight = json!({ "memoryRef": "interop/distill", "tokenBudget": 2 });
    let refused = session.expect(422, Request::post(path, &tight)).await?;
    ensure!(refused["error"] == "token_budget_exceeded", "{refused}");
    Ok(())
}

async fn compacted(session: &mut Session) -> Result<()> {
    let place = json!({ "memoryRef": "mem_tenant:default_agent:interop_longTerm" });
    let mut seed = place.clone();
    seed["entries"] = json!([
        { "id": "a", "content": "User confirmed: [BYOK:hk_live_canary_42]" },
        { "id": "b", "content": "Resolved <REDACTED:db-prod-creds> outage." },
    ]);
    session.expect(201, Request::post("/v1/test/memory/seed", &seed)).await?;
    let shown = session.expect(200, Request::post("/v1/test/memory/compact", &place)).await?;
    ensure!(shown["type"] == "memory.compacted", "{shown}");
    let content = shown["outputContent"].as_str().context("no content")?;
    let is_marked = content.contains("[REDACTED:db-prod-creds]");
    ensure!(is_marked && !content.contains("[BYOK:"), "{content}");
    ensure!(shown["payload"]["byteSize"] == content.len(), "{shown}");
    let run = shown["runId"].as_str().context("no run")?;
    session.observe(run, WITHIN).await?.is_a_log()
}

async fn consolidated(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/memory/consolidate";
    let body = json!({ "memoryRef": "mem://interop/consolidation" });
    for (before, after) in [(3, 2), (2, 2)] {
        let shown = session.expect(200, Request::post(path, &body)).await?;
        let event = &shown["event"];
        ensure!(event["inputCount"] == before && event["outputCount"] == after, "{shown}");
        let run = shown["runId"].as_str().context("no run")?;
        session.observe(run, WITHIN).await?.is_a_log()?;
    }
    Ok(())
}

async fn promised(session: &mut Session) -> Result<()> {
    for condition in ["time", "predicate"] {
        let body = json!({ "memoryRef": "mem://interop/promises", "condition": condition,
            "includeIntentionCanary": true });
        let path = "/v1/host/sample/commitment/fire";
        let shown = session.expect(200, Request::post(path, &body)).await?;
        let canary = shown["intentionCanary"].as_str().context("no canary")?.to_owned();
        ensure!(!shown["event"].to_string().contains(&canary), "{shown}");
        ensure!(shown["fireCount"] == 1 && shown["event"]["condition"] == condition, "{shown}");
    }
    Ok(())
}

async fn people(session: &mut Session) -> Result<()> {
    let observed = play(session, "conformance-agent-memory-roundtrip").await?;
    let id = ids(&observed).pop().context("no id")?;
    let path = format!("{MEMORY}/{}", id.as_str().context("no text")?);
    let query = format!("{MEMORY}?scopeId=conformance/agent-memory-roundtrip&text=workflow");
    let found = session.expect(200, Request::get(query)).await?;
    ensure!(found["entries"][0]["id"] == id, "{found}");
    let body = json!({ "version": 1, "expectedVersion": 1 });
    let restored = Request::post(format!("{path}/restore"), &body);
    ensure!(session.expect(200, restored).await?["version"] == 2, "not restored");
    let late = session.expect(409, Request::post(format!("{path}/restore"), &body)).await?;
    ensure!(late["error"] == "memory_conflict", "{late}");
    let history = session.expect(200, Request::get(format!("{path}/history"))).await?;
    ensure!(history["versions"].as_array().is_some_and(|all| all.len() == 2), "{history}");
    ensure!(
        session.ask(Request::get(path.as_str()).method("DELETE")).await?.status == 204,
        "not forgotten"
    );
    session.expect(404, Request::get(path)).await?;
    Ok(())
}

/// Milliseconds of an RFC 3339 time, counted from some day or other.
fn millis(time: &str) -> Result<i64> {
    let parts: Vec<i64> = time
        .trim_end_matches('Z')
        .split(['-', 'T', ':', '.'])
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [year, month, day, hour, minute, second, milli] =
        <[i64; 7]>::try_from(parts).map_err(|_| anyhow!("{time}"))?;
    // Years begin in March here, so that the odd day of a leap year is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Ok((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + milli)
}
