//! OpenAI's responses.

use callboard_agents::{Fault, RetryAdvice, StopReason, TokenUsage};
use callboard_backends::ProviderKind::OpenAiResponses;
use serde_json::{Value, json};

use crate::given::{Reply, ask, event, is_reduced, request, with_schema, with_tools};

fn response(status: &str, more: &Value) -> Value {
    let mut response = json!({ "id": "resp_1", "model": "m-1", "status": status, "output": [],
        "usage": { "input_tokens": 9, "output_tokens": 4, "total_tokens": 13 } });
    response.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    response
}

fn reply(events: &[Value], kind: &str, more: &Value) -> Reply {
    let created =
        json!({ "type": "response.created", "response": response("in_progress", &json!({})) });
    let status = kind.trim_start_matches("response.");
    let last = json!({ "type": kind, "response": response(status, more) });
    let all = std::iter::once(&created).chain(events).chain([&last]);
    Reply::stream(all.map(event).collect::<Vec<_>>())
}

fn text(words: &str) -> Value {
    json!({ "type": "response.output_text.delta", "output_index": 0, "delta": words })
}

#[tokio::test]
async fn text_is_streamed_and_counted() {
    let reply = reply(&[text("Hel"), text("lo")], "response.completed", &json!({}));
    let asked = ask(OpenAiResponses, &request(), reply).await;
    let turn = asked.turn.unwrap();
    assert_eq!((turn.text.as_str(), turn.stop), ("Hello", StopReason::Stop));
    assert_eq!(turn.usage, Some(TokenUsage { input: 9, output: 4, ..TokenUsage::default() }));
    assert_eq!(turn.provider_request_id.as_deref(), Some("resp_1"));
    assert_eq!(asked.seen.line, "POST /v1/responses");
    assert_eq!(asked.seen.body["store"], false, "nothing is kept there");
    assert_eq!(asked.seen.body["max_output_tokens"], 500);
    assert_eq!(asked.seen.body["reasoning"], Value::Null, "no effort is made up");
}

#[tokio::test]
async fn a_finished_response_with_a_call_in_it_is_a_turn_of_calls() {
    let item = json!({ "type": "function_call", "call_id": "call_a", "name": "mcp_files_read",
        "arguments": "{\"path\":\"b\"}" });
    let events = [
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
    ];
    let asked =
        ask(OpenAiResponses, &with_tools(), reply(&events, "response.completed", &json!({}))).await;
    let turn = asked.turn.unwrap();
    assert_eq!(
        (turn.stop, turn.tool_calls[0].arguments["path"].as_str()),
        (StopReason::ToolCalls, Some("b"))
    );
    assert_eq!(turn.tool_calls[0].name, "mcp_files_read");
}

///
#[tokio::test]
async fn a_refusal_and_a_filter_are_told_apart_from_a_cut() {
    let words = json!({ "type": "response.refusal.delta", "delta": "I can't." });
    let reply_of_words = reply(&[words], "response.completed", &json!({}));
    let turn = ask(OpenAiResponses, &request(), reply_of_words).await.turn.unwrap();
    assert_eq!((turn.stop, turn.text.as_str()), (StopReason::Refusal, "I can't."));
    for (reason, stop) in
        [("content_filter", StopReason::ContentFilter), ("max_output_tokens", StopReason::Length)]
    {
        let more = json!({ "incomplete_details": { "reason": reason } });
        let reply = reply(&[text("Hel")], "response.incomplete", &more);
        let turn = ask(OpenAiResponses, &request(), reply).await.turn.unwrap();
        assert_eq!(turn.stop, stop, "{reason}");
    }
}

#[tokio::test]
async fn a_failed_response_is_an_error_with_the_providers_own_reason() {
    for (code, fault) in [
        ("rate_limit_exceeded", Fault::Limited),
        ("server_error", Fault::Trouble),
        ("invalid_prompt", Fault::Rejected),
    ] {
        let more = json!({ "error": { "code": code, "message": "the secret plan" } });
        let error = ask(OpenAiResponses, &request(), reply(&[], "response.failed", &more)).await;
        let error = error.turn.unwrap_err();
        assert_eq!(error.fault, fault, "{code}");
        assert_eq!(error.advice() == RetryAdvice::GiveUp, fault == Fault::Rejected);
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}

#[tokio::test]
async fn an_answer_is_held_to_the_reduced_schema() {
    let reply = reply(&[text("{}")], "response.completed", &json!({}));
    let asked = ask(OpenAiResponses, &with_schema(), reply).await;
    assert!(is_reduced(&asked.seen.body["text"]["format"]["schema"]));
}
