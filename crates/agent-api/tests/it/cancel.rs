//! Ending a run from outside.

use std::task::Poll;
use std::time::Duration;

use callboard_agent_api::{
    AgentCompletion, AgentError, AgentRunControl, Exit, FailureClass, backends,
};
use futures_util::StreamExt;

use crate::stage::{
    DONE, HELLO, INIT, Stage, finish, is_running, peek, peek_next, say, start, wait_after,
};

const HANG: &str = "exec sleep 1000";

fn is_cancelled(end: &Result<AgentCompletion, AgentError>) -> bool {
    matches!(end, Err(AgentError::Backend { message, class: FailureClass::Cancelled, .. })
        if message == "cancelled")
}

async fn gone(process: u32) {
    while is_running(process) {
        tokio::task::yield_now().await;
    }
}

async fn hanging(stage: &Stage) -> AgentRunControl {
    start(&stage.claude(&(say(&[INIT]) + HANG))).await
}

// T40
#[tokio::test]
async fn a_cancel_before_the_first_event_ends_the_run() {
    let stage = Stage::new();
    let control = hanging(&stage).await;
    control.cancel.cancel();
    let (events, end) = finish(control).await;
    assert_eq!(events, []);
    assert!(is_cancelled(&end), "{end:?}");
}

// T40, T43
#[tokio::test]
async fn a_cancel_in_the_middle_closes_the_events_at_once() {
    let stage = Stage::new();
    let mut control = start(&stage.claude(&(say(&[INIT, HELLO, HELLO]) + HANG))).await;
    control.handle.events.next().await.unwrap();
    let process = stage.process("pid").await;
    control.cancel.cancel();
    // What was buffered is lost: nothing comes after a cancel.
    assert!(matches!(peek_next(&mut control.handle.events).await, Poll::Ready(None)));
    assert!(is_cancelled(&control.handle.completion.await));
    assert!(!is_running(process));
}

// T40, T42
#[tokio::test]
async fn a_cancel_after_the_exit_still_wins() {
    for script in [say(&[INIT, DONE]), say(&[INIT]) + "exit 1"] {
        let stage = Stage::new();
        let control = start(&stage.claude(&script)).await;
        gone(stage.process("pid").await).await;
        control.cancel.cancel();
        assert!(is_cancelled(&finish(control).await.1));
    }
}

// T40
#[tokio::test]
async fn a_cancel_after_the_end_does_nothing() {
    let stage = Stage::new();
    let control = start(&stage.claude(&say(&[INIT, DONE]))).await;
    let cancel = control.cancel.clone();
    let (_, end) = finish(control).await;
    cancel.cancel();
    end.unwrap();
}

// T41
#[tokio::test]
async fn cancelling_twice_from_two_clones_is_cancelling() {
    let stage = Stage::new();
    let control = hanging(&stage).await;
    let other = control.cancel.clone();
    control.cancel.cancel();
    other.cancel();
    control.cancel.cancel();
    assert!(is_cancelled(&finish(control).await.1));
}

// T41
#[tokio::test]
async fn a_cancel_works_after_the_events_were_dropped() {
    let stage = Stage::new();
    let AgentRunControl { handle, cancel } = hanging(&stage).await;
    drop(handle.events);
    cancel.cancel();
    assert!(is_cancelled(&handle.completion.await));
}

// T41, T47
#[tokio::test]
async fn dropping_the_handle_ends_the_agent() {
    let stage = Stage::new();
    let AgentRunControl { handle, cancel } = hanging(&stage).await;
    let process = stage.process("pid").await;
    drop(handle);
    cancel.cancel();
    gone(process).await;
}

// T47
#[tokio::test]
async fn dropping_half_of_the_handle_does_not() {
    let stage = Stage::new();
    let script = wait_after(&say(&[INIT])) + &say(&[DONE]);
    let mut control = start(&stage.claude(&script)).await;
    stage.process("pid").await;
    control.handle.completion = Box::pin(std::future::pending());
    while control.handle.events.next().await.unwrap().data.is_none() {}
    stage.go();
    assert!(control.handle.events.next().await.is_none());
}

// T42
#[tokio::test]
async fn a_cancel_wins_over_a_failure_of_the_same_moment() {
    let stage = Stage::new();
    let script = format!("trap 'exit 9' TERM; {} while :; do sleep 1000; done", say(&[INIT]));
    let mut control = start(&stage.claude(&script)).await;
    control.handle.events.next().await.unwrap();
    control.cancel.cancel();
    assert!(is_cancelled(&finish(control).await.1));
}

// T43, T44
#[tokio::test]
async fn an_agent_that_ignores_being_asked_is_forced_with_its_children() {
    let stage = Stage::new();
    let script = format!(
        "trap '' TERM; (while :; do sleep 1000; done) & echo $! > \"$FAKE_DIR/child\"; {} while :; do sleep 1000; done",
        say(&[INIT])
    );
    let mut control = start(&stage.claude(&script)).await;
    control.handle.events.next().await.unwrap();
    let (process, child) = (stage.process("pid").await, stage.process("child").await);
    control.cancel.cancel();
    assert!(matches!(peek_next(&mut control.handle.events).await, Poll::Ready(None)));
    assert!(matches!(peek(&mut control.handle.completion).await, Poll::Pending));
    assert!(is_cancelled(&control.handle.completion.await));
    assert!(!is_running(process) && !is_running(child));
}

// T43
#[tokio::test]
async fn a_dying_agent_is_read_so_that_it_can_finish_writing() {
    let stage = Stage::new();
    // A shell looks at its traps between two commands, so they are short.
    let script = format!(
        "trap 'head -c 1000000 /dev/zero; exit 3' TERM; {} while :; do sleep 0.05; done",
        say(&[INIT])
    );
    let mut config = stage.config(&script);
    config.kill_grace = Duration::from_secs(60);
    let mut control = start(&backends::claude_code::backend(config)).await;
    control.handle.events.next().await.unwrap();
    control.cancel.cancel();
    let end = finish(control).await.1;
    assert!(is_cancelled(&end));
    let exit = Some(Exit { code: Some(3), signal: None });
    assert!(matches!(end, Err(AgentError::Backend { exit: found, .. }) if found == exit));
}

// T44
#[tokio::test]
async fn the_child_of_a_shim_ends_with_the_shim() {
    let stage = Stage::new();
    let script = format!("sleep 1000 & echo $! > \"$FAKE_DIR/child\"; {} wait", say(&[INIT]));
    let mut control = start(&stage.claude(&script)).await;
    control.handle.events.next().await.unwrap();
    let child = stage.process("child").await;
    control.cancel.cancel();
    assert!(is_cancelled(&finish(control).await.1));
    assert!(!is_running(child));
}

#[test]
fn a_runtime_that_goes_away_takes_the_agent_with_it() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (process, child, control) = runtime.block_on(async {
        let script = "sleep 1000 & echo $! > \"$FAKE_DIR/child\"; wait";
        let control = start(&stage.claude(script)).await;
        (stage.process("pid").await, stage.process("child").await, control)
    });
    drop(runtime);
    while is_running(process) || is_running(child) {
        std::thread::yield_now();
    }
    drop(control);
}
