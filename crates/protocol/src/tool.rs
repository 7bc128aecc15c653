//! A tool as the catalogue shows it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One entry of the catalogue: `tool-descriptor.schema.json`, as far as this host knows something to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolEntry {
    pub tool_id: String,
    pub source: ToolSource,
    pub title: String,
    pub description: String,
    pub input_schema: Arc<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<ToolAuth>,
    pub egress: ToolEgress,
    pub approval: ToolApproval,
    pub replay_policy: ToolReplay,
    pub safety_tier: SafetyTier,
}

/// What a caller must hold to have the tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolAuth {
    pub scopes: Vec<String>,
}

/// Which surface a tool belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolSource {
    NodePack,
    Workflow,
    Mcp,
    Connector,
    HostExtension,
}

/// What a tool does to data, independent of who may call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SafetyTier {
    /// Nothing outside is touched.
    Pure,
    Read,
    Write,
    /// Runs commands; only a host extension may.
    Exec,
}

/// How a tool is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolTransport {
    Mcp,
    Http,
    Native,
}

impl ToolTransport {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Http => "http",
            Self::Native => "native",
        }
    }
}

/// How a tool gets out of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolEgress {
    None,
    /// Through the host's guard.
    SafeFetch,
    HostMediated,
    /// By its own means.
    HostOwned,
}

/// Whether a person is asked before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolApproval {
    Never,
    Conditional,
    Always,
}

/// What a replay may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolReplay {
    Deterministic,
    Idempotent,
    /// The recorded result is what a replay sees.
    NonDeterministic,
}
