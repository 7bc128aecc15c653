//! Sends the spans of ended runs to an OpenTelemetry collector, as well as it can.
//!
//! A run never waits for this: whatever cannot be sent is dropped with a line in the log.

mod content;
mod json;
mod proto;
mod settings;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use callboard_core::{Content, Span, SpanCode, SpanKind};
use callboard_engine::{Ended, Engine, EngineError, UNTRACED};
use callboard_protocol::{Tenant, Timestamp};

pub use settings::{OtlpError, OtlpProtocol, OtlpSettings};

/// Runs that are read together.
const BATCH: usize = 64;
/// Spans that travel in one request: collectors refuse bodies of a few megabytes.
const SPANS: usize = 512;
/// Spans that arrived at the collector.
const SENT: &str = "callboard_trace_spans_sent_total";
/// What the last request gets when the host stops.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// Reads what ended and sends it on.
#[derive(Debug)]
pub struct Exporter {
    http: Client,
    endpoint: Url,
    protocol: OtlpProtocol,
    resource: Vec<(String, String)>,
    is_compressed: bool,
    traced: Traced,
    /// Whether the last request went wrong: a collector that is away is reported once, not per run.
    is_failing: bool,
}

/// Whose runs are sent, and with how much of what was said.
#[derive(Debug, Clone, Default)]
pub struct Traced {
    /// None for everybody's.
    pub tenants: Option<BTreeSet<Tenant>>,
    pub content: Content,
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
    pub fn new(settings: OtlpSettings, traced: Traced) -> Result<Self, OtlpError> {
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
        metrics::describe_counter!(UNTRACED, "Runs whose spans were not sent, by reason");
        metrics::describe_counter!(SENT, "Spans that arrived at the collector");
        metrics::counter!(SENT).increment(0);
        for reason in ["queue-full", "collector", "unreadable"] {
            metrics::counter!(UNTRACED, "reason" => reason).increment(0);
        }
        let OtlpSettings { protocol, resource, is_compressed, .. } = settings;
        let is_failing = false;
        Ok(Self { http, endpoint, protocol, resource, is_compressed, traced, is_failing })
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
        for ended in batch.iter().filter(|ended| self.wants(ended)) {
            match self.read(engine, ended).await {
                Ok(found) => spans.extend(found),
                Err(error) => {
                    metrics::counter!(UNTRACED, "reason" => "unreadable").increment(1);
                    tracing::warn!(%error, "spans of a run not read");
                }
            }
        }
        let mut lost = BTreeSet::new();
        for part in spans.chunks(SPANS) {
            let sent = self.send(part).await;
            match &sent {
                Ok(()) => metrics::counter!(SENT).increment(part.len() as u64),
                Err(_) => lost.extend(
                    part.iter().filter_map(|span| span.attributes.get("openwop.run_id")?.as_str()),
                ),
            }
            self.is_failing = tell(self.is_failing, sent, part.len());
        }
        metrics::counter!(UNTRACED, "reason" => "collector").increment(lost.len() as u64);
    }

    fn wants(&self, ended: &Ended) -> bool {
        let tenants = self.traced.tenants.as_ref();
        ended.is_sampled && tenants.is_none_or(|tenants| tenants.contains(&ended.scope.tenant))
    }

    async fn read(&self, engine: &Engine, ended: &Ended) -> Result<Vec<Span>, EngineError> {
        let content = self.traced.content;
        let spans = engine.spans_with(&ended.scope, &ended.run, content).await?;
        let mut spans = spans.unwrap_or_default();
        if content == Content::Shown {
            content::add(engine, &ended.scope, &ended.run, &mut spans).await?;
        }
        Ok(spans)
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
        let mut request = self.http.post(self.endpoint.clone()).header(CONTENT_TYPE, kind);
        request = match self.is_compressed.then(|| gzip(&body)).flatten() {
            Some(small) => request.header(CONTENT_ENCODING, "gzip").body(small),
            None => request.body(body),
        };
        let response =
            request.send().await.map_err(|error| ExportError::Unsent(error.without_url()))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(ExportError::Refused(response.status())),
        }
    }
}

/// Says that the collector went away or came back, once each; answers whether it is away.
fn tell(was_failing: bool, sent: Result<(), ExportError>, spans: usize) -> bool {
    match &sent {
        Ok(()) if was_failing => tracing::info!("traces are sent again"),
        Ok(()) => {}
        Err(error) if was_failing => tracing::debug!(%error, spans, "traces dropped"),
        Err(error) => {
            tracing::warn!(%error, spans, "traces dropped; reported again once they arrive");
        }
    }
    sent.is_err()
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
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

/// The numbers that OTLP gives to where a span happens.
fn kind_number(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    }
}

/// What produced the spans, by OTLP's name for it.
const SCOPE: (&str, &str) = ("callboard", env!("CARGO_PKG_VERSION"));
