//! Pausing a run, and letting it go on.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_engine::Done;
use callboard_protocol::{PauseRun, ResumeRun, RunId};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::Problem;

pub(super) async fn pause(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<PauseRun>,
) -> Result<Response, Problem> {
    let drain = body.drain_policy.unwrap_or_default();
    let paused = settle(keyed.as_ref(), describe_pause, |remember| {
        host.app.engine.pause(&caller.scope, &run, drain, body.reason, remember)
    });
    paused.await
}

pub(super) async fn resume(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<ResumeRun>,
) -> Result<Response, Problem> {
    let resumed = settle(keyed.as_ref(), describe_resume, |remember| {
        host.app.engine.resume(&caller.scope, &run, body.reason, remember)
    });
    resumed.await
}

fn describe_pause(done: &Done) -> Answer {
    Answer::of(StatusCode::ACCEPTED, &PauseRun::accepted(&done.run, done.at))
}

fn describe_resume(done: &Done) -> Answer {
    Answer::of(StatusCode::ACCEPTED, &ResumeRun::accepted(&done.run, done.at))
}
