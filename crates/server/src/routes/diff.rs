//! `GET /v1/runs/{runId}:diff`: how two runs differ, event by event; and this host's own comparison, node by node.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_core::{DiffSide, diff, redact};
use callboard_protocol::RunId;
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::bundle::documents;
use crate::extract::Named;
use crate::keys::Caller;
use crate::log::read_rest;
use crate::problem::Problem;
use crate::query::Parameters;

pub(super) async fn compare(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let (a, b) = both(&host, &caller, run, &Parameters::open(&uri)?).await?;
    Answer::json(StatusCode::OK, &diff(a.side(), b.side()))
}

pub(super) async fn compare_nodes(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let (a, b) = both(&host, &caller, run, &Parameters::closed(&uri, &["against"])?).await?;
    Answer::json(StatusCode::OK, &callboard_core::compare(a.side(), b.side()))
}

async fn both(
    host: &Host,
    caller: &Caller,
    run: RunId,
    query: &Parameters,
) -> Result<(Read, Read), Problem> {
    let against = query.get("against").filter(|against| !against.is_empty());
    let against = against.ok_or_else(|| Problem::invalid_at("against", "must name a run"))?;
    let a = Read::of(host, caller, run).await?;
    let b = Read::of(host, caller, against.into()).await?;
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
    async fn of(host: &Host, caller: &Caller, run: RunId) -> Result<Self, Problem> {
        let unknown = || Problem::no_such("run");
        let page = read_rest(host, caller, &run, 0).await?.ok_or_else(unknown)?;
        let seen = host.app.engine.snapshot(&caller.scope, &run).await?.ok_or_else(unknown)?;
        let mut state: Value =
            serde_json::from_str(&seen.json).map_err(|error| Problem::internal(&error))?;
        redact(&mut state);
        let is_ended = page.status.is_terminal();
        Ok(Self { run, events: documents(&page.events)?, state, is_ended })
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
