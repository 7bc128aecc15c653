//! Sends the spans of ended runs to an OpenTelemetry collector, as well as it can.
//!
//! A run never waits for this: whatever cannot be sent is dropped with a line in the log.

mod json;
mod proto;
mod settings;

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use callboard_core::{Span, SpanCode};
use callboard_engine::{Ended, Engine};
use callboard_protocol::Timestamp;

pub use settings::{OtlpError, OtlpProtocol, OtlpSettings};

/// Runs that travel in one request.
const BATCH: usize = 64;
/// What the last request gets when the host stops.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// Reads what ended and sends it on.
#[derive(Debug)]
pub struct Exporter {
    http: Client,
    endpoint: Url,
    protocol: OtlpProtocol,
    resource: Vec<(String, String)>,
    /// Whether the last request went wrong: a collector that is away is reported once, not per run.
    is_failing: bool,
}

/// Why spans did not arrive. Neither variant says where they went: an address may hold a credential.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("{0}")]
    Unsent(#[source] reqwest::Error),
    #[error("the collector answered {0}")]
    Refused(reqwest::StatusCode),
}

impl Exporter {
    pub fn new(settings: OtlpSettings) -> Result<Self, OtlpError> {
        let endpoint = settings.endpoint.parse::<Url>().map_err(|_| OtlpError::Endpoint)?;
        if !matches!(endpoint.scheme(), "http" | "https") {
            return Err(OtlpError::Endpoint);
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let name = name.parse::<HeaderName>().map_err(|_| OtlpError::Headers)?;
            let mut value = value.parse::<HeaderValue>().map_err(|_| OtlpError::Headers)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut builder = Client::builder()
            .timeout(settings.timeout)
            // A collector that sends its clients elsewhere would get our headers sent there too.
            .redirect(Policy::none())
            .default_headers(headers);
        if is_loopback(&endpoint) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| OtlpError::Client(error.to_string()))?;
        let (protocol, resource) = (settings.protocol, settings.resource);
        Ok(Self { http, endpoint, protocol, resource, is_failing: false })
    }

    /// Sends the spans of ended runs until asked to stop, and then what is left.
    pub async fn run(
        mut self,
        engine: Engine,
        mut ended: mpsc::Receiver<Ended>,
        stop: CancellationToken,
    ) {
        let mut batch = Vec::new();
        // A batch that is lost when the stop comes is still in the channel.
        while stop.run_until_cancelled(ended.recv_many(&mut batch, BATCH)).await.unwrap_or(0) > 0 {
            self.export(&engine, std::mem::take(&mut batch)).await;
        }
        ended.close();
        let rest = async {
            while ended.recv_many(&mut batch, BATCH).await > 0 {
                self.export(&engine, std::mem::take(&mut batch)).await;
            }
        };
        if tokio::time::timeout(LAST_REQUEST, rest).await.is_err() {
            tracing::warn!("stopped before the last traces were sent");
        }
    }

    async fn export(&mut self, engine: &Engine, batch: Vec<Ended>) {
        let mut spans = Vec::new();
        for ended in batch.iter().filter(|ended| ended.is_sampled) {
            match engine.spans(&ended.scope, &ended.run).await {
                Ok(found) => spans.extend(found.unwrap_or_default()),
                Err(error) => tracing::warn!(%error, "spans of a run not read"),
            }
        }
        if spans.is_empty() {
            return;
        }
        match self.send(&spans).await {
            Ok(()) if self.is_failing => {
                self.is_failing = false;
                tracing::info!("traces are sent again");
            }
            Ok(()) => {}
            Err(error) if self.is_failing => {
                tracing::debug!(%error, runs = batch.len(), "traces dropped");
            }
            Err(error) => {
                self.is_failing = true;
                tracing::warn!(%error, runs = batch.len(), "traces dropped; reported again once they arrive");
            }
        }
    }

    async fn send(&self, spans: &[Span]) -> Result<(), ExportError> {
        let (kind, body) = match self.protocol {
            OtlpProtocol::Json => {
                ("application/json", json::document(&self.resource, spans).to_string().into_bytes())
            }
            OtlpProtocol::Protobuf => {
                ("application/x-protobuf", proto::message(&self.resource, spans))
            }
        };
        let request = self.http.post(self.endpoint.clone()).header(CONTENT_TYPE, kind).body(body);
        let response =
            request.send().await.map_err(|error| ExportError::Unsent(error.without_url()))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(ExportError::Refused(response.status())),
        }
    }
}

/// A proxy for the outside world must not get what is meant for this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(0).saturating_mul(1_000_000)
}

/// The numbers that OTLP gives to how a span ended.
fn status_number(code: SpanCode) -> u64 {
    match code {
        SpanCode::Unset => 0,
        SpanCode::Ok => 1,
        SpanCode::Error => 2,
    }
}

/// Everything here happens inside the host.
const INTERNAL: u64 = 1;
/// What produced the spans, by OTLP's name for it.
const SCOPE: (&str, &str) = ("callboard", env!("CARGO_PKG_VERSION"));
