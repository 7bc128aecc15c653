//! Gemini.

use callboard_agents::{Message, StopReason, TokenUsage};
use callboard_backends::ProviderKind::Gemini;
use serde_json::{Value, json};

use crate::given::{KEY, Reply, ask, data, is_reduced, request, with_schema, with_tools};

fn part(part: &Value) -> String {
    data(&json!({ "responseId": "g-1", "candidates": [{ "content": { "parts": [part] } }] }))
}

fn stop(reason: &str) -> String {
    data(&json!({
        "responseId": "g-1",
        "candidates": [{ "content": { "parts": [] }, "finishReason": reason }],
        "usageMetadata": { "promptTokenCount": 8, "candidatesTokenCount": 2,
            "thoughtsTokenCount": 3, "totalTokenCount": 13 }
    }))
}

fn reply(parts: &[Value], reason: &str) -> Reply {
    Reply::stream(parts.iter().map(part).chain([stop(reason)]).collect::<Vec<_>>())
}

#[tokio::test]
async fn text_is_streamed_and_thinking_is_counted() {
    let asked = ask(Gemini, &request(), reply(&[json!({ "text": "Hello" })], "STOP")).await;
    let turn = asked.turn.unwrap();
    assert_eq!((turn.text.as_str(), turn.stop), ("Hello", StopReason::Stop));
    assert_eq!(turn.usage, Some(TokenUsage { input: 8, output: 5, ..TokenUsage::default() }));
    assert_eq!(turn.provider_request_id.as_deref(), Some("g-1"));
    assert_eq!(asked.seen.line, "POST /v1beta/models/m-1:streamGenerateContent?alt=sse");
    assert!(asked.seen.head.contains(&format!("x-goog-api-key: {KEY}")));
}

#[tokio::test]
async fn a_call_keeps_its_signature_for_the_way_back() {
    let call = json!({ "functionCall": { "name": "mcp_files_read", "args": { "path": "b" } },
        "thoughtSignature": "sig-1" });
    let turn = ask(Gemini, &with_tools(), reply(&[call], "STOP")).await.turn.unwrap();
    assert_eq!(turn.stop, StopReason::ToolCalls);
    let [call] = turn.tool_calls.as_slice() else { panic!("{turn:?}") };
    assert_eq!(
        (call.provider_id.as_deref(), call.signatures.as_slice()),
        (None, &["sig-1".to_owned()][..])
    );
    let mut next = with_tools();
    next.messages[1] = Message::Assistant {
        text: String::new(),
        calls: vec![callboard_agents::WantedCall { id: "run:inv-0-0".into(), ..call.clone() }],
    };
    let asked = ask(Gemini, &next, reply(&[json!({ "text": "ok" })], "STOP")).await;
    let sent = asked.seen.body["contents"].to_string();
    assert!(sent.contains("sig-1") && sent.contains("mcp_files_read"), "{sent}");
    assert_eq!(
        asked.seen.body["contents"][2]["parts"][0]["functionResponse"]["name"],
        "mcp_files_read"
    );
}

///
#[tokio::test]
async fn a_question_that_is_blocked_is_refused() {
    let blocked = data(&json!({ "promptFeedback": { "blockReason": "SAFETY" } }));
    let turn = ask(Gemini, &request(), Reply::stream([blocked])).await.turn.unwrap();
    assert_eq!((turn.stop, turn.text.as_str()), (StopReason::ContentFilter, ""));
    for reason in ["SAFETY", "RECITATION", "PROHIBITED_CONTENT"] {
        let turn = ask(Gemini, &request(), reply(&[], reason)).await.turn.unwrap();
        assert_eq!(turn.stop, StopReason::ContentFilter, "{reason}");
    }
}

#[tokio::test]
async fn a_cut_answer_is_known_by_its_reason() {
    let turn = ask(Gemini, &request(), reply(&[json!({ "text": "Hel" })], "MAX_TOKENS")).await.turn;
    assert_eq!(turn.unwrap().stop, StopReason::Length);
}

#[tokio::test]
async fn an_answer_is_held_to_a_schema_unless_there_are_tools() {
    let reply = || reply(&[json!({ "text": "{}" })], "STOP");
    let asked = ask(Gemini, &with_schema(), reply()).await;
    assert!(is_reduced(&asked.seen.body["generationConfig"]["responseJsonSchema"]));
    let mut both = with_schema();
    both.tools = with_tools().tools;
    let asked = ask(Gemini, &both, reply()).await;
    assert_eq!(asked.seen.body["generationConfig"]["responseJsonSchema"], Value::Null);
    assert!(asked.seen.body["systemInstruction"].to_string().contains("JSON Schema"));
}
