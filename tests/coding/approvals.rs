//! An agent that speaks the Agent Client Protocol and asks: held while a person decides, stopped when that takes
//! long, resumed by its session.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::Host;
use crate::stage::{ASKER, Stage, events, gone, seen, told};

/// Asks whether it may edit a file, and says whether it was allowed to.
const GOOSE: &str = r#"#!/bin/sh
stage=STAGE
n=0; while [ -e "$stage/argv.$n" ]; do n=$((n + 1)); done
for word in "$@"; do printf '%s\n' "$word"; done > "$stage/argv.$n"
echo $$ > "$stage/pid.$n"
say() { printf '%s\n' '{"jsonrpc":"2.0",'"$1"'}'; }
update() { say '"method":"session/update","params":{"sessionId":"a-1","update":{"sessionUpdate":'"$1"'}}'; }
end() {
    update '"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}'
    say '"id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}'
}
while read -r line; do
    printf '%s\n' "$line" >> "$stage/heard.$n"
    case "$line" in
    *'"initialize"'*) say '"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":LOADS}}' ;;
    *'"session/new"'*)
        mkdir -p "$HOME/.goose/sessions"; echo a-1 > "$HOME/.goose/sessions/a-1.jsonl"
        say '"id":2,"result":{"sessionId":"a-1"}' ;;
    *'"session/load"'*)
        if [ -e "$HOME/.goose/sessions/a-1.jsonl" ]; then say '"id":2,"result":{}'
        else say '"id":2,"error":{"code":-32602,"message":"Session not found"}'; fi ;;
    *'"session/prompt"'*)
        update '"tool_call","toolCallId":"t","kind":"edit","title":"notes.md","status":"pending"'
        say '"id":"p","method":"session/request_permission","params":{"sessionId":"a-1","toolCall":{"toolCallId":"t","kind":"edit","title":"notes.md","rawInput":{"text":"hello"}},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}' ;;
    *'"optionId":"yes"'*)
        update '"tool_call_update","toolCallId":"t","status":"completed"'
        end edited ;;
    *'"optionId":"no"'*)
        update '"tool_call_update","toolCallId":"t","status":"failed"'
        end 'left alone' ;;
    esac
done
"#;

/// A run whose agent has asked.
struct Asked {
    stage: Stage,
    host: Host,
    api: Api,
    run: String,
}

fn host(stage: &Stage, hold_ms: u64) -> Result<Host> {
    let program = stage.path("bin").join("goose");
    let program = program.to_string_lossy();
    let file = format!(
        "[models]\ncoding = \"cli/goose\"\n[cli]\nhold_ms = {hold_ms}\n[cli.goose]\nacp = [\"{program}\", \"acp\"]\nsessions = [\".goose/sessions\"]\n"
    );
    stage.host_of(&file, &[])
}

impl Asked {
    async fn of(loads: &str, hold_ms: u64) -> Result<Self> {
        let stage = Stage::with_program("goose", &GOOSE.replace("LOADS", loads))?;
        let host = host(&stage, hold_ms)?;
        let api = Api::of(host.url())?;
        let body = json!({ "agentId": ASKER, "inputs": { "text": "a canary task" } });
        let run = api.create(&body, "once").await?;
        seen(&api, &run, "approval.requested").await?;
        Ok(Self { stage, host, api, run })
    }

    async fn answer(&self, action: &str) -> Result<(String, Vec<Value>)> {
        let body = json!({ "resumeValue": { "action": action } });
        let path = format!("/v1/runs/{}/interrupts/agent", self.run);
        let answer = self.api.post(&path, &body).send().await?;
        ensure!(answer.status().is_success(), "{}", answer.text().await?);
        let status = self.api.finish(&self.run).await?;
        Ok((status, events(&self.api, &self.run).await?))
    }
}

const LONG: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_time_reaches_the_program_that_asked() -> Result<()> {
    for (action, result, tools) in [("accept", "edited", 1), ("reject", "left alone", 0)] {
        let asked = Asked::of("true", LONG).await?;
        let (status, log) = asked.answer(action).await?;
        assert_eq!(status, "completed", "{log:?}");
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], result);
        assert_eq!((asked.stage.starts(), asked.stage.argv(0)?), (1, vec!["acp".to_owned()]));
        let question = &told(&log, "interrupt.requested")[0];
        assert_eq!(question["data"]["title"], "goose asks for permission: notes.md");
        let subject = &question["data"]["artifactData"];
        assert_eq!(subject["input"]["rawInput"], json!({ "text": "hello" }));
        // Nothing tells of what was not done.
        for kind in ["agent.toolCalled", "agent.toolReturned"] {
            assert_eq!(told(&log, kind).len(), tools, "{action}: {kind}");
        }
        for kind in ["agent.invocation.started", "agent.decided", "interrupt.requested"] {
            assert_eq!(told(&log, kind).len(), 1, "{action}: {kind}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_program_was_stopped_resumes_its_session() -> Result<()> {
    let asked = Asked::of("true", 1).await?;
    gone(&[asked.stage.number("pid.0").await?]).await?;
    let (status, log) = asked.answer("accept").await?;
    assert_eq!(status, "completed", "{log:?}");
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "edited");
    assert_eq!(asked.stage.starts(), 2);
    let heard = asked.stage.noted("heard.1")?;
    ensure!(heard.contains("session/load") && heard.contains("yes, this once"), "{heard}");
    ensure!(!heard.contains("session/new"), "{heard}");
    assert_eq!(told(&log, "interrupt.requested").len(), 1, "nobody is asked the same twice");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_lost_while_its_agent_waits_resumes_with_the_answer() -> Result<()> {
    for signal in ["KILL", "TERM"] {
        let Asked { stage, host: first, run, .. } = Asked::of("true", LONG).await?;
        let process = stage.number("pid.0").await?;
        first.stop(signal)?;
        let host = host(&stage, LONG)?;
        gone(&[process]).await?;
        let api = Api::of(host.url())?;
        let asked = Asked { stage, host, api, run };
        let (status, log) = asked.answer("accept").await?;
        assert_eq!(status, "completed", "{signal}: {log:?}");
        assert_eq!(asked.stage.starts(), 2, "{signal}");
        ensure!(asked.stage.noted("heard.1")?.contains("session/load"), "{signal}");
        assert_eq!(told(&log, "interrupt.requested").len(), 1, "{signal}");
        drop(asked.host);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_sessions_to_load_is_refused_clearly() -> Result<()> {
    let asked = Asked::of("false", 1).await?;
    gone(&[asked.stage.number("pid.0").await?]).await?;
    let (status, log) = asked.answer("accept").await?;
    assert_eq!(status, "failed", "{log:?}");
    let error = &told(&log, "run.failed")[0]["error"];
    assert_eq!(error["code"], "coding_session_missing");
    assert_eq!(
        error["message"],
        "goose: it offers no way to go on with a session that was stopped"
    );
    ensure!(!asked.stage.noted("heard.1")?.contains("session/new"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_a_program_that_waits() -> Result<()> {
    let asked = Asked::of("true", LONG).await?;
    asked.api.act(&asked.run, "/cancel").await?;
    assert_eq!(asked.api.finish(&asked.run).await?, "cancelled");
    gone(&[asked.stage.number("pid.0").await?]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_where_its_home_was_lost() -> Result<()> {
    let Asked { stage, host: first, run, .. } = Asked::of("true", LONG).await?;
    first.stop("KILL")?;
    std::fs::remove_dir_all(stage.path("tmp"))?;
    std::fs::create_dir(stage.path("tmp"))?;
    let host = host(&stage, LONG)?;
    let api = Api::of(host.url())?;
    let asked = Asked { stage, host, api, run };
    let (status, log) = asked.answer("accept").await?;
    assert_eq!(status, "completed", "{log:?}");
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "edited");
    ensure!(!asked.stage.noted("heard.1")?.contains("session/new"));
    drop(asked.host);
    Ok(())
}
