//! Chat completions, OpenAI's and everybody else's.

use callboard_agents::{Delta, Fault, StopReason, TokenUsage};
use callboard_backends::ProviderKind::{OpenAi, OpenAiCompatible};
use serde_json::{Value, json};

use crate::given::{KEY, Reply, ask, data, is_reduced, request, with_schema, with_tools};

fn delta(delta: &Value) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
    data(&json!({ "id": "chatcmpl-1", "choices": [choice] }))
}

fn stop(reason: &str) -> Vec<String> {
    let choice = json!({ "index": 0, "delta": {}, "finish_reason": reason });
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
        "prompt_tokens_details": { "cached_tokens": 5 } });
    vec![
        data(&json!({ "id": "chatcmpl-1", "choices": [choice] })),
        data(&json!({ "id": "chatcmpl-1", "choices": [], "usage": usage })),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn reply(deltas: &[Value], reason: &str) -> Reply {
    Reply::stream([deltas.iter().map(delta).collect(), stop(reason)].concat())
}

#[tokio::test]
async fn text_and_thinking_are_streamed_and_counted() {
    let deltas = [
        json!({ "reasoning_content": "hm" }),
        json!({ "content": "Hel" }),
        json!({ "content": "lo" }),
    ];
    for kind in [OpenAi, OpenAiCompatible] {
        let asked = ask(kind, &request(), reply(&deltas, "stop")).await;
        assert_eq!(asked.deltas[0], Delta::Thinking("hm".into()));
        let turn = asked.turn.unwrap();
        assert_eq!((turn.text.as_str(), turn.thinking.as_str()), ("Hello", "hm"));
        let usage = TokenUsage { input: 9, output: 4, cache_read: Some(5), cache_write: None };
        assert_eq!((turn.stop, turn.usage), (StopReason::Stop, Some(usage)));
        assert_eq!(turn.provider_request_id.as_deref(), Some("chatcmpl-1"));
        assert_eq!(asked.seen.line, "POST /v1/chat/completions");
        assert!(asked.seen.head.contains(&format!("authorization: bearer {KEY}")));
    }
}

#[tokio::test]
async fn a_models_name_is_not_read_as_an_effort() {
    let mut request = request();
    request.model = "acme/qwen/m-1-high".parse().unwrap();
    let asked = ask(OpenAiCompatible, &request, reply(&[], "stop")).await;
    assert_eq!(asked.seen.body["model"], "qwen/m-1-high");
    assert_eq!(asked.seen.body["reasoning_effort"], Value::Null);
}

#[tokio::test]
async fn parallel_calls_are_put_together_from_their_fragments() {
    let deltas = [
        json!({ "tool_calls": [
            { "index": 0, "id": "call_a", "function": { "name": "mcp_files_read", "arguments": "" } },
            { "index": 1, "id": "call_b", "function": { "name": "made_up", "arguments": "{}" } }
        ] }),
        json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"path\":" } }] }),
        json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "\"b\"}" } }] }),
    ];
    let asked = ask(OpenAi, &with_tools(), reply(&deltas, "tool_calls")).await;
    let turn = asked.turn.unwrap();
    let calls: Vec<_> = turn
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.provider_id.as_deref().unwrap(), call.name.as_str()))
        .collect();
    assert_eq!(calls, [("inv-1-0", "call_a", "mcp_files_read"), ("inv-1-1", "call_b", "made_up")]);
    assert_eq!(turn.tool_calls[0].arguments["path"], "b");
    let messages = &asked.seen.body["messages"];
    assert_eq!(messages[3]["tool_call_id"], messages[2]["tool_calls"][0]["id"]);
}

#[tokio::test]
async fn half_a_call_is_never_made() {
    let half = json!({ "tool_calls": [
        { "index": 0, "id": "c", "function": { "name": "mcp_files_read", "arguments": "{\"path\":\"/et" } }
    ] });
    let asked = ask(OpenAi, &with_tools(), reply(std::slice::from_ref(&half), "tool_calls")).await;
    assert_eq!(asked.turn.unwrap_err().fault, Fault::Malformed);
    let turn = ask(OpenAi, &with_tools(), reply(&[half], "length")).await.turn.unwrap();
    assert_eq!((turn.stop, turn.tool_calls.len()), (StopReason::Length, 0));
}

#[tokio::test]
async fn a_place_from_the_wire_does_not_decide_how_much_memory_is_used() {
    let far = json!({ "tool_calls": [
        { "index": 4_000_000_000_u64, "id": "c", "function": { "name": "mcp_files_read", "arguments": "{}" } }
    ] });
    let turn = ask(OpenAi, &with_tools(), reply(&[far], "tool_calls")).await.turn.unwrap();
    assert_eq!(turn.tool_calls.len(), 1);
}

///
#[tokio::test]
async fn a_refusal_is_found_where_it_is_told() {
    let deltas = [json!({ "refusal": "I " }), json!({ "refusal": "can't." })];
    let turn = ask(OpenAi, &request(), reply(&deltas, "stop")).await.turn.unwrap();
    assert_eq!((turn.stop, turn.text.as_str()), (StopReason::Refusal, "I can't."));
    let filtered = ask(OpenAi, &request(), reply(&[], "content_filter")).await.turn.unwrap();
    assert_eq!(filtered.stop, StopReason::ContentFilter);
}

#[tokio::test]
async fn an_answer_is_held_to_the_reduced_schema_or_told_of_the_whole() {
    let asked = ask(OpenAi, &with_schema(), reply(&[json!({ "content": "{}" })], "stop")).await;
    let format = &asked.seen.body["response_format"];
    assert_eq!(format["json_schema"]["strict"], true);
    assert!(is_reduced(&format["json_schema"]["schema"]), "{format}");
    let mut free = with_schema();
    free.response_schema = Some(std::sync::Arc::new(json!({ "type": "object" })));
    let asked = ask(OpenAi, &free, reply(&[json!({ "content": "{}" })], "stop")).await;
    assert_eq!(asked.seen.body["response_format"], Value::Null);
    let system = asked.seen.body["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be brief.\n\nAnswer with one JSON value"), "{system}");
}
