//! The folders that an agent may use beside its own.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::capability::ADD_DIRS;
use crate::error::AgentError;

/// More would not fit a reader's head, nor some command lines.
const MOST: usize = 16;
const BYTES: usize = 1_024;

/// Reads `{"dirs": […]}`: existing folders, made absolute, without repeats, in order.
pub(super) fn read(value: &Value, working_dir: &Path) -> Result<Vec<PathBuf>, AgentError> {
    let fields = value.as_object().ok_or_else(|| invalid(""))?;
    if fields.keys().any(|field| field != "dirs") {
        return Err(invalid(""));
    }
    let dirs = fields.get("dirs").and_then(Value::as_array).ok_or_else(|| invalid(".dirs"))?;
    if dirs.is_empty() || dirs.len() > MOST {
        return Err(invalid(".dirs"));
    }
    let mut found = Vec::new();
    for (index, entry) in dirs.iter().enumerate() {
        let folder =
            folder(entry, working_dir).ok_or_else(|| invalid(&format!(".dirs[{index}]")))?;
        if !found.contains(&folder) {
            found.push(folder);
        }
    }
    Ok(found)
}

fn folder(entry: &Value, working_dir: &Path) -> Option<PathBuf> {
    let text = entry.as_str()?.trim();
    if text.is_empty() || text.len() > BYTES {
        return None;
    }
    let folder = fold(&working_dir.join(text));
    folder.is_dir().then_some(folder)
}

/// Folds `.` and `..` by their letters alone; links are left as they are.
fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                folded.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                folded.push(component);
            }
        }
    }
    folded
}

/// Says where, never what.
fn invalid(place: &str) -> AgentError {
    AgentError::invalid(format!("invalid {ADD_DIRS}{place}"))
}
