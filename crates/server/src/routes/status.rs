//! What needs no key: what the host is, whether it is alive, whether it is ready.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_protocol::Dialect;
use serde_json::json;

use crate::answer::Answer;
use crate::app::{Host, NotReady};
use crate::conditional;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::v2::edge::Speaks;

/// A database that answers later than this is away.
const READY_WITHIN: Duration = Duration::from_secs(5);

pub(super) async fn discovery(
    State(host): State<Arc<Host>>,
    speaks: Speaks,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let document = host.discovery.document(&host, speaks.0)?;
    let mut response = if conditional::is_known(&headers, &document.tag) {
        conditional::not_modified(&document.tag)
    } else {
        conditional::tagged(json_bytes(document.bytes.clone()), &document.tag)
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    // The second major has plain entity tags alone.
    let tag = HeaderValue::from_str(&document.negotiation_tag).ok();
    if let Some(tag) = tag.filter(|_| speaks.0 == Dialect::V1) {
        headers.insert(HeaderName::from_static("capabilities-etag"), tag);
    }
    Ok(response)
}

/// What of it the caller can use.
pub(super) async fn scoped_discovery(
    State(host): State<Arc<Host>>,
    caller: Caller,
) -> Result<Answer, Problem> {
    Answer::json(
        StatusCode::OK,
        &host.discovery.document(&host, Dialect::V1)?.scoped(&caller, &host.app.keys.roles())?,
    )
}

pub(super) async fn openapi(State(host): State<Arc<Host>>, speaks: Speaks) -> Response {
    json_bytes(match speaks.0 {
        Dialect::V1 => host.openapi.clone(),
        Dialect::V2 => host.second_openapi.clone(),
    })
}

pub(super) async fn health() -> Answer {
    Answer::of(StatusCode::OK, &json!({ "status": "ok" }))
}

pub(super) async fn readiness(State(host): State<Arc<Host>>) -> Result<Answer, Problem> {
    let checked = tokio::time::timeout(READY_WITHIN, host.app.readiness.check()).await;
    match checked.unwrap_or_else(|_| Err(NotReady("no answer in time".to_owned()))) {
        Ok(()) => Ok(Answer::of(StatusCode::OK, &json!({ "status": "ready" }))),
        Err(reason) => {
            tracing::warn!(%reason, "not ready");
            Err(Problem::unavailable("this host is not ready", host.app.config.retry_after_seconds))
        }
    }
}

pub(super) async fn metrics(State(host): State<Arc<Host>>) -> Response {
    let text = host.app.metrics.as_ref().map(|metrics| metrics.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn json_bytes(bytes: axum::body::Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}
