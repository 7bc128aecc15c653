//! The discovery document's part about agents of packs.

use serde::{Deserialize, Serialize};

use super::{CommitmentsCapability, MemoryConsolidation};
use crate::{DeploymentState, InvocationSource, TriggerSource};

/// What the host does with agents of packs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentsCapability {
    pub supported: bool,
    pub manifest_runtime: ManifestRuntime,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_backends: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_consolidation: Option<MemoryConsolidation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitments: Option<CommitmentsCapability>,
    /// Whether supervisors decide, whether what they decide is carried out, and whether workers are given variables.
    pub orchestrator: bool,
    pub dispatch: bool,
    pub dispatch_mapping: bool,
    /// RFC 0063: outputs of a child are attested, and merged only after the required approvals.
    #[serde(default)]
    pub sub_run_attestation: bool,
    /// Absent where agents are dispatched without asking models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_runtime: Option<LiveRuntime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningCapability>,
    /// Absent where no reference to a channel can be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentCapability>,
    /// Absent where the roster is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roster: Option<RosterCapability>,
    /// Absent where there is no org chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_chart: Option<OrgChartCapability>,
}

/// The floor of RFC 0070: agents of packs are loaded and dispatched. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestRuntime {
    pub supported: bool,
    pub handoff_validation: bool,
    pub install_scope: InstallScope,
}

/// RFC 0077: agents of packs work with models and tools. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveRuntime {
    pub supported: bool,
    pub structured_output: bool,
    pub confidence_escalation: bool,
    pub sources: Vec<InvocationSource>,
}

/// How much of agents' reasoning is recorded. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReasoningCapability {
    pub verbosity: String,
    pub streaming: bool,
}

/// RFC 0082: which version of an agent serves. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentCapability {
    pub supported: bool,
    pub channels: Vec<String>,
    pub canary: bool,
    pub rollback: bool,
    pub states: Vec<DeploymentState>,
}

/// RFC 0086: standing members. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RosterCapability {
    pub supported: bool,
    pub install_scope: InstallScope,
    /// What fires the workflows of members here; nothing else does.
    pub portfolio_trigger_sources: Vec<TriggerSource>,
}

/// RFC 0087: charts over standing members. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrgChartCapability {
    pub supported: bool,
    pub install_scope: InstallScope,
    pub department_nesting: bool,
    pub responsibility_view: bool,
}

/// Who sees an installed agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallScope {
    Host,
    Tenant,
}

impl InstallScope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Tenant => "tenant",
        }
    }
}
