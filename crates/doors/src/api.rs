//! The one way out of the doors: the public API of a host, in this process or elsewhere.

use std::fmt;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::Value;

/// What the host's own operations live under.
pub(crate) const EXTENSION: &str = "/v1/host/callboard";

/// A host's public API. Whoever implements it shows the caller's key and adds nothing: what the host refuses to that key, a
/// door refuses as well.
#[async_trait]
pub trait Api: fmt::Debug + Send + Sync {
    async fn call(&self, key: &SecretString, call: Call) -> Result<Answer, ApiError>;
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub body: Option<Value>,
    /// The same request under the same key is done once.
    pub idempotency_key: Option<String>,
}

/// What a host answered, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    /// Null where there was no body.
    pub body: Value,
}

/// The API could not be asked, or has refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("the host cannot be reached: {0}")]
    Unreachable(String),
    #[error("{}", .0.message)]
    Refused(Refused),
}

/// The host's error envelope with its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    pub code: String,
    pub message: String,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, idempotency_key: None }
    }

    pub(crate) fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body), idempotency_key: None }
    }

    pub(crate) fn once(self, idempotency_key: Option<String>) -> Self {
        Self { idempotency_key, ..self }
    }
}

impl Answer {
    /// The body, if the host did what was asked.
    pub(crate) fn into_result(self) -> Result<Value, ApiError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("message")
            .unwrap_or_else(|| format!("the host answered with status {}", self.status.as_u16()));
        let code = text("error").unwrap_or_default();
        Err(ApiError::Refused(Refused { status: self.status, code, message }))
    }
}

impl ApiError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unreachable(_) => StatusCode::BAD_GATEWAY,
            Self::Refused(refused) => refused.status,
        }
    }

    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Refused(refused) => &refused.code,
        }
    }

    /// Whether the same request may do better soon.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.status().as_u16(), 429 | 502 | 503)
    }

    /// Whether the key lacks a scope, so that a list shows less instead of nothing.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status() == StatusCode::FORBIDDEN
    }
}

/// A text as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut path, byte| {
        let sign = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-_.~".contains(sign) {
            path.push(sign);
        } else {
            // Writing into a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
        path
    })
}

/// A path with a query.
pub(crate) fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(query);
    format!("{path}?{}", text.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_stays_one_segment_and_one_parameter() {
        assert_eq!(segment("a/../b?c#d e"), "a%2F..%2Fb%3Fc%23d%20e");
        assert_eq!(with_query("/p", &[("a", "1&b=2")]), "/p?a=1%26b%3D2");
    }
}
