//! Cancelling one run, or many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_core::Refusal;
use callboard_engine::{Done, EngineError};
use callboard_protocol::{
    BulkCancel, BulkItem, BulkItemError, CancelRun, Dialect, RunId, RunStatus,
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Sent, Shaped, parse};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::v2::edge::Speaks;
use crate::v2::{id, problem};

const MOST_RUNS: usize = 100;
const LONGEST_REASON: usize = 512;

/// Cancels of one bulk request at a time: enough to share the store's commits, few enough to leave room for others.
const AT_ONCE: usize = 16;

pub(super) async fn cancel(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    speaks: Speaks,
    Shaped(body): Shaped<CancelRun>,
) -> Result<Response, Problem> {
    let by = Some(caller.principal());
    let cancelled = settle(keyed.as_ref(), describe, |remember| async {
        refuse_ended(&host, &caller, &run, speaks).await?;
        host.app.engine.cancel(&caller.scope, &run, body.reason, by, remember).await
    });
    cancelled.await
}

/// The engine takes a cancel of what has ended for no mistake; the second major does.
async fn refuse_ended(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    Speaks(dialect): Speaks,
) -> Result<(), EngineError> {
    if dialect == Dialect::V1 {
        return Ok(());
    }
    match host.app.engine.store().find(&caller.scope, run).await? {
        Some(found) if found.status.is_terminal() => {
            Err(EngineError::Refused(Refusal::Ended { status: found.status }))
        }
        Some(_) | None => Ok(()),
    }
}

fn describe(done: &Done) -> Answer {
    Answer::of(StatusCode::OK, &json!({ "runId": done.run, "status": done.status }))
}

/// Answers for each run, in the order asked; the request succeeds even if none did.
pub(super) async fn bulk_cancel(
    State(host): State<Arc<Host>>,
    caller: Caller,
    speaks: Speaks,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    let body: BulkCancel = parse(&body).map_err(with_maximum)?;
    if !(1..=MOST_RUNS).contains(&body.run_ids.len()) {
        return Err(with_maximum(Problem::invalid_at("runIds", "must be 1 to 100 run ids")));
    }
    let too_long = |reason: &String| reason.chars().count() > LONGEST_REASON;
    if speaks.0 == Dialect::V2 && body.reason.as_ref().is_some_and(too_long) {
        return Err(Problem::invalid_at("reason", "must have at most 512 characters"));
    }
    let reason = body.reason;
    let items = body.run_ids.into_iter().map(|id| {
        let (host, caller, reason) = (&host, &caller, reason.clone());
        async move {
            let done = cancel_one(host, caller, &id, reason, speaks).await;
            item(id, done, caller, speaks)
        }
    });
    let results: Vec<Value> = stream::iter(items).buffered(AT_ONCE).collect().await;
    Ok(Answer::of(StatusCode::OK, &json!({ "results": results })))
}

async fn cancel_one(
    host: &Host,
    caller: &Caller,
    run_id: &str,
    reason: Option<String>,
    speaks: Speaks,
) -> Result<RunStatus, Problem> {
    let run = match speaks.0 {
        Dialect::V1 => RunId::from(run_id),
        Dialect::V2 => {
            id::own(run_id, caller.scope.tenant.as_str(), host.app.config.majors)?.into()
        }
    };
    refuse_ended(host, caller, &run, speaks).await?;
    let by = Some(caller.principal());
    match host.app.engine.cancel(&caller.scope, &run, reason, by, None).await? {
        // Alone, cancelling what has ended is no mistake. Among many, the caller learns what was not cancelled.
        Done { status: status @ (RunStatus::Completed | RunStatus::Failed), .. } => {
            Err(Refusal::Ended { status }.into())
        }
        done => Ok(done.status),
    }
}

fn item(
    run_id: String,
    done: Result<RunStatus, Problem>,
    caller: &Caller,
    Speaks(dialect): Speaks,
) -> Value {
    match (done, dialect) {
        (Ok(status), _) => {
            json!(BulkItem { run_id, ok: true, status: Some(status), error: None })
        }
        (Err(problem), Dialect::V1) => {
            let code = problem.code.name().to_owned();
            let error = Some(BulkItemError { code, message: problem.message });
            json!(BulkItem { run_id, ok: false, status: None, error })
        }
        (Err(problem), Dialect::V2) => {
            let error = problem.into_envelope();
            let (error, _) = problem::envelope(error, Some(caller.scope.tenant.as_str()));
            json!({ "runId": run_id, "ok": false, "error": error })
        }
    }
}

fn with_maximum(problem: Problem) -> Problem {
    problem.with("maxRunIds", MOST_RUNS)
}
