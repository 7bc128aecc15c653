//! What a heartbeat is, and the port to what it looks at.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use callboard_protocol::{
    HeartbeatId, HeartbeatStatus, Object, Owner, Principal, RosterId, RunId, Tenant, Timestamp,
    WorkflowId,
};

use crate::store::Scope;

/// Looks at what is outside.
#[async_trait]
pub trait Observe: fmt::Debug + Send + Sync {
    /// What is seen, in as few words as distinguish one state from another, and with nothing of the content.
    async fn observe(&self, tenant: &Tenant, probe: &Probe) -> Result<Object, ObserveError>;
}

/// Nothing could be seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ObserveError(pub String);

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Probe {
    /// What an address answers: its status, and a digest of the body.
    Http { url: String },
}

/// One heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeat {
    pub id: HeartbeatId,
    /// Where it lives, and its runs.
    pub place: Scope,
    pub workflow: WorkflowId,
    /// The member whose work it is.
    pub roster_id: Option<RosterId>,
    /// The version that was read; it grows by one with every change.
    pub version: u64,
    /// When the next observation is due; none while it is paused.
    pub wake_at: Option<Timestamp>,
    pub state: HeartbeatState,
}

/// What a heartbeat keeps besides what it is found by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatState {
    pub probe: Probe,
    pub interval_sec: u64,
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    pub created_at: Timestamp,
    /// What was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Evaluation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
}

/// How the last look went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    pub at: Timestamp,
    pub status: HeartbeatStatus,
    pub changed: bool,
}

/// What a scan found.
#[derive(Debug, Clone, Default)]
pub struct DueHeartbeats {
    pub heartbeats: Vec<Heartbeat>,
    /// When the next heartbeat that is not due yet becomes so.
    pub next: Option<Timestamp>,
}

impl Heartbeat {
    /// The owner of its runs.
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.place.tenant.clone(),
            workspace: self.place.workspace.clone(),
            principal: self.state.principal.clone(),
        }
    }
}
