//! Going on with a session, and never with another one.

use callboard_agent_api::{
    AgentBackend, AgentRunRequest, CliBackend, CliConfig, FailureClass, Home, backends, capability,
    session_id,
};
use serde_json::json;

use crate::stage::{DONE, INIT, Stage, errors, finish, say, start_with};

fn resume(id: &str) -> AgentRunRequest {
    AgentRunRequest::new("go on")
        .extension(capability::SESSION_RESUME, json!({ "selector": "id", "id": id }))
}

fn last(key: &str) -> AgentRunRequest {
    AgentRunRequest::new("go on").extension(key, json!({ "selector": "last" }))
}

// T51
#[tokio::test]
async fn the_last_of_no_sessions_is_refused_and_nothing_is_started() {
    let stage = Stage::new();
    let mut kept = stage.config(&say(&[INIT, DONE]));
    kept.home = Home::Kept(stage.path("home"));
    for config in [stage.config(&say(&[INIT, DONE])), kept] {
        let claude = backends::claude_code::backend(config);
        for key in [capability::SESSION_RESUME, capability::SESSION_FORK] {
            let refused = claude.run(last(key)).await.unwrap_err();
            assert_eq!(refused.to_string(), "no session found");
            assert_eq!(refused.class(), Some(FailureClass::SessionMissing));
        }
    }
    assert!(!stage.was_started());
}

// T50
#[tokio::test]
async fn the_last_session_is_resumed_by_its_id() {
    let stage = Stage::new();
    let mut config = stage.config(&say(&[INIT, DONE]));
    config.home = Home::Kept(stage.path("home"));
    config.working_dir = Some(stage.path(""));
    let claude = backends::claude_code::backend(config.clone());
    finish(start_with(&claude, AgentRunRequest::new("begin")).await).await.1.unwrap();
    // A host that starts again knows it still.
    let claude = backends::claude_code::backend(config);
    finish(start_with(&claude, last(capability::SESSION_RESUME)).await).await.1.unwrap();
    let argv = stage.argv();
    assert_eq!(argv[argv.len() - 2..], ["--resume", "s-1"]);
    assert!(!argv.contains(&"--continue".to_owned()));
}

type Make = fn(CliConfig) -> CliBackend;

// T51
#[tokio::test]
async fn a_session_that_is_not_there_is_said_once() {
    let claude = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}"#;
    let cases: [(Make, String); 4] = [
        (backends::claude_code::backend, say(&[claude]) + "exit 1"),
        (
            backends::codex::backend,
            "echo 'Error: thread/resume failed: no rollout found for thread id x' >&2; exit 1"
                .into(),
        ),
        (
            backends::gemini_cli::backend,
            "echo 'Error resuming session: No previous sessions found' >&2; exit 42".into(),
        ),
        (
            backends::opencode::backend,
            "printf '\\033[91mError: \\033[0mSession not found\\n' >&2; exit 1".into(),
        ),
    ];
    for (make, script) in cases {
        let stage = Stage::new();
        let backend = make(stage.config(&script));
        let (events, end) = finish(start_with(&backend, resume("x")).await).await;
        let error = end.unwrap_err();
        assert_eq!(error.to_string(), "session not found", "{}", backend.kind());
        assert_eq!(error.class(), Some(FailureClass::SessionMissing));
        assert_eq!(errors(&events), ["session not found"]);
        // The same words in a run that names no session mean nothing.
        let fresh = start_with(&backend, AgentRunRequest::new("begin")).await;
        let error = finish(fresh).await.1.unwrap_err();
        assert_ne!(error.class(), Some(FailureClass::SessionMissing), "{}", backend.kind());
    }
}

// T52
#[tokio::test]
async fn another_failure_of_a_resumed_run_is_another_failure() {
    let makes: [Make; 4] = [
        backends::claude_code::backend,
        backends::codex::backend,
        backends::gemini_cli::backend,
        backends::opencode::backend,
    ];
    for make in makes {
        let stage = Stage::new();
        let backend = make(stage.config("echo 'disk full' >&2; exit 1"));
        let (_, end) = finish(start_with(&backend, resume("x")).await).await;
        assert_eq!(end.unwrap_err().class(), Some(FailureClass::Crashed), "{}", backend.kind());
    }
}

// T53
#[tokio::test]
async fn a_fork_has_an_id_of_its_own() {
    let stage = Stage::new();
    let request = AgentRunRequest::new("go on")
        .extension(capability::SESSION_FORK, json!({ "selector": "id", "id": "s-0" }));
    let (events, end) = finish(start_with(&stage.claude(&say(&[INIT, DONE])), request).await).await;
    let told = events.iter().find_map(|event| session_id(event.data.as_ref()?));
    assert_eq!(told, Some("s-1"));
    assert_eq!(session_id(&end.unwrap().data.unwrap()), Some("s-1"));
    assert!(stage.argv().contains(&"--fork-session".to_owned()));
}
