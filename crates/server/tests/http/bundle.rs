//! R66, R74, R76: the debug bundle agrees with what else is read of a run, and holds no secret.

use callboard_server::ServerConfig;
use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, TEST, TestHost, workflow};
use crate::schemas::{check, openwop};

async fn bundle(host: &TestHost, run: &str) -> Value {
    let reply = host.get(&format!("/v1/runs/{run}/debug-bundle")).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("cache-control"), "no-store");
    reply.json
}

#[tokio::test(start_paused = true)]
async fn r66_a_bundle_says_what_poll_and_the_snapshot_say() {
    let host = TestHost::start().await;
    for workflow in ["chain", "fail"] {
        let run = host.run(workflow, json!({ "day": "monday" })).await;
        let events = host.end_of(&run).await;
        let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
        let bundle = bundle(&host, &run).await;
        assert_eq!(bundle["events"], json!(events));
        assert_eq!(bundle["run"], snapshot);
        assert_eq!(bundle["metrics"]["eventCount"], json!(events.len()));
        let nodes = if workflow == "chain" { 3 } else { 1 };
        assert_eq!(bundle["metrics"]["nodeCount"], json!(nodes));
        assert_eq!(bundle["bundleVersion"], "1.0");
        assert_eq!(bundle["redactionApplied"], json!(true));
        assert_eq!(bundle["redactionMode"], "mask");
        assert_eq!(bundle.get("truncated"), None);
        assert_eq!(bundle["spans"].as_array().map(Vec::len), Some(1 + 2 * nodes));
        if let Some(folder) = openwop() {
            check(&folder, "debug-bundle.schema.json", &bundle);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r66_a_shorter_bundle_says_that_it_is_cut() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let all = host.end_of(&run).await;
    for (most, is_cut) in [(0, true), (2, true), (all.len(), false)] {
        let path = format!("/v1/runs/{run}/debug-bundle?maxEvents={most}");
        let bundle = host.get(&path).send().await.json;
        assert_eq!(bundle["events"], json!(all[..most]));
        assert_eq!(bundle["metrics"]["eventCount"], json!(all.len()), "of the run");
        assert_eq!(bundle["truncated"] == json!(true), is_cut);
        assert_eq!(bundle["truncatedReason"] == "events_truncated_to_size_cap", is_cut);
    }
    for wrong in ["-1", "many", ""] {
        let path = format!("/v1/runs/{run}/debug-bundle?maxEvents={wrong}");
        assert_eq!(host.get(&path).send().await.status, 400, "{wrong}");
    }
}

/// A log of more than eight megabytes: identity passes its large input through events and state.
#[tokio::test(start_paused = true)]
async fn r66_a_bundle_never_grows_beyond_eight_megabytes() {
    let config = ServerConfig { max_body_bytes: 16 * 1024 * 1024, ..ServerConfig::default() };
    let host = TestHost::configured(config).await;
    let mut echo = workflow("echo", &[("a", "core.identity"), ("b", "core.identity")]);
    for place in [0, 1] {
        echo["nodes"][place]["inputs"] =
            json!({ "text": { "type": "variable", "variableName": "text" } });
    }
    assert_eq!(host.post("/v1/host/callboard/workflows", &echo).send().await.status, 201);
    let run = host.run("echo", json!({ "text": "x".repeat(3_000_000) })).await;
    let count = host.end_of(&run).await.len();
    let reply = host.get(&format!("/v1/runs/{run}/debug-bundle")).send().await;
    assert!(reply.bytes.len() <= 8 * 1024 * 1024, "{} bytes", reply.bytes.len());
    assert_eq!(reply.json["truncated"], json!(true));
    let events = reply.json["events"].as_array().expect("events");
    assert_eq!(reply.json["metrics"]["eventCount"], json!(count), "of the run");
    assert!(events.len() < count && !events.is_empty() && events[0]["sequence"] == 0);
}

/// R74: credentials that nobody marked are in what the caller sent, and in nothing that is handed on.
#[tokio::test(start_paused = true)]
async fn r74_what_looks_like_a_credential_is_not_in_the_bundle() {
    let host = TestHost::start().await;
    let marker = "CANARY-openwop-CONFORMANCE-NEVER-SECRET";
    let canaries = [
        format!("sk-{marker}-oai9Lt7Nw2QrZ0aB8mYjPpQe"),
        format!("AIza{marker}Goog12345abcdef9876"),
        format!("eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOnRydWV9.{marker}-jwt-signature-xyz"),
        format!("cred_{marker}-OpaqueRefAlphaNumX9Y8Z7"),
    ];
    let run = host
        .run_as(
            LIVE,
            json!({
                "workflowId": "noop", "inputs": { "userField": canaries, (&canaries[0]): 1 },
                "tags": [format!("{}0", canaries[0])], "metadata": { "note": format!("use {}", canaries[3]) },
            }),
        )
        .await;
    host.end_of(&run).await;
    let note =
        json!({ "signal": { "kind": "flag" }, "note": format!("he pasted {}", canaries[1]) });
    host.post(&format!("/v1/runs/{run}/annotations"), &note).send().await;
    let poll = host.get(&format!("/v1/runs/{run}/events/poll")).send().await.json.to_string();
    assert!(!poll.contains(marker), "{poll}");
    let shown = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert!(!shown.to_string().contains(marker), "{shown}");
    assert_eq!(shown["variables"]["userField"][0], "[REDACTED]");
    let bundle = bundle(&host, &run).await;
    let text = bundle.to_string();
    assert!(!text.contains(marker), "{text}");
    assert_eq!(bundle["run"]["variables"]["userField"][0], "[REDACTED]");
    assert_eq!(bundle["annotations"][0]["note"], "he pasted [REDACTED]");
}

#[tokio::test(start_paused = true)]
async fn r74_what_the_definition_marks_is_masked_in_the_bundle_too() {
    let host = TestHost::start().await;
    let mut marked = workflow("marked", &[("only", "core.noop")]);
    marked["variables"] = json!([{ "name": "pin", "type": "string", "sensitive": true }]);
    host.post("/v1/host/callboard/workflows", &marked).send().await;
    let run = host.run("marked", json!({ "pin": "correct horse battery" })).await;
    host.end_of(&run).await;
    assert!(!bundle(&host, &run).await.to_string().contains("correct horse"));
}

/// R76, RFC 0207: the run's span has the caller's trace.
#[tokio::test(start_paused = true)]
async fn r76_spans_join_the_trace_of_the_caller() {
    let host = TestHost::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sent = format!("00-{trace}-00f067aa0ba902b7-01");
    for (header, is_joined) in [(sent.as_str(), true), ("00-nonsense", false)] {
        let create = host.post("/v1/runs", &json!({ "workflowId": "noop" }));
        let reply = create.header("traceparent", header).header("tracestate", "a=1").send().await;
        assert_eq!(reply.status, 201, "{header}");
        let run = reply.text_at("runId");
        let told = reply.header("traceparent").to_owned();
        host.end_of(&run).await;
        let spans = bundle(&host, &run).await["spans"].clone();
        for span in spans.as_array().expect("spans") {
            assert_eq!(span["traceId"] == trace, is_joined, "{span}");
            assert_eq!(span["kind"], "internal");
            assert_eq!(span["status"]["code"], "ok");
        }
        assert_eq!(spans[0]["name"], "openwop.run");
        let (trace, span) = (&spans[0]["traceId"], &spans[0]["spanId"]);
        let own =
            format!("00-{}-{}-01", trace.as_str().expect("text"), span.as_str().expect("text"));
        assert_eq!(told, own, "the caller learns where to look");
        assert_eq!(spans[0]["parentSpanId"] == "00f067aa0ba902b7", is_joined);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_for_those_who_may_read_the_run() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    let path = format!("/v1/runs/{run}/debug-bundle");
    let unknown = host.get("/v1/runs/run_0/debug-bundle").send().await;
    for key in [RIVAL, TEST] {
        let hidden = host.get(&path).key(key).send().await;
        assert_eq!((hidden.status, &hidden.bytes), (404, &unknown.bytes));
    }
    assert_eq!(host.get(&path).anonymous().send().await.status, 401);
    assert_eq!(host.get(&path).key(READER).send().await.status, 200);
}
