//! `GET /v1/runs/{runId}`: the run as it stands, or nothing for those who know it already.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use callboard_protocol::RunId;

use crate::answer::Answer;
use crate::app::Host;
use crate::conditional;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let unknown = || Problem::no_such("run");
    if headers.contains_key(header::IF_NONE_MATCH) {
        // The head is enough to know that nothing changed; the fold is not made for that.
        let found = host.app.engine.store().find(&caller.scope, &run).await?.ok_or_else(unknown)?;
        let tag = tag(found.head.version);
        if conditional::is_known(&headers, &tag) {
            return Ok(conditional::not_modified(&tag));
        }
    }
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?.ok_or_else(unknown)?;
    Ok(conditional::tagged(Answer { status: StatusCode::OK, body: seen.json }, &tag(seen.version)))
}

/// The log only grows, and everything shown is its fold: its length names what is shown.
fn tag(version: u64) -> String {
    format!("\"v{version}\"")
}
