//! The discovery document's part about who may come in, and what is told of it.

use serde::{Deserialize, Serialize};

/// `auth`: the profiles that hold here, and what each needs to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthCapability {
    pub profiles: Vec<String>,
    pub audit_log_integrity: AuditLogIntegrity,
    /// Absent where no tokens are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcCapability>,
}

/// Whose tokens are taken. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcCapability {
    pub supported: bool,
    pub issuers: Vec<String>,
    /// Absent where issuers differ in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    pub supported_scope_mapping: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditLogIntegrity {
    pub hash_chain: bool,
    pub checkpoint_signature_algorithm: String,
    /// SPKI in base64.
    pub checkpoint_public_key: String,
    pub checkpoint_interval_entries: u64,
    pub checkpoint_interval_seconds: u64,
}
