//! `GET /v1/host/callboard/limits`: what holds for the caller's tenant, and how much of it is used.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_protocol::Timestamp;
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    /// Runs at work at once.
    concurrency: Vec<Limit>,
    /// Runs that are started in a minute.
    runs_per_minute: Vec<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_runs: Option<Stored>,
}

#[derive(Debug, Serialize)]
struct Limit {
    /// The key of the file that sets it.
    name: String,
    most: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    name: String,
    most: u64,
    /// As counted last, with what has begun here since.
    used: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    counted_at: Option<Timestamp>,
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let (tenant, engine) = (&caller.scope.tenant, &host.app.engine);
    let concurrency = engine.waiting().limits().shown(tenant);
    let stored = engine.quotas().of(tenant);
    let limits = Limits {
        concurrency: concurrency
            .into_iter()
            .map(|(name, most)| Limit { name, most: most as u64 })
            .collect(),
        runs_per_minute: host
            .starts
            .shown(tenant)
            .into_iter()
            .map(|(name, most)| Limit { name, most: most.into() })
            .collect(),
        stored_runs: stored.limit.map(|(most, name)| Stored {
            name,
            most,
            used: stored.stored,
            counted_at: stored.counted_at,
        }),
    };
    Answer::json(StatusCode::OK, &limits)
}
