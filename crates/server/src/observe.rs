//! The outermost layer: what every request goes through, whatever becomes of it.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use callboard_protocol::KeyId;
use futures_util::FutureExt;

use crate::metrics;
use crate::operations::Operation;
use crate::path;
use crate::problem::{Code, CorrelationId, Problem};

/// What the gate learned about a request, left on its response.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) operation: &'static Operation,
    pub(crate) key_id: Option<KeyId>,
}

/// The operation's name for requests that reached none.
const UNROUTED: &str = "unrouted";

/// Prepares the path, catches panics, counts and logs.
pub(crate) async fn observe(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let response = match path::rewrite(request.uri()) {
        Ok(uri) => {
            *request.uri_mut() = uri;
            // A handler holds no state that a panic could leave half-changed: what it shares is behind locks.
            let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            answered.unwrap_or_else(|_| panicked())
        }
        Err(problem) => problem.into_response(),
    };
    log(&method, &response, began);
    response
}

fn panicked() -> Response {
    let problem = Problem::new(Code::InternalError, "something went wrong on this side");
    tracing::error!(correlation_id = problem.correlation_id(), "a request handler panicked");
    problem.into_response()
}

/// Never the path as it was sent and never the key: both may hold what belongs in no log.
fn log(method: &Method, response: &Response, began: Instant) {
    let latency = began.elapsed();
    let seen = response.extensions().get::<Seen>();
    let status = response.status().as_u16();
    metrics::answered(seen.map_or(UNROUTED, |seen| seen.operation.name), status, latency);
    tracing::info!(
        target: "callboard::access",
        key_id = seen.and_then(|seen| seen.key_id.as_ref()).map(KeyId::as_str),
        method = method.as_str(),
        path = seen.map_or(UNROUTED, |seen| seen.operation.path),
        scope = seen.and_then(|seen| seen.operation.scope()),
        status,
        latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        code = response.extensions().get::<Code>().map(|code| code.name()),
        correlation_id = response.extensions().get::<CorrelationId>().map(|id| id.0.as_str()),
        "request answered",
    );
}
