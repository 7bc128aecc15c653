//! A host seen from the command line: one method per request, and every way it can go wrong as an exit code with a hint.

mod deployments;
mod heartbeats;
mod memory;
mod org_chart;
mod packs;
mod roster;
mod schedules;
mod secrets;
mod triggers;

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use callboard_core::RunDiff;
use callboard_protocol::{
    CancelRun, CreateRun, CreatedRun, ErrorEnvelope, ForkRun, ForkedRun, PauseRun, ResumeRun,
    RunAncestry, RunEvent, RunSnapshot,
};

use crate::args::{ApiKey, Connection};
use crate::exit::{CommandError, Exit};
use crate::question::Question;

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
        if is_loopback(&url) {
            // A proxy for the outside world must not get requests to this machine.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| CommandError::failed(format!("no HTTP client: {error}")))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), key: connection.api_key() })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// The definition exactly as it was registered.
    pub(crate) async fn workflow(&self, id: &str) -> Result<String, CommandError> {
        let response =
            self.send(self.request(Method::GET, &format!("/v1/workflows/{}", segment(id)))).await;
        let response = response.map_err(|error| {
            or_not_found(
                error,
                &format!("no workflow {id}"),
                "`callboard workflows list` shows those that this key can see",
            )
        })?;
        self.text(response).await
    }

    pub(crate) async fn workflows(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/workflows"))).await
    }

    /// Registers or replaces a definition; answers whether it was new.
    pub(crate) async fn put_workflow(
        &self,
        id: &str,
        definition: Vec<u8>,
    ) -> Result<bool, CommandError> {
        let request = self.request(Method::PUT, &format!("{EXTENSION}/workflows/{}", segment(id)));
        let request =
            request.header(reqwest::header::CONTENT_TYPE, "application/json").body(definition);
        Ok(self.send(request).await?.status() == StatusCode::CREATED)
    }

    pub(crate) async fn agents(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, "/v1/agents")).await
    }

    pub(crate) async fn agent(&self, id: &str) -> Result<Value, CommandError> {
        let found = self.json(self.request(Method::GET, &format!("/v1/agents/{}", segment(id))));
        found.await.map_err(|error| {
            or_not_found(
                error,
                &format!("no agent {id}"),
                "`callboard agents list` shows those that this key can see",
            )
        })
    }

    pub(crate) async fn create_run(
        &self,
        body: &CreateRun,
        key: Option<&str>,
    ) -> Result<CreatedRun, CommandError> {
        let mut request = self.request(Method::POST, "/v1/runs").json(&without_nulls(body));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        self.json(request).await
    }

    pub(crate) async fn runs(&self, query: &[(&str, String)]) -> Result<Value, CommandError> {
        let mut request = self.request(Method::GET, &format!("{EXTENSION}/runs"));
        if !query.is_empty() {
            let mut url = self.url(&format!("{EXTENSION}/runs"))?;
            url.query_pairs_mut().extend_pairs(query);
            request = self.authorized(self.http.get(url)).timeout(REQUEST_TIMEOUT);
        }
        self.json(request).await
    }

    /// The snapshot as the host wrote it, and as we understand it.
    pub(crate) async fn run(&self, id: &str) -> Result<(Value, RunSnapshot), CommandError> {
        let value: Value = self.run_request(Method::GET, id, "", None::<&()>).await?;
        let snapshot = serde_json::from_value(value.clone())
            .map_err(|error| self.strange(&error.to_string()))?;
        Ok((value, snapshot))
    }

    /// Every event so far. Waits at most a second for the first one.
    pub(crate) async fn events(&self, id: &str) -> Result<Vec<RunEvent>, CommandError> {
        #[derive(serde::Deserialize)]
        struct Polled {
            events: Vec<RunEvent>,
        }
        let polled: Polled =
            self.run_request(Method::GET, id, "/events/poll?timeout=1", None::<&()>).await?;
        Ok(polled.events)
    }

    /// How two runs differ, as the host wrote it and as we understand it.
    pub(crate) async fn diff(&self, a: &str, b: &str) -> Result<(Value, RunDiff), CommandError> {
        let against = format!(":diff?against={}", segment(b));
        let value: Value = self
            .run_request(Method::GET, a, &against, None::<&()>)
            .await
            .map_err(|error| no_run(error, &format!("{a} or {b}")))?;
        let diff = serde_json::from_value(value.clone())
            .map_err(|error| self.strange(&error.to_string()))?;
        Ok((value, diff))
    }

    pub(crate) async fn bundle(&self, id: &str) -> Result<Value, CommandError> {
        self.run_request(Method::GET, id, "/debug-bundle", None::<&()>).await
    }

    /// Opens the live stream behind the given sequence.
    pub(crate) async fn stream(
        &self,
        id: &str,
        mode: &str,
        after: Option<u64>,
    ) -> Result<Response, CommandError> {
        let path = format!("/v1/runs/{}/events?streamMode={mode}", segment(id));
        let mut request =
            self.authorized(self.http.get(self.url(&path)?)).header("Accept", "text/event-stream");
        if let Some(sequence) = after {
            request = request.header("Last-Event-ID", sequence.to_string());
        }
        self.send(request).await.map_err(|error| no_run(error, id))
    }

    pub(crate) async fn cancel(
        &self,
        id: &str,
        reason: Option<String>,
    ) -> Result<Value, CommandError> {
        self.run_request(Method::POST, id, "/cancel", Some(&without_nulls(&CancelRun { reason })))
            .await
    }

    pub(crate) async fn pause(&self, id: &str, body: &PauseRun) -> Result<Value, CommandError> {
        self.run_request(Method::POST, id, ":pause", Some(&without_nulls(body))).await
    }

    pub(crate) async fn resume(
        &self,
        id: &str,
        reason: Option<String>,
    ) -> Result<Value, CommandError> {
        self.run_request(Method::POST, id, ":resume", Some(&without_nulls(&ResumeRun { reason })))
            .await
    }

    pub(crate) async fn fork(&self, id: &str, body: &ForkRun) -> Result<ForkedRun, CommandError> {
        self.run_request(Method::POST, id, ":fork", Some(&without_nulls(body))).await
    }

    pub(crate) async fn ancestry(&self, id: &str) -> Result<RunAncestry, CommandError> {
        self.run_request::<(), _>(Method::GET, id, "/ancestry", None).await
    }

    /// A page of what runs ask.
    pub(crate) async fn inbox(&self, query: &[(&str, String)]) -> Result<Value, CommandError> {
        let mut url = self.url(&format!("{EXTENSION}/inbox"))?;
        url.query_pairs_mut().extend_pairs(query);
        self.json(self.authorized(self.http.get(url)).timeout(REQUEST_TIMEOUT)).await
    }

    /// What one run asks; nothing of a run that this key cannot see.
    pub(crate) async fn questions(&self, run: &str) -> Result<Vec<Question>, CommandError> {
        #[derive(serde::Deserialize)]
        struct Inbox {
            interrupts: Vec<Question>,
        }
        let found = self.inbox(&[("runId", run.to_owned())]).await?;
        let inbox: Inbox =
            serde_json::from_value(found).map_err(|error| self.strange(&error.to_string()))?;
        Ok(inbox.interrupts)
    }

    pub(crate) async fn answer(
        &self,
        run: &str,
        node: &str,
        value: &Value,
    ) -> Result<Value, CommandError> {
        let path = format!("/v1/runs/{}/interrupts/{}", segment(run), segment(node));
        let body = serde_json::json!({ "resumeValue": value });
        self.json(self.request(Method::POST, &path).json(&body)).await
    }

    /// Writes into a channel of a run.
    pub(crate) async fn write_channel(
        &self,
        run: &str,
        channel: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/runs/{}/channels/{}", segment(run), segment(channel));
        self.json(self.request(Method::POST, &path).json(body)).await
    }

    /// Lets the host sign links to interrupts with a new secret.
    pub(crate) async fn rotate_links(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/interrupt-links/rotate"))).await
    }

    pub(crate) async fn keys(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/keys"))).await
    }

    pub(crate) async fn create_key(&self, body: &Value) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/keys")).json(body)).await
    }

    pub(crate) async fn revoke_key(&self, id: &str) -> Result<(), CommandError> {
        let request = self.request(Method::DELETE, &format!("{EXTENSION}/keys/{}", segment(id)));
        self.send(request).await.map(drop).map_err(|error| no_key(error, id))
    }

    /// Gives the holder of a key a new one in its place.
    pub(crate) async fn rotate_key(&self, id: &str) -> Result<Value, CommandError> {
        let request =
            self.request(Method::POST, &format!("{EXTENSION}/keys/{}/rotate", segment(id)));
        self.json(request).await.map_err(|error| no_key(error, id))
    }

    /// The discovery document with the host's own idea of the time.
    pub(crate) async fn discover(&self) -> Result<(Value, Option<String>), CommandError> {
        let response = self.send(self.request(Method::GET, "/.well-known/openwop")).await?;
        let date = response
            .headers()
            .get(reqwest::header::DATE)
            .and_then(|date| date.to_str().ok())
            .map(str::to_owned);
        let body = self.text(response).await?;
        let document =
            serde_json::from_str(&body).map_err(|error| self.strange(&error.to_string()))?;
        Ok((document, date))
    }

    /// Whether the host can reach its database.
    pub(crate) async fn ready(&self) -> Result<(), CommandError> {
        self.send(self.request(Method::GET, "/readyz")).await.map(drop)
    }

    async fn run_request<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        id: &str,
        suffix: &str,
        body: Option<&B>,
    ) -> Result<T, CommandError> {
        let mut request = self.request(method, &format!("/v1/runs/{}{suffix}", segment(id)));
        if let Some(body) = body {
            request = request.json(body);
        }
        self.json(request).await.map_err(|error| no_run(error, id))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.authorized(self.http.request(method, format!("{}{path}", self.base)))
            .timeout(REQUEST_TIMEOUT)
    }

    fn get_url(&self, url: Url) -> RequestBuilder {
        self.authorized(self.http.get(url)).timeout(REQUEST_TIMEOUT)
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
        let body = self.text(response).await?;
        serde_json::from_str(&body).map_err(|error| self.strange(&error.to_string()))
    }

    async fn text(&self, response: Response) -> Result<String, CommandError> {
        response.text().await.map_err(|error| self.unreachable(&error))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CommandError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
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
            Err(_) => self.strange(&format!("status {}", status.as_u16())),
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
        CommandError::new(Exit::Unreachable, what)
            .hint("start one with `callboard serve`, or name another with --url or CALLBOARD_URL")
    }

    fn strange(&self, why: &str) -> CommandError {
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
    let error = CommandError::new(exit, format!("{} ({})", envelope.message, envelope.error));
    match (status, detail("scopeRequired"), detail("correlationId"), wait) {
        (StatusCode::UNAUTHORIZED, ..) if has_key => {
            error.hint("check --api-key or CALLBOARD_API_KEY")
        }
        (StatusCode::UNAUTHORIZED, ..) => {
            error.hint("set CALLBOARD_API_KEY or pass --api-key; the first start of `callboard serve` prints a key")
        }
        (_, Some(scope), ..) => {
            error.hint(format!("an admin makes one that has it: `callboard keys create --name NAME --scope {scope}`"))
        }
        (_, _, Some(id), _) => error.hint(format!("the host's log says more under {id}")),
        (.., Some(seconds)) => error.hint(format!("try again in {seconds} s")),
        _ => error,
    }
}

fn no_run(error: CommandError, id: &str) -> CommandError {
    or_not_found(
        error,
        &format!("no run {id}"),
        "`callboard runs list` shows those that this key can see",
    )
}

fn no_key(error: CommandError, id: &str) -> CommandError {
    or_not_found(
        error,
        &format!("no key {id}"),
        "`callboard keys list` shows the keys of this tenant",
    )
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

/// Optional fields that were not given stay away, instead of saying `null` to a closed body.
fn without_nulls<T: Serialize>(body: &T) -> Value {
    let mut value = serde_json::to_value(body).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// An id as one segment of a path. The colon of a verb is added behind it, unescaped.
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
