//! Runs, from their creation to what they left behind.

use super::OperationId::{
    AnnotateRun, BulkCancelRuns, CancelRun, CreateRun, DiffRuns, FollowEvents, FollowEverything,
    ForkRun, ListAnnotations, ListRuns, PauseRun, PollEvents, ReadAncestry, ReadArtifact,
    ReadDebugBundle, ReadOrigin, ReadRun, ResumeRun, WriteChannel,
};
use super::queries::{BUNDLE_QUERY, DIFF_QUERY, LIST_QUERY, POLL_QUERY, STREAM_QUERY};
use super::{ACCEPTED, CREATED, Gives, OK, Operation, get, post};

pub(super) const RUNS: &[Operation] = &[
    post(CreateRun, "POST /v1/runs", "Start a run")
        .needs("runs:create")
        .takes("CreateRun")
        .gives(CREATED, Gives::Json("CreatedRun")),
    get(ReadRun, "GET /v1/runs/{runId}", "Read a run as it stands")
        .needs("runs:read")
        .gives(OK, Gives::Json("RunSnapshot")),
    get(ListRuns, "GET /v1/host/callboard/runs", "List runs, newest first")
        .needs("runs:read")
        .query(LIST_QUERY)
        .gives(OK, Gives::Json("RunList")),
    get(FollowEvents, "GET /v1/runs/{runId}/events", "Follow a run's events live")
        .needs("runs:read")
        .query(STREAM_QUERY)
        .gives(OK, Gives::Events("PolledEvents")),
    get(
        PollEvents,
        "GET /v1/runs/{runId}/events/poll",
        "Read a run's events, waiting for new ones",
    )
    .needs("runs:read")
    .query(POLL_QUERY)
    .gives(OK, Gives::Json("PolledEvents")),
    get(
        FollowEverything,
        "GET /v1/host/callboard/events",
        "Follow the events of every run that the caller may see",
    )
    .needs("runs:read")
    .gives(OK, Gives::Events("RunEvent")),
    post(CancelRun, "POST /v1/runs/{runId}/cancel", "Cancel a run")
        .needs("runs:cancel")
        .may_take("CancelRun")
        .gives(OK, Gives::Json("CancelledRun")),
    post(BulkCancelRuns, "POST /v1/runs:bulk-cancel", "Cancel up to 100 runs")
        .needs("runs:cancel")
        .takes("BulkCancel")
        .gives(OK, Gives::Json("BulkCancelled")),
    post(PauseRun, "POST /v1/runs/{runId}:pause", "Pause a run")
        .needs("runs:cancel")
        .may_take("PauseRun")
        .gives(ACCEPTED, Gives::Json("PausedRun")),
    post(ResumeRun, "POST /v1/runs/{runId}:resume", "Resume a paused run")
        .needs("runs:cancel")
        .may_take("ResumeRun")
        .gives(ACCEPTED, Gives::Json("ResumedRun")),
    post(ForkRun, "POST /v1/runs/{runId}:fork", "Replay a run from an event, or branch off there")
        .needs("runs:create")
        .takes("ForkRun")
        .gives(CREATED, Gives::Json("ForkedRun")),
    get(ReadAncestry, "GET /v1/runs/{runId}/ancestry", "Which run started this one")
        .needs("runs:read")
        .gives(OK, Gives::Json("RunAncestry")),
    get(
        ReadOrigin,
        "GET /v1/host/callboard/runs/{runId}/ancestry",
        "All that a run came from: runs, delivery, item of work, member",
    )
    .needs("runs:read")
    .gives(OK, Gives::Json("RunOrigin")),
    get(DiffRuns, "GET /v1/runs/{runId}:diff", "Compare two runs")
        .needs("runs:read")
        .query(DIFF_QUERY)
        .gives(OK, Gives::Json("RunDiff")),
    get(ReadDebugBundle, "GET /v1/runs/{runId}/debug-bundle", "Export a run without its secrets")
        .needs("runs:read")
        .query(BUNDLE_QUERY)
        .gives(OK, Gives::Json("DebugBundle")),
    get(
        ReadArtifact,
        "GET /v1/runs/{runId}/artifacts/{artifactId}",
        "Read what a node left behind",
    )
    .needs("artifacts:read")
    .gives(OK, Gives::Json("Artifact")),
    get(ListAnnotations, "GET /v1/runs/{runId}/annotations", "List what was said of a run")
        .needs("runs:read")
        .gives(OK, Gives::Json("AnnotationList")),
    post(AnnotateRun, "POST /v1/runs/{runId}/annotations", "Rate, correct, label or flag a run")
        .needs("approvals:respond")
        .takes("CreateAnnotation")
        .gives(CREATED, Gives::Json("Annotation")),
    post(
        WriteChannel,
        "POST /v1/host/callboard/runs/{runId}/channels/{channel}",
        "Write into a channel of a run that has not ended",
    )
    .needs("runs:create")
    .takes("ChannelWrite")
    .gives(OK, Gives::Json("WrittenChannel")),
];
