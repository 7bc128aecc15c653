//! `POST /v1/runs/{runId}:fork` and where a run came from.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use callboard_engine::{Ancestry, Done, ForkOrder, KeyMode, Overlay};
use callboard_protocol::{
    ForkMode, ForkRun, ForkedRun, ParentRun, RunAncestry, RunId, RunOptions, RunOrigin,
};

use super::create::{check_metadata, check_tags};
use super::strict;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::gate::missing_scope;
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::v2::configurable;
use crate::v2::edge::Speaks;

pub(super) async fn fork(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    speaks: Speaks,
    Shaped(body): Shaped<ForkRun>,
) -> Result<Response, Problem> {
    // A caller that forks a run learns what is in it.
    if !caller.may("runs:read") {
        return Err(missing_scope("runs:read"));
    }
    let order = order((&caller, speaks), run, body)?;
    let options = configurable::read_ones(&order.overlay.configurable, speaks.0);
    strict::overlay(&host, &caller, &order.source, &options).await?;
    host.starts.admit(&caller, None, host.now())?;
    let (source, from, mode) = (order.source.clone(), order.from, order.mode);
    let describe = move |done: &Done| {
        let forked = ForkedRun::of(done.run.clone(), source.clone(), from, mode, done.status);
        Answer::of(StatusCode::CREATED, &forked)
    };
    let forked = settle(keyed.as_ref(), describe, |remember| {
        host.app.engine.fork(&caller.scope, order, remember)
    });
    forked.await
}

pub(super) async fn ancestry(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
) -> Result<Answer, Problem> {
    let parent = host.app.engine.parent(&caller.scope, &run).await?;
    let parent = parent.map(|parent| (parent.run_id, parent.cause));
    Ok(Answer::of(StatusCode::OK, &RunAncestry::of(run, &host.app.config.host_id, parent)))
}

/// Where the protocol's answer has room for one run, this one goes all the way up, to what began it.
pub(super) async fn origin(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let Ancestry { runs, delivery, member } = host.app.engine.ancestry(&caller.scope, &run).await?;
    let host_id = host.app.config.host_id.clone();
    let above = runs.into_iter().map(|(run_id, cause)| ParentRun {
        run_id,
        host_id: host_id.clone(),
        cause: cause.to_string(),
    });
    let runs = above.collect();
    Ok(Answer::of(StatusCode::OK, &RunOrigin { run_id: run, host_id, runs, delivery, member }))
}

fn order(
    (caller, Speaks(dialect)): (&Caller, Speaks),
    source: RunId,
    body: ForkRun,
) -> Result<ForkOrder, Problem> {
    let mode = body.mode.ok_or_else(|| Problem::invalid_at("mode", "is required"))?;
    let from = match (body.from_seq, mode) {
        (Some(from), _) => u64::try_from(from)
            .map_err(|_| Problem::invalid_at("fromSeq", "must not be negative"))?,
        (None, ForkMode::Replay) => 0,
        (None, ForkMode::Branch) => {
            return Err(Problem::invalid_at("fromSeq", "is required for a branch"));
        }
    };
    let overlay = body.run_options_overlay.unwrap_or_default();
    if mode == ForkMode::Replay && overlay != RunOptions::default() {
        let message = "a replay changes nothing; branch to change options";
        return Err(Problem::invalid_at("runOptionsOverlay", message));
    }
    overlay.tags.as_deref().map_or(Ok(()), check_tags)?;
    overlay.metadata.as_ref().map_or(Ok(()), check_metadata)?;
    let configurable = overlay.configurable.unwrap_or_default();
    if configurable.contains_key("mockProvider") && caller.scope.mode == KeyMode::Live {
        let message = "mock providers answer test keys only";
        return Err(Problem::new(Code::MockProviderForbidden, message));
    }
    Ok(ForkOrder {
        source,
        from,
        mode,
        owner: caller.owner(),
        key_mode: caller.scope.mode,
        dialect,
        overlay: Overlay { configurable, tags: overlay.tags, metadata: overlay.metadata },
    })
}
