//! The same request twice, done once: outcomes under the caller's key, committed with what they describe.
//!
//! `perform` stands before every operation: it answers a repetition, and keeps what a handler answered. A run's outcome is
//! kept in the transaction that creates or changes the run: `settle` gives it along and says so with the response (`Kept`).
//! Keys are kept only as digests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::RequestExt;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use callboard_engine::{Batch, Digest, Done, EngineError, KeyMode, Outcome, Remember, StoreError};
use callboard_protocol::{Dialect, Timestamp};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::operations::Operation;
use crate::problem::{Code, Problem};
use crate::v2::edge::Speaks;

/// One day, the least that the protocol allows.
pub(crate) const RETENTION_SECONDS: u64 = 86_400;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAY: HeaderName = HeaderName::from_static("openwop-idempotent-replay");
const LONGEST_KEY: usize = 255;

/// The headers that make another request of the same body.
const MEANINGFUL: [&str; 4] = ["if-match", "if-none-match", "x-dedup", "x-force-engine-version"];

/// A request under an idempotency key.
#[derive(Debug, Clone)]
pub struct Keyed {
    key: Digest,
    request: Digest,
    expires_at: Timestamp,
}

/// What a response says of how it is kept. One that says nothing is kept as it is.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// In the transaction that did what was asked for, now or at the first request.
    Already,
    /// As this text, since its body must not be kept.
    As(String),
}

impl Kept {
    pub(crate) fn mark(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

/// Runs the operation, or answers what it came to before.
pub(crate) async fn perform(
    host: &Host,
    operation: &Operation,
    (caller, speaks): (&Caller, Speaks),
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !operation.is_remembered() {
        return Ok(next.run(request).await);
    }
    let key = sent_key(request.headers(), speaks)?;
    let Some(key) = key else { return Ok(next.run(request).await) };
    let key = key_digest((caller, speaks), operation, key);
    let (asked, mut request) = request_digest(operation, request).await?;
    let _turn = host.turns.take(key).await;
    let at = host.now();
    let expires_at = at.plus(Duration::from_secs(RETENTION_SECONDS));
    let keyed = Keyed { key, request: asked, expires_at };
    if let Some(outcome) = host.app.engine.store().outcome(&key, at).await? {
        return keyed.replay(&outcome);
    }
    request.extensions_mut().insert(keyed.clone());
    keyed.keep(host, next.run(request).await).await
}

/// Runs an engine command whose outcome rides on its own commit.
///
/// `describe` says what was done; the answer may depend on nothing else.
pub(crate) async fn settle<D, F, Work>(
    keyed: Option<&Keyed>,
    describe: D,
    act: F,
) -> Result<Response, Problem>
where
    D: Fn(&Done) -> Answer + Clone + Send + Sync + 'static,
    F: FnOnce(Option<Remember>) -> Work,
    Work: Future<Output = Result<Done, EngineError>>,
{
    // A command that changes nothing, such as a second cancel, commits nothing that its outcome could ride on.
    let rides = Arc::new(AtomicBool::new(false));
    let remember = keyed.map(|keyed| keyed.remember(describe.clone(), Arc::clone(&rides)));
    match (act(remember).await, keyed) {
        (Ok(done), _) => {
            let response = describe(&done).into_response();
            let is_kept = rides.load(Ordering::Relaxed);
            Ok(if is_kept { Kept::Already.mark(response) } else { response })
        }
        (Err(EngineError::Store(StoreError::AlreadyDone(outcome))), Some(keyed)) => {
            keyed.replay(&outcome)
        }
        (Err(error), _) => Err(error.into()),
    }
}

impl Keyed {
    fn remember(
        &self,
        describe: impl Fn(&Done) -> Answer + Send + Sync + 'static,
        rides: Arc<AtomicBool>,
    ) -> Remember {
        let keyed = self.clone();
        Arc::new(move |done| {
            rides.store(true, Ordering::Relaxed);
            let answer = describe(done);
            keyed.outcome(answer.status, answer.body)
        })
    }

    fn outcome(&self, status: StatusCode, body: String) -> Outcome {
        let (key, request, expires_at) = (self.key, self.request, self.expires_at);
        Outcome { key, request, status: status.as_u16(), body, expires_at }
    }

    /// Another request under the same key learns nothing of the first.
    fn replay(&self, outcome: &Outcome) -> Result<Response, Problem> {
        if outcome.request != self.request {
            return Err(Problem::new(
                Code::IdempotencyKeyMismatch,
                "this idempotency key was used for another request",
            ));
        }
        let status =
            StatusCode::from_u16(outcome.status).map_err(|error| Problem::internal(&error))?;
        let mut response = Answer { status, body: outcome.body.clone() }.into_response();
        response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
        Ok(Kept::Already.mark(response))
    }

    /// Keeps what was answered, unless that is done already or a repetition should be asked anew.
    async fn keep(&self, host: &Host, mut response: Response) -> Result<Response, Problem> {
        let instead = match response.extensions_mut().remove::<Kept>() {
            _ if !is_final(&response) => return Ok(response),
            Some(Kept::Already) => return Ok(response),
            Some(Kept::As(text)) => Some(text),
            None => None,
        };
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.map_err(|error| Problem::internal(&error))?;
        let text = instead.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned());
        let outcome = self.outcome(parts.status, text);
        match host.app.engine.store().commit(Batch::of_outcome(outcome, host.now())).await {
            Ok(()) => {}
            Err(StoreError::AlreadyDone(outcome)) => return self.replay(&outcome),
            // What was asked for has been done; saying otherwise would be worse than forgetting the key.
            Err(error) => {
                tracing::warn!(%error, "the outcome of an idempotent request was not kept")
            }
        }
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }
}

/// Whether a repetition would get the same answer anyway. What may be mended or retried is asked again.
fn is_final(response: &Response) -> bool {
    let status = response.status();
    let is_lasting_refusal = matches!(
        status,
        StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::GONE
            | StatusCode::UNPROCESSABLE_ENTITY
    );
    status.is_success()
        || (is_lasting_refusal && !response.headers().contains_key(header::RETRY_AFTER))
}

fn sent_key(headers: &HeaderMap, Speaks(dialect): Speaks) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|_| values.next().is_none());
    match (key.map(str::trim), dialect) {
        (Some(key), Dialect::V1) if (1..=LONGEST_KEY).contains(&key.len()) => Ok(Some(key)),
        (Some(key), Dialect::V2) if is_second_key(key) => Ok(Some(key)),
        (_, Dialect::V1) => Err(Problem::invalid_at(
            "Idempotency-Key",
            "must be one header of 1 to 255 visible characters",
        )),
        (_, Dialect::V2) => Err(Problem::new(
            Code::IdempotencyKeyInvalid,
            "Idempotency-Key: must be one header of 22 to 128 characters of A-Z a-z 0-9 . _ ~ -",
        )),
    }
}

fn is_second_key(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    (22..=128).contains(&key.len()) && key.bytes().all(fits)
}

/// The tenant comes from the credential. Workspaces and test keys must not meet each other's outcomes either, and neither
/// do the majors: what is kept in the words of one does not answer the other.
fn key_digest((caller, speaks): (&Caller, Speaks), operation: &Operation, key: &str) -> Digest {
    let workspace = caller.scope.workspace.as_ref().map_or("", |workspace| workspace.as_str());
    let mode = match caller.scope.mode {
        KeyMode::Live => "live",
        KeyMode::Test => "test",
    };
    let fields = [caller.scope.tenant.as_str(), workspace, mode, operation.name, key];
    let mut fields = fields.map(str::as_bytes).to_vec();
    // Outcomes from before there was a second major are still found.
    if speaks.0 == Dialect::V2 {
        fields.push(b"v2");
    }
    digest(&fields)
}

/// What was asked for: the operation, its path, its body, its query and the headers that change its meaning.
///
/// Query and headers count only where they are sent, so that outcomes from before they counted are still found.
async fn request_digest(
    operation: &Operation,
    mut request: Request,
) -> Result<(Digest, Request), Problem> {
    let parameters = request.extract_parts::<RawPathParams>().await;
    let parameters = parameters.map_err(|_| Problem::invalid("the path cannot be read"))?;
    let (parts, body) = request.into_parts();
    let bytes =
        to_bytes(body, usize::MAX).await.map_err(|_| Problem::invalid("the body broke off"))?;
    let canonical = canonical(&bytes);
    let mut fields = vec![operation.name.as_bytes()];
    fields.extend(parameters.iter().map(|(_, value)| value.as_bytes()));
    fields.push(&canonical);
    if let Some(query) = parts.uri.query() {
        fields.extend([b"?", query.as_bytes()]);
    }
    for name in MEANINGFUL {
        let values = parts.headers.get_all(name).iter();
        fields.extend(values.flat_map(|value| [name.as_bytes(), value.as_bytes()]));
    }
    let digest = digest(&fields);
    Ok((digest, Request::from_parts(parts, Body::from(bytes))))
}

/// JSON with sorted keys and no spaces; what is no JSON stays as it is.
fn canonical(bytes: &Bytes) -> Vec<u8> {
    let sorted = serde_json::from_slice::<Value>(bytes).and_then(|mut value| {
        // Whether maps sort themselves depends on what else is linked.
        value.sort_all_objects();
        serde_json::to_vec(&value)
    });
    sorted.unwrap_or_else(|_| bytes.to_vec())
}

/// Each field with its length, so that no two lists of fields read the same.
fn digest(fields: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_and_spaces_is_no_difference() {
        let one = canonical(&Bytes::from_static(br#"{"b": [1, 2], "a": {"y": 1, "x": 2}}"#));
        let two = canonical(&Bytes::from_static(br#"{"a":{"x":2,"y":1},"b":[1,2]}"#));
        assert_eq!(one, two);
        assert_ne!(one, canonical(&Bytes::from_static(br#"{"a":{"x":2,"y":1},"b":[2,1]}"#)));
    }

    #[test]
    fn neighbouring_fields_do_not_run_together() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }
}
