//! Bodies that clients send to the run surface, and what they get back. All closed.

use serde::{Deserialize, Serialize};

use crate::{EventId, ForkMode, Object, RosterRunInitiated, RunId, RunStatus, Timestamp, TypeId};

/// `POST /v1/runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRun {
    pub workflow_id: Option<String>,
    pub agent_id: Option<String>,
    pub inputs: Option<Object>,
    pub tenant_id: Option<String>,
    pub scope_id: Option<String>,
    pub callback_url: Option<String>,
    pub configurable: Option<Object>,
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Object>,
    pub residency: Option<serde_json::Value>,
    pub mode: Option<String>,
    pub eval_suite_ref: Option<serde_json::Value>,
}

/// The 201 of a run that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedRun {
    pub run_id: RunId,
    pub status: RunStatus,
    pub events_url: String,
    pub status_url: String,
}

/// `POST /v1/runs/{runId}/cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRun {
    pub reason: Option<String>,
}

/// `POST /v1/runs:bulk-cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkCancel {
    pub run_ids: Vec<String>,
    pub reason: Option<String>,
}

/// One answer per requested id, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCancelled {
    pub results: Vec<BulkItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkItem {
    pub run_id: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BulkItemError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkItemError {
    pub code: String,
    pub message: String,
}

/// What a pause does with the nodes that are running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// They stop now and start afresh on resume.
    Immediate,
    /// They reach their own end first.
    #[default]
    DrainCurrentNode,
}

/// `POST /v1/runs/{runId}:pause`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseRun {
    pub reason: Option<String>,
    pub drain_policy: Option<DrainPolicy>,
}

/// `POST /v1/runs/{runId}:resume`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun {
    pub reason: Option<String>,
}

impl CreatedRun {
    pub fn of(run_id: RunId, status: RunStatus) -> Self {
        Self {
            events_url: format!("/v1/runs/{run_id}/events"),
            status_url: format!("/v1/runs/{run_id}"),
            run_id,
            status,
        }
    }
}

/// The 202 bodies of pause and resume differ in one field's name; both are built here.
impl PauseRun {
    pub fn accepted(run_id: &RunId, at: Timestamp) -> serde_json::Value {
        serde_json::json!({ "runId": run_id, "status": RunStatus::Paused, "pausedAt": at })
    }
}

impl ResumeRun {
    pub fn accepted(run_id: &RunId, at: Timestamp) -> serde_json::Value {
        serde_json::json!({ "runId": run_id, "status": RunStatus::Running, "resumedAt": at })
    }
}

/// `POST /v1/runs/{runId}:fork`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkRun {
    pub mode: Option<ForkMode>,
    pub from_seq: Option<i64>,
    pub run_options_overlay: Option<RunOptions>,
}

/// The options of a run that a branch may change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOptions {
    pub configurable: Option<Object>,
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Object>,
}

/// The 201 of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedRun {
    pub run_id: RunId,
    pub source_run_id: RunId,
    pub from_seq: u64,
    pub mode: ForkMode,
    pub status: RunStatus,
    pub events_url: String,
}

impl ForkedRun {
    pub fn of(
        run_id: RunId,
        source_run_id: RunId,
        from_seq: u64,
        mode: ForkMode,
        status: RunStatus,
    ) -> Self {
        let events_url = format!("/v1/runs/{run_id}/events");
        Self { run_id, source_run_id, from_seq, mode, status, events_url }
    }
}

/// `POST …/chat`: a text that mentions a member or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chat {
    pub text: String,
}

/// `GET /v1/runs/{runId}/ancestry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAncestry {
    pub run_id: RunId,
    pub host_id: String,
    /// None for a run that no other started.
    pub parent: Option<ParentRun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRun {
    pub run_id: RunId,
    pub host_id: String,
    pub cause: String,
}

/// `GET …/runs/{runId}/ancestry`: all that a run came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunOrigin {
    pub run_id: RunId,
    pub host_id: String,
    /// The runs above it, up to the one that no other started.
    pub runs: Vec<ParentRun>,
    /// What was delivered to that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<OriginDelivery>,
    /// Whom that one is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<RosterRunInitiated>,
}

/// A delivery without a word of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginDelivery {
    /// The cause of the run's start, and the event of its log about the delivery.
    pub delivery_id: EventId,
    pub subscription_id: String,
    pub dedup_key: String,
    pub attempt: u32,
    /// The item of a member's work that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_id: Option<String>,
}

impl RunAncestry {
    /// A run whose parent, if it has one, started it with a node of this type on the same host.
    pub fn of(run_id: RunId, host: &str, parent: Option<(RunId, TypeId)>) -> Self {
        let parent = parent.map(|(run_id, cause)| ParentRun {
            run_id,
            host_id: host.to_owned(),
            cause: cause.to_string(),
        });
        Self { run_id, host_id: host.to_owned(), parent }
    }
}
