//! A member with a workflow of its own, and what the logs of its runs must tell.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Scene;
use crate::api::Api;
use crate::support::host::Host;

/// The agent that Sally is bound to.
const TRIAGER: &str = "community.callboard.starter.triager";
pub(crate) const WORKFLOW: &str = "desk";

/// A scene with a workflow whose one node asks the starter pack's triager.
pub(crate) fn scene() -> Result<Scene> {
    let scene = Scene::new()?;
    let desk = json!({
        "id": WORKFLOW, "name": "Desk", "version": "1.0",
        "nodes": [{ "id": "triage", "typeId": "core.identity", "name": "Triage",
            "position": { "x": 0, "y": 0 }, "config": {}, "agent": { "agentId": TRIAGER },
            "inputs": { "message": { "type": "variable", "variableName": "message" } } }],
        "edges": [], "triggers": [], "metadata": {}, "settings": {},
        "variables": [{ "name": "message", "type": "string" }],
    });
    std::fs::write(scene.folder.path().join("workflows/desk.json"), desk.to_string())?;
    Ok(scene)
}

/// A host of this scene that has the agent.
pub(crate) fn start(scene: &Scene) -> Result<Host> {
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/starter");
    scene.start_with(&["--packs", packs.to_str().context("a folder with a plain name")?])
}

/// Hires Sally, who owns the workflow.
pub(crate) async fn hire(api: &Api) -> Result<String> {
    let body = json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER },
        "workflows": [WORKFLOW] });
    let hired: Value = api.post("/v1/host/callboard/roster", &body).send().await?.json().await?;
    Ok(hired["rosterId"].as_str().with_context(|| format!("not hired: {hired}"))?.to_owned())
}

/// Waits for the end of a run and answers its log, which must say first, and once, that the run is the member's.
pub(crate) async fn attributed(
    api: &Api,
    run: &str,
    member: &str,
    source: &str,
) -> Result<Vec<Value>> {
    ensure!(api.finish(run).await? == "completed", "{}", api.log(run).await?);
    let log: Value = serde_json::from_str(&api.log(run).await?)?;
    let events = log["events"].as_array().context("no events")?.clone();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    ensure!(kinds.starts_with(&["run.started", "roster.run.initiated"]), "{kinds:?}");
    let told = kinds.iter().filter(|kind| **kind == "roster.run.initiated").count();
    ensure!(told == 1 && events[1]["sequence"] == 1, "{kinds:?}");
    let payload = &events[1]["payload"];
    ensure!(payload["rosterId"] == member && payload["persona"] == "Sally", "{payload}");
    ensure!(payload["agentId"] == TRIAGER && payload["workflowId"] == WORKFLOW, "{payload}");
    ensure!(payload["triggerSource"] == source, "{payload}");
    ensure!(kinds.contains(&"agent.decided"), "her agent did nothing: {kinds:?}");
    Ok(events)
}
