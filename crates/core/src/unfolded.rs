//! What can be said and done of a run that nobody can fold: its birth record and its head are enough for an end.

use std::collections::BTreeMap;

use callboard_protocol::{
    CancelRequested, EVENT_LOG_SCHEMA_VERSION, Event, Failure, ForkSnapshot, Object, RunCancelled,
    RunFailed, RunSnapshot, RunStatus, Timestamp,
};

use crate::birth::Birth;

/// The code of runs that were given up because this host could not decide what comes next.
pub const UNPROCESSABLE: &str = "run_unprocessable";

/// The end of a run that cannot be processed.
pub fn unprocessable(birth: &Birth, why: &str, at: Timestamp) -> Event {
    let message = format!(
        "the host gave the run up because {why}; nothing that the run did is undone. Look at the newest events and at \
         the host's log, simplify the workflow's expressions, schemas or values, and start it anew"
    );
    Event::RunFailed(RunFailed {
        error: Failure::new(UNPROCESSABLE, message),
        failed_node_id: None,
        duration_ms: duration_ms(birth, at),
    })
}

/// The end of a run that was cancelled while it could not be processed.
pub fn cancelled_unfolded(birth: &Birth, request: CancelRequested, at: Timestamp) -> Event {
    Event::RunCancelled(RunCancelled {
        reason: request.reason,
        cancelled_by: request.cancelled_by,
        duration_ms: duration_ms(birth, at),
        parent_run_id: request.parent_run_id,
    })
}

/// A run as its birth record and its head show it, without anything that only the fold knows.
pub fn unfolded_snapshot(
    birth: &Birth,
    status: RunStatus,
    version: u64,
    ended: Option<(Timestamp, Option<Failure>)>,
) -> RunSnapshot {
    let (completed_at, error) = ended.map_or((None, None), |(at, error)| (Some(at), error));
    RunSnapshot {
        run_id: birth.run_id.clone(),
        workflow_id: birth.workflow_id.clone(),
        status,
        owner: Some(birth.owner.clone()),
        current_node_id: None,
        created_at: birth.created_at,
        started_at: None,
        completed_at,
        variables: Object::new(),
        channels: None,
        node_states: BTreeMap::new(),
        error,
        event_log_schema_version: EVENT_LOG_SCHEMA_VERSION,
        tags: birth.tags.clone(),
        metadata: birth.metadata.clone(),
        configurable: (!birth.configurable.is_empty()).then(|| birth.configurable.clone()),
        workspace: birth.files.clone(),
        metrics: None,
        last_sequence: version.checked_sub(1),
        agent: None,
        run_orchestrator: None,
        parent_run_id: birth.parent.as_ref().map(|parent| parent.run_id.clone()),
        parent_node_id: birth.parent.as_ref().map(|parent| parent.node_id.clone()),
        inputs: None,
        child_runs: Vec::new(),
        fork: birth.fork.as_ref().map(|fork| ForkSnapshot {
            source_run_id: fork.source.clone(),
            from_seq: fork.from,
            mode: fork.mode,
        }),
    }
}

/// From the birth on, since only the fold knows how long the run was paused.
fn duration_ms(birth: &Birth, at: Timestamp) -> u64 {
    u64::try_from(at.since(birth.created_at).as_millis()).unwrap_or(u64::MAX)
}
