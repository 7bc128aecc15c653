//! The real Codex that asks a person before it leaves its sandbox.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::programs::{CODEX, CODEX_SETTINGS, Real, TASK};
use crate::server::{Mood, Use};
use crate::stage::{events, seen, told};

/// Tries to read what the host keeps for itself, and to write.
fn thief(data: &Path) -> Use {
    let data = data.display();
    let command =
        format!("echo it ran; cat {data}/host.key {data}/callboard.db; ls {data}; touch {data}/x");
    let input = json!({ "cmd": command }).to_string();
    // Scripts of a model live as long as the test.
    Use { tool: "exec_command", input: Box::leak(input.into_boxed_str()) }
}

/// Codex locks its commands in by itself, and is told what to keep from them: also where its own file says otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_real_codex_cannot_read_what_is_the_hosts() -> Result<()> {
    let open = format!("sandbox_mode = \"danger-full-access\"\n{CODEX_SETTINGS}");
    for (settings, asks) in [(CODEX_SETTINGS, false), (&open, false), (CODEX_SETTINGS, true)] {
        let Some(real) = Real::new(CODEX).await? else { return Ok(()) };
        let real = real.at_home(".codex/config.toml", settings)?;
        let real = if asks { real.with_approvals() } else { real };
        let host = real.host()?;
        let data = real.stage.path("data");
        let key = fs::read_to_string(data.join("host.key")).unwrap_or_else(|_| "no text".into());
        let (status, log) = real.run(&host, Mood::Uses(thief(&data), "That was it.")).await?;
        assert_eq!(status, "completed", "{log:?}\n{}", host.log());
        let heard = real.server.heard().concat();
        ensure!(heard.contains("it ran") && heard.contains("Permission denied"), "{heard}");
        for held in [key.trim(), "SQLite format 3", "callboard.lock"] {
            ensure!(!heard.contains(held), "{held}: {heard}");
        }
        ensure!(!data.join("x").exists(), "it wrote to the data folder");
    }
    Ok(())
}

/// A command that Codex may not run in its sandbox alone.
const BEYOND: Use = Use {
    tool: "exec_command",
    input: "{\"cmd\":\"touch greeting\",\"sandbox_permissions\":\"require_escalated\",\"justification\":\"to greet\"}",
};

async fn real() -> Result<Option<Real>> {
    let Some(real) = Real::new(CODEX).await? else { return Ok(None) };
    real.server.be(Mood::Uses(BEYOND, "That was it."));
    Ok(Some(real.at_home(".codex/config.toml", CODEX_SETTINGS)?.with_approvals()))
}

async fn answer(api: &Api, run: &str, action: &str) -> Result<Vec<Value>> {
    let body = json!({ "resumeValue": { "action": action } });
    let answered = api.post(&format!("/v1/runs/{run}/interrupts/agent"), &body).send().await?;
    ensure!(answered.status().is_success(), "{}", answered.text().await?);
    assert_eq!(api.finish(run).await?, "completed", "{}", api.log(run).await?);
    events(api, run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_codex_asks_before_it_leaves_its_sandbox() -> Result<()> {
    let Some(real) = real().await? else { return Ok(()) };
    let host = real.host()?;
    for (action, tools) in [("accept", 1), ("reject", 0)] {
        let (api, run) = real.create(&host, real.program.agent).await?;
        seen(&api, &run, "approval.requested").await?;
        let log = answer(&api, &run, action).await?;
        assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "That was it.");
        let question = &told(&log, "interrupt.requested")[0]["data"];
        ensure!(
            question["artifactData"]["input"]["command"].to_string().contains("touch greeting")
        );
        for kind in ["agent.toolCalled", "agent.toolReturned"] {
            assert_eq!(told(&log, kind).len(), tools, "{action}: {kind}: {log:?}");
        }
        assert_eq!(told(&log, "interrupt.requested").len(), 1, "{action}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_codex_whose_host_was_lost_goes_on_with_the_answer() -> Result<()> {
    let Some(real) = real().await? else { return Ok(()) };
    let host = real.host()?;
    let (api, run) = real.create(&host, real.program.agent).await?;
    seen(&api, &run, "approval.requested").await?;
    real.saves(&api, &run).await?;
    real.kill(host).await?;
    let before = real.server.heard().len();
    let host = real.host()?;
    let log = answer(&Api::of(host.url())?, &run, "accept").await?;
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "That was it.");
    // The conversation from before is still there.
    let heard = real.server.heard().split_off(before);
    ensure!(heard.iter().any(|body| body.matches(TASK).count() == 2), "{heard:?}");
    Ok(())
}
