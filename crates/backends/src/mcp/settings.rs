//! The operator's settings of an MCP server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// One `[mcp.servers.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    pub name: String,
    pub way: McpWay,
    /// What a run's principal must hold to have a tool of this server called.
    pub required_scopes: Vec<String>,
    /// What a program may read beside the system and what its command names.
    pub read: Vec<PathBuf>,
    /// What it may also change.
    pub write: Vec<PathBuf>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpWay {
    /// A program that speaks over its standard input and output.
    Command { program: String, arguments: Vec<String>, environment: BTreeMap<String, String> },
    /// Streamable HTTP.
    Url { url: String, headers: BTreeMap<String, String> },
}

impl fmt::Debug for McpWay {
    /// Arguments, variables, URLs and headers may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, .. } => {
                f.debug_struct("Command").field("program", program).finish_non_exhaustive()
            }
            Self::Url { .. } => f.debug_struct("Url").finish_non_exhaustive(),
        }
    }
}
