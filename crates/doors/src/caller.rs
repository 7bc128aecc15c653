//! Whoever came through a door: a key, and what the host's API says to it.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Call, EXTENSION, Refused, segment, with_query};
use axum::http::StatusCode;

/// The longest key that is looked at; ours have a sixth of it.
const LONGEST_KEY: usize = 512;

/// A key with the host that it is for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    api: Arc<dyn Api>,
    key: SecretString,
    /// Where people find the console of that host.
    base: String,
}

impl Caller {
    pub(crate) fn new(api: Arc<dyn Api>, key: SecretString, base: String) -> Self {
        Self { api, key, base }
    }

    pub(crate) async fn call(&self, call: Call) -> Result<Value, ApiError> {
        self.api.call(&self.key, call).await?.into_result()
    }

    pub(crate) async fn get(&self, path: impl Into<String> + Send) -> Result<Value, ApiError> {
        self.call(Call::get(path)).await
    }

    /// The id of the key, if the host knows it.
    pub(crate) async fn key_id(&self) -> Result<String, ApiError> {
        let who = self.get(format!("{EXTENSION}/whoami")).await?;
        Ok(text(&who, "keyId").to_owned())
    }

    /// Starts a run, or finds the one that the same request under the same key started.
    pub(crate) async fn start(
        &self,
        body: Value,
        idempotency_key: Option<String>,
    ) -> Result<String, ApiError> {
        let made = self.call(Call::post("/v1/runs", body).once(idempotency_key)).await?;
        Ok(text(&made, "runId").to_owned())
    }

    pub(crate) async fn cancel(&self, run: &str) -> Result<Value, ApiError> {
        let path = format!("/v1/runs/{}/cancel", segment(run));
        self.call(Call::post(path, json!({}))).await
    }

    /// The open questions of a run.
    pub(crate) async fn questions(&self, run: &str) -> Result<Vec<Value>, ApiError> {
        let path = with_query(&format!("{EXTENSION}/inbox"), &[("runId", run)]);
        let mut inbox = self.get(path).await?;
        Ok(match inbox["interrupts"].take() {
            Value::Array(open) => open,
            _ => Vec::new(),
        })
    }

    pub(crate) async fn answer(
        &self,
        run: &str,
        node: &str,
        value: Value,
    ) -> Result<Value, ApiError> {
        let path = format!("/v1/runs/{}/interrupts/{}", segment(run), segment(node));
        self.call(Call::post(path, json!({ "resumeValue": value }))).await
    }

    /// Where a person sees a run.
    pub(crate) fn link(&self, run: &str) -> String {
        format!("{}/console/runs/{}", self.base, segment(run))
    }

    /// Where a person answers a question.
    pub(crate) fn question_link(&self, run: &str, node: &str) -> String {
        format!("{}/console/inbox/{}/{}", self.base, segment(run), segment(node))
    }
}

/// The key that a request shows.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<SecretString, ApiError> {
    let refused = || {
        ApiError::Refused(Refused {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthenticated".to_owned(),
            message: "send one header: Authorization: Bearer <key>".to_owned(),
        })
    };
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none()).ok_or_else(refused)?;
    let (scheme, key) =
        value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(refused)?;
    let key = key.trim();
    let is_key = scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST_KEY).contains(&key.len());
    if is_key { Ok(SecretString::from(key.to_owned())) } else { Err(refused()) }
}

/// A field that is a text; what is none is empty.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
