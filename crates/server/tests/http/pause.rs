//! R48, R49, R51: pausing and resuming.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::TestHost;

async fn status(host: &TestHost, run: &str) -> String {
    host.get(&format!("/v1/runs/{run}")).send().await.text_at("status")
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

/// R48, R51: an immediate pause is visible at once and its policy is on record.
#[tokio::test(start_paused = true)]
async fn an_immediate_pause_stops_between_events() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let body = json!({ "drainPolicy": "immediate", "reason": "lunch" });
    let reply = host.post(&format!("/v1/runs/{run}:pause"), &body).send().await;
    insta::assert_json_snapshot!(reply.json, { ".runId" => "[run]", ".pausedAt" => "[time]" }, @r#"
    {
      "pausedAt": "[time]",
      "runId": "[run]",
      "status": "paused"
    }
    "#);
    assert_eq!(reply.status, 202);
    assert_eq!(status(&host, &run).await, "paused");
    let polled = host.get(&format!("/v1/runs/{run}/events/poll")).send().await;
    let last = polled.json["events"]
        .as_array()
        .and_then(|events| events.last())
        .cloned()
        .unwrap_or_default();
    assert_eq!(last["type"], "run.paused");
    assert_eq!(last["payload"], json!({ "drainPolicy": "immediate", "reason": "lunch" }));

    let reply = host.call(Method::POST, &format!("/v1/runs/{run}:resume")).send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (202, "running"));
    assert!(reply.json["resumedAt"].is_string());
    let events = host.end_of(&run).await;
    assert_eq!(kinds(&events).last(), Some(&"run.completed"));
    assert_eq!(
        kinds(&events).iter().filter(|kind| **kind == "node.started").count(),
        2,
        "a fresh attempt"
    );
}

/// R48: draining lets the node finish before the run pauses, and the answer does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_draining_pause_lets_the_node_finish() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let reply = host.call(Method::POST, &format!("/v1/runs/{run}:pause")).send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (202, "paused"), "{reply:?}");
    assert_eq!(status(&host, &run).await, "running", "the node is still at work");
    let stream = host.get(&format!("/v1/runs/{run}/events")).open().await;
    let mut stream = stream;
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("run.paused") {
        let frame = stream.next().await.expect("the stream goes on");
        seen.extend(Some(frame.event).filter(|event| !event.is_empty()));
    }
    let place = |kind: &str| seen.iter().position(|event| event == kind);
    assert!(place("node.completed") < place("run.paused"), "{seen:?}");
    assert_eq!(status(&host, &run).await, "paused");
}

/// R48: every conflict says in which status the run is.
#[tokio::test(start_paused = true)]
async fn conflicts_carry_the_runs_status() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let ask = async |run: &str, verb: &str| {
        host.post(&format!("/v1/runs/{run}:{verb}"), &json!({})).send().await
    };
    let reply = ask(&run, "resume").await;
    assert_eq!((reply.status, &reply.json["details"]["runStatus"]), (409, &json!("running")));
    let immediate = json!({ "drainPolicy": "immediate" });
    let paused = host.post(&format!("/v1/runs/{run}:pause"), &immediate).send().await;
    let reply = ask(&run, "pause").await;
    assert_eq!((reply.status, &reply.json["details"]["runStatus"]), (409, &json!("paused")));
    assert_eq!(reply.json["details"]["pausedAt"], paused.json["pausedAt"]);
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await;
    host.end_of(&run).await;
    for verb in ["pause", "resume"] {
        let reply = ask(&run, verb).await;
        assert_eq!(reply.refusal(), (409, "run_terminal"), "{verb}");
        assert_eq!(reply.json["details"]["runStatus"], "cancelled", "{verb}");
        assert_eq!(ask("run_0", verb).await.refusal(), (404, "not_found"), "{verb}");
    }
    let odd = json!({ "drainPolicy": "gently" });
    assert_eq!(host.post(&format!("/v1/runs/{run}:pause"), &odd).send().await.status, 400);
}

/// R49.
#[tokio::test(start_paused = true)]
async fn a_second_pause_under_the_same_key_gets_the_first_answer() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let pause = async |key: &str| {
        let body = json!({ "drainPolicy": "immediate" });
        host.post(&format!("/v1/runs/{run}:pause"), &body)
            .header("idempotency-key", key)
            .send()
            .await
    };
    let first = pause("k1").await;
    assert_eq!((first.status, first.header("openwop-idempotent-replay")), (202, ""));
    let second = pause("k1").await;
    assert_eq!((second.status, second.header("openwop-idempotent-replay")), (202, "true"));
    assert_eq!(second.bytes, first.bytes);
    assert_eq!(pause("k2").await.status, 409);
}

/// Two runs under one key are two requests.
#[tokio::test(start_paused = true)]
async fn one_key_on_two_runs_is_a_mismatch() {
    let host = TestHost::start().await;
    let (one, two) = (host.waiting_run().await, host.waiting_run().await);
    let pause = async |run: &str| {
        let body = json!({ "drainPolicy": "immediate" });
        host.post(&format!("/v1/runs/{run}:pause"), &body)
            .header("idempotency-key", "k")
            .send()
            .await
    };
    assert_eq!(pause(&one).await.status, 202);
    assert_eq!(pause(&two).await.refusal(), (409, "idempotency_key_mismatch"));
    assert_eq!(status(&host, &two).await, "running");
}
