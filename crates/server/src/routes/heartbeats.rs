//! Heartbeats over HTTP: made, listed, read, paused, removed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{BookError, DeliverError, Evaluation, Heartbeat, NewHeartbeat, Probe};
use callboard_protocol::{HeartbeatId, RosterId, RunId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateHeartbeat {
    workflow_id: WorkflowId,
    roster_id: Option<RosterId>,
    url: String,
    interval_sec: u64,
    #[serde(default = "enabled")]
    enabled: bool,
}

fn enabled() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeHeartbeat {
    enabled: bool,
}

#[derive(Serialize)]
struct HeartbeatList {
    heartbeats: Vec<HeartbeatDoc>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeartbeatDoc {
    id: HeartbeatId,
    workflow_id: WorkflowId,
    #[serde(skip_serializing_if = "Option::is_none")]
    roster_id: Option<RosterId>,
    url: String,
    interval_sec: u64,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_look_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Evaluation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run_id: Option<RunId>,
    version: u64,
    created_at: Timestamp,
}

impl From<Heartbeat> for HeartbeatDoc {
    fn from(heartbeat: Heartbeat) -> Self {
        let Heartbeat { id, place: _, workflow, roster_id, version, wake_at, state } = heartbeat;
        let Probe::Http { url } = state.probe;
        Self {
            id,
            workflow_id: workflow,
            roster_id,
            url,
            interval_sec: state.interval_sec,
            enabled: state.enabled,
            next_look_at: wake_at,
            last: state.last,
            changed_at: state.changed_at,
            last_run_id: state.last_run,
            version,
            created_at: state.created_at,
        }
    }
}

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<CreateHeartbeat>,
) -> Result<Answer, Problem> {
    let CreateHeartbeat { workflow_id, roster_id, url, interval_sec, enabled } = body;
    let parsed: Option<axum::http::Uri> = url.parse().ok();
    let is_address = parsed.is_some_and(|uri| {
        let has_name = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        matches!(uri.scheme_str(), Some("http" | "https")) && has_name
    });
    if !is_address {
        let what = "must be an http or https address without a user in it";
        return Err(Problem::invalid_at("url", what));
    }
    // What could never be looked at is refused here, where somebody reads the answer.
    let refused = |error: DeliverError| Problem::invalid_at("url", &error.to_string());
    host.app.deliveries.admit_callback(&caller.scope.tenant, &url).await.map_err(refused)?;
    let new = NewHeartbeat {
        id: format!("hb_{}", uuid::Uuid::now_v7().simple()).into(),
        owner: caller.owner(),
        mode: caller.scope.mode,
        workflow: workflow_id,
        roster_id,
        probe: Probe::Http { url },
        interval_sec,
        enabled,
    };
    let made = host.app.heartbeats.add(new).await.map_err(unfit)?;
    caller.audit(&made.id, "heartbeat made");
    Answer::json(StatusCode::CREATED, &HeartbeatDoc::from(made))
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.heartbeats.list(&caller.scope).await?;
    let heartbeats = found.into_iter().map(HeartbeatDoc::from).collect();
    Answer::json(StatusCode::OK, &HeartbeatList { heartbeats })
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<HeartbeatId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let found = host.app.heartbeats.find(&caller.scope, &id).await?;
    let found = found.ok_or_else(|| Problem::no_such("heartbeat"))?;
    Answer::json(StatusCode::OK, &HeartbeatDoc::from(found))
}

pub(super) async fn change(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<HeartbeatId>,
    Shaped(body): Shaped<ChangeHeartbeat>,
) -> Result<Answer, Problem> {
    let changed =
        host.app.heartbeats.enable(&caller.scope, &id, body.enabled).await.map_err(unfit)?;
    caller.audit(&id, "heartbeat changed");
    Answer::json(StatusCode::OK, &HeartbeatDoc::from(changed))
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<HeartbeatId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    if !host.app.heartbeats.remove(&caller.scope, &id).await? {
        return Err(Problem::no_such("heartbeat"));
    }
    caller.audit(&id, "heartbeat removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) fn unfit(error: BookError) -> Problem {
    match error {
        BookError::UnknownWorkflow(_) => Problem::no_such("workflow"),
        BookError::Unknown => Problem::no_such("heartbeat"),
        BookError::NotTheirs(why) => Problem::invalid_at("rosterId", why),
        BookError::Store(error) => error.into(),
        error @ (BookError::Declared(_) | BookError::Timing(_)) => {
            Problem::invalid(error.to_string())
        }
    }
}
