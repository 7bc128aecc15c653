//! `…/runs/{runId}/keep` and `…/kept-runs`: runs that retention leaves alone.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{KeptRun, KeptRuns};
use callboard_protocol::RunId;
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Serialize)]
struct KeptRunList {
    runs: Vec<KeptRun>,
}

fn kept_runs(host: &Host) -> KeptRuns {
    KeptRuns::new(Arc::clone(&host.app.logs))
}

pub(super) async fn keep(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run_id): Named<RunId>,
) -> Result<Answer, Problem> {
    let kept = KeptRun { run_id, kept_at: host.now(), kept_by: caller.principal().to_string() };
    if !kept_runs(&host).keep(&caller.scope, &kept).await? {
        return Err(Problem::no_such("run"));
    }
    Answer::json(StatusCode::OK, &kept)
}

pub(super) async fn release(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
) -> Result<StatusCode, Problem> {
    if !kept_runs(&host).release(&caller.scope, &run).await? {
        return Err(Problem::no_such("kept run"));
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let runs = kept_runs(&host).list(&caller.scope).await?;
    Answer::json(StatusCode::OK, &KeptRunList { runs })
}
