//! Anthropic's messages, word by word.

use serde_json::{Value, json};

use crate::provider::{Reply, event};

fn start() -> String {
    let usage = json!({ "input_tokens": 12, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "role": "assistant", "usage": usage });
    event(&json!({ "type": "message_start", "message": message }))
}

fn block(index: usize, block: &Value, delta: &Value) -> String {
    let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = json!({ "type": "content_block_stop", "index": index });
    [start, delta, stop].iter().map(event).collect()
}

fn stop(reason: &str) -> String {
    let (delta, usage) = (json!({ "stop_reason": reason }), json!({ "output_tokens": 7 }));
    let delta = json!({ "type": "message_delta", "delta": delta, "usage": usage });
    event(&delta) + &event(&json!({ "type": "message_stop" }))
}

fn text(said: &str) -> String {
    let delta = json!({ "type": "text_delta", "text": said });
    block(0, &json!({ "type": "text", "text": "" }), &delta)
}

/// An answer from its first word to its last.
pub(crate) fn says(said: &str) -> Reply {
    Reply::stream([start(), text(said), stop("end_turn")])
}

/// An answer that never comes to its end.
pub(crate) fn begins(said: &str) -> Reply {
    Reply::stream([start(), text(said)])
}

/// Calls a tool this often in one turn, with arguments as they are written.
pub(crate) fn calls(tool: &str, arguments: &str, times: usize, reason: &str) -> Reply {
    let call = |index: usize| {
        let id = format!("toolu_{index}");
        let opened = json!({ "type": "tool_use", "id": id, "name": tool, "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments });
        block(index, &opened, &delta)
    };
    let calls = (0..times).map(call);
    Reply::stream(std::iter::once(start()).chain(calls).chain([stop(reason)]))
}

/// A frame of so many bytes.
pub(crate) fn huge(bytes: usize) -> Reply {
    Reply::stream([start(), text(&"x".repeat(bytes)), stop("end_turn")])
}

pub(crate) fn garbage() -> Reply {
    Reply::stream([start(), "event: content_block_delta\ndata: \u{1}{{{\n\n".to_owned()])
}
