//! `GET /v1/runs/{runId}:diff`: how two runs differ, event by event; and this host's own comparison, node by node.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_core::{DiffSide, diff, redact};
use callboard_protocol::{Dialect, RunId};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::bundle::documents;
use crate::extract::Named;
use crate::keys::Caller;
use crate::log::read_rest;
use crate::problem::Problem;
use crate::query::Parameters;
use crate::v2::edge::Speaks;
use crate::v2::run_projection::RunProjection;
use crate::v2::{id, snapshot};

pub(super) async fn compare(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    speaks: Speaks,
    uri: Uri,
) -> Result<Answer, Problem> {
    let (a, b) = both(&host, (&caller, speaks), run, &Parameters::open(&uri)?).await?;
    Answer::json(StatusCode::OK, &diff(a.side(), b.side()))
}

pub(super) async fn compare_nodes(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let (a, b) = {
        let query = Parameters::closed(&uri, &["against"])?;
        both(&host, (&caller, Speaks::default()), run, &query).await?
    };
    Answer::json(StatusCode::OK, &callboard_core::compare(a.side(), b.side()))
}

async fn both(
    host: &Host,
    (caller, speaks): (&Caller, Speaks),
    run: RunId,
    query: &Parameters,
) -> Result<(Read, Read), Problem> {
    let against = query.get("against").filter(|against| !against.is_empty());
    let against = against.ok_or_else(|| Problem::invalid_at("against", "must name a run"))?;
    let against = match speaks.0 {
        Dialect::V1 => RunId::from(against),
        Dialect::V2 => {
            id::own(against, caller.scope.tenant.as_str(), host.app.config.majors)?.into()
        }
    };
    let a = Read::of(host, (caller, speaks), run).await?;
    let b = Read::of(host, (caller, speaks), against).await?;
    Ok((a, b))
}

/// One run, read to its present end.
struct Read {
    run: RunId,
    events: Vec<Value>,
    state: Value,
    is_ended: bool,
}

impl Read {
    async fn of(
        host: &Host,
        (caller, Speaks(dialect)): (&Caller, Speaks),
        run: RunId,
    ) -> Result<Self, Problem> {
        let unknown = || Problem::no_such("run");
        let page = read_rest(host, caller, &run, 0).await?.ok_or_else(unknown)?;
        let seen = host.app.engine.snapshot(&caller.scope, &run).await?.ok_or_else(unknown)?;
        let is_ended = page.status.is_terminal();
        let (mut state, events, run) = match dialect {
            Dialect::V1 => {
                let state =
                    serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
                (state, documents(&page.events)?, run)
            }
            Dialect::V2 => {
                let projection =
                    RunProjection::of(host.app.engine.store(), &caller.scope, &run).await?;
                let mut projection = projection.ok_or_else(unknown)?;
                let mut events = Vec::with_capacity(page.events.len());
                for event in &page.events {
                    let mut told = projection.event(event).await?;
                    redact(&mut told);
                    events.push(told);
                }
                (Value::Object(snapshot::of_seen(&seen)?), events, projection.run_id().into())
            }
        };
        redact(&mut state);
        Ok(Self { run, events, state, is_ended })
    }

    fn side(&self) -> DiffSide<'_> {
        DiffSide {
            run: &self.run,
            events: &self.events,
            state: &self.state,
            is_ended: self.is_ended,
        }
    }
}
