//! Memory that the suite fills and has put together, at the addresses under which it knows these doors.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_protocol::Object;
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::json;

use super::notes::{Note, Play, entry};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Seed {
    memory_ref: String,
    entries: Vec<Seeded>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seeded {
    /// Given in vain: a host names its entries itself.
    #[serde(rename = "id")]
    _id: Option<String>,
    content: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Compact {
    memory_ref: String,
}

pub(super) async fn seed_memory(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Seed>,
) -> Result<Answer, Problem> {
    if body.entries.is_empty() {
        return Err(Problem::invalid_at("entries", "must hold something to remember"));
    }
    let seeded = body.entries.len();
    let note = |entry: Seeded| Note { content: entry.content, tags: entry.tags };
    let notes = body.entries.into_iter().map(note).collect();
    let play = play(&body.memory_ref, notes, json!({ "memoryAction": "list" }));
    let (run, _) = play.run(&host, &caller, "memory.written").await?;
    Ok(Answer::of(StatusCode::CREATED, &json!({ "seeded": seeded, "runId": run })))
}

/// Everything under a name becomes one entry. What it says stands beside the event, which must not say it.
pub(super) async fn compact_memory(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<Compact>,
) -> Result<Answer, Problem> {
    let action = json!({ "memoryAction": "compact", "keep": 0 });
    let kind = "memory.compacted";
    let (run, told) = play(&body.memory_ref, Vec::new(), action).run(&host, &caller, kind).await?;
    let content = entry(&host, &caller, &told["outputId"]).await?;
    let shown = json!({ "type": kind, "payload": told, "outputContent": content, "runId": run });
    Answer::json(StatusCode::OK, &shown)
}

fn play(memory_ref: &str, notes: Vec<Note>, action: serde_json::Value) -> Play<'_> {
    Play { memory_ref, notes, action, configurable: Object::new(), scope_id: None, due: None }
}
