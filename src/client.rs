//! A host seen from the command line: one method per request, and every way it can go wrong as an exit code with a hint.

mod agents;
mod audit;
mod console;
mod doors;
pub(crate) mod ended;
mod hosts;
mod inbox;
mod kinds;
mod org_chart;
mod packs;
mod patience;
mod roster;
mod runs;
mod secrets;
mod triggers;
mod upload;
mod workflows;

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use callboard_protocol::ErrorEnvelope;

use crate::args::{ApiKey, Connection};
use crate::exit::{CommandError, Exit};

pub(crate) use kinds::{Kind, query};
pub(crate) use secrets::Bounds;

/// What the protocol leaves to the host lives under this prefix.
const EXTENSION: &str = "/v1/host/callboard";
/// A host that does not take a connection for this long is not there; people wait for the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the longest answer of a healthy host, a poll of thirty seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The host sends a comment at least every thirty seconds; a stream that is silent for three times that is dead.
const STREAM_SILENCE: Duration = Duration::from_secs(90);

/// One host and the key to it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<ApiKey>,
    /// Whether the host is on this machine.
    is_near: bool,
}

impl Client {
    pub(crate) fn new(connection: &Connection) -> Result<Self, CommandError> {
        let base = connection.url();
        let url = Url::parse(&base).map_err(|error| wrong_url(&base, &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(wrong_url(&base, "it must begin with http:// or https://"));
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(STREAM_SILENCE)
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")));
        let is_near = is_loopback(&url);
        if is_near {
            // A proxy for the outside world must not get requests to this machine.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| CommandError::failed(format!("no HTTP client: {error}")))?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { http, base, key: connection.api_key(), is_near })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The discovery document with the host's own idea of the time.
    pub(crate) async fn discover(&self) -> Result<(Value, Option<String>), CommandError> {
        let response = self.send(self.request(Method::GET, "/.well-known/openwop")).await?;
        let date = response
            .headers()
            .get(reqwest::header::DATE)
            .and_then(|date| date.to_str().ok())
            .map(str::to_owned);
        Ok((self.read(response).await?, date))
    }

    /// Whether the host can reach its database.
    pub(crate) async fn ready(&self) -> Result<(), CommandError> {
        self.send(self.request(Method::GET, "/readyz")).await.map(drop)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.authorized(self.http.request(method, format!("{}{path}", self.base)))
            .timeout(REQUEST_TIMEOUT)
    }

    /// The same with a query, which may be empty.
    fn request_with(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<RequestBuilder, CommandError> {
        let mut url = self.url(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.authorized(self.http.request(method, url)).timeout(REQUEST_TIMEOUT))
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {}", key.expose())),
            None => request,
        }
    }

    fn url(&self, path: &str) -> Result<Url, CommandError> {
        let text = format!("{}{path}", self.base);
        Url::parse(&text).map_err(|error| wrong_url(&text, &error.to_string()))
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CommandError> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// What a host answered, as we understand it.
    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, CommandError> {
        let body = self.text(response).await?;
        serde_json::from_str(&body).map_err(|error| self.strange(&error))
    }

    /// The same for what is shown as the host wrote it, too.
    fn understand<T: DeserializeOwned>(&self, value: &Value) -> Result<T, CommandError> {
        T::deserialize(value).map_err(|error| self.strange(&error))
    }

    async fn text(&self, response: Response) -> Result<String, CommandError> {
        response.text().await.map_err(|error| self.unreachable(&error))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CommandError> {
        let size = upload::size(&request);
        let sent = ended::send(&self.http, request, async |request| match self.is_near {
            true => patience::send(request).await,
            false => request.send().await,
        });
        let sent = sent.await;
        match sent {
            Err(error) if upload::is_cut_off(&error, size) => Err(self.cut_off(&error, size).await),
            sent => self.answered(sent).await,
        }
    }

    async fn answered(
        &self,
        sent: Result<Response, reqwest::Error>,
    ) -> Result<Response, CommandError> {
        let response = sent.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.problem(response).await)
        }
    }

    /// Reads the error envelope; whatever answers without one is not a host.
    async fn problem(&self, response: Response) -> CommandError {
        let status = response.status();
        let wait = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|wait| wait.to_str().ok())
            .map(str::to_owned);
        let body = response.text().await.unwrap_or_default();
        match serde_json::from_str::<ErrorEnvelope>(&body) {
            Ok(envelope) => problem(status, &envelope, wait.as_deref(), self.has_key()),
            Err(_) => self.strange(&format_args!("status {}", status.as_u16())),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> CommandError {
        let base = &self.base;
        let what = if error.is_connect() {
            format!("no host answers at {base}: {}", innermost(error))
        } else if error.is_timeout() {
            format!("the host at {base} does not answer in time")
        } else if error.is_builder() {
            format!("the request cannot be sent: {}", innermost(error))
        } else {
            format!("the connection to {base} broke: {}", innermost(error))
        };
        let missing =
            "start one with `callboard serve`, or name another with --url or CALLBOARD_URL";
        // The host received the request, whatever its outcome.
        let unwell =
            "try again; `callboard doctor` checks the host, and the host's log has the cause";
        let hint = if error.is_connect() || error.is_builder() { missing } else { unwell };
        CommandError::new(Exit::Unreachable, what).hint(hint)
    }

    fn strange(&self, why: &dyn std::fmt::Display) -> CommandError {
        CommandError::new(
            Exit::Unreachable,
            format!("{} does not answer like an OpenWOP host: {why}", self.base),
        )
        .hint("check --url or CALLBOARD_URL")
    }
}

fn problem(
    status: StatusCode,
    envelope: &ErrorEnvelope,
    wait: Option<&str>,
    has_key: bool,
) -> CommandError {
    let detail = |name: &str| {
        envelope.details.as_ref().and_then(|details| details.get(name)).and_then(Value::as_str)
    };
    let exit = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Refused,
        StatusCode::NOT_FOUND => Exit::NotFound,
        StatusCode::BAD_REQUEST => Exit::Usage,
        _ => Exit::Failed,
    };
    let what = format!("{} ({})", envelope.message, envelope.error);
    let error =
        CommandError { code: Some(envelope.error.clone()), ..CommandError::new(exit, what) };
    match (status, detail("scopeRequired"), detail("correlationId"), wait) {
        (StatusCode::UNAUTHORIZED, ..) if has_key => {
            error.hint("check --api-key or CALLBOARD_API_KEY")
        }
        (StatusCode::UNAUTHORIZED, ..) => {
            error.hint("set CALLBOARD_API_KEY or pass --api-key; the first start of `callboard serve` prints a key")
        }
        (_, Some(scope), ..) => {
            error.hint(format!("an admin can create one that has it: `callboard keys create --name NAME --scope {scope}`"))
        }
        (StatusCode::PAYLOAD_TOO_LARGE, ..) if envelope.error == "payload_too_large" => {
            error.hint("send less, or raise limits.max_body_bytes in the host's callboard.toml")
        }
        (_, _, Some(id), _) => error.hint(format!("the host's log says more under {id}")),
        (.., Some(seconds)) => error.hint(format!("try again in {seconds} s")),
        _ => CommandError { hint: detail("hint").map(str::to_owned), ..error },
    }
}

fn or_not_found(error: CommandError, what: &str, hint: &str) -> CommandError {
    if error.exit == Exit::NotFound {
        CommandError::new(Exit::NotFound, what).hint(hint)
    } else {
        error
    }
}

fn wrong_url(url: &str, why: &str) -> CommandError {
    CommandError::usage(format!("{url:?} is not a host's address: {why}"))
        .hint("write it as http://127.0.0.1:8787, in --url or CALLBOARD_URL")
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cause that says the most: "connection refused" rather than "error sending request".
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A request that is carried out once, however often it is sent.
fn once(request: RequestBuilder, key: Option<&str>) -> RequestBuilder {
    match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    }
}

/// Optional fields that were not given stay away, instead of saying `null` to a closed body.
fn without_nulls<T: Serialize>(body: &T) -> Value {
    let mut value = serde_json::to_value(body).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// An id as one segment of a path. The colon of a verb is added after it, unescaped.
fn segment(id: &str) -> String {
    use std::fmt::Write;
    id.bytes().fold(String::with_capacity(id.len()), |mut path, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_become_a_verb_or_a_path() {
        assert_eq!(segment("run_0:pause/../x"), "run_0%3Apause%2F..%2Fx");
    }

    #[test]
    fn each_status_has_its_exit_code() {
        let envelope =
            ErrorEnvelope { error: "code".into(), message: "what".into(), details: None };
        for (status, exit) in [
            (StatusCode::BAD_REQUEST, Exit::Usage),
            (StatusCode::UNAUTHORIZED, Exit::Refused),
            (StatusCode::FORBIDDEN, Exit::Refused),
            (StatusCode::NOT_FOUND, Exit::NotFound),
            (StatusCode::CONFLICT, Exit::Failed),
        ] {
            assert_eq!(problem(status, &envelope, None, true).exit, exit, "{status}");
        }
        let busy = problem(StatusCode::SERVICE_UNAVAILABLE, &envelope, Some("2"), true);
        assert_eq!((busy.exit, busy.hint.as_deref()), (Exit::Failed, Some("try again in 2 s")));
    }
}
