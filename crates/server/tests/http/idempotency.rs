//! R59–R64: the same request twice, done once.

use std::collections::BTreeSet;

use axum::http::Method;
use callboard_server::ServerConfig;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::given::{Fault, LIVE, OPS, READER, RIVAL, Reply, TEST, TestHost};

async fn create(host: &TestHost, key: &str, idempotency_key: &str, body: &Value) -> Reply {
    host.post("/v1/runs", body).key(key).header("idempotency-key", idempotency_key).send().await
}

fn is_replay(reply: &Reply) -> bool {
    reply.header("openwop-idempotent-replay") == "true"
}

async fn count(host: &TestHost, key: &str) -> usize {
    let reply = host.get("/v1/host/callboard/runs?limit=200").key(key).send().await;
    reply.json["runs"].as_array().map_or(0, Vec::len)
}

/// R59.
#[tokio::test(start_paused = true)]
async fn a_repetition_gets_the_first_answer() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop", "inputs": { "a": 1, "b": 2 } });
    let first = create(&host, LIVE, "k", &body).await;
    assert!(first.status == 201 && !is_replay(&first));
    for _ in 0..5 {
        tokio::time::advance(Duration::from_millis(100)).await;
        let again = create(&host, LIVE, "k", &body).await;
        assert!(again.status == 201 && is_replay(&again));
        assert_eq!(again.bytes, first.bytes);
        assert_eq!(again.header("content-type"), "application/json");
    }
    let call = host.call(Method::POST, "/v1/runs").header("idempotency-key", "k");
    let reordered = call.bytes(r#"{ "inputs": {"b":2,"a":1},  "workflowId":"noop" }"#).send().await;
    assert!(is_replay(&reordered), "the order of keys is no difference");
    assert_eq!(count(&host, LIVE).await, 1);
}

/// R59: for a day, and no longer.
#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_a_day() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    let first = create(&host, LIVE, "k", &body).await;
    tokio::time::advance(Duration::from_secs(86_399)).await;
    assert!(is_replay(&create(&host, LIVE, "k", &body).await));
    tokio::time::advance(Duration::from_secs(2)).await;
    let fresh = create(&host, LIVE, "k", &body).await;
    assert!(!is_replay(&fresh));
    assert_ne!(fresh.text_at("runId"), first.text_at("runId"));
}

/// R60.
#[tokio::test]
async fn another_body_under_the_same_key_learns_nothing() {
    let host = TestHost::start().await;
    let first = create(&host, LIVE, "k", &json!({ "workflowId": "noop" })).await;
    let other = create(&host, LIVE, "k", &json!({ "workflowId": "chain" })).await;
    assert_eq!(other.refusal(), (409, "idempotency_key_mismatch"));
    assert!(!String::from_utf8_lossy(&other.bytes).contains(&first.text_at("runId")));
    assert!(!is_replay(&other));
}

/// R61.
#[tokio::test]
async fn ten_at_once_make_one_run() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    let replies = join_all((0..10).map(|_| create(&host, LIVE, "k", &body))).await;
    let runs: BTreeSet<String> = replies.iter().map(|reply| reply.text_at("runId")).collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(replies.iter().filter(|reply| !is_replay(reply)).count(), 1);
    let keys: Vec<String> = (0..10).map(|number| format!("distinct-{number}")).collect();
    let replies = join_all(keys.iter().map(|key| create(&host, LIVE, key, &body))).await;
    let runs: BTreeSet<String> = replies.iter().map(|reply| reply.text_at("runId")).collect();
    assert_eq!(runs.len(), 10);
}

/// R62.
#[tokio::test]
async fn faults_of_this_side_are_not_kept() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    for fault in [Fault::Away, Fault::Full, Fault::Damaged] {
        host.store.fail(fault);
        let reply = create(&host, LIVE, "k", &body).await;
        assert!(reply.status >= 500 && !is_replay(&reply));
    }
    host.store.fail(Fault::None);
    let mended = create(&host, LIVE, "k", &body).await;
    assert!(mended.status == 201 && !is_replay(&mended));
    assert!(is_replay(&create(&host, LIVE, "k", &body).await), "the later success is what is kept");
}

/// R62: a refusal for the rate is not kept either.
#[tokio::test]
async fn a_429_is_not_kept() {
    let host =
        TestHost::configured(ServerConfig { requests_per_second: 1, ..ServerConfig::default() })
            .await;
    let body = json!({ "workflowId": "noop" });
    assert_eq!(host.get("/v1/runs/x").key(LIVE).send().await.status, 404);
    let limited = create(&host, LIVE, "k", &body).await;
    assert_eq!(limited.status, 429);
    let other = create(&host, TEST, "k", &body).await;
    assert!(other.status == 201 && !is_replay(&other));
}

/// R62: a busy scope is worth another try.
#[tokio::test(start_paused = true)]
async fn a_409_that_says_when_to_come_back_is_not_kept() {
    let host = TestHost::start().await;
    let body =
        json!({ "workflowId": "wait", "inputs": { "delayMs": 3_600_000 }, "scopeId": "desk" });
    let send = async || {
        let call = host.post("/v1/runs", &body).header("x-dedup", "enforce");
        call.header("idempotency-key", "k2").send().await
    };
    let active = host.run_as(LIVE, body.clone()).await;
    assert_eq!(send().await.error(), "run_already_active");
    host.post(&format!("/v1/runs/{active}/cancel"), &json!({})).send().await;
    host.end_of(&active).await;
    assert_eq!(send().await.status, 201);
}

/// R63.
#[tokio::test]
async fn mistakes_of_the_caller_are_not_kept() {
    let host = TestHost::start().await;
    let good = json!({ "workflowId": "noop" });
    assert_eq!(create(&host, LIVE, "k", &json!({ "workflowId": "nowhere" })).await.status, 400);
    assert_eq!(create(&host, "nobody", "k", &good).await.status, 401);
    assert_eq!(create(&host, READER, "k", &good).await.status, 403);
    let reply = create(&host, LIVE, "k", &good).await;
    assert!(reply.status == 201 && !is_replay(&reply));
}

/// R60: what a request asks for stands in its query and its conditions too.
#[tokio::test(start_paused = true)]
async fn another_query_or_condition_under_the_same_key_is_another_request() {
    let host = TestHost::start().await;
    let write = async |condition: &str| {
        let call = host.call(Method::PUT, "/v1/host/workspace/files/a.md");
        let call = call.json(&json!({ "content": "x" })).header("if-match", condition);
        call.header("idempotency-key", "k").send().await
    };
    assert_eq!(write("\"v1\"").await.refusal(), (409, "workspace_conflict"));
    assert!(is_replay(&write("\"v1\"").await));
    assert_eq!(write("\"v2\"").await.refusal(), (409, "idempotency_key_mismatch"));

    let remove = async |query: &str| {
        let call = host.call(Method::DELETE, &format!("/v1/webhooks/none{query}"));
        call.header("idempotency-key", "k").send().await
    };
    assert_eq!(remove("?tenantId=acme").await.status, 404);
    assert!(is_replay(&remove("?tenantId=acme").await));
    assert_eq!(remove("").await.refusal(), (409, "idempotency_key_mismatch"));
}

/// What is refused for good is kept, so that a repetition hears the same.
#[tokio::test(start_paused = true)]
async fn lasting_refusals_are_kept() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let resume = async || {
        let call = host.post(&format!("/v1/runs/{run}:resume"), &json!({}));
        call.header("idempotency-key", "k").send().await
    };
    let first = resume().await;
    assert!(first.status == 409 && !is_replay(&first));
    let pause = json!({ "drainPolicy": "immediate" });
    host.post(&format!("/v1/runs/{run}:pause"), &pause).send().await;
    let again = resume().await;
    assert!(again.status == 409 && is_replay(&again));
    assert_eq!(again.bytes, first.bytes);
}

/// R64: the tenant comes from the key, and neither workspaces nor test keys meet each other's answers.
#[tokio::test]
async fn one_key_means_something_else_to_everybody_else() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    let mut runs = BTreeSet::new();
    for key in [LIVE, RIVAL, TEST, OPS] {
        let reply = create(&host, key, "k", &body).await;
        assert!(reply.status == 201 && !is_replay(&reply), "{key}");
        runs.insert(reply.text_at("runId"));
    }
    assert_eq!(runs.len(), 4);
}

/// R64: the operation is part of the key.
#[tokio::test(start_paused = true)]
async fn one_key_on_two_operations_is_two_requests() {
    let host = TestHost::start().await;
    let run = create(&host, LIVE, "k", &json!({ "workflowId": "wait" })).await.text_at("runId");
    let cancel = async || {
        let call = host.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        call.header("idempotency-key", "k").send().await
    };
    let first = cancel().await;
    assert!(first.status == 200 && !is_replay(&first));
    let again = cancel().await;
    assert!(is_replay(&again) && again.bytes == first.bytes);
}

#[tokio::test]
async fn keys_have_1_to_255_characters_and_reads_ignore_them() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    for wrong in ["", "   ", &"x".repeat(256)] {
        assert_eq!(
            create(&host, LIVE, wrong, &body).await.refusal(),
            (400, "validation_error"),
            "{wrong:?}"
        );
    }
    assert_eq!(create(&host, LIVE, &"x".repeat(255), &body).await.status, 201);
    let read = host.get("/v1/host/callboard/runs").header("idempotency-key", "").send().await;
    assert_eq!(read.status, 200);
}

/// Whatever writes no run is remembered too: nothing is made twice.
#[tokio::test]
async fn keys_and_workflows_are_made_once() {
    let host = TestHost::start().await;
    let make = async || {
        let call = host.post("/v1/host/callboard/keys", &json!({ "name": "n" }));
        call.header("idempotency-key", "k").send().await
    };
    let replies = join_all((0..5).map(|_| make())).await;
    let ids: BTreeSet<String> = replies.iter().map(|reply| reply.text_at("id")).collect();
    assert_eq!(ids.len(), 1);
    let shown = replies.iter().filter(|reply| reply.json.get("key").is_some()).count();
    assert_eq!(shown, 1, "the secret is shown once and kept nowhere");

    let definition = crate::given::workflow("mine", &[("a", "core.noop")]);
    let register = async || {
        let call = host.post("/v1/host/callboard/workflows", &definition);
        call.header("idempotency-key", "w").send().await
    };
    assert_eq!(register().await.status, 201);
    let again = register().await;
    assert!(again.status == 201 && is_replay(&again));
    let remove = async || {
        let call = host.call(Method::DELETE, "/v1/host/callboard/workflows/mine");
        call.header("idempotency-key", "d").send().await
    };
    assert_eq!(remove().await.status, 204);
    let again = remove().await;
    assert!(again.status == 204 && is_replay(&again));
}
