//! K-12: fork, replay and compare from the screen.

use anyhow::Result;
use serde_json::json;

use crate::stage::Stage;

async fn here(stage: &Stage) -> Result<String> {
    let url = stage.browser.url().await?;
    let id = url.rsplit('/').next().unwrap_or_default();
    Ok(id.split('?').next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_run_is_forked_replayed_and_compared() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let asked = *stage.sequences(&run).await?.last().expect("events");
    let answer = json!({ "resumeValue": { "action": "accept" } });
    stage.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).await?;
    stage.becomes(&run, "completed").await?;

    stage.go(&format!("/console/runs/{run}?tab=log")).await?;
    browser.click(&format!("#e-{asked} summary")).await?;
    browser.click(&format!("#e-{asked} a[href*=fork]")).await?;
    browser.fill("#tags", "second-try").await?;
    browser.press("Fork").await?;
    browser.until(&format!("!location.href.includes('{run}') && !location.search")).await?;
    let fork = here(&stage).await?;
    stage.becomes(&fork, "waiting-approval").await?;
    browser.press("Look at the question").await?;
    browser.press("reject").await?;
    stage.at(&format!("/console/runs/{fork}")).await?;
    browser.press("compare").await?;
    browser.shows("and differ from there on").await?;
    browser.shows("reject").await?;

    stage.go(&format!("/console/runs/{run}")).await?;
    browser.press("Replay").await?;
    browser.until(&format!("!location.href.includes('{run}')")).await?;
    let replay = here(&stage).await?;
    stage.becomes(&replay, "completed").await?;
    stage.go(&format!("/console/compare?a={run}&b={replay}")).await?;
    browser.shows("They tell the same.").await
}
