//! Agents and the files of their workspace: read as the run began, written once for those that come later.

use std::sync::Arc;

use callboard_engine::{Files, KeyMode, Scope};
use serde_json::{Value, json};

use crate::given::{Script, World, agent_order, calls, offered, results, says, task, told};
use crate::sim::{Fate, ended};

fn working(agent: &mut Value) {
    let names = ["list", "read", "write"].map(|name| format!("openwop:core.workspace.{name}"));
    agent["toolAllowlist"] = json!(names);
}

/// Writes a file, lists what it sees and reads the file before it answers.
fn writing() -> Script {
    |request| {
        let (tool, arguments) = match results(request) {
            0 => ("write", json!({ "path": "PLAN.md", "content": "step one" })),
            1 => ("list", json!({})),
            2 => ("read", json!({ "path": "PLAN.md" })),
            _ => return Ok(says(r#"{"queue":"fire brigade","_confidence":1}"#)),
        };
        Ok(calls(request, &[(&offered(request, tool), arguments)]))
    }
}

fn owner() -> Scope {
    Scope { tenant: "default".into(), workspace: None, mode: KeyMode::Live }
}

#[tokio::test(start_paused = true)]
async fn an_agent_sees_what_earlier_runs_wrote() {
    let world = World::with(writing(), working).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let play = async || {
        let order = agent_order(task(), json!({}));
        let run = host.create(order, None).await.unwrap().run;
        let log = ended(&world.store, &run).await;
        let returned = told(&log, "agent.toolReturned");
        (told(&log, "workspace.updated"), returned[1].clone(), returned[2].clone())
    };
    let (wrote, listed, read) = play().await;
    assert_eq!(wrote, [json!({ "path": "PLAN.md", "version": 1 })]);
    assert_eq!(listed["outcome"]["files"], json!([]), "{listed}");
    assert_eq!(read["status"], "error", "{read}");
    let (wrote, listed, read) = play().await;
    assert_eq!(wrote, [json!({ "path": "PLAN.md", "version": 2 })]);
    assert_eq!(listed["outcome"]["files"], json!([{ "path": "PLAN.md", "version": 1 }]));
    assert_eq!(read["outcome"]["content"], "step one", "{read}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_writes_the_file_once() {
    let undisturbed = World::with(writing(), working).await;
    let (_, appends) = undisturbed.survive(agent_order(task(), json!({})), Fate::Live).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal)] {
            let world = World::with(writing(), working).await;
            let (log, _) = world.survive(agent_order(task(), json!({})), fate).await;
            assert_eq!(told(&log, "workspace.updated").len(), 1, "{fate:?}");
            let file = Files::new(world.store.clone())
                .find_file(&owner(), "PLAN.md", None)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(file.version, 1, "{fate:?}");
        }
    }
}
