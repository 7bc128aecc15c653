//! The tools that a host lets an agent use.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::AgentError;
use crate::options::invalid;

/// One kind of tool. What is not granted is not allowed; an agent that cannot be held to that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Grant {
    /// `files.read`: read, list and search files.
    ReadFiles,
    /// `files.write`: create and change files.
    WriteFiles,
    /// `http.fetch`: read pages of the web.
    FetchWeb,
    /// `shell`: run commands, which includes all of the above.
    Shell,
}

impl Grant {
    pub const ALL: [Self; 4] = [Self::ReadFiles, Self::WriteFiles, Self::FetchWeb, Self::Shell];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadFiles => "files.read",
            Self::WriteFiles => "files.write",
            Self::FetchWeb => "http.fetch",
            Self::Shell => "shell",
        }
    }

    /// Reads a list of names, each known.
    pub(crate) fn list(key: &str, value: &Value) -> Result<BTreeSet<Self>, AgentError> {
        let names = value.as_array().ok_or_else(|| invalid(key))?;
        names
            .iter()
            .map(|name| {
                Self::ALL
                    .into_iter()
                    .find(|grant| Some(grant.name()) == name.as_str())
                    .ok_or_else(|| invalid(key))
            })
            .collect()
    }
}
