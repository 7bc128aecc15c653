//! Managing MCP servers through an agent's own commands.

use std::time::Duration;

use callboard_agent_api::mcp::{
    McpAddRequest, McpAddTransport, McpCommandContext, McpGetRequest, McpListRequest,
    McpRemoveRequest,
};
use callboard_agent_api::{AgentBackend, AgentError, FailureClass, backends};

use crate::stage::Stage;

fn named(name: &str) -> McpGetRequest {
    McpGetRequest { name: name.into(), context: McpCommandContext::default() }
}

fn add(variable: Option<&str>) -> McpAddRequest {
    McpAddRequest {
        name: " files ".into(),
        transport: McpAddTransport::Url {
            url: "http://127.0.0.1:1/mcp".into(),
            bearer_token_env_var: variable.map(Into::into),
        },
        context: McpCommandContext::default(),
    }
}

// T60, T65
#[tokio::test]
async fn what_is_refused_starts_nothing() {
    let stage = Stage::new();
    let mut config = stage.config("");
    let codex = backends::codex::backend(config.clone());
    assert!(matches!(codex.mcp_get(named(" ")).await, Err(AgentError::InvalidRequest { .. })));
    let unadvertised = codex.mcp_add(add(None)).await.unwrap_err();
    assert!(matches!(unadvertised, AgentError::UnsupportedCapability { .. }));
    config.allow_mcp_write = true;
    let codex = backends::codex::backend(config.clone());
    assert!(matches!(codex.mcp_add(add(Some("1X"))).await, Err(AgentError::InvalidRequest { .. })));
    let claude = backends::claude_code::backend(config);
    assert!(claude.mcp_add(add(Some("TOKEN"))).await.is_err());
    assert!(!stage.was_started());
}

// T61
#[tokio::test]
async fn the_command_line_is_exact() {
    let stage = Stage::new();
    let mut config = stage.config("");
    config.allow_mcp_write = true;
    let codex = backends::codex::backend(config);
    codex.mcp_list(McpListRequest::default()).await.unwrap();
    assert_eq!(stage.argv(), ["mcp", "list", "--json"]);
    codex.mcp_add(add(Some("TOKEN"))).await.unwrap();
    let line = "mcp add files --url http://127.0.0.1:1/mcp --bearer-token-env-var TOKEN";
    assert_eq!(stage.argv().join(" "), line);
    codex
        .mcp_remove(McpRemoveRequest { name: "files".into(), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(stage.argv(), ["mcp", "remove", "files"]);
}

// T62
#[tokio::test]
async fn a_bad_exit_is_an_answer() {
    let stage = Stage::new();
    let codex = backends::codex::backend(stage.config("echo no; echo why >&2; exit 1"));
    let output = codex.mcp_get(named("x")).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("no\n", "why\n"));
    assert!(!output.stdout_truncated && !output.stderr_truncated);
}

// T63
#[tokio::test]
async fn a_timeout_is_an_error_without_output() {
    for limit in [Duration::ZERO, Duration::from_millis(100)] {
        let stage = Stage::new();
        let codex = backends::codex::backend(stage.config("echo canary; exec sleep 1000"));
        let context = McpCommandContext { timeout: Some(limit), ..Default::default() };
        let error = codex.mcp_list(McpListRequest { context }).await.unwrap_err();
        assert_eq!(error.class(), Some(FailureClass::Timeout));
        assert!(!format!("{error:?}").contains("canary"));
    }
}

// T64
#[tokio::test]
async fn a_long_output_is_cut_to_valid_text() {
    let stage = Stage::new();
    let script =
        "head -c 70000 /dev/zero | tr '\\0' x; head -c 70000 /dev/zero | tr '\\0' '\\377' >&2";
    let codex = backends::codex::backend(stage.config(script));
    let output = codex.mcp_list(McpListRequest::default()).await.unwrap();
    assert!(output.stdout_truncated && output.stderr_truncated);
    for text in [&output.stdout, &output.stderr] {
        assert!(text.len() <= 65_536 && text.ends_with("…(truncated)"), "{}", text.len());
    }
}

// T66
#[tokio::test]
async fn the_environment_of_the_command_wins() {
    let stage = Stage::new();
    let mut config = stage.config("");
    config.env.insert("WHO".into(), "backend".into());
    let codex = backends::codex::backend(config);
    let mut context = McpCommandContext::default();
    context.env.insert("WHO".into(), "command".into());
    context.env.insert("HOME".into(), stage.path("elsewhere").to_str().unwrap().into());
    codex.mcp_list(McpListRequest { context }).await.unwrap();
    let env = stage.read("env");
    assert!(env.contains("WHO=command") && env.contains("/elsewhere"), "{env}");
}
