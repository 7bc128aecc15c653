//! Signing in and out, and sessions that end with their key.

use anyhow::Result;
use serde_json::json;

use crate::driver::ENTER;
use crate::stage::{RIVAL, Stage};
use crate::support::host::KEY;

#[tokio::test]
async fn a_person_signs_in_and_out_and_comes_back_to_where_they_were() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let browser = &stage.browser;
    stage.go("/console/runs?status=failed").await?;
    stage.at("/console/login?next=%2Fconsole%2Fruns%3Fstatus%3Dfailed").await?;
    browser.fill("#key", "cb_wrong").await?;
    browser.keys(ENTER).await?;
    browser.find("[role=alert]").await?;
    browser.fill("#key", KEY).await?;
    browser.press("Sign in").await?;
    stage.at("/console/runs?status=failed").await?;
    let hidden = browser.eval("return document.cookie").await?;
    assert_eq!(hidden, json!(""), "no script sees the session");
    browser.press("Sign out").await?;
    stage.at("/console/login").await?;
    stage.go("/console/runs").await?;
    stage.at("/console/login?next=%2Fconsole%2Fruns").await
}

/// The link that `callboard console` prints signs in by itself, once.
#[tokio::test]
async fn a_link_signs_in_once() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let made = stage.post("/console/codes", &json!({})).await?;
    let path = made["path"].as_str().unwrap_or_default();
    stage.go(path).await?;
    stage.at("/").await?;
    stage.browser.find("header.top").await?;
    stage.go(path).await?;
    stage.browser.shows("used already").await
}

/// K-04
#[tokio::test]
async fn a_revoked_key_leads_to_the_sign_in_page_also_where_a_page_is_open() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let made = stage.post("/v1/host/callboard/keys", &json!({ "name": "visitor" })).await?;
    let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
    stage.sign_in(&text("key")).await?;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    stage.go(&format!("/console/runs/{run}")).await?;
    stage.browser.until("document.querySelector('#live')?.textContent === 'live'").await?;
    let url = format!("{}/v1/host/callboard/keys/{}", stage.host.url(), text("id"));
    let revoked = reqwest::Client::new().delete(url).bearer_auth(KEY).send().await?;
    assert_eq!(revoked.status(), 204);
    // Nobody touches the page: its stream ends, and it looks again.
    stage.browser.until("location.pathname === '/console/login'").await
}

/// A restart signs nobody out, and whoever signs out everywhere is gone from a page that is open elsewhere, too.
#[tokio::test]
async fn a_session_outlives_its_host_and_ends_everywhere() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    let stage = stage.restart()?;
    let browser = &stage.browser;
    stage.go("/console/settings").await?;
    stage.at("/console/settings").await?;
    let tabs = browser.tab().await?;
    stage.go(&format!("/console/runs/{run}")).await?;
    browser.until("document.querySelector('#live')?.textContent === 'live'").await?;
    browser.switch(&tabs.first).await?;
    browser.press("Sign out everywhere").await?;
    stage.at("/console/login").await?;
    browser.switch(&tabs.second).await?;
    // It was quiet for a while, so that the session is asked for before anything is shown.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    // The next thing that happens to the run is not shown any more.
    let cancel = stage.api.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send();
    cancel.await?.error_for_status()?;
    browser.until("location.pathname === '/console/login'").await
}

/// K-03: the exact address of what another tenant has shows what an address of nothing shows.
#[tokio::test]
async fn what_others_have_looks_like_nothing() -> Result<()> {
    let Some(stage) = Stage::before_signing_in().await? else { return Ok(()) };
    let browser = &stage.browser;
    let run = stage.run(json!({ "workflowId": "release" })).await?;
    stage.becomes(&run, "waiting-approval").await?;
    stage.sign_in(RIVAL).await?;
    let nobodys = "run_00000000000000000000000000000000";
    let mut shown = Vec::new();
    for id in [run.as_str(), nobodys] {
        for path in ["", "?tab=log", "?fork=1", "?retry=1", "/report", "/bundle", "/calls/1"] {
            stage.go(&format!("/console/runs/{id}{path}")).await?;
            shown.push(browser.eval("return document.body.innerText").await?);
        }
        stage.go(&format!("/console/inbox/{id}/gate")).await?;
        shown.push(browser.eval("return document.querySelector('main').innerText").await?);
    }
    let others = shown.split_off(shown.len() / 2);
    assert!(shown[0].as_str().is_some_and(|text| text.contains("Not found")), "{shown:?}");
    assert_eq!(shown, others);
    stage.go("/console/inbox").await?;
    browser.shows("Nobody asks anything").await
}
