//! The shape of `chat/completions`.

use serde_json::{Value, json};

use super::Frames;
use super::talk::{Talk, Transcript};
use crate::run::Usage;

pub(super) fn whole(told: &Transcript) -> Value {
    json!({
        "id": format!("chatcmpl-{}", told.run),
        "object": "chat.completion",
        "created": told.created,
        "model": told.model,
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": told.text, "refusal": null },
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": usage(told.usage),
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}

pub(super) struct Stream {
    talk: Talk,
    has_usage: bool,
}

impl Stream {
    pub(super) fn new(talk: Talk, has_usage: bool) -> Self {
        Self { talk, has_usage }
    }

    fn frame(&self, choices: Value) -> String {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.talk.run()),
            "object": "chat.completion.chunk",
            "created": self.talk.created,
            "model": self.talk.model,
            "choices": choices,
        });
        if self.has_usage {
            let is_last = chunk["choices"].as_array().is_some_and(Vec::is_empty);
            chunk["usage"] = if is_last { usage(self.talk.usage()) } else { Value::Null };
        }
        format!("data: {chunk}\n\n")
    }

    fn delta(&self, delta: Value, finish: Option<&str>) -> String {
        self.frame(
            json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]),
        )
    }
}

impl Frames for Stream {
    fn talk(&mut self) -> &mut Talk {
        &mut self.talk
    }

    fn open(&mut self) -> String {
        self.delta(json!({ "role": "assistant", "content": "" }), None)
    }

    fn text(&mut self, text: &str) -> String {
        self.delta(json!({ "content": text }), None)
    }

    fn close(&mut self) -> String {
        let mut last = self.delta(json!({}), Some("stop"));
        if self.has_usage {
            last.push_str(&self.frame(json!([])));
        }
        last + "data: [DONE]\n\n"
    }
}
