//! The one way out of the console: the public API of a host, in this process or elsewhere.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use callboard_protocol::{KeyId, Timestamp};
use futures_util::Stream;
use serde::Deserialize;
use serde_json::Value;

/// What the host's own operations live under.
pub const EXTENSION: &str = "/v1/host/callboard";

/// A host's public API. Whoever implements it adds the caller's credential and nothing else: what the host refuses, the
/// console shows as refused.
#[async_trait]
pub trait Api: fmt::Debug + Send + Sync {
    /// Says whose key this text is.
    async fn sign_in(&self, key: &str) -> Result<Identity, ApiError>;

    async fn call(&self, caller: &KeyId, call: Call) -> Result<Answer, ApiError>;

    /// Server-sent events, as they come, from behind the last one that was seen.
    async fn follow(
        &self,
        caller: &KeyId,
        path: &str,
        last_seen: Option<u64>,
    ) -> Result<Frames, ApiError>;
}

/// The bytes of an event stream.
pub type Frames = Pin<Box<dyn Stream<Item = Result<Vec<u8>, ApiError>> + Send>>;

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub body: Option<CallBody>,
    pub if_match: Option<String>,
}

/// What is sent: a value, or a text as somebody wrote it, so that the host can say in which line it is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum CallBody {
    Json(Value),
    Text { media_type: &'static str, text: String },
}

/// What a host answered, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    /// Null where there was no body.
    pub body: Value,
}

/// The API could not be asked, or its answer not understood.
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
    /// The part of the request that was wrong, where the host says it.
    pub field: Option<String>,
    /// All that is wrong with a text, each with its place.
    pub problems: Vec<Value>,
}

/// Whose key a session stands for, as the host sees it right now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub key_id: KeyId,
    pub name: String,
    pub tenant: String,
    pub workspace: Option<String>,
    /// None is every scope.
    pub scopes: Option<Vec<String>>,
    pub expires_at: Option<Timestamp>,
}

impl Identity {
    pub fn may(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|held| held == scope))
    }
}

impl Call {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, if_match: None }
    }

    pub fn with(method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body: Some(CallBody::Json(body)), if_match: None }
    }

    pub fn text(path: impl Into<String>, media_type: &'static str, text: &str) -> Self {
        let body = CallBody::Text { media_type, text: text.to_owned() };
        Self { method: Method::POST, path: path.into(), body: Some(body), if_match: None }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::with(Method::POST, path, body)
    }

    /// A request that changes something and says all of it in its path.
    pub fn bare(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, if_match: None }
    }
}

impl Answer {
    /// The body, if the host did what was asked.
    pub fn into_result(self) -> Result<Value, ApiError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("message")
            .unwrap_or_else(|| format!("the host answered with status {}", self.status.as_u16()));
        let field = self.body.pointer("/details/field").and_then(Value::as_str);
        Err(ApiError::Refused(Refused {
            status: self.status,
            code: text("error").unwrap_or_default(),
            message,
            field: field.map(str::to_owned),
            problems: crate::value::items(&self.body, "/details/problems").to_vec(),
        }))
    }
}

/// A text as one segment of a path.
pub fn segment(text: &str) -> String {
    escape(text, "-_.~")
}

/// The path of a file: its slashes stay.
pub(crate) fn file_path(text: &str) -> String {
    escape(text, "-_.~/")
}

fn escape(text: &str, plain: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut path, byte| {
        let sign = char::from(byte);
        if byte.is_ascii_alphanumeric() || plain.contains(sign) {
            path.push(sign);
        } else {
            // Writing into a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
        path
    })
}

/// A path with those parameters that say something.
pub(crate) fn with_query<'a>(
    path: &str,
    query: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (name, value) in query {
        if !value.is_empty() {
            text.append_pair(name, value);
        }
    }
    let text = text.finish();
    if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_stays_one_segment_and_one_parameter() {
        assert_eq!(segment("a/../b:x?y#z ü"), "a%2F..%2Fb%3Ax%3Fy%23z%20%C3%BC");
        assert_eq!(with_query("/p", [("a", "1&b=2"), ("c", "")]), "/p?a=1%26b%3D2");
    }
}
