//! Nodes that call tools: those of every host, and those of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_backends::{
    Egress, McpServer, McpServers, McpSurroundings, McpWay, Reach, SystemLookup, TOOL,
};
use serde_json::json;

use crate::sim::SimClock;
use crate::{MCP_LIST, MCP_TOOL, World, packs, schema};

const MCP_RESOURCE: &str = "core.openwop.mcp.read-resource";
const MCP_PROMPT: &str = "core.openwop.mcp.get-prompt";

#[tokio::test]
async fn a_tool_is_called_by_its_name_with_arguments_that_match_its_schema() {
    let world = World::new(Reach::Public);
    let config = json!({ "tool": "openwop:core.crypto.hash" });
    let arguments = json!({ "arguments": { "data": "abc" } });
    let outputs = world.one(TOOL, config.clone(), &arguments).await;
    assert_eq!(outputs["isError"], false, "{outputs}");
    assert!(outputs["result"].to_string().contains("ba7816bf8f01cfea"), "{outputs}");
    let wrong = world.one(TOOL, config, &json!({ "arguments": { "data": 7 } })).await;
    assert_eq!(wrong["failed"]["code"], "validation_error");
    let missing = world.one(TOOL, json!({ "tool": "openwop:gone" }), &arguments).await;
    assert_eq!(missing["failed"]["code"], "tool_not_found");
    let server = json!({ "serverId": "crm", "toolName": "find" });
    let missing = world.one(MCP_TOOL, server, &json!({ "args": {} })).await;
    let message = missing["failed"]["message"].as_str().unwrap();
    assert!(message.starts_with("this host has no tool mcp:crm.find; "), "{message}");
}

/// Two servers, of which one asks for a scope.
fn servers() -> Arc<McpServers> {
    let surroundings = McpSurroundings {
        egress: Egress::new(Reach::Public, Arc::new(SystemLookup)),
        environment: BTreeMap::new(),
        clock: SimClock::new(),
        launcher: None,
        homes: std::env::temp_dir(),
    };
    let way = McpWay::Command {
        program: env!("CARGO_BIN_EXE_fake-mcp").to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
    };
    let server = |name: &str, scopes: &[&str]| McpServer {
        name: name.to_owned(),
        way: way.clone(),
        required_scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        read: Vec::new(),
        write: Vec::new(),
    };
    let servers = vec![server("fake", &[]), server("closed", &["tools:closed"])];
    Arc::new(McpServers::new(servers, &surroundings))
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_called_and_its_words_are_a_strangers() {
    let servers = servers();
    let world = World { mcp: Some(Arc::clone(&servers)), ..World::new(Reach::Public) };
    let (config, inputs) =
        (json!({ "serverId": "fake", "toolName": "echo" }), json!({ "args": { "text": "hi" } }));
    let outputs = world.one(MCP_TOOL, config.clone(), &inputs).await;
    assert_eq!((&outputs["isError"], &outputs["untrustedContent"]), (&json!(false), &json!(true)));
    assert!(outputs["result"].to_string().contains("hi"), "{outputs}");
    if let Some(packs) = packs() {
        for (part, value) in [("config", &config), ("input", &inputs), ("output", &outputs)] {
            let schema = schema(&packs, MCP_TOOL, &format!("{part}SchemaRef"));
            assert_eq!(schema.violations(value), Vec::<String>::new(), "{part}: {value}");
        }
    }
    let listed = world.one(MCP_LIST, json!({ "serverId": "fake" }), &json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{listed}");
    if let Some(packs) = packs() {
        let schema = schema(&packs, MCP_LIST, "outputSchemaRef");
        assert_eq!(schema.violations(&listed), Vec::<String>::new(), "{listed}");
    }
    let gone = world.one(MCP_LIST, json!({ "serverId": "gone" }), &json!({})).await;
    assert_eq!(gone["failed"]["code"], "mcp_server_not_registered");
    // Whoever made the run does not hold what this server asks for.
    let closed = json!({ "serverId": "closed", "toolName": "echo" });
    let refused = world.one(MCP_TOOL, closed, &inputs).await;
    assert_eq!(refused["failed"]["code"], "forbidden", "{refused}");
    servers.close().await;
}

#[tokio::test]
async fn resources_and_prompts_of_an_mcp_server_are_read() {
    let servers = servers();
    let world = World { mcp: Some(Arc::clone(&servers)), ..World::new(Reach::Public) };
    let resource = json!({ "serverId": "fake", "uri": "memo://recent" });
    let prompt =
        (json!({ "serverId": "fake" }), json!({ "name": "greet", "arguments": { "who": "Ann" } }));
    for (type_id, config, inputs) in
        [(MCP_RESOURCE, &resource, &json!({})), (MCP_PROMPT, &prompt.0, &prompt.1)]
    {
        let outputs = world.one(type_id, config.clone(), inputs).await;
        let said = if type_id == MCP_PROMPT { "Greet \\\"Ann\\\"" } else { "a memo" };
        assert!(outputs.to_string().contains(said), "{outputs}");
        if let Some(packs) = packs() {
            for (part, value) in [("config", config), ("input", inputs), ("output", &outputs)] {
                let schema = schema(&packs, type_id, &format!("{part}SchemaRef"));
                assert_eq!(schema.violations(value), Vec::<String>::new(), "{type_id} {part}");
            }
        }
    }
    for (uri, server, code) in [
        ("memo://gone", "fake", "mcp_resource_not_read"),
        ("memo://recent", "gone", "mcp_server_not_registered"),
        ("memo://recent", "closed", "forbidden"),
    ] {
        let config = json!({ "serverId": server, "uri": uri });
        let refused = world.one(MCP_RESOURCE, config, &json!({})).await;
        assert_eq!(refused["failed"]["code"], code, "{refused}");
    }
    servers.close().await;
}
