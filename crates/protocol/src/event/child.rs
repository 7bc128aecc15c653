//! Events about child runs, in the parent's log.

use serde::{Deserialize, Serialize};

use super::budget::Consumption;
use crate::{Failure, FileVersion, NodeId, Object, Remembered, RunId, RunStatus, WorkflowId};

/// A node has started a run of its own. The payload is closed; the node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDispatched {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub child_run_id: RunId,
    pub child_workflow_id: WorkflowId,
}

/// Ours: what a parent has learnt of its child, with what it takes over from one that completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildChanged {
    pub node_id: NodeId,
    pub child_run_id: RunId,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub outputs: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// What the child remembered, which the parent sees from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Remembered>,
    /// The files that the child wrote, which the parent's next turn sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileVersion>,
    /// What the child used, in sum, of what its parent may use.
    #[serde(default, skip_serializing_if = "Consumption::is_nothing")]
    pub used: Consumption,
}
