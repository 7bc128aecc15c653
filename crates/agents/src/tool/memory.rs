//! Tools with which an agent looks into its own memory, or adds to it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Due, Lifetime, MemoryError, StoreError};
use callboard_protocol::{MemoryEntry, Object, SafetyTier, ToolReplay};

use super::{BrokenSchema, FixedTools, Tool, ToolCard, ToolDescriptor, ToolFault, ToolInvocation};
use crate::memory::Notebook;

const USUAL_HITS: usize = 20;

const SEARCH: ToolCard = ToolCard {
    id: "openwop:core.memory.search",
    title: "Search memory",
    description: "Finds what you remember from earlier runs: notes in which every word of the query occurs, or all of them without a query. Returns { entries: [{ id, content, tags, createdAt }] }, newest first.",
    input: r#"{"type":"object","properties":{
        "query":{"type":"string","minLength":1,"maxLength":4000},
        "tag":{"type":"string","minLength":1,"maxLength":256},
        "limit":{"type":"integer","minimum":1,"maximum":100,"default":20}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    ..ToolCard::NATIVE
};

const SAVE: ToolCard = ToolCard {
    id: "openwop:core.memory.save",
    title: "Remember",
    description: "Saves a note that you will see in later runs. With dueAt it is a commitment, which is reported at that time; with dueOn, the id of a heartbeat, when that observes its next change. Returns { id, createdAt }.",
    input: r#"{"type":"object","required":["content"],"properties":{
        "content":{"type":"string","minLength":1,"maxLength":65536},
        "tags":{"type":"array","maxItems":31,"items":{"type":"string","minLength":1,"maxLength":256}},
        "ttlSeconds":{"type":"integer","minimum":1,"maximum":315360000},
        "dueAt":{"type":"string","format":"date-time"},
        "dueOn":{"type":"string","minLength":1,"maxLength":128}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Write,
    // A call that is made again writes the entry that is there.
    replay: ToolReplay::Idempotent,
    ..ToolCard::NATIVE
};

/// The tools of every agent's memory.
pub fn memory_tools() -> Result<FixedTools, BrokenSchema> {
    let tool = |(card, act): (ToolCard, Act)| -> Result<Arc<dyn Tool>, BrokenSchema> {
        Ok(Arc::new(MemoryTool { descriptor: card.descriptor()?, act }))
    };
    [(SEARCH, Act::Search), (SAVE, Act::Save)].into_iter().map(tool).collect()
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Search,
    Save,
}

#[derive(Debug)]
struct MemoryTool {
    descriptor: ToolDescriptor,
    act: Act,
}

#[async_trait]
impl Tool for MemoryTool {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let notebook = call.notebook;
        let notebook = notebook.ok_or_else(|| ToolFault::refused("only an agent has a memory"))?;
        match self.act {
            Act::Search => search(notebook, &call.arguments).await,
            Act::Save => save(notebook, &call.arguments).await,
        }
    }
}

async fn search(notebook: Notebook<'_>, arguments: &Object) -> Result<Value, ToolFault> {
    let (query, tag) = (text(arguments, "query"), text(arguments, "tag"));
    let limit = arguments.get("limit").and_then(Value::as_u64);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL_HITS);
    let found = notebook.memory.search(query, tag, limit).await;
    let found = found.map_err(|error| unreached(&error))?;
    let entry = |entry: MemoryEntry| {
        json!({
            "id": entry.id, "content": entry.content, "tags": entry.tags,
            "createdAt": entry.created_at,
        })
    };
    Ok(json!({ "entries": found.into_iter().map(entry).collect::<Vec<_>>() }))
}

async fn save(notebook: Notebook<'_>, arguments: &Object) -> Result<Value, ToolFault> {
    let content = text(arguments, "content").unwrap_or_default();
    let tags = arguments.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let seconds = arguments.get("ttlSeconds").and_then(Value::as_u64);
    let lifetime = seconds.map_or(Lifetime::Unset, |it| Lifetime::Millis(it * 1_000));
    let at = text(arguments, "dueAt").map(str::parse);
    let due = match (at, text(arguments, "dueOn")) {
        (None, None) => None,
        (None, Some(heartbeat)) => Some(Due::On(heartbeat.into())),
        (Some(Ok(due_at)), None) => Some(Due::At(due_at)),
        (Some(Err(_)), _) => return Err(ToolFault::refused("dueAt is no time of RFC 3339")),
        (Some(Ok(_)), Some(_)) => return Err(ToolFault::refused("dueAt or dueOn, not both")),
    };
    let saved = notebook.memory.save(notebook.ordinal, content, tags.collect(), (lifetime, due));
    match saved.await {
        Ok(entry) => Ok(json!({ "id": entry.id, "createdAt": entry.created_at })),
        Err(MemoryError::Invalid(why)) => Err(ToolFault::Refused(why)),
        Err(error @ MemoryError::Moved(_)) => Err(ToolFault::Failed(error.to_string())),
        Err(error @ MemoryError::Superseded(_)) => Err(ToolFault::Unavailable(error.to_string())),
        Err(MemoryError::Store(error)) => Err(unreached(&error)),
    }
}

fn unreached(error: &StoreError) -> ToolFault {
    tracing::warn!(%error, "memory not reached");
    ToolFault::Unavailable("memory cannot be reached".to_owned())
}

fn text<'a>(arguments: &'a Object, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}
