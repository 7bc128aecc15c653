//! A conversation with an agent that speaks the Agent Client Protocol.

use std::time::Duration;

use callboard_agent_api::{
    AgentKind, AgentRunRequest, AttendedRun, CliBackend, FailureClass, Permission,
    PermissionRequest, backends, capability, session_id,
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::stage::{Stage, errors, finish, is_running, start_with, texts};

/// Answers what it is asked, as agents do; `{after}` is what it does when it has answered.
const AGENT: &str = r#"
    while read -r line; do
        printf '%s\n' "$line" >> "$FAKE_DIR/heard"
        case "$line" in
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}}' ;;
        *'"session/new"'*|*'"session/resume"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"a-1"}}' ;;
        *'"session/prompt"'*)
            echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"toolCall":{"kind":"execute"},"options":[{"optionId":"yes","kind":"allow_once"}]}}'
            read -r answer; printf '%s\n' "$answer" >> "$FAKE_DIR/heard"
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"secret","status":"pending"}}}'
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}}}'
            echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}'
            echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}}' ;;
        esac
    done
"#;

fn backend(stage: &Stage, script: &str) -> CliBackend {
    let program = backends::acp::AcpProgram {
        kind: AgentKind::new("some_agent").unwrap(),
        program: "agent".into(),
        args: vec!["acp".into()],
        variables: Vec::new(),
    };
    backends::acp::backend(program, stage.config(script))
}

#[tokio::test]
async fn a_conversation_goes_from_opening_to_farewell() {
    let stage = Stage::new();
    let agent = backend(&stage, AGENT);
    let (events, end) = finish(start_with(&agent, AgentRunRequest::new("do it")).await).await;
    let end = end.unwrap();
    assert_eq!(errors(&events), [""; 0]);
    assert_eq!(texts(&events), "hi");
    assert_eq!(end.final_text.as_deref(), Some("hi"));
    assert_eq!(session_id(end.data.as_ref().unwrap()), Some("a-1"));
    assert_eq!(end.data.unwrap()["usage"]["output_tokens"], 2);
    let heard = stage.read("heard");
    let heard: Vec<&str> = heard.lines().collect();
    assert_eq!(heard.len(), 4);
    assert!(heard[2].contains("do it") && heard[3].contains("yes"), "{heard:?}");
    assert!(!format!("{events:?}").contains("secret"));
}

#[tokio::test]
async fn an_agent_that_does_not_go_by_itself_is_sent_away() {
    let stage = Stage::new();
    let agent = backend(&stage, &format!("{AGENT} exec sleep 1000"));
    let (_, end) = finish(start_with(&agent, AgentRunRequest::new("do it")).await).await;
    assert_eq!(end.unwrap().final_text.as_deref(), Some("hi"));
    assert!(!is_running(stage.process("pid").await));
}

/// The same agent, which asks for something that was not granted.
fn asking() -> String {
    AGENT.replace(r#""kind":"execute"},"options""#, r#""kind":"other","title":"notes"},"options""#)
}

async fn asked(run: &mut AttendedRun) -> PermissionRequest {
    loop {
        let event = run.control.handle.events.next().await.expect("the agent asks");
        if let Some(request) = PermissionRequest::of(&event) {
            return request;
        }
    }
}

#[tokio::test]
async fn an_agent_waits_for_whoever_attends() {
    let stage = Stage::new();
    let agent = backend(&stage, &asking());
    let hour = Duration::from_secs(3600);
    let mut run = agent.run_attended(AgentRunRequest::new("do it"), hour).await.unwrap();
    let request = asked(&mut run).await;
    assert_eq!((request.tool.as_str(), request.title.as_str()), ("other", "notes"));
    assert_eq!(stage.read("heard").lines().count(), 3, "nothing was answered yet");
    assert!(run.decisions.decide(&request.id, Permission::Granted).await);
    let decisions = run.decisions.clone();
    let (events, end) = finish(run.control).await;
    assert_eq!((errors(&events).len(), end.unwrap().final_text.as_deref()), (0, Some("hi")));
    assert!(stage.read("heard").lines().last().unwrap().contains("yes"));
    assert!(decisions.are_over() && !decisions.decide("p", Permission::Granted).await);
}

#[tokio::test]
async fn an_agent_that_nobody_answers_is_ended() {
    let stage = Stage::new();
    let agent = backend(&stage, &asking());
    let moment = Duration::from_millis(1);
    let mut run = agent.run_attended(AgentRunRequest::new("do it"), moment).await.unwrap();
    asked(&mut run).await;
    let (events, end) = finish(run.control).await;
    let error = end.unwrap_err();
    assert_eq!(
        (error.class(), error.to_string()),
        (Some(FailureClass::Permission), "approval required".into())
    );
    assert_eq!(errors(&events), ["approval required"]);
    assert!(!is_running(stage.process("pid").await));
}

#[tokio::test]
async fn an_agent_that_nobody_attends_gets_a_no() {
    let stage = Stage::new();
    let agent = backend(&stage, &asking());
    let (_, end) = finish(start_with(&agent, AgentRunRequest::new("do it")).await).await;
    assert_eq!(end.unwrap().data.unwrap()["permission_denials"], 1);
    assert!(stage.read("heard").contains("cancelled"));
}

// T18
#[tokio::test]
async fn what_turns_out_to_be_missing_is_one_error_and_the_end() {
    let stage = Stage::new();
    let request = AgentRunRequest::new("go on")
        .extension(capability::SESSION_FORK, json!({ "selector": "id", "id": "a-0" }));
    let (events, end) = finish(start_with(&backend(&stage, AGENT), request).await).await;
    let error = end.unwrap_err();
    assert_eq!(error.class(), Some(FailureClass::InvalidRequest));
    assert_eq!(errors(&events), [error.to_string()]);
    assert_eq!(stage.read("heard").lines().count(), 1, "no session was opened instead");
}

// T51
#[tokio::test]
async fn an_agent_that_dies_in_the_middle_is_not_a_success() {
    let stage = Stage::new();
    let agent = backend(&stage, "read -r line; kill -9 $$");
    let (events, end) = finish(start_with(&agent, AgentRunRequest::new("do it")).await).await;
    let error = end.unwrap_err();
    assert_eq!(error.class(), Some(FailureClass::Crashed));
    assert_eq!(errors(&events).len(), 1);
}
