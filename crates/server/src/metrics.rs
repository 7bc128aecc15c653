//! What the operator's graphs are made of, as Prometheus text.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

const REQUESTS: &str = "callboard_http_requests_total";
const LATENCY: &str = "callboard_http_request_duration_seconds";
const INFLIGHT: &str = "callboard_http_inflight";
const BODY_BYTES: &str = "callboard_http_body_bytes";
const ANSWER_BYTES: &str = "callboard_http_answer_bytes";
const CONNECTIONS: &str = "callboard_http_connections";
const STREAMS: &str = "callboard_sse_streams_open";
const CLAIM_CONFLICTS: &str = "openwop_run_claim_conflicts_total";

/// From one commit on a fast disk to the longest poll.
const LATENCY_BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 60.0];

/// The buckets that the protocol recommends, in seconds, and those of models, which take from a moment to minutes.
const BUCKETS: [(&str, &[f64]); 5] = [
    (
        "openwop_run_duration_seconds",
        &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0],
    ),
    ("openwop_run_backlog_seconds", &[0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0]),
    (
        "openwop_node_duration_seconds",
        &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0],
    ),
    (
        "openwop_interrupt_duration_seconds",
        &[60.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0, 604_800.0],
    ),
    (
        "callboard_provider_request_duration_seconds",
        &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0],
    ),
];

/// Samples rest in memory until they are folded into buckets; at this pace a busy host keeps a few megabytes of them.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The process-wide recorder's readable side.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// The recorder could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be recorded: {0}")]
pub struct MetricsError(#[from] BuildError);

impl Metrics {
    /// Becomes the recorder of this process. There can be one.
    pub fn install() -> Result<Self, MetricsError> {
        let mut builder = PrometheusBuilder::new().set_buckets(&LATENCY_BUCKETS)?;
        for (name, buckets) in BUCKETS {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
        }
        let handle = builder.install_recorder()?;
        describe_runs();
        metrics::describe_counter!(REQUESTS, "HTTP requests by operation and status");
        metrics::describe_histogram!(LATENCY, "Seconds until an answer began, by operation");
        metrics::describe_gauge!(INFLIGHT, "Requests and streams in flight");
        metrics::describe_gauge!(BODY_BYTES, "Bytes of bodies that arrive or are worked with");
        metrics::describe_gauge!(ANSWER_BYTES, "Bytes of large answers that wait to be read");
        metrics::describe_gauge!(CONNECTIONS, "Open connections");
        metrics::describe_gauge!(STREAMS, "Open event streams");
        metrics::describe_counter!(CLAIM_CONFLICTS, "Runs refused because their scope was busy");
        metrics::gauge!(STREAMS).set(0.0);
        Ok(Self(handle))
    }

    pub(crate) fn render(&self) -> String {
        self.0.render()
    }

    /// Folds samples until stopped. Without it their memory grows while no one scrapes.
    pub async fn keep_up(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(UPKEEP_EVERY)).await.is_some() {
            self.0.run_upkeep();
        }
    }
}

/// What the engine counts, under the protocol's names.
fn describe_runs() {
    metrics::describe_counter!("openwop_run_created_total", "Runs accepted");
    metrics::describe_counter!("openwop_run_completed_total", "Runs ended, by status");
    metrics::describe_histogram!("openwop_run_duration_seconds", "From acceptance to end");
    metrics::describe_histogram!("openwop_run_backlog_seconds", "From acceptance to start");
    metrics::describe_gauge!("openwop_run_active", "Runs accepted here that have not ended");
    metrics::describe_counter!("openwop_node_completed_total", "Nodes ended, by type and status");
    metrics::describe_histogram!("openwop_node_duration_seconds", "One attempt at a node");
    metrics::describe_counter!("openwop_node_attempts_total", "Attempts after the first");
    metrics::describe_counter!("openwop_cap_exceeded_total", "Limits broken, by kind");
    metrics::describe_counter!("openwop_interrupt_requested_total", "Questions asked, by kind");
    metrics::describe_histogram!("openwop_interrupt_duration_seconds", "From question to answer");
}

/// Counts the answers of one operation. Each of its series is looked up by name once.
#[derive(Debug)]
pub(crate) struct Answers {
    /// A route of ours, never a client's path.
    operation: &'static str,
    by_status: Mutex<BTreeMap<u16, (Counter, Histogram)>>,
}

impl Answers {
    pub(crate) fn of(operation: &'static str) -> Self {
        Self { operation, by_status: Mutex::default() }
    }

    pub(crate) fn count(&self, status: u16, latency: Duration) {
        // A panic elsewhere cannot leave this map half-changed.
        let mut by_status = self.by_status.lock().unwrap_or_else(PoisonError::into_inner);
        let (answers, latencies) = by_status.entry(status).or_insert_with(|| {
            let labels = [("operation", self.operation.to_owned()), ("status", status.to_string())];
            let latencies = metrics::histogram!(LATENCY, "operation" => self.operation);
            (metrics::counter!(REQUESTS, &labels), latencies)
        });
        answers.increment(1);
        latencies.record(latency.as_secs_f64());
    }
}

pub(crate) fn scope_was_busy(tenant: &str) {
    metrics::counter!(CLAIM_CONFLICTS, "transport" => "rest", "tenant_id" => tenant.to_owned())
        .increment(1);
}

pub(crate) fn inflight() -> Gauge {
    metrics::gauge!(INFLIGHT)
}

pub(crate) fn body_bytes() -> Gauge {
    metrics::gauge!(BODY_BYTES)
}

pub(crate) fn answer_bytes() -> Gauge {
    metrics::gauge!(ANSWER_BYTES)
}

pub(crate) fn connections() -> Gauge {
    metrics::gauge!(CONNECTIONS)
}

/// Counts one open stream for as long as it lives.
#[derive(Debug)]
pub(crate) struct OpenStream(());

impl OpenStream {
    pub(crate) fn new() -> Self {
        metrics::gauge!(STREAMS).increment(1.0);
        Self(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!(STREAMS).decrement(1.0);
    }
}
