//! K-08: a browser that runs no script reads, filters, starts, answers and cancels.

use anyhow::Result;
use serde_json::json;

use crate::stage::Stage;
use crate::support::host::KEY;

#[tokio::test]
async fn everything_that_matters_is_done_without_script() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let browser = &stage.browser;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await?;
    stage.go("/console/login").await?;
    browser.fill("#key", KEY).await?;
    browser.press("Sign in").await?;
    stage.at("/").await?;

    stage.go("/console/workflows/release").await?;
    browser.press("Start").await?;
    browser.until("location.pathname.startsWith('/console/runs/run_')").await?;
    let first = browser.url().await?;
    let first = first.rsplit('/').next().unwrap_or_default().to_owned();
    stage.becomes(&first, "waiting-approval").await?;
    assert_eq!(browser.count("#live").await?, 0, "the page runs no script");
    stage.go("/console/inbox").await?;
    browser.press("accept").await?;
    stage.becomes(&first, "completed").await?;

    let second = stage.run(json!({ "workflowId": "release", "tags": ["second"] })).await?;
    stage.becomes(&second, "waiting-approval").await?;
    stage.go(&format!("/console/runs/{second}?tab=log")).await?;
    browser.shows("run.started").await?;
    browser.press("Cancel").await?;
    stage.becomes(&second, "cancelled").await?;

    stage.go("/console/runs").await?;
    browser.choose("select[name=status]", "cancelled").await?;
    browser.press("Show").await?;
    browser.until("location.search.includes('status=cancelled')").await?;
    browser.find(&format!("a[href='/console/runs/{second}']")).await?;
    assert_eq!(browser.count(&format!("a[href='/console/runs/{first}']")).await?, 0);
    Ok(())
}
