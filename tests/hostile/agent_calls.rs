//! Calls of an agent that are not made twice behind anybody's back: branches from inside of its work, and a host that is
//! killed in the middle of a call.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::outside::{MODEL, Outside, TOOLS};
use crate::support::host::{Host, KEY, serve};

const AGENT: &str = "vendor.acme.desk.poster";
/// Reached only when something is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

struct Stage {
    folder: TempDir,
    outside: Outside,
}

impl Stage {
    fn new() -> Result<Self> {
        let (folder, outside) = (tempfile::tempdir()?, Outside::start()?);
        let address = outside.address();
        let file = format!(
            "[models]\ndefault = \"local/tiny\"\n\
             [providers.local]\nkind = \"openai-compatible\"\nbase_url = \"{address}/v1\"\n\
             [mcp.servers.desk]\nurl = \"{address}{TOOLS}\"\n"
        );
        fs::write(folder.path().join("callboard.toml"), file)?;
        let pack = folder.path().join("pack");
        fs::create_dir(&pack)?;
        let manifest = json!({
            "name": "vendor.acme.desk", "version": "1.0.0",
            "agents": [{
                "agentId": AGENT, "persona": "Poster", "modelClass": "general",
                "systemPrompt": "Post it.", "toolAllowlist": ["mcp:desk.post"],
            }],
            "engines": { "openwop": ">=1.1.0 <2.0.0" },
            "runtime": { "language": "remote", "entry": "pack.json" },
        });
        fs::write(pack.join("pack.json"), manifest.to_string())?;
        Ok(Self { folder, outside })
    }

    fn host(&self) -> Result<Host> {
        let pack = self.folder.path().join("pack");
        let pack = pack.to_str().context("a folder with a plain name")?;
        let arguments = ["--allow-private-egress", "--packs", pack];
        Host::start(&self.folder.path().join("data"), &arguments)
    }
}

fn order() -> Value {
    json!({ "agentId": AGENT, "inputs": { "text": "the printer burns" } })
}

async fn events(api: &Api, run: &str) -> Result<Vec<Value>> {
    let mut log: Value = serde_json::from_str(&api.log(run).await?)?;
    Ok(std::mem::take(log["events"].as_array_mut().context("a log without events")?))
}

fn told<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).map(|event| &event["payload"]).collect()
}

/// Turns that were paid for and tools that were used, as the log tells.
fn shown(events: &[Value]) -> (usize, usize) {
    (told(events, "provider.usage").len(), told(events, "agent.toolReturned").len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_from_any_event_tells_what_it_does_anew() -> Result<()> {
    let stage = Stage::new()?;
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    let run = api.create(&order(), "source").await?;
    let status = api.finish(&run).await?;
    let source = events(&api, &run).await?;
    ensure!(status == "completed", "{source:?}");
    assert_eq!(stage.outside.counts(), (3, 2));
    assert_eq!(shown(&source), (3, 2));
    for from in 1..source.len() {
        let before = stage.outside.counts();
        let body = json!({ "mode": "branch", "fromSeq": from });
        let fork = api.post(&format!("/v1/runs/{run}:fork"), &body).send().await?;
        ensure!(fork.status() == 201, "{}", fork.text().await?);
        let fork: Value = fork.json().await?;
        let branch = fork["runId"].as_str().context("no run id")?;
        let status = api.finish(branch).await?;
        let log = events(&api, branch).await?;
        ensure!(status == "completed", "from {from}: {log:?}");
        let after = stage.outside.counts();
        let made = (after.0 - before.0, after.1 - before.1);
        assert_eq!(made, shown(&log[from..]), "from {from}: {log:?}");
        assert_eq!(shown(&log), (3, 2), "from {from}");
        assert_eq!(told(&log, "agent.toolCalled").len(), 2, "from {from}");
    }
    Ok(())
}

/// A run whose host was killed while its call of this path was under way, on a new host.
async fn killed(stage: &Stage, path: &'static str) -> Result<(Host, Api, String)> {
    stage.outside.hold(path);
    let host = stage.host()?;
    let run = Api::of(host.url())?.create(&order(), path).await?;
    stage.outside.until_held().await?;
    host.stop("KILL")?;
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    Ok((host, api, run))
}

async fn until_asked(api: &Api, run: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !api.status(run).await?.starts_with("waiting") {
        if Instant::now() > deadline {
            bail!("nobody is asked: {}", api.log(run).await?);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_about_an_unknown_call_works_and_pairs_it() -> Result<()> {
    for (answer, status, uses) in [
        (json!({ "action": "done", "result": "it is out" }), "completed", 2),
        (json!({ "action": "done" }), "completed", 2),
        (json!({ "action": "repeat" }), "completed", 3),
        (json!({ "action": "fail" }), "failed", 1),
    ] {
        let stage = Stage::new()?;
        let (_host, api, run) = killed(&stage, TOOLS).await?;
        until_asked(&api, &run).await?;
        let path = format!("/v1/runs/{run}/interrupts/agent");
        let answered = api.post(&path, &json!({ "resumeValue": answer })).send().await?;
        ensure!(answered.status().is_success(), "{}", answered.text().await?);
        assert_eq!(api.finish(&run).await?, status, "{answer}");
        let log = events(&api, &run).await?;
        let (called, returned) = (told(&log, "agent.toolCalled"), told(&log, "agent.toolReturned"));
        let ids = |told: &[&Value]| told.iter().map(|it| it["callId"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&called), ids(&returned), "{answer}");
        assert_eq!(stage.outside.counts().1, uses, "{answer}");
        match answer["action"].as_str() {
            Some("done") => {
                assert_eq!(returned[0]["status"], "ok");
                assert_eq!(returned[0]["outcome"], answer["result"]);
            }
            Some("fail") => assert_eq!(returned[0]["error"]["code"], "outcome_unknown"),
            _ => assert_eq!(told(&log, "log.appended")[0]["fields"]["code"], "call_sent_again"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_under_way_at_the_kill_is_told_as_sent_again() -> Result<()> {
    let stage = Stage::new()?;
    let (_host, api, run) = killed(&stage, MODEL).await?;
    assert_eq!(api.finish(&run).await?, "completed");
    let log = events(&api, &run).await?;
    // Four turns went out for three that were answered, and the log says which and what it may have cost.
    assert_eq!(stage.outside.counts(), (4, 2));
    assert_eq!(shown(&log), (3, 2));
    let again = told(&log, "log.appended");
    ensure!(again.len() == 1, "{again:?}");
    let fields = &again[0]["fields"];
    assert_eq!((&fields["code"], &fields["to"]), (&json!("call_sent_again"), &json!("local/tiny")));
    ensure!(fields["mayHaveUsed"]["inputTokens"].as_u64().is_some_and(|it| it > 0), "{fields}");
    // It goes out under the key that it went out with before.
    let keys = stage.outside.keys();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(fields["idempotencyKey"], keys[0].as_str());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_wishes_of_its_model_is_what_the_provider_gets() -> Result<()> {
    let stage = Stage::new()?;
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    let mut body = order();
    body["configurable"] = json!({ "model": "small", "temperature": 0.25, "maxTokens": 321 });
    let run = api.create(&body, "wishes").await?;
    assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
    let turns = stage.outside.turns();
    assert_eq!(turns.len(), 3);
    for turn in turns {
        assert_eq!((&turn["model"], &turn["temperature"]), (&json!("small"), &json!(0.25)));
        let most = turn.get("max_tokens").or_else(|| turn.get("max_completion_tokens"));
        assert_eq!(most, Some(&json!(321)), "{turn}");
    }
    let log = events(&api, &run).await?;
    assert!(told(&log, "provider.usage").iter().all(|used| used["model"] == "small"));
    let found: Value = serde_json::from_str(&api.get("/.well-known/openwop").await?)?;
    for key in ["model", "temperature", "maxTokens"] {
        ensure!(found["configurable"].get(key).is_some(), "{key} is not listed");
    }
    Ok(())
}

/// The protocol's `conformance-stream-text` is listed without `--test-seams`, so it must run there: with a test key and a
/// provider that the caller makes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_key_streams_from_a_mock_provider_without_test_seams() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let workflows = folder.path().join("workflows");
    fs::create_dir(&workflows)?;
    let definition = json!({
        "id": "conformance-stream-text", "name": "stream", "version": "1.0", "edges": [],
        "triggers": [], "variables": [], "settings": { "timeout": 30_000 },
        "metadata": { "tags": ["conformance", "messages-mode"] },
        "nodes": [{ "id": "ai", "typeId": "core.ai.callPrompt", "name": "AI", "inputs": {},
            "position": { "x": 0, "y": 0 },
            "config": { "promptId": "conformance.stream-text-noop", "expectsStreaming": true } }],
    });
    fs::write(workflows.join("stream.json"), definition.to_string())?;
    let mut command = serve(&folder.path().join("data"));
    command.args(["--api-key", KEY, "--workflows"]).arg(&workflows);
    let host = Host::of(command)?;
    let api = Api::of(host.url())?;
    let discovery: Value = serde_json::from_str(&api.get("/.well-known/openwop").await?)?;
    ensure!(discovery["fixtures"].to_string().contains("conformance-stream-text"), "{discovery}");
    let mock = json!({ "id": "stream-text", "config": { "tokens": ["Hello", ", ", "world"] } });
    let body = json!({ "workflowId": "conformance-stream-text",
        "configurable": { "mockProvider": mock } });
    let run = api.create(&body, "once").await?;
    ensure!(api.finish(&run).await? == "completed", "{}", api.log(&run).await?);
    let messages = api.get(&format!("/v1/runs/{run}/events?streamMode=messages")).await?;
    ensure!(["Hello", ", ", "world"].iter().all(|token| messages.contains(token)), "{messages}");
    Ok(())
}
