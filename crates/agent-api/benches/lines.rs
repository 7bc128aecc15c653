//! How fast lines become events; the goal is 200 MB of stream-json per second on one core.

use std::fmt::Write;
use std::hint::black_box;

use callboard_agent_api::{Conversation, Transcript, backends};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A session as Claude Code prints it: a long heading, many pieces of text, tools with large results.
fn claude() -> String {
    let tools: Vec<String> = (0..60).map(|i| format!("Tool{i}")).collect();
    let mut lines = format!(
        "{}\n",
        serde_json::json!({ "type": "system", "subtype": "init", "session_id": "s", "tools": tools })
    );
    for turn in 0..40 {
        let envelope = format!(
            r#""session_id":"b71d4858-3205-411e-b84b-35f0d0f21191","parent_tool_use_id":null,"uuid":"444921c9-2aa3-4355-8a84-{turn:012}""#
        );
        let message = format!("msg_{turn}");
        let _ = writeln!(
            lines,
            r#"{{"type":"stream_event","event":{{"type":"message_start","message":{{"id":"{message}"}}}},{envelope}}}"#
        );
        for _ in 0..50 {
            let _ = writeln!(
                lines,
                r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"some words of an answer "}}}},{envelope}}}"#
            );
        }
        let text = "some words of an answer ".repeat(50);
        let _ = writeln!(
            lines,
            r#"{{"type":"assistant","message":{{"id":"{message}","content":[{{"type":"text","text":"{text}"}},{{"type":"tool_use","id":"t-{turn}","name":"Read","input":{{"file_path":"src/lib.rs"}}}}]}},{envelope}}}"#
        );
        let output = "fn main() {\\n    println!(\\\"hello\\\");\\n}\\n".repeat(400);
        let _ = writeln!(
            lines,
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t-{turn}","content":"{output}","is_error":false}}]}},{envelope},"tool_use_result":{{"stdout":"{output}","stderr":""}}}}"#
        );
    }
    lines
}

fn codex() -> String {
    let mut lines = String::from("{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n");
    for item in 0..200 {
        let output = "test result: ok. 12 passed\\n".repeat(100);
        let _ = writeln!(
            lines,
            r#"{{"type":"item.completed","item":{{"id":"i-{item}","type":"command_execution","command":"cargo test","aggregated_output":"{output}","exit_code":0,"status":"completed"}}}}"#
        );
    }
    lines
}

fn read(mut transcript: Transcript, lines: &[&[u8]]) {
    for line in lines {
        black_box(transcript.read_line(line));
    }
}

fn lines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lines");
    type Make = fn(Conversation) -> Transcript;
    let cases: [(&str, String, Make); 2] = [
        ("claude_code", claude(), backends::claude_code::transcript),
        ("codex", codex(), backends::codex::transcript),
    ];
    for (name, text, transcript) in cases {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap_or(u64::MAX)));
        group.bench_function(name, |bencher| {
            bencher.iter(|| read(transcript(Conversation::New), &lines));
        });
    }
    group.finish();
}

criterion_group!(benches, lines);
criterion_main!(benches);
