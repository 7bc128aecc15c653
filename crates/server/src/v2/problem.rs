//! Refusals in the words of the second major.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_protocol::Object;
use serde_json::Value;

use super::{error_codes, payload};
use crate::observe::Seen;
use crate::problem::{Code, Problem};

/// Advice to try again stands in `Retry-After` alone.
const ADVICE: [&str; 3] = ["retryAfter", "retryAfterMs", "retryAfterSeconds"];
/// All that the details of this one may have.
const OF_UNPROJECTABLE: [&str; 4] = ["type", "keys", "eventId", "sequence"];

pub(crate) fn of_another_tenant() -> Problem {
    Problem::new(Code::IdTenantMismatch, "the id belongs to another tenant")
}

/// The envelope of a refusal, as bulk answers hold it as well.
pub(crate) fn envelope(fields: Object, tenant: Option<&str>) -> (Object, Option<u16>) {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, message) = (text("error").to_owned(), text("message").to_owned());
    let mut details = match fields.get("details") {
        Some(Value::Object(details)) => details.clone(),
        _ => Object::new(),
    };
    details.retain(|name, _| !ADVICE.contains(&name.as_str()));
    if let Some(tenant) = tenant {
        payload::bind_details(&mut details, tenant);
    }
    let mut told = error_codes::projected(&code);
    // The registered code promises to say in which status the run is.
    if code == "run_state_conflict" && !details.contains_key("runStatus") {
        told = error_codes::projected("run_is_replay");
    }
    if code == Code::PayloadUnprojectable.name() {
        details.retain(|name, _| OF_UNPROJECTABLE.contains(&name.as_str()));
    }
    // What the second major takes for the caller's mistake is in no log of ours.
    if told.status.is_some_and(|status| status < 500) {
        details.remove("correlationId");
    }
    if told.is_altered {
        details.insert("code".to_owned(), code.into());
    }
    let message = if message.is_empty() { "the request was refused".to_owned() } else { message };
    let mut envelope = Object::from_iter([
        ("error".to_owned(), told.code.into()),
        ("message".to_owned(), message.into()),
    ]);
    if !details.is_empty() {
        envelope.insert("details".to_owned(), details.into());
    }
    (envelope, told.status)
}

/// A refusal of the first major, told in the second. Everything else passes.
pub(crate) async fn project(response: Response) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The router has told the length of what stood there before.
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    // Refusals are made here and are short.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let fields = serde_json::from_slice::<Object>(&bytes).ok();
    let Some(fields) = fields.filter(|fields| fields.contains_key("error")) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let tenant = parts.extensions.get::<Seen>().and_then(|seen| seen.tenant.as_ref());
    let (envelope, status) = envelope(fields, tenant.map(|tenant| tenant.as_str()));
    if let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) {
        parts.status = status;
    }
    Response::from_parts(parts, Body::from(Value::Object(envelope).to_string()))
}
