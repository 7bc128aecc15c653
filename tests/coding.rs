//! Coding agents as the backend of the real binary: seen live, cancelled with all that they started, resumed after a
//! crash, held to what they may use.
#![cfg(test)]

#[path = "support/api.rs"]
mod api;
#[path = "coding/approvals.rs"]
mod approvals;
#[path = "coding/doors.rs"]
mod doors;
#[path = "coding/guard.rs"]
mod guard;
#[path = "support/host.rs"]
mod host;
#[path = "coding/kept.rs"]
mod kept;
#[path = "coding/programs.rs"]
mod programs;
#[path = "coding/real.rs"]
mod real;
#[path = "coding/sandbox.rs"]
mod sandbox;
#[path = "coding/server.rs"]
mod server;
#[path = "coding/stage.rs"]
mod stage;
/// Where the shared helpers look for each other.
mod support {
    pub(crate) use crate::host;
}

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use api::Api;
use stage::{
    RUNNER, SORTER, Stage, WRITER, delta, done, events, gone, hang, init, say, seen, told,
    tool_result, tool_use, wait,
};
use support::host::{Host, KEY};

fn order(agent: &str) -> Value {
    json!({ "agentId": agent, "inputs": { "text": "a canary task" } })
}

/// Starts a run and waits for its end.
async fn finished(api: &Api, body: &Value) -> Result<(String, Vec<Value>)> {
    let run = api.create(body, "once").await?;
    let status = api.finish(&run).await?;
    Ok((status, events(api, &run).await?))
}

fn failure(events: &[Value]) -> (String, String) {
    let error = told(events, "run.failed").pop().unwrap_or_default()["error"].take();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("message"))
}

/// `callboard run --follow` as scripts read it.
fn follower(host: &Host) -> Command {
    let mut follower = Command::new(env!("CARGO_BIN_EXE_callboard"));
    follower.env_clear().env("CALLBOARD_URL", host.url()).env("CALLBOARD_API_KEY", KEY);
    follower.args(["run", WRITER, "--input", "{\"text\": \"greet\"}", "--follow", "--json"]);
    follower.stdin(Stdio::null()).stdout(Stdio::piped());
    follower
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_seen_before_the_agent_has_ended() -> Result<()> {
    let lines =
        [init("s-1"), delta("thinking", "hm"), delta("text", "Hello "), delta("text", "you")];
    let play = format!("{}{}{}", say(&lines), wait(), say(&[done("Hello you")]));
    let stage = Stage::new(&[play])?;
    let host = stage.host()?;
    let mut follower = follower(&host).spawn()?;
    let out = follower.stdout.take().context("no standard output")?;
    let mut kinds = Vec::new();
    for line in BufReader::new(out).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if event["type"] == "output.chunk" && event["payload"]["chunk"] != "" {
            // The agent waits for this, so its words were here before its end.
            stage.go()?;
        }
        kinds.push(event["type"].as_str().unwrap_or_default().to_owned());
    }
    ensure!(follower.wait()?.success());
    let story = [
        "agent.invocation.started",
        "agent.promptResolved",
        "callboard.agent.session",
        "agent.reasoning.delta",
        "output.chunk",
        "provider.usage",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
        "run.completed",
    ];
    let places: Vec<_> = story.map(|kind| kinds.iter().position(|it| it == kind)).into();
    ensure!(places.iter().all(Option::is_some) && places.is_sorted(), "{kinds:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_little_and_is_held_to_its_list() -> Result<()> {
    let stage = Stage::new(&[say(&[init("s-1"), done("ok")])])?;
    let host = stage.host_with(&[
        ("ANTHROPIC_API_KEY", "sk-needed"),
        ("OPENAI_API_KEY", "sk-not-needed"),
        ("CALLBOARD_LOG", "info"),
        ("HOME", "/somewhere/else"),
    ])?;
    let api = Api::of(host.url())?;
    let (status, log) = finished(&api, &order(WRITER)).await?;
    assert_eq!(status, "completed", "{log:?}");
    let argv = stage.argv(0)?;
    let after = |flag: &str| {
        let place = argv.iter().position(|word| word == flag)?;
        argv.get(place + 1).map(String::as_str)
    };
    assert_eq!(after("--permission-mode"), Some("dontAsk"));
    assert_eq!(after("--allowedTools"), Some("Read,Glob,Grep"));
    assert_eq!(after("--tools"), Some("Read,Glob,Grep"));
    ensure!(!argv.iter().any(|word| word.contains("canary") || word.contains("dangerous")));
    ensure!(stage.noted("prompt.0")?.contains("a canary task"));
    let environment = stage.noted("env.0")?;
    ensure!(environment.contains("ANTHROPIC_API_KEY=sk-needed"));
    for stranger in ["sk-not-needed", "CALLBOARD_", "/somewhere/else"] {
        ensure!(!environment.contains(stranger), "{environment}");
    }
    let data = stage.path("data");
    ensure!(!stage.noted("cwd.0")?.starts_with(&*data.to_string_lossy()));
    ensure!(!environment.contains(&*data.to_string_lossy()), "{environment}");
    let started = &told(&log, "agent.invocation.started")[0];
    assert_eq!(started["resolvedProvider"], "cli");
    assert_eq!(started["resolvedModel"], "claude-code");
    assert_eq!(started["toolSurfaceCount"], 1);
    let warned = told(&log, "log.appended");
    ensure!(
        warned.iter().any(|it| it["fields"]["tool"] == "openwop:core.rag.unknown"),
        "{warned:?}"
    );
    let usage = &told(&log, "provider.usage")[0];
    assert_eq!((&usage["inputTokens"], &usage["costEstimateUsd"]), (&json!(10), &json!(0.5)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_tools_are_told_in_pairs_without_what_went_through_them() -> Result<()> {
    let lines = [
        init("s-1"),
        delta("thinking", "first"),
        tool_use("t-1", "Read"),
        // Not on the list: the agent denies it itself, and nothing tells of it.
        tool_use("t-2", "Bash"),
        tool_result("t-2"),
        tool_result("t-1"),
        delta("thinking", "then"),
        done("ok"),
    ];
    let stage = Stage::new(&[say(&lines)])?;
    let host = stage.host()?;
    let (status, log) = finished(&Api::of(host.url())?, &order(WRITER)).await?;
    assert_eq!(status, "completed", "{log:?}");
    let (called, returned) = (told(&log, "agent.toolCalled"), told(&log, "agent.toolReturned"));
    assert_eq!((called.len(), returned.len()), (1, 1), "{log:?}");
    assert_eq!(called[0]["toolName"], "cli:claude-code.Read");
    assert_eq!(called[0]["callId"], returned[0]["callId"]);
    assert_eq!(returned[0]["status"], "ok");
    ensure!(returned[0]["outcome"]["bytes"].as_u64() > Some(0));
    ensure!(!serde_json::to_string(&log)?.contains("canary output"));
    let kinds: Vec<&str> = log.iter().filter_map(|event| event["type"].as_str()).collect();
    let thought: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("agent.reason")).collect();
    assert_eq!(
        thought,
        [&"agent.reasoning.delta", &"agent.reasoned", &"agent.reasoning.delta", &"agent.reasoned"]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_is_repaired_in_its_own_session() -> Result<()> {
    let wrong = say(&[init("s-1"), done("the queue is fire")]);
    let right = say(&[init("s-1"), done("{\"queue\":\"fire\"}")]);
    let stage = Stage::new(&[wrong.clone(), right])?;
    let host = stage.host()?;
    let (status, log) = finished(&Api::of(host.url())?, &order(SORTER)).await?;
    assert_eq!(status, "completed", "{log:?}");
    assert_eq!(told(&log, "run.completed")[0]["outputs"], json!({ "queue": "fire" }));
    assert_eq!(told(&log, "envelope.retry.attempted").len(), 1);
    ensure!(!stage.argv(0)?.contains(&"--resume".to_owned()));
    ensure!(stage.argv(1)?.windows(2).any(|words| words == ["--resume", "s-1"]));
    ensure!(stage.noted("prompt.0")?.contains("JSON Schema"));
    ensure!(!stage.noted("prompt.1")?.contains("a canary task"));

    let stage = Stage::new(&[wrong])?;
    let host = stage.host()?;
    let (status, log) = finished(&Api::of(host.url())?, &order(SORTER)).await?;
    assert_eq!((status.as_str(), stage.starts()), ("failed", 2));
    assert_eq!(failure(&log).0, "handoff_return_schema_violation");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_leaves_no_process_behind() -> Result<()> {
    let stage = Stage::new(&[format!("{}{}", say(&[init("s-1")]), hang())])?;
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    let run = api.create(&order(WRITER), "once").await?;
    let processes = [stage.number("pid.0").await?, stage.number("child").await?];
    seen(&api, &run, "callboard.agent.session").await?;
    api.act(&run, "/cancel").await?;
    assert_eq!(api.finish(&run).await?, "cancelled");
    gone(&processes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_ends_its_agent() -> Result<()> {
    let stage = Stage::new(&[format!("{}{}", say(&[init("s-1")]), hang())])?;
    let host = stage.host()?;
    let mut body = order(WRITER);
    body["configurable"] = json!({ "runTimeoutMs": 1_500 });
    let (status, log) = finished(&Api::of(host.url())?, &body).await?;
    assert_eq!((status.as_str(), failure(&log).0.as_str()), ("failed", "run_timeout"));
    gone(&[stage.number("pid.0").await?, stage.number("child").await?]).await
}

/// Stops the host once its agent has used a tool, starts it again, and answers what came of the run.
async fn killed(stage: &Stage, signal: &str) -> Result<(String, Vec<Value>)> {
    lost(stage, signal, "agent.toolCalled").await
}

async fn lost(stage: &Stage, signal: &str, after: &str) -> Result<(String, Vec<Value>)> {
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    let run = api.create(&order(WRITER), "once").await?;
    let processes = [stage.number("pid.0").await?, stage.number("child").await?];
    seen(&api, &run, after).await?;
    host.stop(signal)?;
    let host = stage.host()?;
    // Before anything is resumed, what the lost host left running has ended.
    gone(&processes).await?;
    let api = Api::of(host.url())?;
    let status = api.finish(&run).await?;
    Ok((status, events(&api, &run).await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_lost_resumes_the_session() -> Result<()> {
    for signal in ["KILL", "TERM"] {
        let lines = [init("s-1"), delta("text", "I am "), tool_use("t-1", "Read")];
        let first = format!("{}{}", say(&lines), hang());
        let stage = Stage::new(&[first, say(&[init("s-1"), done("I am done")])])?;
        let (status, log) = killed(&stage, signal).await?;
        assert_eq!(status, "completed", "{signal}: {log:?}");
        assert_eq!(stage.starts(), 2, "{signal}");
        ensure!(!stage.argv(0)?.contains(&"--resume".to_owned()), "{signal}");
        let argv = stage.argv(1)?;
        ensure!(argv.windows(2).any(|words| words == ["--resume", "s-1"]), "{signal}: {argv:?}");
        // The session lives in the home that it was begun in.
        let home = |start: usize| -> Result<Option<String>> {
            let environment = stage.noted(&format!("env.{start}"))?;
            Ok(environment.lines().find(|line| line.starts_with("HOME=")).map(str::to_owned))
        };
        assert_eq!(home(0)?, home(1)?, "{signal}");
        assert_eq!(stage.noted("cwd.0")?, stage.noted("cwd.1")?, "{signal}");
        let (called, returned) = (told(&log, "agent.toolCalled"), told(&log, "agent.toolReturned"));
        assert_eq!((called.len(), returned.len()), (1, 1), "{signal}: {log:?}");
        assert_eq!(returned[0]["error"]["code"], "outcome_unknown", "{signal}");
        for kind in ["agent.invocation.started", "agent.decided", "callboard.agent.session"] {
            assert_eq!(told(&log, kind).len(), 1, "{signal}: {kind}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_gone_is_replaced_only_if_it_has_just_talked() -> Result<()> {
    let missing = "echo 'No conversation found with session ID: s-1' >&2; exit 1\n".to_owned();
    let first = format!("{}{}", say(&[init("s-1"), tool_use("t-1", "Read")]), hang());
    let stage = Stage::new(&[first, missing.clone()])?;
    let (status, log) = killed(&stage, "KILL").await?;
    assert_eq!((status.as_str(), stage.starts()), ("failed", 2));
    assert_eq!(failure(&log).0, "coding_session_missing");

    let first = format!("{}{}", say(&[init("s-1"), delta("text", "I am ")]), hang());
    let stage = Stage::new(&[first, missing, say(&[init("s-2"), done("I am done")])])?;
    let (status, log) = lost(&stage, "KILL", "callboard.agent.session").await?;
    assert_eq!((status.as_str(), stage.starts()), ("completed", 3), "{log:?}");
    ensure!(!stage.argv(2)?.contains(&"--resume".to_owned()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_be_held_to_its_list_is_not_started() -> Result<()> {
    let stage = Stage::new(&["exit 7\n".to_owned()])?;
    let host = stage.host_by_file("[models]\ndefault = \"cli/claude-code\"\n")?;
    let api = Api::of(host.url())?;
    for (kind, agent, reason) in [
        ("codex", WRITER, "codex always has a shell, which was not granted"),
        ("opencode", WRITER, "opencode has a shell, which was not granted"),
        ("aider", RUNNER, "aider reads, writes and runs what it likes"),
    ] {
        let mut body = order(agent);
        body["configurable"] = json!({ "ai": { "model": kind } });
        let run = api.create(&body, kind).await?;
        assert_eq!(api.finish(&run).await?, "failed", "{kind}");
        let (code, message) = failure(&events(&api, &run).await?);
        assert_eq!(code, "capability_not_provided", "{kind}");
        ensure!(message.contains(reason), "{message}");
    }
    let mut body = order(WRITER);
    body["configurable"] = json!({ "ai": { "model": "nobody" } });
    let run = api.create(&body, "nobody").await?;
    assert_eq!(api.finish(&run).await?, "failed");
    assert_eq!(failure(&events(&api, &run).await?).0, "no_model_available");
    assert_eq!(stage.starts(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_starts_nobody_and_tells_the_same() -> Result<()> {
    let lines = [init("s-1"), tool_use("t-1", "Read"), tool_result("t-1"), done("ok")];
    let stage = Stage::new(&[say(&lines)])?;
    let host = stage.host()?;
    let api = Api::of(host.url())?;
    let run = api.create(&order(WRITER), "once").await?;
    assert_eq!(api.finish(&run).await?, "completed");
    let fork =
        api.post(&format!("/v1/runs/{run}:fork"), &json!({ "mode": "replay", "fromSeq": 0 }));
    let fork: Value = fork.send().await?.json().await?;
    let replay = fork["runId"].as_str().with_context(|| fork.to_string())?.to_owned();
    assert_eq!(api.finish(&replay).await?, "completed");
    let facts = |events: Vec<Value>| -> Vec<(Value, Value)> {
        events.into_iter().map(|mut it| (it["type"].take(), it["payload"].take())).collect()
    };
    assert_eq!(facts(events(&api, &replay).await?), facts(events(&api, &run).await?));
    assert_eq!(stage.starts(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_has_a_code_and_repeats_nothing() -> Result<()> {
    let failed = |status: u16| {
        json!({
            "type": "result", "subtype": "success", "is_error": true, "result": "canary body",
            "api_error_status": status,
        })
    };
    let refused = json!({
        "type": "result", "subtype": "success", "is_error": false, "stop_reason": "refusal",
        "result": "canary body",
    });
    for (play, code, outcome) in [
        (say(&[init("s"), failed(401)]), "credential_forbidden", "failed"),
        (say(&[init("s"), failed(429)]), "rate_limited", "failed"),
        (say(&[init("s"), failed(500)]), "service_unavailable", "failed"),
        (say(&[init("s"), refused]), "envelope_refusal", "refused"),
        ("echo canary; exit 3\n".to_owned(), "coding_agent_failed", "failed"),
        (say(&[init("s"), delta("text", "x")]), "coding_agent_failed", "failed"),
    ] {
        let stage = Stage::new(&[play])?;
        let host = stage.host()?;
        let (status, log) = finished(&Api::of(host.url())?, &order(WRITER)).await?;
        assert_eq!((status.as_str(), failure(&log).0.as_str()), ("failed", code));
        assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], outcome, "{code}");
        ensure!(!serde_json::to_string(&log)?.contains("canary body"), "{code}: {log:?}");
        ensure!(!host.log().contains("canary"), "{code}: {}", host.log());
    }
    Ok(())
}
