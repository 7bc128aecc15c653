//! `core.files.*` over the files of the run's workspace, which are texts: what the run sees is read, and what is
//! written is for those that come later.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_core::Outcome;
use callboard_engine::{Activity, Call, CallFailure, Condition, FileDraft, FileError, FileRecord};
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::given::{choice, failed, input_text, invalid, outcome, outputs};

#[derive(Debug)]
pub(super) struct RunFiles;

#[async_trait]
impl Activity for RunFiles {
    async fn perform(&self, call: Call) -> Outcome {
        let done = match call.type_id.as_str() {
            "core.files.read" => read(&call).await,
            "core.files.stat" => stat(&call).await,
            "core.files.write" => return write(&call).await,
            "core.files.delete" => return delete(&call).await,
            _ => list(&call),
        };
        outcome(done)
    }
}

async fn read(call: &Call) -> Result<Object, CallFailure> {
    let encoding = choice(&call.config, "encoding", ["base64", "utf8"])?;
    let path = input_text(call, "path")?;
    let Some((file, content)) = find(call, path).await? else {
        return Err(failed("file_not_found", "the run sees no file of this path"));
    };
    let size = content.len();
    let content = if encoding == "utf8" { content } else { STANDARD.encode(content) };
    Ok(outputs([
        ("content", content.into()),
        ("size", size.into()),
        ("contentType", file.content_type.into()),
    ]))
}

async fn stat(call: &Call) -> Result<Object, CallFailure> {
    let path = input_text(call, "path")?;
    let folder = format!("{}/", path.trim_end_matches('/'));
    Ok(match find(call, path).await? {
        Some((file, content)) => outputs([
            ("exists", true.into()),
            ("size", content.len().into()),
            ("mtime", file.written_at.to_string().into()),
            ("isDirectory", false.into()),
        ]),
        None if !call.files.list(&folder).is_empty() => {
            outputs([("exists", true.into()), ("isDirectory", true.into())])
        }
        None => outputs([("exists", false.into())]),
    })
}

fn list(call: &Call) -> Result<Object, CallFailure> {
    let flag = |key: &str| match call.config.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(format!("config.{key} must be true or false"))),
    };
    let (is_recursive, shows_hidden) = (flag("recursive")?, flag("includeHidden")?);
    let folder = input_text(call, "path")?.trim_matches('/');
    let prefix = if matches!(folder, "" | ".") { String::new() } else { format!("{folder}/") };
    let mut entries: Vec<Value> = Vec::new();
    for file in call.files.list(&prefix) {
        let within = &file.path[prefix.len()..];
        if !shows_hidden && within.split('/').any(|name| name.starts_with('.')) {
            continue;
        }
        let entry = match within.split_once('/') {
            Some((name, _)) if !is_recursive => {
                json!({ "name": name, "path": format!("{prefix}{name}"), "isDirectory": true })
            }
            _ => json!({ "name": within, "path": file.path, "isDirectory": false }),
        };
        // Files come by path, so those of one folder follow each other.
        if entries.last() != Some(&entry) {
            entries.push(entry);
        }
    }
    Ok(outputs([("entries", entries.into())]))
}

async fn write(call: &Call) -> Outcome {
    let (draft, condition) = match draft(call).await {
        Ok(draft) => draft,
        Err(failure) => return outcome(Err(failure)),
    };
    let bytes = draft.content.len();
    match call.files.put(0, draft, &condition).await {
        Ok(_) => outcome(Ok(outputs([("bytes", bytes.into())]))),
        Err(error) => FileError::outcome(error),
    }
}

/// Deleting what is not there changes nothing.
async fn delete(call: &Call) -> Outcome {
    let found = match input_text(call, "path") {
        Ok(path) => find(call, path).await,
        Err(failure) => Err(failure),
    };
    let file = match found {
        Ok(Some((file, _))) => file,
        Ok(None) => return outcome(Ok(outputs([("deleted", false.into())]))),
        Err(failure) => return outcome(Err(failure)),
    };
    match call.files.remove(0, &file).await {
        Ok(_) => outcome(Ok(outputs([("deleted", true.into())]))),
        Err(error) => FileError::outcome(error),
    }
}

async fn draft(call: &Call) -> Result<(FileDraft, Condition), CallFailure> {
    let encoding = choice(&call.config, "encoding", ["base64", "utf8"])?;
    let mode = choice(&call.config, "mode", ["overwrite", "create-only", "append"])?;
    let (path, content) = (input_text(call, "path")?, input_text(call, "content")?);
    let content = if encoding == "utf8" {
        content.to_owned()
    } else {
        let bytes = STANDARD.decode(content).map_err(|_| invalid("the content is no base64"))?;
        String::from_utf8(bytes)
            .map_err(|_| invalid("the content is no text, and files of a workspace are texts"))?
    };
    Ok(match mode {
        "create-only" => (FileDraft::new(path, &content), Condition::Absent),
        "append" => match find(call, path).await? {
            None => (FileDraft::new(path, &content), Condition::Absent),
            Some((file, before)) => {
                let mut draft = FileDraft::new(path, &(before + &content));
                draft.content_type = file.content_type;
                (draft, Condition::At(vec![file.version]))
            }
        },
        _ => (FileDraft::new(path, &content), Condition::Always),
    })
}

/// A file that the run sees, with what stands in it.
async fn find(call: &Call, path: &str) -> Result<Option<(FileRecord, String)>, CallFailure> {
    let found = call.files.get(path).await;
    let found = found.map_err(|_| {
        let mut failure = failed("file_unavailable", "the file cannot be read now");
        failure.class = callboard_core::RetryClass::Retryable;
        failure
    })?;
    let present = found.filter(|file| !file.is_removed);
    Ok(present.and_then(|mut file| file.content.take().map(|content| (file, content))))
}
