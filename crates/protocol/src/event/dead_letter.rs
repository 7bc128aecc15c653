//! `run.dead_lettered`: a run that was given up after its retries.

use serde::{Deserialize, Serialize};

use crate::{NodeId, RunId};

/// Recorded right before the run fails (RFC 0053). The run stays where it is, to be looked at and forked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunDeadLettered {
    pub run_id: RunId,
    /// The node whose retries are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// A code, and none of the failure's words.
    pub reason: String,
    pub attempts: u32,
}
