//! Files of a run: reading one, writing one.

use std::path::PathBuf;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use callboard_agents::{Tool, ToolCard, ToolDescriptor, ToolFault, ToolInvocation};
use callboard_protocol::SafetyTier;

use super::text;
use super::workspace::{Workspace, WriteMode, failed};
use crate::folders::write_owner;

pub(super) static READ: ToolCard = ToolCard {
    id: "openwop:core.files.read",
    title: "Read a file",
    description: "Reads a file of this run's workspace. Returns { content, encoding, size }; what is not UTF-8 comes as base64.",
    input: r#"{"type":"object","required":["path"],"properties":{
        "path":{"type":"string","minLength":1,"description":"Relative to the workspace."}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Read,
    ..ToolCard::NATIVE
};

pub(super) static WRITE: ToolCard = ToolCard {
    id: "openwop:core.files.write",
    title: "Write a file",
    description: "Writes a file of this run's workspace, with the folders on its way. Returns { path, bytesWritten }.",
    input: r#"{"type":"object","required":["path","content"],"properties":{
        "path":{"type":"string","minLength":1,"description":"Relative to the workspace."},
        "content":{"type":"string"},
        "encoding":{"type":"string","enum":["utf8","base64"],"default":"utf8"},
        "mode":{"type":"string","enum":["overwrite","create-only","append"],"default":"overwrite"}
    },"additionalProperties":false}"#,
    tier: SafetyTier::Write,
    ..ToolCard::NATIVE
};

#[derive(Debug)]
pub(super) struct ReadFile(pub(super) ToolDescriptor);

#[async_trait]
impl Tool for ReadFile {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let path = text(&call.arguments, "path").unwrap_or_default().to_owned();
        let folder = call.workspace.to_owned();
        let bytes = on_disk(move || match Workspace::open(&folder)? {
            Some(workspace) => workspace.read(&path),
            None => Err(ToolFault::refused("the workspace is empty")),
        })
        .await?;
        let size = bytes.len();
        Ok(match String::from_utf8(bytes) {
            Ok(content) => json!({ "content": content, "encoding": "utf8", "size": size }),
            Err(error) => {
                let content = BASE64_STANDARD.encode(error.as_bytes());
                json!({ "content": content, "encoding": "base64", "size": size })
            }
        })
    }
}

#[derive(Debug)]
pub(super) struct WriteFile(pub(super) ToolDescriptor);

#[async_trait]
impl Tool for WriteFile {
    fn descriptor(&self) -> &ToolDescriptor {
        &self.0
    }

    async fn invoke(&self, call: ToolInvocation<'_>) -> Result<Value, ToolFault> {
        let arguments = &call.arguments;
        let path = text(arguments, "path").unwrap_or_default().to_owned();
        let content = text(arguments, "content").unwrap_or_default();
        let content = match text(arguments, "encoding") {
            Some("base64") => BASE64_STANDARD
                .decode(content)
                .map_err(|_| ToolFault::refused("the content is not base64"))?,
            _ => content.as_bytes().to_vec(),
        };
        let mode = match text(arguments, "mode") {
            Some("create-only") => WriteMode::CreateOnly,
            Some("append") => WriteMode::Append,
            _ => WriteMode::Overwrite,
        };
        let folder: PathBuf = call.workspace.to_owned();
        let (tenant, run) = (call.tenant.clone(), call.run.clone());
        on_disk(move || {
            write_owner(&folder, &tenant, &run).map_err(|error| failed(&error))?;
            Workspace::open_or_make(&folder)?.write(&path, &content, mode)?;
            Ok(json!({ "path": path, "bytesWritten": content.len() }))
        })
        .await
    }
}

/// Disks block; the threads of runs must not.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFault> + Send + 'static,
) -> Result<T, ToolFault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolFault::Unanswered("the disk did not answer".to_owned())))
}
