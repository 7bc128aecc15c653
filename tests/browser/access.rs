//! K-15: with keys alone, on a phone, and readable.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::driver::{ENTER, ESCAPE, TAB};
use crate::stage::{SCREENS, Stage};
use crate::support::host::KEY;

/// What is wrong with a page for those who cannot see it well or hold no mouse.
const AUDIT: &str = include_str!("audit.js");

#[tokio::test]
async fn a_question_is_found_and_answered_without_a_mouse() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    stage.go("/console/login").await?;
    browser.until("document.activeElement?.id === 'key'").await?;
    browser.keys(&format!("{KEY}{ENTER}")).await?;
    stage.at("/").await?;
    browser.keys(TAB).await?;
    browser.until("document.activeElement?.innerText === 'Skip to content'").await?;
    browser.until("getComputedStyle(document.activeElement).outlineStyle !== 'none'").await?;
    browser.keys("?").await?;
    browser.until("document.querySelector('#palette').open").await?;
    browser.keys(&run).await?;
    browser.until("document.querySelectorAll('#found a').length === 1").await?;
    browser.keys(ENTER).await?;
    stage.at(&format!("/console/runs/{run}")).await?;
    browser.keys("/").await?;
    browser.until("document.querySelector('#palette').open").await?;
    browser.keys(ESCAPE).await?;
    browser.until("!document.querySelector('#palette').open").await?;
    browser.keys("gi").await?;
    stage.at("/console/inbox").await?;
    browser.keys("j").await?;
    browser.find("li.question.here").await?;
    browser.keys("a").await?;
    stage.becomes(&run, "completed").await
}

#[tokio::test]
async fn every_screen_has_labels_and_contrast_and_fits_a_phone() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "triage-desk", "inputs": { "message": "The lift has stopped. [[scripted: confidence 0.3]]" } })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let failed = stage.run(json!({ "workflowId": "failing" })).await?;
    stage.becomes(&failed, "failed").await?;
    let pages = ["story", "log", "waterfall", "graph", "state"]
        .map(|tab| format!("/console/runs/{run}?tab={tab}"));
    let more = [
        format!("/console/runs/{failed}"),
        format!("/console/inbox/{run}/sort"),
        format!("/console/runs/{run}?fork=1"),
        format!("/console/compare?a={run}&b={failed}"),
        "/console/workflows/triage-desk".to_owned(),
        format!("/console/agents/{}", crate::stage::TRIAGER),
    ];
    stage.go("/").await?;
    let spoil = "document.querySelector('h1').style.color = 'color-mix(in srgb, Canvas 70%, gray)'; document.querySelector('main').append(document.createElement('input'));";
    browser.eval(spoil).await?;
    let noticed = browser.eval(AUDIT).await?;
    assert_eq!(noticed.as_array().map(Vec::len), Some(2), "{noticed}");
    let mut wrong = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await?;
        for path in SCREENS.into_iter().chain(pages.iter().chain(&more).map(String::as_str)) {
            stage.go(path).await?;
            let found = browser.eval(AUDIT).await?;
            let found = found.as_array().cloned().unwrap_or_default();
            wrong.extend(found.iter().map(|it| format!("{scheme} {path}: {it}")));
        }
    }
    let phone = json!({ "width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": true });
    browser.devtools("Emulation.setDeviceMetricsOverride", phone).await?;
    for path in SCREENS.into_iter().chain(pages.iter().chain(&more).map(String::as_str)) {
        stage.go(path).await?;
        let width: Value = browser.eval("return document.documentElement.scrollWidth").await?;
        if width.as_u64() > Some(380) {
            wrong.push(format!("{path} is {width} wide on a phone"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
