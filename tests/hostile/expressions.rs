//! Expressions that look at much again and again: their nodes fail, and the host goes on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::support::definitions;
use crate::support::host::Host;

/// Much longer than a decision takes, on a machine that does other things too.
const SOON: Duration = Duration::from_secs(60);

/// Twelve seconds of processor for each node, where only what an expression makes was paid for.
fn greedy(nodes: usize) -> Value {
    let text = format!("[{}]|length", vec!["2 in inputs.l"; 250].join(","));
    let nodes: Vec<Value> = (0..nodes)
        .map(|at| {
            json!({ "id": format!("n{at:02}"), "typeId": "core.noop", "name": "N",
                "position": { "x": 0, "y": 0 }, "config": {},
                "inputs": { "v": { "type": "expression", "expression": text } } })
        })
        .collect();
    json!({ "id": "greedy", "name": "Greedy", "version": "1.0.0", "nodes": nodes, "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": { "timeout": 0 } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expression_that_looks_too_often_fails_its_node_while_others_go_on_and_a_stop_is_heard()
-> Result<()> {
    let folder = TempDir::new()?;
    let workflows = folder.path().join("workflows");
    std::fs::create_dir(&workflows)?;
    definitions::write(&workflows)?;
    std::fs::write(workflows.join("greedy.json"), greedy(12).to_string())?;
    let workflows = workflows.to_str().context("a path in UTF-8")?.to_owned();
    let host = Host::start(&folder.path().join("data"), &["--workflows", &workflows])?;
    let api = Api::of(host.url())?;
    // Nothing that is looked for is in the list, so that all of it is gone through.
    let list = vec![1; 600_000];
    let run = api.create(&json!({ "workflowId": "greedy", "inputs": { "l": list } }), "g").await?;

    let other = api.create(&json!({ "workflowId": "noop" }), "other").await?;
    let end = tokio::time::timeout(SOON, api.finish(&other)).await.context("others wait")??;
    ensure!(end == "completed", "{end}");
    tokio::time::timeout(SOON, api.get("/readyz")).await.context("no health")??;

    assert_eq!(api.finish(&run).await?, "failed");
    let log = api.log(&run).await?;
    assert!(log.contains("work_limit_exceeded"), "{}", &log[..log.len().min(2_000)]);
    assert!(log.contains("read smaller values"), "it says what to do");

    let again = json!({ "workflowId": "greedy", "inputs": { "l": vec![1; 600_000] } });
    api.create(&again, "stopped").await?;
    ensure!(host.stop("TERM")?.success(), "a stop is not heard");
    Ok(())
}
