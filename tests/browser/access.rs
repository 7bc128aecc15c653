//! K-15: with keys alone, on a phone, and readable.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::driver::{ENTER, ESCAPE, TAB};
use crate::stage::{SCREENS, Stage, TRIAGER};
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
    // A key that comes before the focus has left the palette is typed there.
    browser.until("!document.activeElement?.matches('input')").await?;
    browser.keys("gi").await?;
    stage.at("/console/inbox").await?;
    browser.keys("j").await?;
    browser.find("li.question.here").await?;
    browser.keys("a").await?;
    stage.becomes(&run, "completed").await
}

/// Every screen, with something on it: a run that asks, one that failed, a member with its sources, what is remembered.
async fn screens(stage: &Stage) -> Result<Vec<String>> {
    let run = stage.run(json!({ "workflowId": "triage-desk", "inputs": { "message": "The lift has stopped. [[scripted: confidence 0.3]]" } })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let failed = stage.run(json!({ "workflowId": "failing" })).await?;
    stage.becomes(&failed, "failed").await?;
    let host = "/v1/host/callboard";
    let sally = json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER }, "workflows": ["triage-desk"] });
    let member = stage.post(&format!("{host}/roster"), &sally).await?;
    let member = member["rosterId"].as_str().unwrap_or_default();
    let queue = json!({ "source": "queue", "workflowId": "triage-desk", "rosterId": member, "inputMapping": { "message": "queue.message" } });
    let queue = stage.post(&format!("{host}/trigger-subscriptions"), &queue).await?;
    let queue = queue["subscription"]["subscriptionId"].as_str().unwrap_or_default();
    let morning = json!({ "workflowId": "morning-brief", "cron": "30 7 * * mon-fri", "timezone": "Europe/Berlin" });
    let schedule = stage.post(&format!("{host}/schedules"), &morning).await?;
    let schedule = schedule["id"].as_str().unwrap_or_default();
    let work = json!({ "title": "Answer the landlord", "workflowId": "triage-desk", "inputs": { "message": "The rent is late." } });
    stage.post(&format!("{host}/roster/{member}/work"), &work).await?;
    let tabs = ["story", "log", "waterfall", "graph", "state"];
    let mut pages: Vec<String> = SCREENS.iter().map(|path| (*path).to_owned()).collect();
    pages.extend(tabs.map(|tab| format!("/console/runs/{run}?tab={tab}")));
    pages.extend([
        format!("/console/runs/{failed}"),
        format!("/console/runs/{failed}?retry=1"),
        format!("/console/runs/{run}?fork=1"),
        format!("/console/runs?text={run}&since=24h"),
        format!("/console/inbox/{run}/sort"),
        format!("/console/compare?a={run}&b={failed}"),
        format!("/console/roster/{member}"),
        format!("/console/triggers/{queue}"),
        format!("/console/schedules/{schedule}"),
        "/console/workflows/triage-desk".to_owned(),
        format!("/console/agents/{TRIAGER}"),
        "/console/find?q=triage".to_owned(),
        "/console/file?path=".to_owned(),
    ]);
    Ok(pages)
}

async fn prefer(stage: &Stage, scheme: &str) -> Result<()> {
    let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
    let media = json!({ "features": features });
    stage.browser.devtools("Emulation.setEmulatedMedia", media).await.map(drop)
}

async fn shrink_to_phone(stage: &Stage) -> Result<()> {
    let phone = json!({ "width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": true });
    stage.browser.devtools("Emulation.setDeviceMetricsOverride", phone).await.map(drop)
}

#[tokio::test]
async fn every_screen_has_labels_and_contrast_and_fits_a_phone() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let pages = screens(&stage).await?;
    stage.go("/").await?;
    let spoil = "document.querySelector('h1').style.color = 'color-mix(in srgb, Canvas 70%, gray)'; document.querySelector('main').append(document.createElement('input'));";
    browser.eval(spoil).await?;
    let noticed = browser.eval(AUDIT).await?;
    assert_eq!(noticed.as_array().map(Vec::len), Some(2), "{noticed}");
    let mut wrong = Vec::new();
    for scheme in ["light", "dark"] {
        prefer(&stage, scheme).await?;
        for path in &pages {
            stage.go(path).await?;
            let found = browser.eval(AUDIT).await?;
            let found = found.as_array().cloned().unwrap_or_default();
            wrong.extend(found.iter().map(|it| format!("{scheme} {path}: {it}")));
        }
    }
    shrink_to_phone(&stage).await?;
    for path in &pages {
        stage.go(path).await?;
        let width: Value = browser.eval("return document.documentElement.scrollWidth").await?;
        if width.as_u64() > Some(380) {
            wrong.push(format!("{path} is {width} wide on a phone"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// axe-core, where `.ci/axe` has put it. None, with a line that says so, where it is missing and not required.
fn axe() -> Option<String> {
    let folder = std::env::var_os("CALLBOARD_AXE").map(PathBuf::from);
    let file = folder.map(|folder| folder.join("node_modules/axe-core/axe.min.js"));
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    if text.is_none() {
        let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|part| part.trim() == "browser");
        assert!(
            !is_required,
            "axe-core is required and not in the folder that CALLBOARD_AXE names"
        );
        let told = writeln!(std::io::stderr(), "skipped: axe-core is not installed");
        told.expect("standard error is open");
    }
    text
}

/// The rules of WCAG 2.2 AA, and what is serious or worse among what breaks them.
const SERIOUS: &str = "
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
return axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] }).then((found) =>
  found.violations.filter((it) => it.impact === 'serious' || it.impact === 'critical').flatMap((it) =>
    it.nodes.map((node) => `${it.id}: ${node.html.slice(0, 120)}`)));";

#[tokio::test]
async fn axe_finds_nothing_serious_on_any_screen() -> Result<()> {
    let Some(axe) = axe() else { return Ok(()) };
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let look = format!("{axe}\n{SERIOUS}");
    let pages = screens(&stage).await?;
    stage.go("/").await?;
    browser.eval("document.querySelector('nav').append(document.createElement('input'))").await?;
    let noticed = browser.eval(&look).await?;
    assert_eq!(noticed.as_array().map(Vec::len), Some(1), "{noticed}");
    let mut wrong = Vec::new();
    for place in ["light", "dark", "phone"] {
        match place {
            "phone" => shrink_to_phone(&stage).await?,
            scheme => prefer(&stage, scheme).await?,
        }
        for path in pages.iter().map(String::as_str).chain(["/console/login", "/console/nothing"]) {
            stage.go(path).await?;
            let found = browser.eval(&look).await?;
            let found = found.as_array().cloned().unwrap_or_default();
            wrong.extend(found.iter().map(|it| format!("{place} {path}: {it}")));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
