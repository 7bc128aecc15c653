//! `GET /v1/host/callboard/runs`: runs for people, newest first.

mod search;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_engine::{Filter, Listed};
use callboard_protocol::{Object, RunId, RunStatus, Timestamp};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::v2::snapshot;
use search::Search;

const KNOWN: [&str; 13] = [
    "status",
    "workflowId",
    "agentId",
    "rosterId",
    "tag",
    "triggerSource",
    "minCostUsd",
    "text",
    "runId",
    "since",
    "until",
    "limit",
    "cursor",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunList {
    runs: Vec<Listed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &KNOWN)?;
    let size = PageSize::read(&query)?;
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let filter = Filter {
        status: query.read("status", "the status of a run", RunStatus::from_name)?,
        workflow: query.get("workflowId").map(Into::into),
        agent: query.get("agentId").map(str::to_owned),
        member: query.get("rosterId").map(Into::into),
        tag: query.get("tag").map(str::to_owned),
        run: query.get("runId").map(Into::into),
        since: query.read("since", "an RFC 3339 time", time)?,
        until: query.read("until", "an RFC 3339 time", time)?,
        before: query.read("cursor", "a cursor that a list gave", run_of)?,
        limit: size.and_one(),
    };
    let search = Search::read(&query)?;
    let (runs, next) = if search.is_empty() {
        let mut runs = host.app.engine.store().list(&caller.scope, &filter).await?;
        let next = size.cut(&mut runs).map(|last| last.run_id.clone());
        (runs, next)
    } else {
        search.page(&host, &caller, filter, size).await?
    };
    let next_cursor = next.as_ref().map(cursor_of);
    let (now, waiting) = (host.now(), host.app.engine.waiting());
    let tenant = &caller.scope.tenant;
    let runs = runs.into_iter().map(|run| run.judged(tenant, now, waiting)).collect();
    Answer::json(StatusCode::OK, &RunList { runs, next_cursor })
}

/// `GET /runs` of the second major: the runs themselves, a page at a time.
pub(super) async fn snapshots(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let size = PageSize::read_clamped(&query)?;
    let tenant = caller.scope.tenant.as_str();
    let filter = Filter {
        status: query.read("status", "the status of a run", RunStatus::from_name)?,
        workflow: query.get("workflowId").map(Into::into),
        before: query
            .read("cursor", "a cursor that this list gave", |text| own_run(tenant, text))?,
        limit: size.and_one(),
        ..Filter::default()
    };
    let mut lines = host.app.engine.store().list(&caller.scope, &filter).await?;
    let next = size.cut(&mut lines).map(|last| own_cursor(tenant, &last.run_id));
    let mut runs = Vec::with_capacity(lines.len());
    for line in lines {
        // What was removed meanwhile is in no list.
        if let Some(seen) = host.app.engine.snapshot(&caller.scope, &line.run_id).await? {
            runs.push(snapshot::of_seen(&seen)?);
        }
    }
    Answer::json(StatusCode::OK, &SnapshotList { runs, next_cursor: next })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotList {
    runs: Vec<Object>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Names its tenant, so that one of another's is recognised.
fn own_cursor(tenant: &str, run: &RunId) -> String {
    URL_SAFE_NO_PAD.encode(format!("{tenant} {run}"))
}

fn own_run(tenant: &str, cursor: &str) -> Option<RunId> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (named, run) = text.split_once(' ')?;
    (named == tenant && !run.is_empty()).then(|| run.into())
}

/// Opaque to clients, so that it can become something else.
pub(super) fn cursor_of(run: &RunId) -> String {
    URL_SAFE_NO_PAD.encode(run.as_str())
}

pub(super) fn run_of(cursor: &str) -> Option<RunId> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let is_of_id = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let id = String::from_utf8(bytes).ok()?;
    (!id.is_empty() && id.as_bytes().iter().all(is_of_id)).then(|| RunId::from(id))
}
