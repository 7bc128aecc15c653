//! What operators see of requests: one line each, counters by operation, and never a key.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use callboard_server::Metrics;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use crate::given::{Fault, LIVE, Setup, TestHost};

/// Keeps what is logged.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no poison").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// What the process logs from now on. Installed once, for whichever test asks first: a logger of one thread
    /// misses lines that another thread met before.
    pub(crate) fn of_the_process() -> Self {
        static LINES: OnceLock<Lines> = OnceLock::new();
        let lines = LINES.get_or_init(|| {
            let lines = Self::default();
            let logger = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
            logger.with_thread_ids(true).with_writer(lines.clone()).init();
            lines
        });
        lines.clone()
    }

    /// The fields of what this thread's callers did.
    pub(crate) fn audited(&self) -> Vec<Value> {
        let audited = self.own().into_iter().filter(|line| line["target"] == "audit");
        audited.map(|line| line["fields"].clone()).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no poison")).into_owned()
    }

    /// What this thread logged. A test has a thread of its own; the log belongs to the process.
    fn own(&self) -> Vec<Value> {
        let text = self.text();
        let thread = format!("{:?}", std::thread::current().id());
        let lines = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            line.sort_all_objects();
            line
        });
        lines.filter(|line| line["threadId"] == json!(thread)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_one_line_without_secrets() {
    let lines = Lines::of_the_process();
    let host = TestHost::start().await;
    host.post("/v1/runs/run_secret:pause?token=hush", &json!({ "reason": "hush" }))
        .header("idempotency-key", "hush")
        .send()
        .await;
    host.get("/hush").key("hush").send().await;
    host.store.fail(Fault::Damaged);
    let broken = host
        .post("/v1/runs", &json!({ "workflowId": "noop", "inputs": { "a": "hush" } }))
        .send()
        .await;
    let own = lines.own();
    let text = json!(own).to_string();
    for secret in ["hush", LIVE, "run_secret"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let is_access = |line: &&Value| line["target"] == "callboard::access";
    let access: Vec<&Value> = own.iter().filter(is_access).map(|line| &line["fields"]).collect();
    insta::assert_json_snapshot!(access, { "[].latency_ms" => 0, "[].correlation_id" => "[id]" }, @r#"
    [
      {
        "code": "not_found",
        "key_id": "static-9a08bb59",
        "latency_ms": 0,
        "message": "request answered",
        "method": "POST",
        "path": "/v1/runs/{runId}:pause",
        "scope": "runs:cancel",
        "status": 404
      },
      {
        "code": "not_found",
        "latency_ms": 0,
        "message": "request answered",
        "method": "GET",
        "path": "unrouted",
        "status": 404
      },
      {
        "code": "internal_error",
        "correlation_id": "[id]",
        "key_id": "static-9a08bb59",
        "latency_ms": 0,
        "message": "request answered",
        "method": "POST",
        "path": "/v1/runs",
        "scope": "runs:create",
        "status": 500
      }
    ]
    "#);
    let id = broken.json["details"]["correlationId"].as_str().expect("an id");
    assert_eq!(text.matches(id).count(), 2, "the cause and the request are found by the same id");
    host.store.fail(Fault::None);
    assert_runs_are_named(&host, &lines).await;
}

/// What is logged of a run is found by its id, its tenant and its trace.
async fn assert_runs_are_named(host: &TestHost, lines: &Lines) {
    let run = host.run("noop", json!({})).await;
    host.end_of(&run).await;
    for kind in ["openwop.run.created", "openwop.run.completed"] {
        let own = lines.own();
        let line = own.iter().find(|line| line["fields"]["metricKind"] == kind).expect(kind);
        let fields = &line["fields"];
        assert_eq!(fields["openwop.run_id"], json!(run));
        assert_eq!(fields["openwop.tenant_id"], "acme");
        assert_eq!(fields["trace_id"].as_str().map(str::len), Some(32), "{line}");
    }
}

/// The one test that installs the process's recorder.
#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_operation() {
    let metrics = Metrics::install().expect("the first and only recorder");
    let host = TestHost::of(Setup { metrics: Some(metrics), ..Setup::default() }).await;
    let run = host.waiting_run().await;
    let stream = host.get(&format!("/v1/runs/{run}/events")).open().await;
    host.get("/v1/runs/run_hidden").send().await;
    let short = json!({ "workflowId": "chain", "configurable": { "recursionLimit": 2 } });
    let broken = host.run_as(LIVE, short).await;
    host.end_of(&broken).await;
    let reply = host.get("/metrics").anonymous().send().await;
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8_lossy(&reply.bytes).into_owned();
    for line in [
        r#"callboard_http_requests_total{operation="GET /v1/runs/{runId}",status="404"}"#,
        r#"callboard_http_request_duration_seconds_bucket{operation="POST /v1/runs",le="0.001"}"#,
        "callboard_http_inflight ",
        "callboard_sse_streams_open ",
        r#"openwop_run_created_total{workflow_id="chain",tenant_id="acme"}"#,
        r#"openwop_run_completed_total{run_status="failed",workflow_id="chain"}"#,
        r#"openwop_run_duration_seconds_bucket{run_status="failed",workflow_id="chain",le="3600"}"#,
        r#"openwop_run_backlog_seconds_count{workflow_id="chain",tenant_id="acme"}"#,
        r#"openwop_run_active{tenant_id="acme"}"#,
        r#"openwop_node_completed_total{node_type="core.noop",run_status="completed"}"#,
        r#"openwop_node_duration_seconds_bucket{node_type="core.noop",run_status="completed",le="0.001"}"#,
        r#"openwop_cap_exceeded_total{cap_kind="node-executions"}"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("run_hidden") && !text.contains(&run) && !text.contains(&broken));
    drop(stream);
}
