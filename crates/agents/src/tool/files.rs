//! Tools with which an agent reads the files of its workspace, or writes them for those that come later.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Condition, FileDraft, FileError, StoreError};
use callboard_protocol::{Object, SafetyTier, ToolReplay};

use super::{BrokenSchema, FixedTools, Tool, ToolCard, ToolDescriptor, ToolFault, ToolInvocation};
use crate::memory::Notebook;

const LIST: ToolCard = ToolCard {
    id: "openwop:core.workspace.list",
    title: "List workspace files",
    description: "Lists the standing files of your workspace as they were when this run began. Returns { files: [{ path, version }] }.",
    input: r#"{"type":"object","properties":{
        "prefix":{"type":"string","maxLength":256}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    ..ToolCard::PURE
};

const READ: ToolCard = ToolCard {
    id: "openwop:core.workspace.read",
    title: "Read a workspace file",
    description: "Reads a standing file of your workspace as it was when this run began. Returns { path, version, contentType, content }.",
    input: r#"{"type":"object","required":["path"],"properties":{
        "path":{"type":"string","minLength":1,"maxLength":256}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    ..ToolCard::PURE
};

const WRITE: ToolCard = ToolCard {
    id: "openwop:core.workspace.write",
    title: "Write a workspace file",
    description: "Writes a standing file of your workspace for later runs; this run keeps seeing the version as of its start. With expectedVersion only if the file is at that version, 0 for a new one. Returns { path, version }.",
    input: r#"{"type":"object","required":["path","content"],"properties":{
        "path":{"type":"string","minLength":1,"maxLength":256},
        "content":{"type":"string","maxLength":262144},
        "contentType":{"type":"string","minLength":1,"maxLength":255},
        "expectedVersion":{"type":"integer","minimum":0}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Write,
    // A call that is made again finds what it wrote.
    replay: ToolReplay::Idempotent,
    ..ToolCard::NATIVE
};

/// The tools of every workspace.
pub fn file_tools() -> Result<FixedTools, BrokenSchema> {
    let cards = [(LIST, Act::List), (READ, Act::Read), (WRITE, Act::Write)];
    let tool = |(card, act): (ToolCard, Act)| -> Result<Arc<dyn Tool>, BrokenSchema> {
        Ok(Arc::new(FileTool { descriptor: card.descriptor()?, act }))
    };
    cards.into_iter().map(tool).collect()
}

#[derive(Debug, Clone, Copy)]
enum Act {
    List,
    Read,
    Write,
}

#[derive(Debug)]
struct FileTool {
    descriptor: ToolDescriptor,
    act: Act,
}

#[async_trait]
impl Tool for FileTool {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.descriptor
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let notebook = call.notebook;
        let notebook = notebook.ok_or_else(|| ToolFault::refused("only an agent has a workspace"));
        match self.act {
            Act::List => {
                let prefix = text(&call.arguments, "prefix");
                Ok(json!({ "files": notebook?.files.list(prefix) }))
            }
            Act::Read => read(notebook?, &call.arguments).await,
            Act::Write => write(notebook?, &call.arguments).await,
        }
    }
}

async fn read(notebook: Notebook<'_>, arguments: &Object) -> Result<Value, ToolFault> {
    let found = notebook.files.get(text(arguments, "path")).await;
    let found = found.map_err(|error| unreached(&error))?;
    let file = found.ok_or_else(|| ToolFault::refused("there is no such file"))?;
    Ok(json!({ "path": file.path, "version": file.version, "contentType": file.content_type,
        "content": file.content }))
}

async fn write(notebook: Notebook<'_>, arguments: &Object) -> Result<Value, ToolFault> {
    let mut draft = FileDraft::new(text(arguments, "path"), text(arguments, "content"));
    if let Some(content_type) = arguments.get("contentType").and_then(Value::as_str) {
        draft.content_type = content_type.to_owned();
    }
    let condition = match arguments.get("expectedVersion").and_then(Value::as_u64) {
        None => Condition::Always,
        Some(0) => Condition::Absent,
        Some(version) => Condition::At(vec![version]),
    };
    match notebook.files.put(notebook.ordinal, draft, &condition).await {
        Ok(written) => Ok(json!(written)),
        Err(FileError::Superseded(error)) => Err(ToolFault::Unavailable(error.to_string())),
        Err(FileError::Store(error)) => Err(unreached(&error)),
        Err(error) => Err(ToolFault::Refused(error.to_string())),
    }
}

fn unreached(error: &StoreError) -> ToolFault {
    tracing::warn!(%error, "files not reached");
    ToolFault::Unavailable("the workspace cannot be reached".to_owned())
}

fn text<'a>(arguments: &'a Object, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}
