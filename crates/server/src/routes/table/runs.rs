//! Runs, from their creation to what they left behind.

use super::queries::{
    BUNDLE_QUERY, CALLS_QUERY, DIFF_QUERY, LIST_QUERY, POLL_QUERY, SNAPSHOTS_QUERY, STREAM_QUERY,
};
use super::{ACCEPTED, CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post, put};
use crate::routes::{
    annotations, artifacts, bundle, calls, cancel, channels, create, diff, events, everything,
    fork, kept_runs, list, pause, read, retry,
};
use crate::v2::{answer, body, effects};

pub(super) static RUNS: Family = Family::new(|| {
    vec![
        post("createRun", create::create, "POST /v1/runs", "Start a run")
            .second_takes(body::create)
            .second_gives(answer::run)
            .needs("runs:create")
            .takes("CreateRun")
            .gives(CREATED, Gives::Json("CreatedRun")),
        get("readRun", read::read, "GET /v1/runs/{runId}", "Read a run as it stands")
            .in_both()
            .needs("runs:read")
            .gives(OK, Gives::Json("RunSnapshot")),
        get("listSnapshots", list::snapshots, "GET /runs", "List runs as they stand, newest first")
            .only_in_second()
            .needs("runs:read")
            .query(SNAPSHOTS_QUERY)
            .gives(OK, Gives::Json("Object")),
        get("listRuns", list::list, "GET /v1/host/callboard/runs", "List runs, newest first")
            .needs("runs:read")
            .query(LIST_QUERY)
            .gives(OK, Gives::Json("RunList")),
        get(
            "followEvents",
            events::follow,
            "GET /v1/runs/{runId}/events",
            "Follow a run's events live",
        )
        .in_both()
        .needs("runs:read")
        .query(STREAM_QUERY)
        .gives(OK, Gives::Events("PolledEvents")),
        get(
            "pollEvents",
            events::poll,
            "GET /v1/runs/{runId}/events/poll",
            "Read a run's events, waiting for new ones",
        )
        .in_both()
        .needs("runs:read")
        .query(POLL_QUERY)
        .gives(OK, Gives::Json("PolledEvents")),
        get(
            "followEverything",
            everything::follow,
            "GET /v1/host/callboard/events",
            "Follow the events of every run that the caller may see",
        )
        .needs("runs:read")
        .gives(OK, Gives::Events("RunEvent")),
        post("cancelRun", cancel::cancel, "POST /v1/runs/{runId}/cancel", "Cancel a run")
            .second_gives(answer::run)
            .needs("runs:cancel")
            .may_take("CancelRun")
            .gives(OK, Gives::Json("CancelledRun")),
        post(
            "bulkCancelRuns",
            cancel::bulk_cancel,
            "POST /v1/runs:bulk-cancel",
            "Cancel up to 100 runs",
        )
        .in_both()
        .needs("runs:cancel")
        .takes("BulkCancel")
        .gives(OK, Gives::Json("BulkCancelled")),
        post("pauseRun", pause::pause, "POST /v1/runs/{runId}:pause", "Pause a run")
            .second_gives(answer::run)
            .needs("runs:cancel")
            .may_take("PauseRun")
            .gives(ACCEPTED, Gives::Json("PausedRun")),
        post("resumeRun", pause::resume, "POST /v1/runs/{runId}:resume", "Resume a paused run")
            .second_gives(answer::run)
            .needs("runs:cancel")
            .may_take("ResumeRun")
            .gives(ACCEPTED, Gives::Json("ResumedRun")),
        post(
            "forkRun",
            fork::fork,
            "POST /v1/runs/{runId}:fork",
            "Replay a run from an event, or branch off there",
        )
        .second_takes(body::fork)
        .second_gives(answer::run)
        .needs("runs:create")
        .takes("ForkRun")
        .gives(CREATED, Gives::Json("ForkedRun")),
        get(
            "readAncestry",
            fork::ancestry,
            "GET /v1/runs/{runId}/ancestry",
            "Which run started this one",
        )
        .second_gives(answer::ancestry)
        .needs("runs:read")
        .gives(OK, Gives::Json("RunAncestry")),
        get(
            "readRunEffects",
            effects::read,
            "GET /runs/{runId}/effects",
            "Every attempt of a run's outward calls, without what was said in them",
        )
        .only_in_second()
        .needs("runs:read")
        .gives(OK, Gives::Json("Object")),
        get(
            "readOrigin",
            fork::origin,
            "GET /v1/host/callboard/runs/{runId}/ancestry",
            "All that a run came from: runs, delivery, item of work, member",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("RunOrigin")),
        get("diffRuns", diff::compare, "GET /v1/runs/{runId}:diff", "Compare two runs")
            .in_both()
            .needs("runs:read")
            .query(DIFF_QUERY)
            .gives(OK, Gives::Json("RunDiff")),
        get(
            "readDebugBundle",
            bundle::read,
            "GET /v1/runs/{runId}/debug-bundle",
            "Export a run without its secrets",
        )
        .needs("runs:read")
        .query(BUNDLE_QUERY)
        .gives(OK, Gives::Json("DebugBundle")),
        get(
            "readArtifact",
            artifacts::read,
            "GET /v1/runs/{runId}/artifacts/{artifactId}",
            "Read what a node left behind",
        )
        .second_gives(answer::artifact)
        .needs("artifacts:read")
        .gives(OK, Gives::Json("Artifact")),
        get(
            "listAnnotations",
            annotations::list,
            "GET /v1/runs/{runId}/annotations",
            "List what was said of a run",
        )
        .second_gives(answer::annotations)
        .needs("runs:read")
        .gives(OK, Gives::Json("AnnotationList")),
        post(
            "annotateRun",
            annotations::create,
            "POST /v1/runs/{runId}/annotations",
            "Rate, correct, label or flag a run",
        )
        .second_gives(answer::annotation)
        .needs("approvals:respond")
        .takes("CreateAnnotation")
        .gives(CREATED, Gives::Json("Annotation")),
        put(
            "keepRun",
            kept_runs::keep,
            "PUT /v1/host/callboard/runs/{runId}/keep",
            "Keep a run for ever, whatever retention says",
        )
        .needs("runs:create")
        .gives(OK, Gives::Json("KeptRun")),
        delete(
            "releaseRun",
            kept_runs::release,
            "DELETE /v1/host/callboard/runs/{runId}/keep",
            "Let retention remove a kept run again",
        )
        .needs("runs:create")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "listKeptRuns",
            kept_runs::list,
            "GET /v1/host/callboard/kept-runs",
            "List the runs that are kept for ever",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("KeptRunList")),
        post(
            "writeChannel",
            channels::write,
            "POST /v1/host/callboard/runs/{runId}/channels/{channel}",
            "Write into a channel of a run that has not ended",
        )
        .needs("runs:create")
        .takes("ChannelWrite")
        .gives(OK, Gives::Json("WrittenChannel")),
        get(
            "listCalls",
            calls::list,
            "GET /v1/host/callboard/runs/{runId}/calls",
            "List the model calls in the log of a run, in order",
        )
        .needs("runs:read")
        .query(CALLS_QUERY)
        .gives(OK, Gives::Json("CallList")),
        get(
            "readCall",
            calls::read,
            "GET /v1/host/callboard/runs/{runId}/calls/{callId}",
            "Read what a model was sent and what it answered, without credentials",
        )
        .needs("artifacts:read")
        .gives(OK, Gives::Json("ModelCall")),
        post(
            "retryRun",
            retry::retry,
            "POST /v1/host/callboard/runs/{runId}/retry",
            "Continue a run that has ended, from where it failed",
        )
        .needs("runs:create")
        .may_take("RetryRun")
        .gives(CREATED, Gives::Json("RetriedRun")),
        post(
            "retryRuns",
            retry::retry_many,
            "POST /v1/host/callboard/runs:retry",
            "Continue up to 100 runs that have failed, or list those that would be",
        )
        .needs("runs:create")
        .takes("RetryRuns")
        .gives(OK, Gives::Json("RetriedRuns")),
        get(
            "compareRuns",
            diff::compare_nodes,
            "GET /v1/host/callboard/runs/{runId}/comparison",
            "Compare two runs node by node: outcome, model, prompt, tokens, cost, time",
        )
        .needs("runs:read")
        .query(DIFF_QUERY)
        .gives(OK, Gives::Json("RunComparison")),
    ]
});
