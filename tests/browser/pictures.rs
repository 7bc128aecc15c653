//! Pictures of the console for the documentation, made by `cargo xtask screenshots`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::stage::{SCREENS, Stage, TRIAGER};

/// Where the pictures go.
const FOLDER: &str = "CALLBOARD_SCREENSHOTS";
/// Set: every screen, at every width, light and dark, for people who look for what is ugly.
const ALL: &str = "CALLBOARD_SCREENSHOTS_ALL";

/// What a morning leaves behind.
struct Morning {
    finished: String,
    asks: String,
    failed: String,
    fork: String,
    member: String,
    queue: String,
    schedule: String,
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Hires two members and gives the first a queue and a schedule: (member, queue, schedule).
async fn set_up(stage: &Stage, host: &str) -> Result<(String, String, String)> {
    let hire = |persona: &str, agent: &str, workflows: &[&str], about: &str| json!({ "persona": persona, "agentRef": { "agentId": agent }, "workflows": workflows, "description": about });
    let sally = hire(
        "Sally",
        TRIAGER,
        &["triage-desk", "desk"],
        "Reads what comes in and says who should have it.",
    );
    let member = text(&stage.post(&format!("{host}/roster"), &sally).await?, "rosterId");
    let reviewer = TRIAGER.replace("triager", "reviewer");
    let tom = hire("Tom", &reviewer, &["sign-off", "morning-brief"], "Looks at what goes out.");
    stage.post(&format!("{host}/roster"), &tom).await?;
    let queue = json!({ "source": "queue", "workflowId": "triage-desk", "rosterId": member, "inputMapping": { "message": "queue.message" } });
    let queue = stage.post(&format!("{host}/trigger-subscriptions"), &queue).await?;
    let queue = text(&queue["subscription"], "subscriptionId");
    let webhook = json!({ "source": "webhook", "workflowId": "morning-brief" });
    stage.post(&format!("{host}/trigger-subscriptions"), &webhook).await.ok();
    let schedule = json!({ "workflowId": "morning-brief", "cron": "30 7 * * mon-fri", "timezone": "Europe/Berlin" });
    let schedule = text(&stage.post(&format!("{host}/schedules"), &schedule).await?, "id");
    let nightly = json!({ "workflowId": "rounds", "cron": "0 22 * * *", "rosterId": null });
    stage.post(&format!("{host}/schedules"), &nightly).await.ok();
    Ok((member, queue, schedule))
}

/// Delivers the morning's letters and answers the first two: the runs they became.
async fn letters(stage: &Stage, host: &str, queue: &str) -> Result<Vec<String>> {
    let letters = [
        "Where is my parcel?",
        "The heating is cold since Monday.",
        "Thank you for the quick help!",
        "The lift has stopped between two floors. Is anybody coming? [[scripted: confidence 0.3]]",
    ];
    let mut runs = Vec::new();
    for (place, message) in letters.iter().enumerate() {
        let letter = json!({ "id": format!("letter-{place}"), "payload": { "message": message } });
        let sent =
            stage.post(&format!("{host}/trigger-subscriptions/{queue}/deliver"), &letter).await?;
        runs.push(text(&sent, "runId"));
    }
    for run in &runs {
        stage.becomes(run, "waiting-approval").await?;
    }
    for run in &runs[..2] {
        let answer = json!({ "resumeValue": { "action": "accept" } });
        stage.post(&format!("/v1/runs/{run}/interrupts/look"), &answer).await?;
        stage.becomes(run, "completed").await?;
    }
    Ok(runs)
}

async fn work(stage: &Stage) -> Result<Morning> {
    let host = "/v1/host/callboard";
    let (member, queue, schedule) = set_up(stage, host).await?;
    let runs = letters(stage, host, &queue).await?;
    let brief = json!({ "workflowId": "morning-brief", "tags": ["morning"] });
    let finished = stage.run(brief).await?;
    for workflow in ["rescue", "rounds", "sign-off", "order", "colour"] {
        stage.run(json!({ "workflowId": workflow })).await?;
    }
    let failed = stage.run(json!({ "workflowId": "failing", "tags": ["nightly"] })).await?;
    stage.becomes(&finished, "completed").await?;
    stage.becomes(&failed, "failed").await?;
    let fork = stage
        .post(&format!("/v1/runs/{}:fork", runs[0]), &json!({ "mode": "branch", "fromSeq": 8 }))
        .await?;
    let item = json!({ "title": "Answer the landlord", "workflowId": "triage-desk", "inputs": { "message": "The rent is late." } });
    stage.post(&format!("{host}/roster/{member}/work"), &item).await?;
    stage.post(&format!("/v1/runs/{failed}/annotations"), &json!({ "signal": { "kind": "label", "label": "known" }, "note": "The printer again." })).await?;
    Ok(Morning {
        finished,
        asks: runs[3].clone(),
        failed,
        fork: text(&fork, "runId"),
        member,
        queue,
        schedule,
    })
}

async fn look(stage: &Stage, path: &str, size: (u32, u32), scheme: &str, to: &Path) -> Result<()> {
    let browser = &stage.browser;
    let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
    browser.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await?;
    let screen = json!({ "width": size.0, "height": size.1, "deviceScaleFactor": 1, "mobile": size.0 < 500 });
    browser.devtools("Emulation.setDeviceMetricsOverride", screen).await?;
    stage.go(path).await?;
    let live =
        "!document.querySelector('[data-live]') || document.querySelector('#live')?.textContent";
    browser.until(live).await?;
    let shot = browser.devtools("Page.captureScreenshot", json!({ "format": "png" })).await?;
    let bytes = STANDARD.decode(shot["data"].as_str().context("a picture")?)?;
    std::fs::write(to, bytes)?;
    Ok(())
}

/// Makes files, so it does something only where `cargo xtask screenshots` names their folder.
#[tokio::test]
async fn pictures() -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return Ok(()) };
    let stage = Stage::set().await?.context("no browser")?;
    let morning = work(&stage).await?;
    let Morning { finished, asks, failed, fork, member, queue, schedule } = &morning;
    let run = |id: &str, tab: &str| format!("/console/runs/{id}?tab={tab}");
    if std::env::var_os(ALL).is_none() {
        let kept = [
            ("overview", "/".to_owned(), (1200, 760), "light"),
            ("run", run(asks, "story"), (1200, 760), "light"),
            ("waterfall", run(finished, "waterfall"), (1200, 640), "dark"),
            ("graph", run(finished, "graph"), (1200, 640), "light"),
            ("inbox", "/console/inbox".to_owned(), (380, 760), "light"),
            ("roster", format!("/console/roster/{member}"), (1200, 760), "light"),
        ];
        for (name, path, size, scheme) in kept {
            look(&stage, &path, size, scheme, &folder.join(format!("{name}.png"))).await?;
        }
        return Ok(());
    }
    let mut paths: Vec<String> = SCREENS.iter().map(|path| (*path).to_owned()).collect();
    paths.extend(["story", "waterfall", "graph", "log", "state"].map(|tab| run(finished, tab)));
    paths.extend([run(asks, "story"), run(failed, "story"), run(failed, "state")]);
    paths.extend([
        format!("/console/compare?a={}&b={fork}", asks),
        format!("/console/runs/{asks}?fork=4"),
        format!("/console/runs/{failed}?retry=1"),
        "/console/runs?triggerSource=queue&since=24h".to_owned(),
        format!("/console/inbox/{asks}/sort"),
        format!("/console/roster/{member}"),
        format!("/console/triggers/{queue}"),
        format!("/console/schedules/{schedule}"),
        format!("/console/agents/{TRIAGER}"),
        "/console/workflows/morning-brief".to_owned(),
        "/console/login".to_owned(),
    ]);
    for (place, path) in paths.iter().enumerate() {
        for (size, scheme) in [((1440, 900), "light"), ((900, 900), "dark"), ((380, 900), "light")]
        {
            let name = format!("{place:02}-{}-{scheme}.png", size.0);
            look(&stage, path, size, scheme, &folder.join(name)).await?;
        }
    }
    Ok(())
}
