//! Tools with which an agent looks into its own memory, or adds to it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Due, Lifetime, MemoryError, StoreError};
use callboard_protocol::{Object, SafetyTier, ToolEgress, ToolReplay, ToolSource, ToolTransport};

use super::{FixedTools, Tool, ToolDescriptor, ToolFault, ToolInvocation};
use crate::memory::Notebook;
use crate::pack::Schema;

const USUAL_HITS: usize = 20;

const SEARCH: Card = Card {
    id: "openwop:core.memory.search",
    title: "Search memory",
    description: "Finds what you remember from earlier runs: notes in which every word of the query occurs, or all of them without a query. Returns { entries: [{ id, content, tags, createdAt }] }, newest first.",
    input: r#"{"type":"object","properties":{
        "query":{"type":"string","minLength":1,"maxLength":4000},
        "tag":{"type":"string","minLength":1,"maxLength":256},
        "limit":{"type":"integer","minimum":1,"maximum":100,"default":20}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    replay: ToolReplay::NonDeterministic,
};

const SAVE: Card = Card {
    id: "openwop:core.memory.save",
    title: "Remember",
    description: "Saves a note that you will see in later runs. With dueAt it is a commitment, which is told of at that time; with dueOn, the id of a heartbeat, when that sees its next change. Returns { id, createdAt }.",
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
};

/// The tools of every agent's memory; an error is a schema of ours that does not compile.
pub fn memory_tools() -> Result<FixedTools, String> {
    let tools: [Arc<dyn Tool>; 2] =
        [Arc::new(SearchMemory(SEARCH.descriptor()?)), Arc::new(SaveMemory(SAVE.descriptor()?))];
    Ok(tools.into_iter().collect())
}

/// What a tool of the host's own says of itself.
pub(super) struct Card {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) input: &'static str,
    pub(super) tier: SafetyTier,
    pub(super) replay: ToolReplay,
}

impl Card {
    pub(super) fn descriptor(&self) -> Result<ToolDescriptor, String> {
        Ok(ToolDescriptor {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            input: Schema::compile(self.input.as_bytes())?,
            source: ToolSource::NodePack,
            tier: self.tier,
            transport: ToolTransport::Native,
            egress: ToolEgress::None,
            replay: self.replay,
            required_scopes: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct SearchMemory(ToolDescriptor);

#[async_trait]
impl Tool for SearchMemory {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let Notebook { memory, .. } = notebook(&call)?;
        let (query, tag) = (text(&call.arguments, "query"), text(&call.arguments, "tag"));
        let limit = call.arguments.get("limit").and_then(Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL_HITS);
        let found = memory.search(query, tag, limit).await.map_err(|error| unreached(&error))?;
        let entry = |entry: callboard_protocol::MemoryEntry| {
            json!({
                "id": entry.id, "content": entry.content, "tags": entry.tags,
                "createdAt": entry.created_at,
            })
        };
        Ok(json!({ "entries": found.into_iter().map(entry).collect::<Vec<_>>() }))
    }
}

#[derive(Debug)]
struct SaveMemory(ToolDescriptor);

#[async_trait]
impl Tool for SaveMemory {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let Notebook { memory, ordinal, .. } = notebook(&call)?;
        let content = text(&call.arguments, "content").unwrap_or_default();
        let tags = call.arguments.get("tags").and_then(Value::as_array);
        let tags = tags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let seconds = call.arguments.get("ttlSeconds").and_then(Value::as_u64);
        let lifetime = seconds.map_or(Lifetime::Unset, |it| Lifetime::Millis(it * 1_000));
        let at = text(&call.arguments, "dueAt").map(str::parse);
        let due = match (at, text(&call.arguments, "dueOn")) {
            (None, None) => None,
            (None, Some(heartbeat)) => Some(Due::On(heartbeat.into())),
            (Some(Ok(due_at)), None) => Some(Due::At(due_at)),
            (Some(Err(_)), _) => return Err(ToolFault::refused("dueAt is no time of RFC 3339")),
            (Some(Ok(_)), Some(_)) => return Err(ToolFault::refused("dueAt or dueOn, not both")),
        };
        let when = (lifetime, due);
        let saved = memory.save(ordinal, content, tags.collect(), when).await;
        match saved {
            Ok(entry) => Ok(json!({ "id": entry.id, "createdAt": entry.created_at })),
            Err(MemoryError::Invalid(why)) => Err(ToolFault::Refused(why)),
            Err(error @ MemoryError::Moved(_)) => Err(ToolFault::Failed(error.to_string())),
            Err(error @ MemoryError::Superseded(_)) => {
                Err(ToolFault::Unavailable(error.to_string()))
            }
            Err(MemoryError::Store(error)) => Err(unreached(&error)),
        }
    }
}

fn notebook<'a>(call: &ToolInvocation<'a>) -> Result<Notebook<'a>, ToolFault> {
    call.notebook.ok_or_else(|| ToolFault::refused("only an agent has a memory"))
}

fn unreached(error: &StoreError) -> ToolFault {
    tracing::warn!(%error, "memory not reached");
    ToolFault::Unavailable("memory cannot be reached".to_owned())
}

fn text<'a>(arguments: &'a Object, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}
