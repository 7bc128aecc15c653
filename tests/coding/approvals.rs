//! Agents that ask: held while a person decides, stopped when that takes long, resumed by their sessions.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::host::Host;
use crate::stage::{ASKER, RUNNER, Stage, events, gone, seen, told};

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

/// Asks whether it may write where its sandbox ends, and says whether it was allowed to.
const CODEX: &str = r#"#!/bin/sh
stage=STAGE
n=0; while [ -e "$stage/argv.$n" ]; do n=$((n + 1)); done
for word in "$@"; do printf '%s\n' "$word"; done > "$stage/argv.$n"
echo $$ > "$stage/pid.$n"
say() { printf '%s\n' "{$1}"; }
note() { say '"method":"'"$1"'","params":{"threadId":"t-1",'"$2"'}'; }
ran() { note "item/$1" '"item":{"type":"commandExecution","id":"c","command":"canary","status":"'"$2"'"}'; }
opened() { say '"id":2,"result":{"thread":{"id":"t-1"},"approvalPolicy":"on-request","approvalsReviewer":"user","sandbox":{"type":"SANDBOX"},"activePermissionProfile":{"id":"callboard"}}'; }
end() {
    note item/agentMessage/delta '"itemId":"m","delta":"'"$1"'"'
    note item/completed '"item":{"type":"agentMessage","id":"m","text":"'"$1"'"}'
    note turn/completed '"turn":{"status":"completed"}'
}
session="$CODEX_HOME/sessions/2026/rollout-t-1.jsonl"
while read -r line; do
    printf '%s\n' "$line" >> "$stage/heard.$n"
    case "$line" in
    *'"initialize"'*) say '"id":1,"result":{}' ;;
    *'"thread/start"'*) mkdir -p "${session%/*}"; echo t-1 > "$session"; opened ;;
    *'"thread/resume"'*)
        if [ -e "$session" ]; then opened
        else say '"id":2,"error":{"code":-32600,"message":"no rollout found for thread id t-1"}'; fi ;;
    *'"turn/start"'*)
        ran started inProgress
        say '"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t-1","itemId":"c","command":"touch /srv/notes","cwd":"/w"}' ;;
    *'"accept"'*) ran completed completed; end edited ;;
    *'"decline"'*) ran completed declined; end 'left alone' ;;
    esac
done
"#;

/// A program that asks.
#[derive(Clone)]
struct Asking {
    name: &'static str,
    /// Does the task.
    agent: &'static str,
    script: String,
    /// What stands in the file about it.
    settings: &'static str,
    arguments: &'static str,
    title: &'static str,
    input: Value,
    /// The words with which a session is opened, and with which it goes on.
    opens: &'static str,
    resumes: &'static str,
}

fn goose(loads: &str) -> Asking {
    Asking {
        name: "goose",
        agent: ASKER,
        script: GOOSE.replace("LOADS", loads),
        settings: "acp = [\"PROGRAM\", \"acp\"]\nsessions = [\".goose/sessions\"]\n",
        arguments: "acp",
        title: "goose asks for permission: notes.md",
        input: json!({ "rawInput": { "text": "hello" } }),
        opens: "session/new",
        resumes: "session/load",
    }
}

fn codex() -> Asking {
    Asking {
        name: "codex",
        agent: RUNNER,
        script: CODEX.replace("SANDBOX", "workspaceWrite"),
        settings: "program = \"PROGRAM\"\napprovals = true\n",
        arguments: "app-server",
        title: "codex asks for permission: touch /srv/notes",
        input: json!({ "command": "touch /srv/notes", "cwd": "/w" }),
        opens: "thread/start",
        resumes: "thread/resume",
    }
}

impl Asking {
    fn host(&self, stage: &Stage, hold_ms: u64) -> Result<Host> {
        let Self { name, settings, .. } = self;
        let program = stage.path("bin").join(name);
        let settings = settings.replace("PROGRAM", &program.to_string_lossy());
        let file = format!(
            "[models]\ncoding = \"cli/{name}\"\n[cli]\nhold_ms = {hold_ms}\n[cli.{name}]\n{settings}"
        );
        stage.host_of(&file, &[])
    }
}

/// A run whose agent has asked.
struct Asked {
    stage: Stage,
    host: Host,
    api: Api,
    run: String,
}

impl Asked {
    async fn of(asking: &Asking, hold_ms: u64) -> Result<Self> {
        let stage = Stage::with_program(asking.name, &asking.script)?;
        let host = asking.host(&stage, hold_ms)?;
        let api = Api::of(host.url())?;
        let body = json!({ "agentId": asking.agent, "inputs": { "text": "a canary task" } });
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
    let answers = [("accept", "edited", 1), ("reject", "left alone", 0)];
    let all =
        [goose("true"), codex()].into_iter().flat_map(|it| answers.map(|to| (it.clone(), to)));
    for (asking, (action, result, tools)) in all {
        let asked = Asked::of(&asking, LONG).await?;
        let (status, log) = asked.answer(action).await?;
        assert_eq!(status, "completed", "{log:?}");
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], result);
        assert_eq!(asked.stage.starts(), 1);
        let arguments = asked.stage.argv(0)?;
        assert!(arguments.iter().any(|word| word == asking.arguments), "{arguments:?}");
        let question = &told(&log, "interrupt.requested")[0];
        assert_eq!(question["data"]["title"], asking.title);
        assert_eq!(question["data"]["artifactData"]["input"], asking.input);
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
    for asking in [goose("true"), codex()] {
        let asked = Asked::of(&asking, 1).await?;
        gone(&[asked.stage.number("pid.0").await?]).await?;
        let (status, log) = asked.answer("accept").await?;
        assert_eq!(status, "completed", "{log:?}");
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "edited");
        assert_eq!(asked.stage.starts(), 2);
        let heard = asked.stage.noted("heard.1")?;
        ensure!(heard.contains(asking.resumes) && heard.contains("yes, this once"), "{heard}");
        ensure!(!heard.contains(asking.opens), "{heard}");
        assert_eq!(told(&log, "interrupt.requested").len(), 1, "nobody is asked the same twice");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_lost_while_its_agent_waits_resumes_with_the_answer() -> Result<()> {
    for (asking, signal) in
        [(goose("true"), "KILL"), (goose("true"), "TERM"), (codex(), "KILL"), (codex(), "TERM")]
    {
        let Asked { stage, host: first, run, .. } = Asked::of(&asking, LONG).await?;
        let process = stage.number("pid.0").await?;
        first.stop(signal)?;
        let host = asking.host(&stage, LONG)?;
        gone(&[process]).await?;
        let api = Api::of(host.url())?;
        let asked = Asked { stage, host, api, run };
        let (status, log) = asked.answer("accept").await?;
        assert_eq!(status, "completed", "{signal}: {log:?}");
        assert_eq!(asked.stage.starts(), 2, "{signal}");
        ensure!(asked.stage.noted("heard.1")?.contains(asking.resumes), "{signal}");
        assert_eq!(told(&log, "interrupt.requested").len(), 1, "{signal}");
        drop(asked.host);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_sessions_to_load_is_refused_clearly() -> Result<()> {
    let asked = Asked::of(&goose("false"), 1).await?;
    gone(&[asked.stage.number("pid.0").await?]).await?;
    let (status, log) = asked.answer("accept").await?;
    assert_eq!(status, "failed", "{log:?}");
    let error = &told(&log, "run.failed")[0]["error"];
    assert_eq!(error["code"], "coding_session_missing");
    assert_eq!(error["message"], "goose: it cannot resume a session that was stopped");
    ensure!(!asked.stage.noted("heard.1")?.contains("session/new"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_a_program_that_waits() -> Result<()> {
    for asking in [goose("true"), codex()] {
        let asked = Asked::of(&asking, LONG).await?;
        asked.api.act(&asked.run, "/cancel").await?;
        assert_eq!(asked.api.finish(&asked.run).await?, "cancelled");
        gone(&[asked.stage.number("pid.0").await?]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_where_its_home_was_lost() -> Result<()> {
    for asking in [goose("true"), codex()] {
        let Asked { stage, host: first, run, .. } = Asked::of(&asking, LONG).await?;
        first.stop("KILL")?;
        std::fs::remove_dir_all(stage.path("tmp"))?;
        std::fs::create_dir(stage.path("tmp"))?;
        let host = asking.host(&stage, LONG)?;
        let api = Api::of(host.url())?;
        let asked = Asked { stage, host, api, run };
        let (status, log) = asked.answer("accept").await?;
        assert_eq!(status, "completed", "{log:?}");
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "edited");
        ensure!(!asked.stage.noted("heard.1")?.contains(asking.opens));
        drop(asked.host);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_that_is_set_up_to_do_more_than_was_granted_gets_no_task() -> Result<()> {
    let stage = Stage::with_program("codex", &CODEX.replace("SANDBOX", "dangerFullAccess"))?;
    let host = codex().host(&stage, LONG)?;
    let api = Api::of(host.url())?;
    let body = json!({ "agentId": RUNNER, "inputs": { "text": "a canary task" } });
    let run = api.create(&body, "once").await?;
    assert_eq!(api.finish(&run).await?, "failed");
    let log = events(&api, &run).await?;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "capability_not_provided");
    ensure!(!stage.noted("heard.0")?.contains("canary"), "{}", stage.noted("heard.0")?);
    Ok(())
}
