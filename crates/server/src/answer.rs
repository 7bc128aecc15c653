//! JSON answers as text: what is sent is also what an idempotent repetition gets.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

/// A status and its JSON text; no text is no body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub body: String,
}

impl Answer {
    /// For bodies whose serialisation cannot fail: structs and maps with text keys and plain values.
    pub fn of(status: StatusCode, body: &impl Serialize) -> Self {
        Self { status, body: serde_json::to_string(body).unwrap_or_default() }
    }

    /// For bodies that hold stored JSON text, which a damaged database may have spoiled.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_string(body).map_err(|error| Problem::internal(&error))?;
        Ok(Self { status, body })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let has_body = !self.body.is_empty();
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        if has_body {
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        response
    }
}
