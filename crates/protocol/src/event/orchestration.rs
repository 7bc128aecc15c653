//! Events about supervisors' decisions, and the progress of their workers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, NodeId, RunId, WorkflowId};

/// One turn of a supervisor. The payload is closed; the supervisor's node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOrchestratorDecided {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub agent_id: String,
    pub decision: Value,
    /// Which of the run's turns decided it, from one; absent where the host's execution model is below 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
}

/// One transition of a handoff. The payload is closed; the dispatching node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowChained {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub phase: ChainPhase,
    pub worker_id: WorkflowId,
    pub parent_run_id: RunId,
    /// Absent until there is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
    /// The parent's variables that the child's end has set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvested_keys: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
}

/// A checksum over what was harvested. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    pub checksum: String,
    pub algorithm: String,
}

/// The transitions of a handoff, from a decision to what is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainPhase {
    #[serde(rename = "dispatch.began")]
    DispatchBegan,
    #[serde(rename = "dispatch.succeeded")]
    DispatchSucceeded,
    #[serde(rename = "dispatch.failed")]
    DispatchFailed,
    #[serde(rename = "child.completed")]
    ChildCompleted,
    #[serde(rename = "child.failed")]
    ChildFailed,
    #[serde(rename = "child.cancelled")]
    ChildCancelled,
    #[serde(rename = "output.harvested")]
    OutputHarvested,
}

/// A supervisor was less sure than this host allows. The payload is closed; its node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfidenceEscalated {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub confidence: f64,
    pub floor: f64,
    pub escalation_kind: EscalationKind,
    pub parent_run_id: RunId,
    /// The first of the named workers; a decision to terminate names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkflowId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_decision: Option<Value>,
}

/// How a person is asked about a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EscalationKind {
    Clarify,
    Escalate,
}
