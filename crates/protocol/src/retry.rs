//! Bodies of this host's own requests to retry runs, and what they get back. All closed.

use serde::{Deserialize, Serialize};

use crate::{BulkItemError, NodeId, Object, RunId, RunStatus, Timestamp};

/// `POST …/runs/{runId}/retry`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// The node to go on from, besides those that failed.
    pub from: Option<NodeId>,
    /// Whether the newest definition and agents are used instead of those that the run keeps.
    pub latest: Option<bool>,
    /// Laid over the run's inputs, key by key.
    pub inputs: Option<Object>,
}

/// The 201 of a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriedRun {
    pub run_id: RunId,
    pub source_run_id: RunId,
    /// The first event of the source that is not taken over.
    pub from_seq: u64,
    /// The nodes that are done again, with all that depends on them.
    pub nodes: Vec<NodeId>,
    pub status: RunStatus,
    pub events_url: String,
}

/// `POST …/runs:retry`. Empty fields filter nothing, except that only runs which failed are retried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRuns {
    pub status: Option<RunStatus>,
    pub workflow_id: Option<String>,
    pub agent_id: Option<String>,
    pub roster_id: Option<String>,
    pub tag: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: Option<u32>,
    pub cursor: Option<String>,
    pub latest: Option<bool>,
    pub inputs: Option<Object>,
    /// Whether the answer only says what would be done.
    pub dry_run: Option<bool>,
}

/// One answer for each run that was found, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetriedRuns {
    pub dry_run: bool,
    pub results: Vec<RetryItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryItem {
    pub run_id: RunId,
    pub outcome: RetryOutcome,
    /// The run that goes on, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BulkItemError>,
}

/// What came of one of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryOutcome {
    /// It would be retried.
    Planned,
    Retried,
    /// An earlier request has retried it in the same way.
    AlreadyRetried,
    Refused,
}
