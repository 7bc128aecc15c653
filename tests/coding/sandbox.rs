//! The real Codex that asks a person before it leaves its sandbox.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::programs::{CODEX, CODEX_SETTINGS, Real, TASK};
use crate::server::{Mood, Use};
use crate::stage::{events, seen, told};

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
