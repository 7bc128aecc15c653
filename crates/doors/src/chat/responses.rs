//! The shape of `responses`. The id of a response is that of its run.

use serde_json::{Value, json};

use super::Frames;
use super::problem::Problem;
use super::talk::{Talk, Transcript};
use crate::run::Usage;

const PREFIX: &str = "resp_";
/// The longest id that is looked for.
const LONGEST: usize = 128;

/// The run behind an id.
pub(super) fn run_of(id: &str) -> Result<&str, Problem> {
    let run = id.strip_prefix(PREFIX).filter(|run| (1..=LONGEST).contains(&run.len()));
    run.ok_or_else(Problem::no_response)
}

pub(super) fn whole(told: &Transcript) -> Value {
    let status = if told.is_whole { "completed" } else { "incomplete" };
    shape((&told.run, &told.model, told.created), status, Some(&told.text), told.usage)
}

/// None: nothing was said yet.
fn shape(
    (run, model, created): (&str, &str, i64),
    status: &str,
    said: Option<&str>,
    usage: Usage,
) -> Value {
    let output: Vec<Value> = said.map(|said| message(run, said, "completed")).into_iter().collect();
    json!({
        "id": format!("{PREFIX}{run}"), "object": "response", "created_at": created, "model": model,
        "status": status, "output": output, "error": null, "incomplete_details": null,
        "instructions": null, "metadata": {}, "parallel_tool_calls": false, "tool_choice": "none",
        "tools": [], "temperature": null, "top_p": null, "max_output_tokens": null,
        "previous_response_id": null, "store": true,
        "usage": said.map(|_| json!({
            "input_tokens": usage.input,
            "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.input.saturating_add(usage.output),
        })),
    })
}

fn message(run: &str, said: &str, status: &str) -> Value {
    let content: Vec<Value> = match status {
        "completed" => vec![part(said)],
        _ => Vec::new(),
    };
    json!({ "id": format!("msg_{run}"), "type": "message", "role": "assistant", "status": status, "content": content })
}

fn part(said: &str) -> Value {
    json!({ "type": "output_text", "text": said, "annotations": [], "logprobs": [] })
}

pub(super) struct Stream {
    talk: Talk,
    sent: u64,
}

impl Stream {
    pub(super) fn new(talk: Talk) -> Self {
        Self { talk, sent: 0 }
    }

    fn frame(&mut self, kind: &str, mut event: Value) -> String {
        event["type"] = kind.into();
        event["sequence_number"] = self.sent.into();
        self.sent += 1;
        format!("event: {kind}\ndata: {event}\n\n")
    }

    fn response(&self, status: &str, said: Option<&str>) -> Value {
        let about = (self.talk.run(), self.talk.model.as_str(), self.talk.created);
        json!({ "response": shape(about, status, said, self.talk.usage()) })
    }

    /// An event about the one part of the one message.
    fn within(&mut self, kind: &str, name: &str, value: Value) -> String {
        let item = format!("msg_{}", self.talk.run());
        let mut event = json!({ "item_id": item, "output_index": 0, "content_index": 0 });
        event[name] = value;
        if name != "part" {
            event["logprobs"] = json!([]);
        }
        self.frame(kind, event)
    }
}

impl Frames for Stream {
    fn talk(&mut self) -> &mut Talk {
        &mut self.talk
    }

    fn open(&mut self) -> String {
        let begun = self.response("in_progress", None);
        let item = message(self.talk.run(), "", "in_progress");
        [
            self.frame("response.created", begun.clone()),
            self.frame("response.in_progress", begun),
            self.frame("response.output_item.added", json!({ "output_index": 0, "item": item })),
            self.within("response.content_part.added", "part", part("")),
        ]
        .concat()
    }

    fn text(&mut self, text: &str) -> String {
        self.within("response.output_text.delta", "delta", text.into())
    }

    fn close(&mut self) -> String {
        let said = self.talk.text.clone();
        let item = message(self.talk.run(), &said, "completed");
        let status = if self.talk.is_whole { "completed" } else { "incomplete" };
        let end = self.response(status, Some(&said));
        [
            self.within("response.output_text.done", "text", said.as_str().into()),
            self.within("response.content_part.done", "part", part(&said)),
            self.frame("response.output_item.done", json!({ "output_index": 0, "item": item })),
            self.frame(&format!("response.{status}"), end),
        ]
        .concat()
    }
}
