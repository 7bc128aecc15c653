//! Events about heartbeats (RFC 0060). None of them is part of a run's log.

use serde::{Deserialize, Serialize};

use crate::{HeartbeatId, Object};

/// `heartbeat.evaluated`: sent for every observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatEvaluated {
    pub heartbeat_id: HeartbeatId,
    pub status: HeartbeatStatus,
    pub changed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeartbeatStatus {
    Ok,
    /// It took longer than a look may, and was given up.
    Timeout,
    Error,
}

/// `heartbeat.stateChanged`: sent only where an observation differs from the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatStateChanged {
    pub heartbeat_id: HeartbeatId,
    pub from: Object,
    pub to: Object,
}

/// `callboard.heartbeat.skipped`: a look that was not taken, or a change that started nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatSkipped {
    pub heartbeat_id: HeartbeatId,
    pub reason: HeartbeatSkip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeartbeatSkip {
    /// The run of the last change goes on.
    RunUnderWay,
    /// Everybody who would do the run is paused.
    MemberPaused,
    /// The run cannot be started: its member or its workflow is gone, or does not fit.
    NotStartable,
}
