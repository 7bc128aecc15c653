//! The scenarios that RFC 0039 names, on the real binary: the confidence floor, lifetimes across runs, memory of the past.

#[path = "support/api.rs"]
mod api;
mod support;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use api::Api;
use callboard_protocol::Timestamp;
use support::definitions::{self, edge, node, workflow};
use support::host::Host;

/// Reached only when something is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("workflows"))?;
        definitions::write(&folder.path().join("workflows"))?;
        Ok(Self { folder })
    }

    fn start(&self, arguments: &[&str]) -> Result<Host> {
        let workflows = self.folder.path().join("workflows");
        let workflows = workflows.to_str().context("a folder with a plain name")?;
        let arguments = [&["--workflows", workflows], arguments].concat();
        Host::start(&self.folder.path().join("data"), &arguments)
    }
}

async fn register(api: &Api, definition: &Value) -> Result<()> {
    let stored = api.post("/v1/host/callboard/workflows", definition).send().await?;
    ensure!(stored.status() == 201, "{}", stored.text().await?);
    Ok(())
}

async fn completed(api: &Api, workflow: &str) -> Result<String> {
    let key = format!("{workflow}-{:?}", Instant::now());
    let run = api.create(&json!({ "workflowId": workflow }), &key).await?;
    ensure!(api.finish(&run).await? == "completed", "{}", api.log(&run).await?);
    Ok(run)
}

async fn log(api: &Api, run: &str) -> Result<Vec<Value>> {
    let mut log: Value = serde_json::from_str(&api.log(run).await?)?;
    Ok(std::mem::take(log["events"].as_array_mut().context("a log without events")?))
}

fn find<'a>(log: &'a [Value], kind: &str, node: &str) -> Result<&'a Value> {
    let found = log.iter().find(|event| event["type"] == kind && event["nodeId"] == node);
    found.with_context(|| format!("{node} tells of no {kind}: {log:#?}"))
}

fn listed(log: &[Value], node: &str) -> Result<Vec<String>> {
    let end = find(log, "node.completed", node)?;
    let list = end["payload"]["outputs"]["memoryList"].as_array().context("no list")?;
    Ok(list.iter().filter_map(|entry| entry["content"].as_str()).map(str::to_owned).collect())
}

fn time(value: &Value) -> Result<i64> {
    Ok(serde_json::from_value::<Timestamp>(value.clone())?.as_millis())
}

fn write(id: &str, content: &str) -> Value {
    remembers(id, json!({ "memoryAction": "write", "content": content }))
}

fn look(id: &str) -> Value {
    remembers(id, json!({ "memoryAction": "list" }))
}

fn remembers(id: &str, mut config: Value) -> Value {
    config["memoryRef"] = json!("desk/notes");
    node(id, "core.identity", config)
}

/// `multi-agent-confidence-floor`: told, then asked, and nobody works before somebody says so. Also across a kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsure_supervisor_is_escalated_before_anybody_works() -> Result<()> {
    let stage = Stage::new()?;
    let host = stage.start(&[])?;
    let api = Api::of(host.url())?;
    let unsure = json!({ "kind": "next-worker", "nextWorkerIds": ["noop"], "confidence": 0.3 });
    let plan = json!({ "mockDispatchPlan": [unsure, { "kind": "terminate" }] });
    let nodes = vec![
        node("boss", "core.orchestrator.supervisor", plan),
        node("work", "core.dispatch", json!({})),
    ];
    register(&api, &workflow("crew", nodes, vec![edge("boss", "work"), edge("work", "boss")]))
        .await?;
    let run = api.create(&json!({ "workflowId": "crew" }), "crew").await?;
    let deadline = Instant::now() + PATIENCE;
    while api.status(&run).await? != "waiting-approval" {
        if Instant::now() > deadline {
            bail!("nobody is asked: {}", api.log(&run).await?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    host.stop("KILL")?;
    let host = stage.start(&[])?;
    let api = Api::of(host.url())?;
    let told = log(&api, &run).await?;
    let escalated = find(&told, "core.workflowChain.confidence-escalated", "boss")?;
    ensure!(escalated["payload"]["confidence"] == json!(0.3), "{escalated}");
    ensure!(escalated["payload"]["originalDecision"] == unsure, "{escalated}");
    let asked = find(&told, "node.suspended", "boss")?;
    ensure!(escalated["sequence"].as_u64() < asked["sequence"].as_u64(), "asked before it is told");
    let works = |log: &[Value]| log.iter().filter(|it| it["type"] == "node.dispatched").count();
    let chain = |log: &[Value]| {
        log.iter().filter(|event| event["type"] == "core.workflowChain.event").count()
    };
    ensure!(works(&told) == 0 && chain(&told) == 0, "somebody works already: {told:#?}");
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let path = format!("/v1/runs/{run}/interrupts/boss");
    ensure!(api.post(&path, &accept).send().await?.status() == 200, "not accepted");
    ensure!(api.finish(&run).await? == "completed", "{}", api.log(&run).await?);
    let told = log(&api, &run).await?;
    let escalations =
        told.iter().filter(|event| event["type"] == "core.workflowChain.confidence-escalated");
    ensure!(works(&told) == 1 && escalations.count() == 1, "{told:#?}");
    Ok(())
}

/// `agent-memory-cross-run-ttl`: the parent sees what its child wrote, which lives from when the child wrote it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_entry_lives_from_when_the_child_wrote_it() -> Result<()> {
    let stage = Stage::new()?;
    let host = stage.start(&[])?;
    let api = Api::of(host.url())?;
    let note = json!({ "memoryAction": "write", "content": "from the child", "ttlSeconds": 5 });
    let child =
        vec![node("wait", "core.delay", json!({ "durationMs": 400 })), remembers("write", note)];
    register(&api, &workflow("child", child, vec![edge("wait", "write")])).await?;
    let call = node("call", "core.subWorkflow", json!({ "workflowId": "child" }));
    let late = node("late", "core.delay", json!({ "durationMs": 5_100 }));
    let parent = vec![call, look("look"), late, look("again")];
    let edges = vec![edge("call", "look"), edge("look", "late"), edge("late", "again")];
    register(&api, &workflow("parent", parent, edges)).await?;
    let run = completed(&api, "parent").await?;
    let told = log(&api, &run).await?;
    let began = time(&told[0]["timestamp"])?;
    let end = find(&told, "node.completed", "look")?;
    let entry = &end["payload"]["outputs"]["memoryList"][0];
    ensure!(entry["content"] == "from the child", "{end}");
    let child = find(&told, "node.dispatched", "call")?["payload"]["childRunId"].clone();
    let child = log(&api, child.as_str().context("no child")?).await?;
    let wrote = time(&find(&child, "memory.written", "write")?["timestamp"])?;
    let expires = time(&entry["expiresAt"])?;
    ensure!(expires == wrote + 5_000, "written at {wrote}, gone at {expires}");
    ensure!(expires >= began + 5_400, "it lives from its parent's beginning");
    ensure!(listed(&told, "again")?.is_empty(), "it outlived itself");
    Ok(())
}

/// `replay-memory-snapshot`: a fork reads what its source saw at that event, whatever was written since, and whoever
/// died in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_reads_the_past() -> Result<()> {
    let stage = Stage::new()?;
    let host = stage.start(&[])?;
    let api = Api::of(host.url())?;
    register(&api, &workflow("note", vec![write("only", "by another")], vec![])).await?;
    let nodes = vec![write("first", "one"), write("second", "two"), look("look")];
    let edges = vec![edge("first", "second"), edge("second", "look")];
    register(&api, &workflow("source", nodes, edges)).await?;
    completed(&api, "note").await?;
    let source = completed(&api, "source").await?;
    completed(&api, "note").await?;
    host.stop("KILL")?;
    let host = stage.start(&[])?;
    let api = Api::of(host.url())?;
    let told = log(&api, &source).await?;
    ensure!(listed(&told, "look")? == ["two", "one", "by another"], "{told:#?}");
    for (mode, node, saw) in [
        ("branch", "look", vec!["two", "one", "by another"]),
        ("branch", "second", vec!["two", "one", "by another"]),
        ("replay", "first", vec!["two", "one", "by another"]),
    ] {
        let from = find(&told, "node.started", node)?["sequence"].clone();
        let body = json!({ "mode": mode, "fromSeq": from });
        let fork = api.post(&format!("/v1/runs/{source}:fork"), &body).send().await?;
        ensure!(fork.status() == 201, "{mode} at {node}: {}", fork.text().await?);
        let fork: Value = fork.json().await?;
        let fork = fork["runId"].as_str().context("no run")?;
        ensure!(api.finish(fork).await? == "completed", "{}", api.log(fork).await?);
        let seen = listed(&log(&api, fork).await?, "look")?;
        ensure!(seen == saw, "{mode} at {node} sees {seen:?}");
    }
    let body = json!({ "runId": source });
    let expire = "/v1/host/sample/test/memory/expire-snapshots";
    ensure!(api.post(expire, &body).send().await?.status() == 204, "not expired");
    let body = json!({ "mode": "replay", "fromSeq": 0 });
    let refused = api.post(&format!("/v1/runs/{source}:fork"), &body).send().await?;
    ensure!(refused.status() == 422, "{}", refused.status());
    let refused: Value = refused.json().await?;
    ensure!(refused["error"] == "replay_memory_snapshot_unavailable", "{refused}");
    let details = json!({ "fromSeq": 0, "sourceRunId": source, "reason": "retention_expired" });
    ensure!(refused["details"] == details, "{refused}");
    Ok(())
}
