//! K-17: `callboard console --url` shows another host, and outlives its end.

use std::process::{Command, Stdio};

use anyhow::Result;
use serde_json::json;

use crate::live::SEQUENCES;
use crate::stage::Stage;
use crate::support::host::{Host, KEY};

/// A console in a process of its own, for the stage's host.
fn console(stage: &Stage) -> Result<Host> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.env_clear().env("CALLBOARD_API_KEY", KEY);
    command.args(["console", "--url", stage.host.url()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Host::of(command)
}

/// K-09: neither the page nor its session ends with the host; no row is lost or comes twice.
#[tokio::test]
async fn a_page_goes_on_by_itself_when_its_host_comes_back() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let console = console(&stage)?;
    stage.browser.open(console.url()).await?;
    stage.browser.until("location.pathname === '/'").await?;
    let origin = stage.browser.eval("return location.origin").await?;
    let origin = origin.as_str().unwrap_or_default();
    let run = stage.run(json!({ "workflowId": "pace" })).await?;
    stage.browser.open(&format!("{origin}/console/runs/{run}?tab=log")).await?;
    stage.browser.until("document.querySelectorAll('[data-rows] > li').length > 20").await?;
    stage.browser.eval("window.untouched = true; return null").await?;
    let stage = stage.restart()?;
    let browser = &stage.browser;
    browser.until("document.querySelector('#live').innerText === 'reconnecting …'").await?;
    browser.until("document.querySelector('#live').innerText === 'live'").await?;
    stage.api.finish(&run).await?;
    browser.until("document.querySelector('#head').innerText.includes('completed')").await?;
    let log = stage.sequences(&run).await?;
    browser.until(&format!("document.querySelector('#e-{}')", log.len() - 1)).await?;
    browser.until("window.untouched === true").await?;
    assert_eq!(browser.eval(SEQUENCES).await?, json!(log), "each event once, in order");
    Ok(())
}

#[tokio::test]
async fn another_host_is_shown_and_acted_upon() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let console = console(&stage)?;
    let browser = &stage.browser;
    browser.open(console.url()).await?;
    browser.until("location.pathname === '/'").await?;
    browser.press("Ship it?").await?;
    browser.press("accept").await?;
    stage.becomes(&run, "completed").await?;
    // The console is only pages; the API is at the host.
    let origin = browser.eval("return location.origin").await?;
    let origin = origin.as_str().unwrap_or_default();
    assert!(console.url().starts_with(origin), "{origin}");
    let api = reqwest::get(format!("{origin}/v1/runs/{run}")).await?;
    assert_eq!(api.status(), 404);
    Ok(())
}
