//! The attribution of a run to a standing member. Closed, with names and no content.

use serde::{Deserialize, Serialize};

use crate::{RosterId, WorkflowId};

/// Recorded once, right after `run.started`; later changes of the member do not change it.
///
/// Also part of the birth record, whose rules for old and new readers hold here too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RosterRunInitiated {
    pub roster_id: RosterId,
    pub persona: String,
    /// The agent that the member is an instance of.
    pub agent_id: String,
    pub workflow_id: WorkflowId,
    /// A name of [`TriggerSource`](crate::TriggerSource), or one that a later build knows.
    pub trigger_source: String,
    /// Present where the fire came over the trigger bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_subscription_id: Option<String>,
}
