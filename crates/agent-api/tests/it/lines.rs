//! Lines that taught us something, one agent after the other.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use callboard_agent_api::{
    AgentCompletion, AgentError, AgentEvent, AgentEventKind, Conversation, FailureClass,
    Transcript, backends,
};
use proptest::prelude::*;

use crate::stage::{DONE, INIT, errors, texts};

fn read(mut transcript: Transcript, lines: &[&str]) -> (Vec<AgentEvent>, Transcript) {
    let events = lines.iter().flat_map(|line| transcript.read_line(line.as_bytes())).collect();
    (events, transcript)
}

fn exit(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

fn claude(lines: &[&str]) -> (Vec<AgentEvent>, Result<AgentCompletion, AgentError>) {
    let transcript = backends::claude_code::transcript(Conversation::New);
    let (events, mut transcript) = read(transcript, lines);
    (events, transcript.conclude(exit(0)))
}

fn codex(lines: &[&str]) -> (Vec<AgentEvent>, Result<AgentCompletion, AgentError>) {
    let (events, mut transcript) = read(backends::codex::transcript(Conversation::New), lines);
    (events, transcript.conclude(exit(0)))
}

// T28
#[test]
fn a_result_of_a_tool_stands_in_a_line_of_the_user() {
    let call = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t-1","name":"Bash","input":{}}]}}"#;
    let result = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t-1","is_error":true,"content":"no"}]}}"#;
    // The call is announced twice and told once.
    let (events, _) = claude(&[INIT, call, call, result]);
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    use AgentEventKind::{Status, ToolCall, ToolResult};
    assert_eq!(kinds, [Status, ToolCall, ToolResult]);
    let tool = &events[2].data.as_ref().unwrap()["tool"];
    assert_eq!((&tool["tool_use_id"], &tool["phase"]), (&"t-1".into(), &"fail".into()));
    assert_eq!(tool["bytes"]["result"], 2);
}

// T27
#[test]
fn text_that_came_in_pieces_is_not_told_again() {
    let piece = |text: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{text}"}}}}}}"#
        )
    };
    let start = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}"#;
    let whole =
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hello"}]}}"#;
    let other =
        r#"{"type":"assistant","message":{"id":"n","content":[{"type":"text","text":"!"}]}}"#;
    let (events, _) = claude(&[start, &piece("he"), &piece("llo"), whole, other]);
    assert_eq!(texts(&events), "hello!");
    // What the pieces lack is made up for.
    let (events, _) = claude(&[start, &piece("he"), whole]);
    assert_eq!(texts(&events), "hello");
}

#[test]
fn what_a_helper_of_the_agent_says_is_not_the_answer() {
    let nested = r#"{"type":"assistant","parent_tool_use_id":"t-1","message":{"id":"m","content":[{"type":"text","text":"inner"}]}}"#;
    assert_eq!(texts(&claude(&[INIT, nested]).0), "");
}

#[test]
fn a_denied_tool_is_told_and_counted() {
    let denied = r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash"}"#;
    let (events, end) = claude(&[INIT, denied, DONE]);
    assert_eq!(events[1].message.as_deref(), Some("a tool was denied"));
    assert_eq!(end.unwrap().data.unwrap()["permission_denials"], 1);
}

// T71
#[test]
fn a_bad_line_is_named_by_its_number_and_stops_nothing() {
    let (events, end) = claude(&[INIT, "", "  \r", "{\"type\":", "[]", "7", DONE]);
    assert_eq!(
        errors(&events),
        [
            "unreadable: line 4 of 8 bytes was skipped",
            "unreadable: line 5 of 2 bytes was skipped",
            "unreadable: line 6 of 1 bytes was skipped",
        ]
    );
    end.unwrap();
}

// T72
#[test]
fn an_unknown_type_is_unknown_and_no_error() {
    let line = r#"{"type":"brand_new","payload":"secret"}"#;
    for transcript in [
        backends::claude_code::transcript(Conversation::New),
        backends::codex::transcript(Conversation::New),
        backends::gemini_cli::transcript(Conversation::New),
        backends::opencode::transcript(Conversation::New),
    ] {
        let (events, _) = read(transcript, &[line, "{}", r#"{"type":7}"#]);
        assert_eq!(events.len(), 3);
        assert!(
            events
                .iter()
                .all(|event| event.kind == AgentEventKind::Unknown && event.data.is_none())
        );
    }
}

// T73
#[test]
fn only_is_error_decides() {
    let class = |line: &str| claude(&[INIT, line]).1.unwrap_err().class().unwrap();
    let api = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error"}"#;
    assert_eq!(class(api), FailureClass::Upstream5xx);
    let turns = r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#;
    assert_eq!(class(turns), FailureClass::TurnLimit);
    // A record that does not say is no success.
    assert_eq!(class(r#"{"type":"result","subtype":"success"}"#), FailureClass::Crashed);
}

const THREAD: &str = r#"{"type":"thread.started","thread_id":"t"}"#;
const ANSWER: &str =
    r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"hi"}}"#;
const TURN_DONE: &str = r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":2}}"#;

// T74
#[test]
fn a_warning_before_the_turn_is_a_warning() {
    let warning = r#"{"type":"item.completed","item":{"id":"i","type":"error","message":"Model metadata for `m` not found"}}"#;
    let (events, end) = codex(&[THREAD, warning, ANSWER, TURN_DONE]);
    assert_eq!(errors(&events), [""; 0]);
    assert_eq!(end.unwrap().final_text.as_deref(), Some("hi"));
}

// T75
#[test]
fn connecting_again_ends_nothing() {
    let again = r#"{"type":"error","message":"Reconnecting... 1/5 (network)"}"#;
    let (events, end) = codex(&[THREAD, r#"{"type":"turn.started"}"#, again, ANSWER, TURN_DONE]);
    assert_eq!(errors(&events), [""; 0]);
    end.unwrap();
    let broken =
        r#"{"type":"turn.failed","error":{"message":"stream disconnected before completion: x"}}"#;
    assert!(codex(&[THREAD, again, broken]).1.unwrap_err().is_retryable());
}

#[test]
fn the_status_of_codex_tools_decides_how_they_ended() {
    let item = |moment: &str, status: &str| {
        format!(
            r#"{{"type":"item.{moment}","item":{{"id":"c-1","type":"command_execution","command":"secret","aggregated_output":"abc","exit_code":1,"status":"{status}"}}}}"#
        )
    };
    let (events, end) = codex(&[
        THREAD,
        &item("started", "in_progress"),
        &item("completed", "declined"),
        TURN_DONE,
    ]);
    let tool = &events.iter().find(|e| e.kind == AgentEventKind::ToolResult).unwrap().data;
    let tool = &tool.as_ref().unwrap()["tool"];
    assert_eq!(tool["phase"], "fail");
    assert_eq!((&tool["exit_code"], &tool["bytes"]["stdout"]), (&1.into(), &3.into()));
    assert_eq!(tool["thread_id"], "t");
    assert_eq!(end.unwrap().data.unwrap()["permission_denials"], 1);
}

// T76
#[test]
fn opencode_has_its_text_in_the_part_and_its_session_on_every_line() {
    let line = |kind: &str, part: &str| {
        format!(r#"{{"type":"{kind}","sessionID":"ses_1","part":{{{part}}}}}"#)
    };
    let (events, mut transcript) = read(
        backends::opencode::transcript(Conversation::New),
        &[
            &line("step_start", ""),
            &line(
                "tool_use",
                r#""tool":"bash","callID":"c","state":{"status":"completed","output":"o","metadata":{"exit":0}}"#,
            ),
            &line("step_finish", r#""reason":"tool-calls""#),
            &line("step_start", ""),
            &line("text", r#""text":"hi""#),
            &line("step_finish", r#""reason":"stop","tokens":{"input":1,"output":2}"#),
        ],
    );
    assert_eq!(transcript.session(), Some("ses_1"));
    assert_eq!(texts(&events), "hi");
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert!(kinds.windows(2).any(|w| w == [AgentEventKind::ToolCall, AgentEventKind::ToolResult]));
    let end = transcript.conclude(exit(0)).unwrap();
    assert_eq!(end.final_text.as_deref(), Some("hi"));
    assert_eq!(end.data.unwrap()["usage"]["output_tokens"], 2);
}

// T76
#[test]
fn a_step_that_announces_another_is_no_end() {
    let lines = [r#"{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls"}}"#];
    let (_, mut transcript) = read(backends::opencode::transcript(Conversation::New), &lines);
    assert_eq!(transcript.conclude(exit(0)).unwrap_err().to_string(), "incomplete");
}

// T77
#[test]
fn the_echo_of_the_prompt_is_no_output() {
    let message = |role: &str, text: &str| {
        format!(r#"{{"type":"message","role":"{role}","content":"{text}","delta":true}}"#)
    };
    let (events, mut transcript) = read(
        backends::gemini_cli::transcript(Conversation::New),
        &[
            r#"{"type":"init","session_id":"g-1"}"#,
            &message("user", "the prompt"),
            &message("assistant", "hi "),
            &message("assistant", "there"),
            r#"{"type":"result","status":"success","stats":{}}"#,
        ],
    );
    assert_eq!(texts(&events), "hi there");
    assert_eq!(transcript.conclude(exit(0)).unwrap().final_text.as_deref(), Some("hi there"));
}

// T37
#[test]
fn gemini_tells_by_its_exit_what_its_lines_did_not() {
    for (code, class) in [
        (0, FailureClass::Protocol),
        (42, FailureClass::InvalidRequest),
        (53, FailureClass::TurnLimit),
        (55, FailureClass::Permission),
        (144, FailureClass::InvalidRequest),
        (145, FailureClass::Auth),
        (173, FailureClass::RateLimit),
        (244, FailureClass::Upstream5xx),
        (1, FailureClass::Crashed),
    ] {
        let mut transcript = backends::gemini_cli::transcript(Conversation::New);
        assert_eq!(transcript.conclude(exit(code)).unwrap_err().class(), Some(class), "{code}");
    }
}

proptest! {
    // T26, T70
    #[test]
    fn no_bytes_make_a_parser_panic_or_repeat_them(
        line in prop::collection::vec(any::<u8>(), 0..200),
        field in "[a-z_]{1,12}",
    ) {
        let shaped = format!(r#"{{"type":"{field}","message":"canary","item":{{"type":"{field}","text":5}}}}"#);
        for mut transcript in [
            backends::claude_code::transcript(Conversation::Continued),
            backends::codex::transcript(Conversation::Continued),
            backends::gemini_cli::transcript(Conversation::Continued),
            backends::opencode::transcript(Conversation::Continued),
            backends::aider::transcript(),
            backends::acp::transcript(callboard_agent_api::AgentKind::new("acp").unwrap()),
        ] {
            transcript.read_line(&line);
            transcript.read_error_line(&line);
            let events = transcript.read_line(shaped.as_bytes());
            let seen = format!("{events:?}");
            prop_assert!(!seen.contains("canary"));
            let _ = transcript.conclude(exit(1));
        }
    }
}
