//! Decisions before an act: where a credential may be sent, what a principal may do. Names only.

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// `egress.decided`: whether a credential is sent with a request. The node is on the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressDecided {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub decision: EgressDecision,
    /// The host, and its port where that is unusual; never a path.
    pub destination: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    pub reason: EgressReason,
}

/// What this host does with a credential. The protocol knows two more, which it never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EgressDecision {
    Allowed,
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EgressReason {
    Ok,
    OutOfAudience,
    Expired,
    SsrfBlocked,
    /// Nobody said where it may go, or it cannot be read.
    ProvenanceUnevaluable,
}

/// `authorization.decided`: whether a principal may do something. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationDecided {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub principal: String,
    /// The scopes that it takes.
    pub action: String,
    pub resource: String,
    pub allowed: bool,
    pub reason: String,
}
