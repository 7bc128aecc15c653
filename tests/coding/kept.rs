//! Sessions of the real programs that go on where their homes were lost: the database has kept them.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::api::Api;
use crate::programs::{CLAUDE, CODEX, GEMINI, OPENCODE, Real, TASK, opencode_settings};
use crate::server::{Mood, REPAIR};
use crate::stage::{PLANNER, events, told};

/// Loses the host and every temporary folder while an answer is repaired.
async fn goes_on_without_its_home(real: Real) -> Result<()> {
    let host = real.host()?;
    real.server.be(Mood::StallsInRepair("the queue is fire"));
    let (_, run) = real.create(&host, PLANNER).await?;
    // A session is kept before it goes on.
    real.hears(0, REPAIR).await?;
    real.kill(host).await?;
    fs::remove_dir_all(real.stage.path("tmp"))?;
    fs::create_dir(real.stage.path("tmp"))?;
    real.server.be(Mood::Says("{\"queue\":\"fire\"}"));
    let before = real.server.heard().len();
    let host = real.host()?;
    let api = Api::of(host.url())?;
    assert_eq!(api.finish(&run).await?, "completed", "{}", api.log(&run).await?);
    let log = events(&api, &run).await?;
    assert_eq!(told(&log, "run.completed")[0]["outputs"], json!({ "queue": "fire" }));
    // The task was told in what is only in the session.
    let heard = real.server.heard().split_off(before);
    ensure!(heard.iter().any(|body| body.contains(TASK) && body.contains(REPAIR)), "{heard:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_session_of_claude_code_goes_on_where_its_home_was_lost() -> Result<()> {
    let Some(real) = Real::new(CLAUDE).await? else { return Ok(()) };
    goes_on_without_its_home(real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_session_of_codex_goes_on_where_its_home_was_lost() -> Result<()> {
    let Some(real) = Real::new(CODEX).await? else { return Ok(()) };
    let provider = "-c 'model=\"mock\"' -c 'model_provider=\"mock\"' \
        -c 'model_providers.mock={name=\"mock\",base_url=\"ADDRESS/v1\",wire_api=\"responses\",\
        env_key=\"OPENAI_API_KEY\",request_max_retries=0,stream_max_retries=0}'";
    goes_on_without_its_home(real.with_arguments(provider)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_session_of_gemini_cli_goes_on_where_its_home_was_lost() -> Result<()> {
    let Some(real) = Real::new(GEMINI).await? else { return Ok(()) };
    goes_on_without_its_home(real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_session_of_opencode_goes_on_where_its_home_was_lost() -> Result<()> {
    let Some(real) = Real::new(OPENCODE).await? else { return Ok(()) };
    goes_on_without_its_home(real.with_file("OPENCODE_CONFIG", &opencode_settings())?).await
}
