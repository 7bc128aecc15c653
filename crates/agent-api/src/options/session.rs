//! Which session a run resumes.

use serde_json::Value;

use super::invalid;
use crate::bounds::SESSION_ID_BYTES;
use crate::error::AgentError;

/// Where a run's conversation comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    New,
    Resume(Selector),
    Fork(Selector),
}

/// Names a session that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    Last,
    Id(String),
}

/// Reads `{"selector": "last"}` or `{"selector": "id", "id": "…"}` and nothing else.
pub(super) fn selector(key: &str, value: &Value) -> Result<Selector, AgentError> {
    let fields = value.as_object().ok_or_else(|| invalid(key))?;
    if fields.keys().any(|field| field != "selector" && field != "id") {
        return Err(invalid(key));
    }
    match (fields.get("selector").and_then(Value::as_str), fields.get("id")) {
        (Some("last"), None) => Ok(Selector::Last),
        (Some("id"), Some(Value::String(id))) if is_id(id) => Ok(Selector::Id(id.trim().into())),
        _ => Err(invalid(key)),
    }
}

/// Not blank, not an option of a command line, not too long to be one.
fn is_id(id: &str) -> bool {
    let id = id.trim();
    !id.is_empty()
        && !id.starts_with('-')
        && id.len() <= SESSION_ID_BYTES
        && !id.chars().any(char::is_control)
}

/// The agents that take an id take a UUID.
pub(super) fn new_id(key: &str, value: &Value) -> Result<String, AgentError> {
    let id = value.as_str().unwrap_or_default();
    let groups: Vec<&str> = id.split('-').collect();
    let lengths = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
    if lengths && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Ok(id.to_ascii_lowercase());
    }
    Err(invalid(key))
}
