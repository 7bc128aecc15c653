//! Pages that change while somebody looks at them.

use anyhow::Result;
use serde_json::json;

use crate::stage::Stage;

/// True as long as nobody has loaded the page anew.
const MARK: &str = "window.untouched = true; return null";
const UNTOUCHED: &str = "window.untouched === true";

/// The events that stand on the page, in its order.
pub(crate) const SEQUENCES: &str = "return [...document.querySelectorAll('[data-rows] > li')].map((row) => Number(row.dataset.last))";

#[tokio::test]
async fn a_timeline_grows_while_it_is_watched() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    stage.go(&format!("/console/runs/{run}?tab=log")).await?;
    browser.until("document.querySelector('#live')?.textContent === 'live'").await?;
    browser.eval(MARK).await?;
    let answer = json!({ "resumeValue": { "action": "accept" } });
    stage.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).await?;
    browser.until("document.querySelector('#head').innerText.includes('completed')").await?;
    browser.until(UNTOUCHED).await?;
    let shown = browser.eval(SEQUENCES).await?;
    assert_eq!(shown, json!(stage.sequences(&run).await?), "each event once, in order");
    Ok(())
}

/// Only the end of a log grows: whoever reads an older page of it keeps that page.
#[tokio::test]
async fn ten_thousand_events_answer_to_a_click() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "long" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let last = *stage.sequences(&run).await?.last().expect("events");
    assert!(last >= 10_000, "{last}");
    stage.go(&format!("/console/runs/{run}?tab=log")).await?;
    browser.press("« first").await?;
    browser.find("#e-0 summary").await?;
    assert_eq!(browser.count("[data-rows] > li").await?, 200, "a page, not the log");
    browser.click("#e-7 summary").await?;
    browser.until("document.querySelector('#e-7 details').open").await?;
    browser.until("document.querySelector('#live')?.textContent === 'live'").await?;
    let answer = json!({ "resumeValue": { "action": "accept" } });
    stage.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).await?;
    browser.until("document.querySelector('#head').innerText.includes('completed')").await?;
    assert_eq!(browser.count("[data-rows] > li").await?, 200, "nothing is put behind page one");
    browser.press("later ›").await?;
    browser.find("#e-200 summary").await?;
    for tab in ["Story", "Waterfall", "Graph", "State"] {
        browser.press(tab).await?;
        let here = "document.querySelector('nav.tabs [aria-current]')?.innerText";
        browser.until(&format!("{here} === '{tab}'")).await?;
    }
    Ok(())
}

/// K-09: neither the page nor its session ends with the host; no row is lost or comes twice.
#[tokio::test]
async fn a_page_goes_on_by_itself_after_its_host_was_killed_and_started() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let run = stage.run(json!({ "workflowId": "pace" })).await?;
    stage.go(&format!("/console/runs/{run}?tab=log")).await?;
    stage.browser.until("document.querySelectorAll('[data-rows] > li').length > 20").await?;
    stage.browser.eval(MARK).await?;
    let stage = stage.restart()?;
    let browser = &stage.browser;
    browser.until("document.querySelector('#live').innerText === 'reconnecting …'").await?;
    browser.until("document.querySelector('#live').innerText === 'live'").await?;
    stage.api.finish(&run).await?;
    browser.until("document.querySelector('#head').innerText.includes('completed')").await?;
    let log = stage.sequences(&run).await?;
    browser.until(&format!("document.querySelector('#e-{}')", log.len() - 1)).await?;
    browser.until(UNTOUCHED).await?;
    assert_eq!(browser.eval(SEQUENCES).await?, json!(log), "each event once, in order");
    Ok(())
}

#[tokio::test]
async fn the_list_and_the_overview_change_by_themselves() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    stage.go("/console/runs?workflowId=release").await?;
    browser.until("document.querySelector('#live')?.textContent === 'live'").await?;
    browser.eval(MARK).await?;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    let row = format!("a[href='/console/runs/{run}']");
    browser.find(&row).await?;
    browser.until("document.querySelector('#list').innerText.includes('waiting')").await?;
    browser.until(UNTOUCHED).await?;
    browser.click("input[name=run]").await?;
    browser.press("Cancel ticked").await?;
    browser.confirm().await?;
    stage.becomes(&run, "cancelled").await
}
