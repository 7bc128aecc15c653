//! Tools that hang, die, flood, leave their folder, or reach where nobody may.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_agents::Toolbox;
use callboard_backends::{
    Egress, McpServer, McpServers, McpSurroundings, McpWay, Reach, SystemLookup, Timeouts, built_in,
};
use callboard_engine::Recorded;
use serde_json::{Value, json};

use crate::faults::ask;
use crate::given::{World, kinds, task, told};
use crate::provider::Provider;
use crate::speech::{calls, says};

fn mcp(world: &World) -> Arc<McpServers> {
    let surroundings = McpSurroundings {
        egress: Egress::new(Reach::Public, Arc::new(SystemLookup)),
        environment: BTreeMap::new(),
        clock: Arc::clone(&world.clock) as _,
        launcher: None,
        homes: std::env::temp_dir(),
    };
    let way = McpWay::Command {
        program: env!("CARGO_BIN_EXE_fake-mcp").to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
    };
    let server = McpServer {
        name: "fake".to_owned(),
        way,
        required_scopes: Vec::new(),
        read: Vec::new(),
        write: Vec::new(),
    };
    Arc::new(McpServers::new(vec![server], &surroundings))
}

/// The model calls the tool once and answers; everything that was told of it.
async fn call(tool: &str, arguments: Value) -> Vec<Recorded> {
    let provider = Provider::start().await;
    let mut world = World::with(
        |_| panic!("nobody asks the puppet"),
        |agent| {
            agent["toolAllowlist"] = json!([
                "openwop:core.files.read",
                "openwop:core.openwop.http.fetch",
                "mcp:fake.hang",
                "mcp:fake.die",
                "mcp:fake.flood",
            ]);
        },
    )
    .await;
    ask(&mut world, &provider, Timeouts::default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("outside.txt"), "not for agents").unwrap();
    world.settings.workspaces = folder.path().join("workspaces");
    world.settings.tool_timeout = Duration::from_millis(500);
    let servers = mcp(&world);
    let built_in = built_in(&Egress::new(Reach::Public, Arc::new(SystemLookup)));
    world.tools = vec![Arc::new(built_in.unwrap()), Arc::clone(&servers) as Arc<dyn Toolbox>];
    let replies = [calls(tool, &arguments.to_string(), 1, "tool_use"), says(r#"{"queue":"fire"}"#)];
    let log = tokio::select! {
        log = world.run(task(), json!({})) => log,
        _ = provider.answer_all(&replies) => unreachable!(),
    };
    servers.close().await;
    log
}

#[tokio::test]
async fn a_tool_that_goes_wrong_is_the_models_to_deal_with_and_the_runs_to_tell() {
    let private = "https://127.0.0.1/";
    for (tool, arguments, code) in [
        ("mcp_fake_hang", json!({}), "tool_unanswered"),
        ("mcp_fake_die", json!({}), "tool_unanswered"),
        ("mcp_fake_flood", json!({}), "tool_unanswered"),
        ("openwop_core_files_read", json!({ "path": "../../outside.txt" }), "tool_refused"),
        ("openwop_core_files_read", json!({ "path": "/etc/passwd" }), "tool_refused"),
        ("openwop_core_openwop_http_fetch", json!({ "url": private }), "tool_refused"),
    ] {
        let log = call(tool, arguments).await;
        let returned = told(&log, "agent.toolReturned");
        assert_eq!(returned.len(), 1, "{tool}");
        assert_eq!(returned[0]["status"], "error", "{tool}: {}", returned[0]);
        assert_eq!(returned[0]["error"]["code"], code, "{tool}: {}", returned[0]);
        assert!(!returned[0].to_string().contains("not for agents"), "{tool}");
        assert_eq!(kinds(&log).last(), Some(&"run.completed"), "{tool}");
    }
}
