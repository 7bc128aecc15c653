//! Cancelling one run, or many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_core::Refusal;
use callboard_engine::Done;
use callboard_protocol::{
    BulkCancel, BulkCancelled, BulkItem, BulkItemError, CancelRun, RunId, RunStatus,
};
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Sent, Shaped, parse};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::Problem;

const MOST_RUNS: usize = 100;

/// Cancels of one bulk request at a time: enough to share the store's commits, few enough to leave room for others.
const AT_ONCE: usize = 16;

pub(super) async fn cancel(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<CancelRun>,
) -> Result<Response, Problem> {
    let by = Some(caller.principal());
    let cancelled = settle(keyed.as_ref(), describe, |remember| {
        host.app.engine.cancel(&caller.scope, &run, body.reason, by, remember)
    });
    cancelled.await
}

fn describe(done: &Done) -> Answer {
    Answer::of(StatusCode::OK, &json!({ "runId": done.run, "status": done.status }))
}

/// Answers for each run, in the order asked; the request succeeds even if none did.
pub(super) async fn bulk_cancel(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    let body: BulkCancel = parse(&body).map_err(with_maximum)?;
    if !(1..=MOST_RUNS).contains(&body.run_ids.len()) {
        return Err(with_maximum(Problem::invalid_at("runIds", "must be 1 to 100 run ids")));
    }
    let items =
        body.run_ids.into_iter().map(|id| cancel_one(&host, &caller, id, body.reason.clone()));
    let results = stream::iter(items).buffered(AT_ONCE).collect().await;
    Ok(Answer::of(StatusCode::OK, &BulkCancelled { results }))
}

async fn cancel_one(
    host: &Host,
    caller: &Caller,
    run_id: String,
    reason: Option<String>,
) -> BulkItem {
    let run = RunId::from(run_id.as_str());
    let by = Some(caller.principal());
    match host.app.engine.cancel(&caller.scope, &run, reason, by, None).await {
        // Alone, cancelling what has ended is no mistake. Among many, the caller learns what was not cancelled.
        Ok(Done { status: status @ (RunStatus::Completed | RunStatus::Failed), .. }) => {
            refused(run_id, Refusal::Ended { status }.into())
        }
        Ok(done) => BulkItem { run_id, ok: true, status: Some(done.status), error: None },
        Err(error) => refused(run_id, error.into()),
    }
}

fn refused(run_id: String, problem: Problem) -> BulkItem {
    let error = BulkItemError { code: problem.code.name().to_owned(), message: problem.message };
    BulkItem { run_id, ok: false, status: None, error: Some(error) }
}

fn with_maximum(problem: Problem) -> Problem {
    problem.with("maxRunIds", MOST_RUNS)
}
