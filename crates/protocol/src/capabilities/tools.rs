//! What this host says of tools.

use serde::{Deserialize, Serialize};

use crate::ToolSource;

/// RFC 0078: which tools there are. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCatalogCapability {
    pub supported: bool,
    pub sources: Vec<ToolSource>,
}

/// RFC 0064: what is asked before a tool is called, and told of the call. Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolHooksCapability {
    pub supported: bool,
    pub pre_post_events: bool,
    pub per_tool_authorization: bool,
    pub per_tool_rate_limit: bool,
}

/// How this host fetches for its tools. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpClientCapability {
    pub supported: bool,
    pub ssrf_guard: bool,
    pub max_response_body_bytes: u64,
    pub request_timeout_ms: u64,
    pub methods: Vec<String>,
}
