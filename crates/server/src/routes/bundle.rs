//! `GET /v1/runs/{runId}/debug-bundle`: one run to hand to somebody else.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_engine::AuditFact;
use callboard_protocol::RunId;

use crate::answer::Answer;
use crate::app::Host;
use crate::bundle::assemble;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::open(&uri)?;
    let most = query.read("maxEvents", "a number of events", |text| text.parse::<usize>().ok())?;
    let bundle = assemble(&host, &caller, &run, most.unwrap_or(usize::MAX)).await?;
    let bundle = bundle.ok_or_else(|| Problem::no_such("run"))?;
    let exported = AuditFact::new(caller.scope, "run.exported", &run);
    host.app.audit.note(exported).await?;
    let mut response = Answer::json(StatusCode::OK, &bundle)?.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
