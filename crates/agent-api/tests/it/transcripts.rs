//! What real agents printed, read again.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use callboard_agent_api::{
    AgentCompletion, AgentError, AgentEvent, AgentEventKind, AgentKind, Conversation, FailureClass,
    Transcript, backends, session_id,
};
use serde_json::Value;

use crate::stage::{errors, texts};

/// Recordings are data of others and stay beside the checkout. `None` where they are not, unless CI demands them.
fn recordings() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/transcripts"));
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains("transcripts"), "{} is missing", folder.display());
    let _ = std::io::stderr().write_all(b"skipped: no recordings at ../shared/transcripts\n");
    None
}

struct Recording {
    name: String,
    lines: Vec<Vec<u8>>,
    stderr: Vec<u8>,
    exit: i32,
}

impl Recording {
    fn all() -> Vec<Self> {
        let Some(folder) = recordings() else { return Vec::new() };
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .filter_map(|file| {
                let name = file.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".jsonl").map(Into::into)
            })
            .collect();
        names.sort();
        assert!(names.len() > 25, "{names:?}");
        names.into_iter().map(|name| Self::read(&folder, name)).collect()
    }

    fn read(folder: &std::path::Path, name: String) -> Self {
        let file = |end: &str| fs::read(folder.join(format!("{name}.{end}"))).unwrap();
        // `{"exit":0,"seconds":.9}`, which is not quite JSON.
        let exit = String::from_utf8(file("exit")).unwrap();
        let exit = exit.split([':', ',']).nth(1).unwrap().trim().parse().unwrap();
        let output = file("jsonl");
        let output = output.strip_suffix(b"\n").unwrap_or(&output);
        Self {
            lines: output.split(|byte| *byte == b'\n').map(Into::into).collect(),
            stderr: file("stderr"),
            exit,
            name,
        }
    }

    fn transcript(&self) -> Transcript {
        let conversation = match self.name.contains("resume") || self.name.contains("fork") {
            true => Conversation::Continued,
            false => Conversation::New,
        };
        match self.name.split_once('_').unwrap() {
            (_, "acp") => backends::acp::transcript(AgentKind::new("acp").unwrap()),
            ("claude", _) => backends::claude_code::transcript(conversation),
            ("codex", "appserver") => backends::codex::app_server_transcript(),
            ("codex", _) => backends::codex::transcript(conversation),
            ("gemini", _) => backends::gemini_cli::transcript(conversation),
            ("opencode", _) => backends::opencode::transcript(conversation),
            ("aider", _) => backends::aider::transcript(),
            other => panic!("{other:?}"),
        }
    }

    fn play(&self) -> (Vec<AgentEvent>, Result<AgentCompletion, AgentError>) {
        let mut transcript = self.transcript();
        let events = self.lines.iter().flat_map(|line| transcript.read_line(line)).collect();
        for line in self.stderr.split(|byte| *byte == b'\n') {
            transcript.read_error_line(line);
        }
        (events, transcript.conclude(ExitStatus::from_raw(self.exit << 8)))
    }
}

// T70
#[test]
fn every_line_of_every_recording_is_read() {
    for recording in Recording::all() {
        assert_eq!(errors(&recording.play().0), [""; 0], "{}", recording.name);
    }
}

// T20
#[test]
fn every_event_has_the_fields_of_its_kind() {
    for recording in Recording::all() {
        for event in recording.play().0 {
            let fields = (event.text.is_some(), event.message.is_some());
            let wanted = match event.kind {
                AgentEventKind::TextOutput => (true, false),
                AgentEventKind::Status | AgentEventKind::Error => (false, true),
                AgentEventKind::ToolCall | AgentEventKind::ToolResult | AgentEventKind::Unknown => {
                    (false, false)
                }
            };
            assert_eq!(fields, wanted, "{}: {event:?}", recording.name);
        }
    }
}

// T23
#[test]
fn every_tool_is_described_by_its_facet_and_paired() {
    let mut seen = 0;
    for recording in Recording::all() {
        let (events, _) = recording.play();
        let of = |kind| events.iter().filter(move |event| event.kind == kind);
        for event in of(AgentEventKind::ToolCall).chain(of(AgentEventKind::ToolResult)) {
            let data = event.data.as_ref().unwrap();
            assert_eq!(data["schema"], "agent_api.tools.structured.v1");
            let text = data.to_string();
            assert!(!text.contains("tool-ran") && !text.contains("echo"), "{text}");
            seen += 1;
        }
        let ids = |kind, phase: Option<&'static str>| -> Vec<Value> {
            let tools = of(kind).map(|event| event.data.as_ref().unwrap()["tool"].clone());
            tools
                .filter(|tool| phase.is_none_or(|phase| tool["phase"] == phase))
                .map(|tool| tool["tool_use_id"].clone())
                .collect()
        };
        let calls = ids(AgentEventKind::ToolCall, Some("start"));
        assert_eq!(calls, ids(AgentEventKind::ToolResult, None), "{}", recording.name);
    }
    assert!(seen == 0 || seen > 10, "{seen}");
}

// T24
#[test]
fn every_session_is_told_once_before_text_and_tools() {
    for recording in Recording::all() {
        let (events, end) = recording.play();
        let told: Vec<usize> = (0..events.len())
            .filter(|at| events[*at].data.as_ref().is_some_and(|data| session_id(data).is_some()))
            .collect();
        assert!(told.len() <= 1, "{}", recording.name);
        let first = events.iter().position(|event| {
            event.kind == AgentEventKind::TextOutput || event.kind == AgentEventKind::ToolCall
        });
        if let (Some(told), Some(first)) = (told.first(), first) {
            assert!(told < &first, "{}", recording.name);
        }
        if let (Ok(end), Some(told)) = (end, told.first()) {
            let id = |data: &Option<Value>| session_id(data.as_ref().unwrap()).map(str::to_owned);
            assert_eq!(id(&end.data), id(&events[*told].data));
        }
    }
}

// T27, T36
#[test]
fn text_joins_to_the_final_text() {
    for recording in Recording::all() {
        let (events, Ok(end)) = recording.play() else { continue };
        let joined = texts(&events);
        match recording.name.as_str() {
            "aider_text" => {
                assert_eq!((end.final_text, joined.trim()), (None, "Hello from the fake model."))
            }
            // Two turns in one process.
            "claude_streaminput" => assert_eq!(joined, end.final_text.unwrap().repeat(2)),
            name => assert_eq!(Some(joined), end.final_text, "{name}"),
        }
    }
}

// T33, T37, T38
#[test]
fn every_recording_ends_as_it_ended() {
    use FailureClass::{Crashed, InvalidRequest, Protocol, SessionMissing, TurnLimit, Upstream5xx};
    for recording in Recording::all() {
        let wanted = match recording.name.as_str() {
            "claude_http400" | "codex_http400" | "gemini_http400" | "opencode_http400" => {
                Some(InvalidRequest)
            }
            "claude_maxturns" => Some(TurnLimit),
            "claude_resume_unknown"
            | "codex_resume_unknown"
            | "gemini_resume_badid"
            | "opencode_resume_bad" => Some(SessionMissing),
            "claude_sigINT" | "gemini_sigTERM" => Some(Protocol),
            "codex_cut" => Some(Upstream5xx),
            "codex_tool_ww" => Some(Crashed),
            _ => None,
        };
        let (_, end) = recording.play();
        let class = end.as_ref().err().and_then(AgentError::class);
        assert_eq!(class, wanted, "{}: {end:?}", recording.name);
        if end.is_ok() {
            assert_eq!(recording.exit, 0, "{}", recording.name);
        }
    }
}

// T26
#[test]
fn no_recording_leaks_a_body_a_path_or_a_model() {
    for recording in Recording::all() {
        let (events, end) = recording.play();
        let seen = format!("{events:?} {end:?}");
        for canary in ["fake 400", "INVALID_ARGUMENT", "fake-model", "127.0.0.1", "made-by-tool"] {
            assert!(!seen.contains(canary), "{}: {canary}", recording.name);
        }
    }
}

// T53
#[test]
fn a_recorded_fork_has_another_id_than_its_source() {
    let id = |name: &str| {
        let all = Recording::all();
        let (events, _) = all.iter().find(|recording| recording.name == name)?.play();
        events.iter().find_map(|event| session_id(event.data.as_ref()?)).map(str::to_owned)
    };
    for agent in ["claude", "codex", "opencode"] {
        let (source, fork) = (id(&format!("{agent}_text")), id(&format!("{agent}_fork")));
        assert!(source.is_none() || source != fork, "{agent}");
    }
    assert_eq!(id("codex_text"), id("codex_resume_id"));
}

#[test]
fn a_recorded_denial_is_counted_and_told() {
    for recording in Recording::all().iter().filter(|r| r.name == "claude_write_dontask") {
        let (events, end) = recording.play();
        assert_eq!(end.unwrap().data.unwrap()["permission_denials"], 1);
        assert!(events.iter().any(|event| event.message.as_deref() == Some("a tool was denied")));
        let failed = |event: &&AgentEvent| {
            event.kind == AgentEventKind::ToolResult
                && event.data.as_ref().unwrap()["tool"]["phase"] == "fail"
        };
        assert_eq!(events.iter().filter(failed).count(), 1);
    }
}
