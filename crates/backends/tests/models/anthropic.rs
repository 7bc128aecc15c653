//! Anthropic's messages.

use callboard_agents::{Delta, StopReason, TokenUsage};
use callboard_backends::ProviderKind::Anthropic;
use serde_json::{Value, json};

use crate::given::{KEY, Reply, ask, event, is_reduced, request, text, with_schema, with_tools};

fn start() -> String {
    event(&json!({ "type": "message_start", "message": { "id": "msg_1", "role": "assistant",
        "usage": { "input_tokens": 12, "output_tokens": 1 } } }))
}

fn block(index: u64, block: &Value, deltas: &[Value]) -> Vec<String> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": index, "content_block": block })];
    events.extend(
        deltas
            .iter()
            .map(|it| json!({ "type": "content_block_delta", "index": index, "delta": it })),
    );
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events.iter().map(event).collect()
}

fn stop(reason: &str) -> Vec<String> {
    let delta = json!({ "type": "message_delta", "delta": { "stop_reason": reason },
        "usage": { "output_tokens": 7 } });
    vec![event(&delta), event(&json!({ "type": "message_stop" }))]
}

fn said(words: &[&str], reason: &str) -> Reply {
    let deltas: Vec<Value> =
        words.iter().map(|it| json!({ "type": "text_delta", "text": it })).collect();
    let text = block(0, &json!({ "type": "text", "text": "" }), &deltas);
    Reply::stream([vec![start()], text, stop(reason)].concat())
}

#[tokio::test]
async fn text_is_streamed_and_counted() {
    let asked = ask(Anthropic, &request(), said(&["Hel", "lo"], "end_turn")).await;
    assert_eq!(asked.deltas, [Delta::Text("Hel".into()), Delta::Text("lo".into())]);
    let turn = asked.turn.unwrap();
    assert_eq!((turn.text.as_str(), turn.stop), ("Hello", StopReason::Stop));
    assert_eq!(turn.usage, Some(TokenUsage { input: 12, output: 7, ..TokenUsage::default() }));
    assert_eq!(turn.provider_request_id.as_deref(), Some("msg_1"));
    assert_eq!(asked.seen.line, "POST /v1/messages");
    assert!(asked.seen.head.contains(&format!("x-api-key: {KEY}")), "{}", asked.seen.head);
    assert!(asked.seen.head.contains("idempotency-key: effect-1"));
    let body = &asked.seen.body;
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("m-1"), &json!(500)));
    assert_eq!((&body["stream"], &body["temperature"]), (&json!(true), &json!(0.5)));
}

#[tokio::test]
async fn a_models_name_goes_out_as_it_is_written() {
    let mut request = request();
    request.model = "acme/m-1-high".parse().unwrap();
    let asked = ask(Anthropic, &request, said(&["x"], "end_turn")).await;
    assert_eq!(asked.seen.body["model"], "m-1-high");
}

#[tokio::test]
async fn a_tool_is_called_under_our_name_and_our_id() {
    let input = ["{\"path\":", "\"b\"}"];
    let input = input.map(|it| json!({ "type": "input_json_delta", "partial_json": it }));
    let tool =
        json!({ "type": "tool_use", "id": "toolu_9", "name": "mcp_files_read", "input": {} });
    let pieces = [vec![start()], block(0, &tool, &input), stop("tool_use")].concat();
    let asked = ask(Anthropic, &with_tools(), Reply::stream(pieces)).await;
    let turn = asked.turn.unwrap();
    assert_eq!(turn.stop, StopReason::ToolCalls);
    let [call] = turn.tool_calls.as_slice() else { panic!("{turn:?}") };
    assert_eq!((call.id.as_str(), call.provider_id.as_deref()), ("inv-1-0", Some("toolu_9")));
    assert_eq!((call.name.as_str(), &call.arguments["path"]), ("mcp_files_read", &json!("b")));
    let messages = &asked.seen.body["messages"];
    assert_eq!(messages[1]["content"][0]["id"], "theirs_1");
    assert_eq!(messages[1]["content"][0]["name"], "mcp_files_read");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "theirs_1");
    assert_eq!(asked.seen.body["tools"][0]["name"], "mcp_files_read");
}

///
#[tokio::test]
async fn a_refusal_is_a_turn_and_not_an_error() {
    let asked = ask(Anthropic, &request(), said(&["I"], "refusal")).await;
    assert_eq!(asked.turn.unwrap().stop, StopReason::Refusal);
}

#[tokio::test]
async fn a_cut_answer_never_calls_its_half_a_tool() {
    let half = [json!({ "type": "input_json_delta", "partial_json": "{\"path\":\"/et" })];
    let tool =
        json!({ "type": "tool_use", "id": "toolu_9", "name": "mcp_files_read", "input": {} });
    let mut open = block(0, &tool, &half);
    open.pop();
    for reason in ["max_tokens", "model_context_window_exceeded"] {
        let pieces = [vec![start()], open.clone(), stop(reason)].concat();
        let turn = ask(Anthropic, &with_tools(), Reply::stream(pieces)).await.turn.unwrap();
        assert_eq!((turn.stop, turn.tool_calls.len()), (StopReason::Length, 0), "{reason}");
    }
}

#[tokio::test]
async fn an_answer_is_held_to_the_reduced_schema_or_told_of_the_whole() {
    let reply = || said(&["{\"title\":\"x\"}"], "end_turn");
    let asked = ask(Anthropic, &with_schema(), reply()).await;
    assert_eq!(text(&asked), "{\"title\":\"x\"}");
    let format = &asked.seen.body["output_config"]["format"];
    assert_eq!(format["type"], "json_schema");
    assert!(is_reduced(&format["schema"]), "{format}");
    let mut old = with_schema();
    old.model = "acme/claude-3-5-haiku-latest".parse().unwrap();
    let asked = ask(Anthropic, &old, reply()).await;
    assert_eq!(asked.seen.body["output_config"], Value::Null);
    assert!(asked.seen.body["system"].to_string().contains("minLength"));
}
