//! What the console must never do in a real browser: run what others wrote, or reach another place.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::stage::{SCREENS, Stage};

/// Whatever of this a page takes for its own sets `window.evil` or asks a foreign host.
const EVIL: &str = r#""'></textarea></script><script>window.evil=1</script><img src="http://evil.example/x" onerror="window.evil=1"><a href="javascript:window.evil=1">x</a>"#;

/// Texts from a model, a tenant, a queue and a person, on every screen that could show them.
async fn poison(stage: &Stage) -> Result<Vec<String>> {
    let of_agent = |message: &str| json!({ "workflowId": "triage-desk", "inputs": { "message": message }, "tags": ["evil\"><script>"] });
    let run = stage.run(of_agent(EVIL)).await?;
    // A model that says only this fails its run, which tells what was said.
    let said = stage.run(of_agent(&format!("[[scripted: say {EVIL}]]"))).await?;
    stage.becomes(&said, "failed").await?;
    let hired = stage
        .post(
            "/v1/host/callboard/roster",
            &json!({ "persona": EVIL, "agentRef": { "agentId": crate::stage::TRIAGER }, "workflows": ["triage-desk"], "description": EVIL }),
        )
        .await?;
    let member = hired["rosterId"].as_str().unwrap_or_default();
    let queue = json!({ "source": "queue", "workflowId": "triage-desk", "inputMapping": { "message": "queue.message" } });
    let made = stage.post("/v1/host/callboard/trigger-subscriptions", &queue).await?;
    let queue = made["subscription"]["subscriptionId"].as_str().unwrap_or_default();
    let letter = json!({ "id": "evil-1", "payload": { "message": EVIL } });
    let path = format!("/v1/host/callboard/trigger-subscriptions/{queue}/deliver");
    let delivered = stage.post(&path, &letter).await?;
    let from_queue = delivered["runId"].as_str().unwrap_or_default().to_owned();
    let work = json!({ "title": EVIL, "workflowId": "triage-desk", "inputs": { "message": EVIL } });
    stage.post(&format!("/v1/host/callboard/roster/{member}/work"), &work).await?;
    let note = json!({ "signal": { "kind": "flag" }, "note": EVIL });
    for id in [&run, &from_queue] {
        stage.becomes(id, "waiting-approval").await?;
        stage.post(&format!("/v1/runs/{id}/annotations"), &note).await?;
    }
    let of_run = |id: &str| {
        ["story", "log", "waterfall", "graph", "state"]
            .map(|tab| format!("/console/runs/{id}?tab={tab}"))
    };
    let mut pages: Vec<String> =
        [&run, &from_queue, &said].into_iter().flat_map(|id| of_run(id)).collect();
    pages.extend([
        format!("/console/inbox/{run}/look"),
        format!("/console/roster/{member}"),
        format!("/console/triggers/{queue}"),
        format!("/console/compare?a={run}&b={from_queue}"),
        format!("/console/runs/{run}/report"),
    ]);
    Ok(pages)
}

/// K-06, K-07
#[tokio::test]
async fn hostile_text_stays_text_and_no_request_leaves_the_host() -> Result<()> {
    let Some(stage) = Stage::set().await? else { return Ok(()) };
    let browser = &stage.browser;
    let pages = poison(&stage).await?;
    for path in pages.iter().map(String::as_str).chain(SCREENS) {
        stage.go(path).await?;
        // A page that is live takes in pieces that come later, too.
        let live = "!document.querySelector('[data-live]') || document.querySelector('#live')?.textContent";
        browser.until(live).await?;
        let evil = "return [window.evil ?? null, document.querySelectorAll('main img, main script, [href^=javascript]').length]";
        assert_eq!(browser.eval(evil).await?, json!([null, 0]), "{path}");
    }
    stage.go(&pages[0]).await?;
    browser.shows("window.evil=1").await?;
    browser.keys("/").await?;
    browser.until("document.querySelector('#palette').open").await?;
    browser.until("document.querySelectorAll('#found a').length > 0").await?;
    requests_stay(&stage).await?;
    no_violations(&stage).await
}

/// Everything that the browser asked for, since it started.
async fn requests_stay(stage: &Stage) -> Result<()> {
    let mut count = 0;
    for entry in stage.browser.log("performance").await? {
        let text = entry["message"].as_str().unwrap_or_default();
        let message: Value = serde_json::from_str(text)?;
        let message = &message["message"];
        if message["method"] != "Network.requestWillBeSent" {
            continue;
        }
        let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
        // The empty tab that the browser begins with is made of its own parts.
        if !url.starts_with("http") && !url.starts_with("ws") {
            continue;
        }
        count += 1;
        ensure!(url.starts_with(stage.host.url()), "a request to {url}");
    }
    ensure!(count > 40, "only {count} requests were seen");
    Ok(())
}

async fn no_violations(stage: &Stage) -> Result<()> {
    for entry in stage.browser.log("browser").await? {
        let text = entry["message"].as_str().unwrap_or_default();
        ensure!(!text.contains("Content Security Policy"), "{text}");
        ensure!(entry["source"] != "javascript" || entry["level"] != "SEVERE", "{text}");
    }
    Ok(())
}
