//! `callboard.files`: nodes that list, read and write the files of their run's workspace.

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass};
use callboard_engine::{Activity, Call, Condition, FileDraft, FileError};
use callboard_protocol::{Failure, Object};

/// The type of such nodes.
pub const FILES: &str = "callboard.files";

/// Reads what its run sees, and writes for those that come later.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesNode;

#[async_trait]
impl Activity for FilesNode {
    async fn perform(&self, call: Call) -> Outcome {
        let done = match call.config.get("action").and_then(Value::as_str) {
            Some("list") => list(&call),
            Some("read") => read(&call).await,
            Some("write") => write(&call).await,
            _ => Err(invalid("config.action is list, read or write")),
        };
        match done {
            Ok((port, value)) => {
                Outcome::Done { outputs: Object::from_iter([(port.to_owned(), value)]) }
            }
            Err(outcome) => outcome,
        }
    }
}

type Output = Result<(&'static str, Value), Outcome>;

fn list(call: &Call) -> Output {
    Ok(("files", json!(call.files.list(text(call, "prefix")?.unwrap_or_default()))))
}

/// A file that the run does not see is null, whether it was never there or came later.
async fn read(call: &Call) -> Output {
    let path = required(call, "path")?;
    let found = call.files.get(path).await.map_err(|error| FileError::Store(error).outcome())?;
    let file = found.map(|file| {
        json!({ "path": file.path, "version": file.version, "content": file.content,
            "contentType": file.content_type })
    });
    Ok(("file", file.unwrap_or_default()))
}

async fn write(call: &Call) -> Output {
    let mut draft = FileDraft::new(required(call, "path")?, required(call, "content")?);
    if let Some(content_type) = text(call, "contentType")? {
        draft.content_type = content_type.to_owned();
    }
    let condition = match given(call, "expectedVersion") {
        None => Condition::Always,
        Some(expected) => {
            let version = expected.as_u64();
            let version = version.ok_or_else(|| invalid("expectedVersion is a whole number"))?;
            if version == 0 { Condition::Absent } else { Condition::At(vec![version]) }
        }
    };
    let written = call.files.put(0, draft, &condition).await.map_err(FileError::outcome)?;
    Ok(("file", json!(written)))
}

/// What comes in through a port wins over what is configured.
fn given<'a>(call: &'a Call, key: &str) -> Option<&'a Value> {
    call.inputs.get(key).or_else(|| call.config.get(key))
}

fn text<'a>(call: &'a Call, key: &str) -> Result<Option<&'a str>, Outcome> {
    match given(call, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(&format!("{key} is a text"))),
    }
}

fn required<'a>(call: &'a Call, key: &str) -> Result<&'a str, Outcome> {
    text(call, key)?.ok_or_else(|| invalid(&format!("{key} is missing")))
}

fn invalid(why: &str) -> Outcome {
    let failure = Failure::new("validation_error", why);
    Outcome::Failed { failure, class: RetryClass::Final }
}
