//! What a consumer sees of a run.

use std::task::Poll;

use callboard_agent_api::{AgentEventKind, AgentRunRequest, Grant, backends, session_id};
use futures_util::StreamExt;

use crate::stage::{
    DONE, HELLO, INIT, Stage, errors, finish, peek, run, say, start, start_with, texts, wait_after,
};

// T25
#[tokio::test]
async fn an_event_is_seen_while_the_agent_lives() {
    let stage = Stage::new();
    let script = wait_after(&say(&[INIT])) + &say(&[DONE]);
    let mut control = start(&stage.claude(&script)).await;
    let first = control.handle.events.next().await.unwrap();
    assert_eq!(first.kind, AgentEventKind::Status);
    assert!(crate::stage::is_running(stage.process("pid").await));
    stage.go();
    finish(control).await.1.unwrap();
}

// T24
#[tokio::test]
async fn the_session_is_told_once_and_again_at_the_end() {
    let stage = Stage::new();
    let (events, end) = run(&stage.claude(&say(&[INIT, INIT, HELLO, INIT, DONE]))).await;
    let told = events.iter().filter_map(|event| session_id(event.data.as_ref()?));
    assert_eq!(told.collect::<Vec<_>>(), ["s-1"]);
    assert_eq!(session_id(&end.unwrap().data.unwrap()), Some("s-1"));
}

// T24
#[tokio::test]
async fn a_session_id_that_is_too_long_is_unknown() {
    let init = |bytes: usize| {
        format!(r#"{{"type":"system","subtype":"init","session_id":"{}"}}"#, "s".repeat(bytes))
    };
    let stage = Stage::new();
    let (events, end) = run(&stage.claude(&say(&[&init(1025), &init(1025), DONE]))).await;
    assert_eq!(events.iter().filter(|event| event.data.is_some()).count(), 0);
    let warned = events.iter().filter(|event| event.kind == AgentEventKind::Status).count();
    assert_eq!(warned, 1);
    assert_eq!(session_id(&end.unwrap().data.unwrap()), None);
    let (events, _) = run(&stage.claude(&say(&[&init(1024), DONE]))).await;
    assert!(events[0].data.is_some());
}

// T26
#[tokio::test]
async fn no_secret_raw_line_or_body_is_passed_on() {
    let stage = Stage::new();
    let script = r#"
        echo "$SECRET is not JSON"
        echo "on stderr $SECRET" >&2
        printf '%s\n' '{"type":"system","subtype":"'"$SECRET"' x","session_id":"s"}'
        printf '%s\n' '{"type":"'"$SECRET"'"}'
        printf '%s\n' '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"'"$SECRET"'"}}]}}'
        printf '%s\n' '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"'"$SECRET"'"}]}}'
        printf '%s\n' '{"type":"assistant","is_api_error_message":true,"api_error_status":500,"message":{"content":[{"type":"text","text":"'"$SECRET"'"}]}}'
        printf '%s\n' '{"type":"result","subtype":"success","is_error":true,"errors":["'"$SECRET"'"],"result":"body: '"$SECRET"'"}'
        exit 1
    "#;
    let mut request = AgentRunRequest::new("do it");
    request.env.insert("SECRET".into(), "canary-4711".into());
    let (events, end) = finish(start_with(&stage.claude(script), request).await).await;
    let seen = format!("{events:?} {end:?}");
    assert!(!seen.contains("canary-4711") && !seen.contains("not JSON"), "{seen}");
    assert!(end.unwrap_err().is_retryable());
}

// T29
#[tokio::test]
async fn events_come_in_the_order_in_which_they_were_made() {
    let stage = Stage::new();
    let script = format!(
        r#"{} i=0; while [ $i -lt 200 ]; do
        printf '%s\n' '{{"type":"assistant","message":{{"id":"m'$i'","content":[{{"type":"text","text":"'$i' "}}]}}}}'
        i=$((i+1)); done; {}"#,
        say(&[INIT]),
        say(&[DONE])
    );
    let (events, end) = run(&stage.claude(&script)).await;
    end.unwrap();
    let wanted: String = (0..200).map(|i| format!("{i} ")).collect();
    assert_eq!(texts(&events), wanted);
}

// T29
#[tokio::test]
async fn a_post_hoc_backend_tells_everything_after_the_exit_in_order() {
    let stage = Stage::new();
    let banner = say(&["Aider v0.86.2", "Repo-map: disabled", "one", "two"]);
    let script = wait_after(&banner) + &say(&["three", "Tokens: 5 sent, 6 received."]);
    let aider = backends::aider::backend(stage.config(&script).grant(Grant::ALL));
    let mut control = start(&aider).await;
    stage.process("pid").await;
    assert!(matches!(peek(&mut control.handle.events.next()).await, Poll::Pending));
    stage.go();
    let (events, end) = finish(control).await;
    assert_eq!(texts(&events), "one\ntwo\nthree\n");
    assert_eq!(end.unwrap().final_text, None);
}

// T71
#[tokio::test]
async fn garbage_is_skipped_by_line_and_the_run_goes_on() {
    let stage = Stage::new();
    let mut config = stage.config(&format!(
        "{} printf '\\n  \\r\\nnot json\\r\\n\\377\\376\\n'; head -c 5000 /dev/zero | tr '\\0' x; echo; printf '%s\\r\\n' '{HELLO}'; printf '%s' '{DONE}'",
        say(&[INIT])
    ));
    config.max_line_bytes = 1_000;
    let (events, end) = run(&backends::claude_code::backend(config)).await;
    assert_eq!(end.unwrap().final_text.as_deref(), Some("hello"));
    assert_eq!(texts(&events), "hello");
    assert_eq!(
        errors(&events),
        [
            "unreadable: line 4 of 8 bytes was skipped",
            "unreadable: line 5 of 2 bytes was skipped",
            "oversize_line: line 6 of 5000 bytes was skipped",
        ]
    );
}
