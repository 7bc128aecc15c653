//! The real programs against a scripted model server on loopback: what the fakes promise, they keep.

use std::io::{BufRead as _, BufReader};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::api::Api;
use crate::programs::{
    CLAUDE, CODEX, CODEX_SETTINGS, GEMINI, Lost, OPENCODE, Real, opencode_settings,
};
use crate::server::{Mood, Use};
use crate::stage::{events, told};
use crate::{failure, follower};

/// What every program goes through that can change something: it is never begun again in place of a lost session.
async fn goes_through_everything(real: Real) -> Result<()> {
    let host = real.host()?;
    real.speaks(&host).await?;
    real.uses_a_tool(&host).await?;
    real.is_cancelled(&host).await?;
    let host = real.is_resumed(host).await?;
    let Lost { host, run, heard } = real.loses_its_session(host).await?;
    let api = Api::of(host.url())?;
    assert_eq!(api.finish(&run).await?, "failed", "{}", api.log(&run).await?);
    assert_eq!(failure(&events(&api, &run).await?).0, "coding_session_missing");
    assert_eq!(real.server.heard().len(), heard, "nothing was begun in its place");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_works_is_cancelled_and_resumes() -> Result<()> {
    let Some(real) = Real::new(CLAUDE).await? else { return Ok(()) };
    let host = real.host()?;
    real.speaks(&host).await?;
    real.uses_a_tool(&host).await?;
    // A shell is not on the list: it is not even offered.
    let shell = Use { tool: "Bash", input: "{\"command\":\"echo hello\"}" };
    let (_, log) = real.run(&host, Mood::Uses(shell, "Well, no.")).await?;
    assert_eq!(told(&log, "agent.toolCalled").len(), 0, "{log:?}");
    for body in real.server.heard() {
        let body: Value = serde_json::from_str(&body)?;
        let offered = body["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = offered.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let more = ["Bash", "Edit", "Write", "WebFetch", "Task"];
        ensure!(!names.iter().any(|name| more.contains(name)), "{names:?}");
    }
    real.is_cancelled(&host).await?;
    let host = real.is_resumed(host).await?;
    let Lost { host, run, .. } = real.loses_its_session(host).await?;
    let api = Api::of(host.url())?;
    // It had only talked, so it may say it again.
    assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
    let log = events(&api, &run).await?;
    assert_eq!(told(&log, "run.completed")[0]["outputs"]["result"], "I begin anew.");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_claude_code_sees_it_at_work() -> Result<()> {
    let Some(real) = Real::new(CLAUDE).await? else { return Ok(()) };
    let host = real.host()?;
    // The model never ends, so whatever is seen is seen before the end.
    real.server.be(Mood::Stalls("Working"));
    let mut follower = follower(&host).spawn()?;
    let out = follower.stdout.take().context("no standard output")?;
    let (api, mut words) = (Api::of(host.url())?, String::new());
    for line in BufReader::new(out).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if event["type"] == "output.chunk" && words.is_empty() {
            words.push_str(event["payload"]["chunk"].as_str().unwrap_or_default());
            api.act(event["runId"].as_str().context("a run")?, "/cancel").await?;
        }
    }
    assert_eq!(words, "Working");
    ensure!(!follower.wait()?.success(), "a cancelled run is no success");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_goes_through_everything_in_the_home_that_it_is_given() -> Result<()> {
    let Some(real) = Real::new(CODEX).await? else { return Ok(()) };
    goes_through_everything(real.at_home(".codex/config.toml", CODEX_SETTINGS)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_goes_through_everything_in_a_home_of_its_own() -> Result<()> {
    let Some(real) = Real::new(GEMINI).await? else { return Ok(()) };
    goes_through_everything(real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_goes_through_everything_with_a_provider_of_its_file() -> Result<()> {
    let Some(real) = Real::new(OPENCODE).await? else { return Ok(()) };
    let file = ".config/opencode/opencode.json";
    goes_through_everything(real.at_home(file, &opencode_settings())?).await
}
