//! Nothing is started for a request that is refused.

use callboard_agent_api::{
    AgentBackend, AgentError, AgentRunRequest, FailureClass, backends, capability,
};
use serde_json::json;

use crate::stage::{DONE, INIT, Stage, errors, finish, run, say, start_with};

// T10, T11, T12, T13, T14, T15
#[tokio::test]
async fn a_refused_request_starts_nothing() {
    let stage = Stage::new();
    let claude = stage.claude(&say(&[INIT, DONE]));
    let asked = |key: &str, value| AgentRunRequest::new("do it").extension(key, value);
    for request in [
        AgentRunRequest::new(""),
        AgentRunRequest::new(" \n"),
        asked("agent_api.unknown.v1", json!(1)),
        asked("backend.codex.exec.sandbox_mode", json!("read-only")),
        asked(capability::EXTERNAL_SANDBOX, json!(true)),
        asked(capability::MODEL, json!("m".repeat(129))),
        asked(capability::ADD_DIRS, json!({ "dirs": ["missing"] })),
        asked(capability::SESSION_RESUME, json!({ "selector": "id" })),
        asked(capability::SESSION_RESUME, json!({ "selector": "last" })),
    ] {
        assert!(claude.run(request.clone()).await.is_err(), "{request:?}");
    }
    assert!(!stage.was_started());
    run(&claude).await.1.unwrap();
    assert!(stage.was_started());
}

// T13
#[tokio::test]
async fn a_model_reaches_the_command_line_once_and_errors_never() {
    let stage = Stage::new();
    let claude = stage.claude(&say(&[INIT, DONE]));
    let asked = |model: String| AgentRunRequest::new("do it").extension(capability::MODEL, model);
    finish(start_with(&claude, asked(" canary-model ".into())).await).await.1.unwrap();
    assert_eq!(stage.argv().iter().filter(|word| *word == "canary-model").count(), 1);
    let refused = claude.run(asked("canary-model".repeat(20))).await.unwrap_err();
    assert!(!refused.to_string().contains("canary"));
}

// T14
#[tokio::test]
async fn folders_are_relative_to_the_folder_of_the_run() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.path("work/sub")).unwrap();
    let claude = stage.claude(&say(&[INIT, DONE]));
    let mut request = AgentRunRequest::new("do it")
        .extension(capability::ADD_DIRS, json!({ "dirs": ["sub/../sub"] }));
    request.working_dir = Some(stage.path("work"));
    finish(start_with(&claude, request).await).await.1.unwrap();
    assert!(stage.argv().contains(&stage.path("work/sub").to_str().unwrap().to_owned()));
    assert!(stage.read("cwd").trim().ends_with("/work"));
}

// T16
#[tokio::test]
async fn the_warning_of_an_external_sandbox_comes_first_and_once() {
    let stage = Stage::new();
    let mut config = stage.config(&say(&[INIT, DONE]));
    config.allow_external_sandbox = true;
    let claude = backends::claude_code::backend(config);
    let asked =
        |on: bool| AgentRunRequest::new("do it").extension(capability::EXTERNAL_SANDBOX, on);
    let warning =
        "DANGEROUS: external sandbox exec policy enabled (agent_api.exec.external_sandbox.v1=true)";
    let (events, end) = finish(start_with(&claude, asked(true)).await).await;
    end.unwrap();
    assert_eq!(events[0].message.as_deref(), Some(warning));
    assert_eq!(events[0].channel.as_deref(), Some("status"));
    assert_eq!(events[0].data, None);
    let told = |event: &&_| {
        let event: &callboard_agent_api::AgentEvent = event;
        event.message.as_deref() == Some(warning)
    };
    assert_eq!(events.iter().filter(told).count(), 1);
    assert!(stage.argv().contains(&"--dangerously-skip-permissions".to_owned()));
    let (events, _) = finish(start_with(&claude, asked(false)).await).await;
    assert_eq!(events.iter().filter(told).count(), 0);
}

#[tokio::test]
async fn an_agent_that_cannot_be_held_to_the_list_is_not_started() {
    let stage = Stage::new();
    let config = || stage.config(&say(&[INIT, DONE]));
    for (backend, key) in [
        (backends::codex::backend(config()), "backend.codex.exec.tools.v1"),
        (backends::opencode::backend(config()), "backend.opencode.exec.tools.v1"),
        (backends::aider::backend(config()), "backend.aider.exec.tools.v1"),
    ] {
        let request = AgentRunRequest::new("do it").extension(key, json!(["files.read"]));
        let refused = backend.run(request).await.unwrap_err();
        assert!(matches!(refused, AgentError::InvalidRequest { .. }), "{refused}");
    }
    assert!(!stage.was_started());
}

#[tokio::test]
async fn the_variables_that_hold_an_agent_are_ours() {
    let stage = Stage::new();
    let opencode = backends::opencode::backend(stage.config(""));
    let mut request = AgentRunRequest::new("do it");
    request.env.insert("OPENCODE_CONFIG_CONTENT".into(), "{}".into());
    let refused = opencode.run(request).await.unwrap_err();
    assert!(matches!(refused, AgentError::InvalidRequest { .. }), "{refused}");
    assert!(!stage.was_started());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_failure_to_spawn() {
    let stage = Stage::new();
    let mut config = stage.config("");
    config.program = Some("/nowhere/canary-program".into());
    let refused = backends::claude_code::backend(config)
        .run(AgentRunRequest::new("do it"))
        .await
        .unwrap_err();
    assert_eq!(refused.class(), Some(FailureClass::Spawn));
    assert!(!refused.to_string().contains("canary"));
}

#[tokio::test]
async fn the_prompt_goes_to_standard_input_whatever_it_looks_like() {
    let stage = Stage::new();
    let script = format!("cat > \"$FAKE_DIR/stdin\"; {}", say(&[INIT, DONE]));
    let prompt = format!("--help\n{}", "x".repeat(300_000));
    let request = AgentRunRequest::new(prompt.clone());
    let (events, end) = finish(start_with(&stage.claude(&script), request).await).await;
    end.unwrap();
    assert_eq!(errors(&events), [""; 0]);
    assert_eq!(stage.read("stdin"), prompt);
    assert!(!stage.argv().iter().any(|word| word.contains("--help")));
}

#[tokio::test]
async fn the_agent_sees_a_home_of_its_own_and_few_variables() {
    let stage = Stage::new();
    let mut config = stage.config(&say(&[INIT, DONE]));
    config.host_env.insert("CANARY_SECRET".into(), "s".into());
    config.host_env.insert("ANTHROPIC_API_KEY".into(), "k".into());
    config.env.insert("FROM".into(), "backend".into());
    let mut request = AgentRunRequest::new("do it");
    request.env.insert("FROM".into(), "request".into());
    let claude = backends::claude_code::backend(config);
    finish(start_with(&claude, request).await).await.1.unwrap();
    let env = stage.read("env");
    assert!(!env.contains("CANARY_SECRET"), "{env}");
    assert!(env.contains("ANTHROPIC_API_KEY=k") && env.contains("FROM=request"), "{env}");
    let home = env.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert_ne!(Some(home), std::env::var("HOME").ok().as_deref());
    assert!(!std::path::Path::new(home).exists(), "the home is gone with the run");
}
