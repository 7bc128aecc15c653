//! What each backend says that it can do.

use callboard_agent_api::{AgentBackend, CliBackend, CliConfig, backends, capability};

fn all(config: &CliConfig) -> Vec<CliBackend> {
    let acp = backends::acp::AcpProgram::gemini();
    vec![
        backends::claude_code::backend(config.clone()),
        backends::codex::backend(config.clone()),
        backends::gemini_cli::backend(config.clone()),
        backends::opencode::backend(config.clone()),
        backends::aider::backend(config.clone()),
        backends::acp::backend(acp, config.clone()),
    ]
}

// T05
#[test]
fn every_backend_runs_and_tells_and_names_only_its_own_keys() {
    for backend in all(&CliConfig::default()) {
        let (kind, offered) = (backend.kind(), backend.capabilities());
        assert!(offered.contains(capability::RUN) && offered.contains(capability::EVENTS));
        assert!(offered.contains(capability::NON_INTERACTIVE), "{kind}");
        let own = format!("backend.{kind}.");
        for id in &offered.ids {
            assert!(id.starts_with("agent_api.") || id.starts_with(&own), "{kind}: {id}");
        }
        let is_live = offered.contains(capability::EVENTS_LIVE);
        assert_eq!(is_live, kind.as_str() != "aider");
        assert_eq!(offered.contains(capability::FINAL_TEXT), is_live, "{kind}");
    }
}

// T16, T65
#[test]
fn dangerous_things_are_offered_only_where_they_were_switched_on() {
    let dangerous = [capability::EXTERNAL_SANDBOX, capability::MCP_ADD, capability::MCP_REMOVE];
    for backend in all(&CliConfig::default()) {
        let offered = backend.capabilities();
        assert!(dangerous.iter().all(|id| !offered.contains(id)), "{}", backend.kind());
    }
    let config =
        CliConfig { allow_external_sandbox: true, allow_mcp_write: true, ..CliConfig::default() };
    for backend in all(&config) {
        let offered = backend.capabilities();
        let can = ["claude_code", "codex"].contains(&backend.kind().as_str());
        assert!(dangerous.iter().all(|id| offered.contains(id) == can), "{}", backend.kind());
    }
}
