//! The id of a backend.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::AgentError;

/// A backend's id: `^[a-z][a-z0-9_]*$`. It is no display name.
///
/// `claude_code`, `codex`, `gemini_cli`, `opencode` and `aider` are taken by this crate's backends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentKind(String);

impl AgentKind {
    /// Checks the id; anything else is [`AgentError::InvalidAgentKind`].
    pub fn new(id: impl Into<String>) -> Result<Self, AgentError> {
        let id = id.into();
        let mut bytes = id.bytes();
        let starts_well = bytes.next().is_some_and(|first| first.is_ascii_lowercase());
        let goes_on_well =
            bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if starts_well && goes_on_well {
            return Ok(Self(id));
        }
        Err(AgentError::InvalidAgentKind {
            message: "an agent kind is a lower-case letter, then lower-case letters, digits or _"
                .into(),
        })
    }

    /// For the ids that this crate spells itself.
    pub(crate) fn known(id: &'static str) -> Self {
        debug_assert!(Self::new(id).is_ok());
        Self(id.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for AgentKind {
    type Error = AgentError;

    fn try_from(id: String) -> Result<Self, AgentError> {
        Self::new(id)
    }
}

impl From<AgentKind> for String {
    fn from(kind: AgentKind) -> Self {
        kind.0
    }
}

#[cfg(test)]
mod tests {
    use super::AgentKind;
    use crate::error::AgentError;

    // T01
    #[test]
    fn a_kind_is_a_lower_case_id() {
        for id in ["codex", "a1_b", "a", "claude_code"] {
            assert_eq!(AgentKind::new(id).unwrap().as_str(), id);
        }
        for id in ["", "1a", "A", "a-b", "a.b", "_a", "é", "aé", "a b"] {
            let refused = AgentKind::new(id).unwrap_err();
            assert!(matches!(refused, AgentError::InvalidAgentKind { .. }), "{id}");
        }
    }
}
