//! The discovery document's part about tools and authorization.

use serde::{Deserialize, Serialize};

use super::Supported;
use crate::{EgressDecision, ToolSource};

/// RFC 0078: which tools there are. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCatalogCapability {
    pub supported: bool,
    pub sources: Vec<ToolSource>,
}

/// RFC 0064: checks before a tool call, and events about it. Closed in the protocol's schema.
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
    /// RFC 0076: agents of packs fetch through the guarded client, and every fetch is recorded.
    pub safe_fetch: Supported,
    /// RFC 0079: a tenant's credential goes to its audiences only, and every decision about one is recorded.
    pub egress_policy: EgressPolicyCapability,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressPolicyCapability {
    pub supported: bool,
    pub decisions: Vec<EgressDecision>,
}

/// RFC 0049: what roles stand for. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationCapability {
    pub supported: bool,
    pub fail_closed: bool,
    pub roles: Vec<RoleCapability>,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleCapability {
    pub role: String,
    pub scopes: Vec<String>,
}

/// RFC 0104: who may answer approvals. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptCapability {
    pub approver_routing: ApproverRouting,
}

/// Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproverRouting {
    pub supported: bool,
    /// What the host finds people by.
    pub ref_kinds: Vec<String>,
    pub audience: bool,
}
