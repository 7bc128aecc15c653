//! Traces reach a collector on this machine, and a collector that is away troubles nobody.

#![expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;
use std::time::Duration;

use callboard_backends::{Exporter, OtlpProtocol, OtlpSettings, Traced};
use callboard_core::{ConformanceNodes, HostLimits, TraceContext};
use callboard_engine::{
    Activities, Catalog, DrivingLimits, Engine, InMemoryStore, KeyMode, NoAgents, Options, Order,
    Parts, RandomIds, Secrets, SystemClock, Target,
};
use callboard_protocol::{Object, Owner};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn engine() -> Engine {
    let store = Arc::new(InMemoryStore::new());
    let mut catalog = Catalog::new(store.clone(), ConformanceNodes::Off);
    let definition = json!({
        "id": "noop", "name": "noop", "version": "1.0", "edges": [], "triggers": [], "variables": [],
        "nodes": [{ "id": "only", "typeId": "core.noop", "name": "only",
            "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "metadata": {}, "settings": {},
    });
    catalog.load(&definition.to_string()).expect("a definition");
    let engine = Engine::new(Parts {
        secrets: Secrets::new(store.clone()),
        store,
        catalog,
        activities: Activities::default(),
        directory: Arc::new(NoAgents),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        options: Options {
            host: "here".into(),
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            driving: DrivingLimits::default(),
            limits: HostLimits { max_node_executions: 10, ..HostLimits::default() },
        },
    });
    engine.start();
    engine
}

async fn start_run(engine: &Engine) -> String {
    start_traced(engine, None).await
}

async fn start_traced(engine: &Engine, trace: Option<TraceContext>) -> String {
    start_of(engine, "acme", trace).await
}

async fn start_of(engine: &Engine, tenant: &str, trace: Option<TraceContext>) -> String {
    let order = Order {
        target: Target::Workflow("noop".into()),
        owner: Owner { tenant: tenant.into(), workspace: None, principal: None },
        mode: KeyMode::Live,
        inputs: Object::new(),
        configurable: Object::new(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        forced_engine_version: None,
        exclusive: false,
        trace,
        acting: None,
        dialect: callboard_protocol::Dialect::V1,
    };
    engine.create(order, None).await.expect("a run").run.to_string()
}

fn settings(port: u16, protocol: OtlpProtocol) -> OtlpSettings {
    OtlpSettings {
        endpoint: format!("http://127.0.0.1:{port}/v1/traces"),
        protocol,
        headers: vec![("x-team".to_owned(), "agents".to_owned())],
        resource: vec![("service.name".to_owned(), "callboard".to_owned())],
        timeout: Duration::from_secs(10),
        is_compressed: false,
    }
}

/// One request: its head and its body.
async fn collected(listener: &TcpListener) -> (String, Vec<u8>) {
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).await.expect("a line") > 0, "{head}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(answer).await.expect("an answer");
    (head, body)
}

#[tokio::test]
async fn a_run_that_ended_arrives_as_json() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (engine, stop) = (engine(), CancellationToken::new());
    let exporter =
        Exporter::new(settings(port, OtlpProtocol::Json), Traced::default()).expect("an exporter");
    let exporting = exporter.run(engine.clone(), engine.ended(), stop.clone());
    let test = async {
        let run = start_run(&engine).await;
        let (head, body) = collected(&listener).await;
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(head.contains("x-team: agents"), "{head}");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["key"], "service.name");
        let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
        let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(
            names,
            ["openwop.run", "openwop.node.core.noop", "openwop.node.core.noop.attempt"]
        );
        let attributes = spans[0]["attributes"].as_array().expect("attributes");
        let id = attributes.iter().find(|pair| pair["key"] == "openwop.run_id").expect("an id");
        assert_eq!(id["value"], json!({ "stringValue": run }));
        assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
        assert_eq!(spans[0]["status"], json!({ "code": 1 }));
        assert!(spans[0]["endTimeUnixNano"].as_str().is_some_and(|at| at.len() == 19));
        stop.cancel();
    };
    tokio::join!(exporting, test);
}

#[tokio::test]
async fn a_run_that_ended_arrives_as_protobuf() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (engine, stop) = (engine(), CancellationToken::new());
    let exporter = Exporter::new(settings(port, OtlpProtocol::Protobuf), Traced::default())
        .expect("an exporter");
    let exporting = exporter.run(engine.clone(), engine.ended(), stop.clone());
    let test = async {
        let run = start_run(&engine).await;
        let (head, body) = collected(&listener).await;
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        // One field, as long as the rest of the message; its text is in there as it stands.
        assert_eq!(body[0], 0x0a);
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains(&run) && text.contains("openwop.node.core.noop.attempt"), "{text}");
        stop.cancel();
    };
    tokio::join!(exporting, test);
}

/// A caller that does not record its trace wants none of ours; the state that it sends is carried along.
#[tokio::test]
async fn the_caller_decides_whether_its_trace_is_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (engine, stop) = (engine(), CancellationToken::new());
    let exporter =
        Exporter::new(settings(port, OtlpProtocol::Json), Traced::default()).expect("an exporter");
    let exporting = exporter.run(engine.clone(), engine.ended(), stop.clone());
    let test = async {
        let caller = |flags: &str| {
            let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            TraceContext::read(&parent, Some("congo=t61"))
        };
        let quiet = start_traced(&engine, caller("00")).await;
        let traced = start_traced(&engine, caller("01")).await;
        let (_, body) = collected(&listener).await;
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains(&traced) && !text.contains(&quiet), "{text}");
        assert!(text.contains(r#""traceState":"congo=t61""#), "{text}");
        assert!(text.contains(r#""parentSpanId":"00f067aa0ba902b7""#), "{text}");
        stop.cancel();
    };
    tokio::join!(exporting, test);
}

/// Nobody listens at first: the spans of that run are dropped, and the next ones arrive.
#[tokio::test]
async fn a_collector_that_is_away_loses_spans_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (engine, stop) = (engine(), CancellationToken::new());
    let refusing = settings(address.port(), OtlpProtocol::Json);
    let exporter = Exporter::new(refusing, Traced::default()).expect("an exporter");
    let exporting = exporter.run(engine.clone(), engine.ended(), stop.clone());
    let test = async {
        start_run(&engine).await;
        let (stream, _) = listener.accept().await.expect("a connection");
        drop(stream);
        let second = start_run(&engine).await;
        let (_, body) = collected(&listener).await;
        assert!(String::from_utf8_lossy(&body).contains(&second));
        stop.cancel();
    };
    tokio::join!(exporting, test);
}

/// Runs of a tenant that is not exported leave no trace at the collector; bodies may travel compressed.
#[tokio::test]
async fn only_the_named_tenants_are_sent_and_bodies_may_be_compressed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (engine, stop) = (engine(), CancellationToken::new());
    let settings = OtlpSettings { is_compressed: true, ..settings(port, OtlpProtocol::Json) };
    let tenants = Some(std::iter::once("acme".into()).collect());
    let traced = Traced { tenants, ..Traced::default() };
    let exporter = Exporter::new(settings, traced).expect("an exporter");
    let exporting = exporter.run(engine.clone(), engine.ended(), stop.clone());
    let test = async {
        let hidden = start_of(&engine, "other", None).await;
        let shown = start_of(&engine, "acme", None).await;
        let (head, body) = collected(&listener).await;
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(body.as_slice());
        std::io::Read::read_to_string(&mut decoder, &mut text).expect("gzip");
        assert!(text.contains(&shown) && !text.contains(&hidden), "{text}");
        stop.cancel();
    };
    tokio::join!(exporting, test);
}
