//! When a run is over, and what it then was.

use std::task::Poll;

use callboard_agent_api::{AgentError, AgentRunControl, Exit, FailureClass};
use futures_util::StreamExt;

use crate::stage::{
    DONE, HELLO, INIT, Stage, errors, finish, is_running, peek, run, say, start, texts, wait_after,
};

const FAILED: &str = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":400,"result":"API Error: 400"}"#;

/// Lets everything else run for a while; the completion stays open all the time.
async fn stays_pending(control: &mut AgentRunControl) {
    for _ in 0..1_000 {
        assert!(matches!(peek(&mut control.handle.completion).await, Poll::Pending));
        tokio::task::yield_now().await;
    }
}

async fn gone(process: u32) {
    while is_running(process) {
        tokio::task::yield_now().await;
    }
}

// T30
#[tokio::test]
async fn a_run_is_not_over_while_its_process_lives() {
    let stage = Stage::new();
    let mut control = start(&stage.claude(&(wait_after(&say(&[INIT])) + &say(&[DONE])))).await;
    control.handle.events.next().await.unwrap();
    stays_pending(&mut control).await;
    stage.go();
    finish(control).await.1.unwrap();
}

// T31
#[tokio::test]
async fn a_run_is_not_over_while_events_are_unread() {
    let stage = Stage::new();
    let mut control = start(&stage.claude(&say(&[INIT, HELLO, DONE]))).await;
    gone(stage.process("pid").await).await;
    // The folders of the run go last, so now everything else is done.
    let env = stage.read("env");
    let home = env.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    while std::path::Path::new(home).exists() {
        tokio::task::yield_now().await;
    }
    stays_pending(&mut control).await;
    let (events, end) = finish(control).await;
    assert_eq!(texts(&events), "hello");
    end.unwrap();
}

// T32
#[tokio::test]
async fn whoever_drops_the_events_waits_for_the_process_only() {
    let stage = Stage::new();
    let mut control = start(&stage.claude(&(wait_after(&say(&[INIT])) + &say(&[DONE])))).await;
    stage.process("pid").await;
    control.handle.events = Box::pin(futures_util::stream::empty());
    stays_pending(&mut control).await;
    stage.go();
    assert_eq!(control.handle.completion.await.unwrap().final_text.as_deref(), Some("hello"));
}

// T33
#[tokio::test]
async fn the_status_is_that_of_the_process() {
    let stage = Stage::new();
    let (_, end) = run(&stage.claude(&say(&[INIT, DONE]))).await;
    assert_eq!(end.unwrap().status.code(), Some(0));
    let exit = |end: Result<_, AgentError>| match end {
        Err(AgentError::Backend { exit, class, .. }) => (exit.unwrap(), class),
        other => panic!("{other:?}"),
    };
    let (_, end) = run(&stage.claude(&(say(&[INIT, DONE]) + "exit 7"))).await;
    let seven = Exit { code: Some(7), signal: None };
    assert_eq!(exit(end.map(|_| ())), (seven, FailureClass::Crashed));
    let (_, end) = run(&stage.claude(&(say(&[INIT]) + "kill -9 $$"))).await;
    let killed = Exit { code: None, signal: Some(9) };
    assert_eq!(exit(end.map(|_| ())), (killed, FailureClass::Crashed));
}

/// About a kilobyte per line, then a file that says that all were written.
fn flood(lines: usize) -> String {
    let line = HELLO.replace("hello", &"x".repeat(900));
    format!(
        "{} yes '{line}' | head -n {lines}; echo x > \"$FAKE_DIR/flooded\"; {}",
        say(&[INIT]),
        say(&[DONE])
    )
}

// T34
#[tokio::test]
async fn a_slow_consumer_holds_the_agent_back_and_loses_nothing() {
    const LINES: usize = 4_000;
    // Two buffers of 64 KiB, 32 events, what `head` holds, and room for rounding.
    const IN_BETWEEN: usize = 500;
    let stage = Stage::new();
    let mut control = start(&stage.claude(&flood(LINES))).await;
    let mut read = 0;
    let mut read_when_flooded = None;
    while let Some(event) = control.handle.events.next().await {
        read += usize::from(event.text.is_some());
        if read_when_flooded.is_none() && stage.path("flooded").exists() {
            read_when_flooded = Some(read);
        }
        tokio::task::yield_now().await;
    }
    control.handle.completion.await.unwrap();
    assert_eq!(read, LINES);
    assert!(read_when_flooded.unwrap_or(read) > LINES - IN_BETWEEN, "{read_when_flooded:?}");
}

// T35
#[tokio::test]
async fn an_agent_is_not_blocked_by_a_consumer_who_left() {
    let stage = Stage::new();
    let control = start(&stage.claude(&flood(11_000))).await;
    drop(control.handle.events);
    let end = control.handle.completion.await.unwrap();
    assert_eq!(end.final_text.as_deref(), Some("hello"));
    assert!(stage.path("flooded").exists());
}

// T36
#[tokio::test]
async fn the_final_text_is_the_answer_and_never_an_error() {
    let stage = Stage::new();
    let (_, end) = run(&stage.claude(&say(&[INIT, HELLO, DONE]))).await;
    assert_eq!(end.unwrap().final_text.as_deref(), Some("hello"));
    let (events, end) = run(&stage.claude(&(say(&[INIT, FAILED]) + "exit 1"))).await;
    assert_eq!(texts(&events), "");
    assert!(end.is_err());
}

// T37, T38
#[tokio::test]
async fn whatever_is_not_a_success_is_an_error_with_class_and_exit() {
    let turns = r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#;
    for (script, class, code, message) in [
        (say(&[INIT, HELLO]), FailureClass::Protocol, 0, "incomplete"),
        (String::new(), FailureClass::Protocol, 0, "incomplete"),
        (
            say(&[INIT, FAILED]) + "exit 1",
            FailureClass::InvalidRequest,
            1,
            "the model's provider answered with HTTP 400",
        ),
        // The record decides even when the exit says otherwise.
        (say(&[INIT, turns]), FailureClass::TurnLimit, 0, "the agent reached its limit of turns"),
        (
            "echo oops >&2; exit 3".into(),
            FailureClass::Crashed,
            3,
            "the agent exited with code 3 without a result",
        ),
    ] {
        let (events, end) = run(&Stage::new().claude(&script)).await;
        let exit = Some(Exit { code: Some(code), signal: None });
        let wanted = AgentError::Backend { message: message.into(), class, exit };
        assert_eq!(end.unwrap_err(), wanted);
        // The last event says the same, once.
        assert_eq!(errors(&events), [message]);
        assert_eq!(events.last().unwrap().message.as_deref(), Some(message));
    }
}

// T46
#[tokio::test]
async fn closing_the_output_is_not_exiting() {
    let stage = Stage::new();
    let script = say(&[INIT, DONE]) + "exec >&- 2>&-; " + &wait_after("");
    let mut control = start(&stage.claude(&script)).await;
    while control.handle.events.next().await.unwrap().data.is_none() {}
    stays_pending(&mut control).await;
    while !stage.path("go").exists() {
        tokio::task::yield_now().await;
    }
    stage.go();
    finish(control).await.1.unwrap();
}

// T44, T46
#[tokio::test]
async fn what_the_agent_leaves_behind_neither_holds_the_run_nor_survives_it() {
    let stage = Stage::new();
    let script = "sleep 1000 & echo $! > \"$FAKE_DIR/child\"; ".to_owned() + &say(&[INIT, DONE]);
    let (_, end) = run(&stage.claude(&script)).await;
    end.unwrap();
    assert!(!is_running(stage.process("child").await));
}
