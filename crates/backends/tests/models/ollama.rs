//! Ollama's own chat.

use callboard_agents::{Fault, StopReason, TokenUsage};
use callboard_backends::ProviderKind::Ollama;
use serde_json::{Value, json};

use crate::given::{Reply, ask, request, with_schema, with_tools};

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn reply(messages: &[Value], reason: &str) -> Reply {
    let lines = messages.iter().map(|it| line(&json!({ "message": it, "done": false })));
    let last = json!({ "message": { "role": "assistant", "content": "" }, "done": true,
        "done_reason": reason, "prompt_eval_count": 6, "eval_count": 2 });
    Reply::stream(lines.chain([line(&last)]).collect::<Vec<_>>())
}

#[tokio::test]
async fn text_and_thinking_are_streamed_and_counted() {
    let messages = [json!({ "thinking": "hm", "content": "" }), json!({ "content": "Hello" })];
    let asked = ask(Ollama, &request(), reply(&messages, "stop")).await;
    let turn = asked.turn.unwrap();
    assert_eq!((turn.text.as_str(), turn.thinking.as_str()), ("Hello", "hm"));
    assert_eq!(turn.usage, Some(TokenUsage { input: 6, output: 2, ..TokenUsage::default() }));
    assert_eq!(asked.seen.line, "POST /api/chat");
    assert_eq!(asked.seen.body["options"]["num_predict"], 500);
}

#[tokio::test]
async fn a_call_comes_whole_and_without_an_id() {
    let function = json!({ "name": "mcp_files_read", "arguments": { "path": "b" } });
    let message = json!({ "content": "", "tool_calls": [{ "function": function }] });
    let turn = ask(Ollama, &with_tools(), reply(&[message], "stop")).await.turn.unwrap();
    assert_eq!(turn.stop, StopReason::ToolCalls);
    assert_eq!(
        (turn.tool_calls[0].id.as_str(), &turn.tool_calls[0].provider_id),
        ("inv-1-0", &None)
    );
    assert_eq!(turn.tool_calls[0].name, "mcp_files_read");
}

#[tokio::test]
async fn a_schema_is_told_and_json_is_asked_for() {
    let asked = ask(Ollama, &with_schema(), reply(&[json!({ "content": "{}" })], "stop")).await;
    assert_eq!(asked.seen.body["format"], "json");
    assert!(asked.seen.body["messages"][0]["content"].to_string().contains("minLength"));
}

#[tokio::test]
async fn a_cut_answer_and_an_error_in_the_stream_are_not_answers() {
    let cut = ask(Ollama, &request(), reply(&[json!({ "content": "Hel" })], "length")).await;
    assert_eq!(cut.turn.unwrap().stop, StopReason::Length);
    let failed = Reply::stream([line(&json!({ "error": "the secret plan" }))]);
    assert_eq!(ask(Ollama, &request(), failed).await.turn.unwrap_err().fault, Fault::Broken);
}
