//! Clocks that run whether or not anybody looks.

use std::time::Duration;

use callboard_agent_api::{AgentRunRequest, FailureClass, backends};

use crate::stage::{
    DONE, INIT, Stage, errors, finish, is_running, say, start, start_with, wait_after,
};

const SHORT: Duration = Duration::from_millis(100);

// T45
#[tokio::test]
async fn a_timeout_fires_without_anybody_polling() {
    let stage = Stage::new();
    let claude = stage.claude(&(say(&[INIT]) + "exec sleep 1000"));
    let mut request = AgentRunRequest::new("do it");
    request.timeout = Some(SHORT);
    let control = start_with(&claude, request).await;
    let process = stage.process("pid").await;
    while is_running(process) {
        tokio::task::yield_now().await;
    }
    let (events, end) = finish(control).await;
    let error = end.unwrap_err();
    assert_eq!(error.class(), Some(FailureClass::Timeout));
    assert_eq!(errors(&events), [error.to_string()]);
}

// T45
#[tokio::test]
async fn zero_means_without_limit() {
    let stage = Stage::new();
    let mut config = stage.config(&(wait_after(&say(&[INIT])) + &say(&[DONE])));
    config.timeout = Some(Duration::from_nanos(1));
    let mut request = AgentRunRequest::new("do it");
    request.timeout = Some(Duration::ZERO);
    let control = start_with(&backends::claude_code::backend(config), request).await;
    stage.process("pid").await;
    while !stage.path("go").exists() {
        tokio::task::yield_now().await;
    }
    stage.go();
    finish(control).await.1.unwrap();
}

// T45
#[tokio::test]
async fn the_configured_limit_holds_for_requests_that_have_none() {
    let stage = Stage::new();
    let mut config = stage.config("exec sleep 1000");
    config.timeout = Some(SHORT);
    let (_, end) = finish(start(&backends::claude_code::backend(config)).await).await;
    assert_eq!(end.unwrap_err().class(), Some(FailureClass::Timeout));
}

#[tokio::test]
async fn an_agent_that_says_nothing_is_given_up() {
    let stage = Stage::new();
    let mut config = stage.config(&(say(&[INIT]) + "exec sleep 1000"));
    config.idle_timeout = Some(SHORT);
    let (events, end) = finish(start(&backends::claude_code::backend(config)).await).await;
    assert_eq!(end.unwrap_err().to_string(), "idle timeout");
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn an_agent_that_closed_its_output_is_given_up_as_well() {
    let stage = Stage::new();
    let mut config = stage.config(&(say(&[INIT]) + "exec >&- 2>&-; exec sleep 1000"));
    config.idle_timeout = Some(SHORT);
    let (_, end) = finish(start(&backends::claude_code::backend(config)).await).await;
    assert_eq!(end.unwrap_err().to_string(), "idle timeout");
}
