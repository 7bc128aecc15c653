//! R10–R15: who may come in, and what they may see.

use axum::http::Method;
use callboard_engine::Keys;
use callboard_server::ServerConfig;
use serde_json::json;

use crate::given::{CANCELLER, LAB, LIVE, OPS, READER, RIVAL, TEST, TestHost};

/// R10.
#[tokio::test]
async fn a_missing_malformed_or_unknown_key_is_401() {
    let host = TestHost::start().await;
    let none = host.get("/v1/runs/x").anonymous().send().await;
    assert_eq!(none.refusal(), (401, "unauthenticated"));
    assert_eq!(none.header("www-authenticate"), "Bearer");
    for value in ["Bearer", "Bearer ", "Basic abc", "cb_live", "Bearer nobody", "Bearer cb_live x"]
    {
        let reply = host.get("/v1/runs/x").anonymous().header("authorization", value).send().await;
        assert_eq!(reply.refusal(), (401, "unauthenticated"), "{value}");
    }
    let twice = host.get("/v1/runs/x").header("authorization", "Bearer cb_reader").send().await;
    assert_eq!(twice.refusal(), (401, "unauthenticated"));
    let lower =
        host.get("/v1/runs/x").anonymous().header("authorization", "bearer cb_live").send().await;
    assert_eq!(lower.status, 404, "the scheme is case-insensitive");
}

/// R11.
#[tokio::test(start_paused = true)]
async fn expired_and_revoked_keys_are_told_apart() {
    let host = TestHost::start().await;
    let soon = host.now().plus_millis(5_000);
    let body = json!({ "name": "short", "expiresAt": soon });
    let short = host.post("/v1/host/callboard/keys", &body).send().await.text_at("key");
    assert_eq!(host.get("/v1/runs/x").key(&short).send().await.status, 404);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    assert_eq!(host.get("/v1/runs/x").key(&short).send().await.refusal(), (401, "key_expired"));

    let made = host.post("/v1/host/callboard/keys", &json!({ "name": "gone" })).send().await;
    let path = format!("/v1/host/callboard/keys/{}", made.text_at("id"));
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    let reply = host.get("/v1/runs/x").key(&made.text_at("key")).send().await;
    assert_eq!(reply.refusal(), (401, "key_revoked"));
}

/// R12.
#[tokio::test]
async fn a_missing_scope_is_403_and_no_scope_implies_another() {
    let host = TestHost::start().await;
    let reply = host.get("/v1/runs/x").key(CANCELLER).send().await;
    assert_eq!(reply.refusal(), (403, "forbidden"));
    assert_eq!(reply.json["details"]["scopeRequired"], "runs:read");
    let reply = host.post("/v1/runs/x/cancel", &json!({})).key(READER).send().await;
    assert_eq!(reply.json["details"]["scopeRequired"], "runs:cancel");
    let reply = host.get("/v1/host/callboard/keys").key(READER).send().await;
    assert_eq!(reply.json["details"]["scopeRequired"], "admin");
}

/// R12: the scope is asked for before the body is read or the run looked up.
#[tokio::test]
async fn the_scope_comes_before_everything_the_request_says() {
    let host = TestHost::start().await;
    let call = host.call(Method::POST, "/v1/runs").key(READER).bytes("not json");
    assert_eq!(call.send().await.status, 403);
}

/// R13: what is stored is a digest; nothing that prints shows the secret.
#[tokio::test]
async fn keys_rest_as_digests() {
    let host = TestHost::start().await;
    let text =
        host.post("/v1/host/callboard/keys", &json!({ "name": "n" })).send().await.text_at("key");
    assert!(text.starts_with("cb_") && text.len() >= 35, "{text}");
    let stored = Keys::new(host.store.inner()).all_keys().await.expect("keys");
    assert_eq!(stored.len(), 1);
    assert!(!format!("{stored:?} {:?}", host.keys).contains(&text));
    let listed = host.get("/v1/host/callboard/keys").send().await;
    assert!(!String::from_utf8_lossy(&listed.bytes).contains(&text));
}

/// R14: a foreign run and an unknown one cannot be told apart.
#[tokio::test(start_paused = true)]
async fn what_is_hidden_looks_like_what_is_not_there() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let ops =
        host.run_as(OPS, json!({ "workflowId": "wait", "inputs": { "delayMs": 3_600_000 } })).await;
    for (key, hidden) in [(RIVAL, &run), (TEST, &run), (OPS, &run), (LAB, &ops), (RIVAL, &ops)] {
        for (method, suffix) in [
            (Method::GET, ""),
            (Method::GET, "/events"),
            (Method::GET, "/events?streamMode=values"),
            (Method::GET, "/events/poll"),
            (Method::POST, "/cancel"),
            (Method::POST, ":pause"),
            (Method::POST, ":resume"),
        ] {
            let ask = async |id: &str| {
                let path = format!("/v1/runs/{id}{suffix}");
                host.call(method.clone(), &path).key(key).send().await
            };
            let (foreign, unknown) = (ask(hidden).await, ask("run_0").await);
            assert_eq!(foreign.refusal(), (404, "not_found"), "{key} {suffix}");
            assert_eq!(foreign.bytes, unknown.bytes, "{key} {suffix}");
            let names =
                |reply: &crate::given::Reply| reply.headers.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&foreign), names(&unknown), "{key} {suffix}");
        }
    }
    assert_eq!(
        host.get(&format!("/v1/runs/{ops}")).key(LIVE).send().await.status,
        200,
        "no workspace sees all"
    );
    let listed = host.get("/v1/host/callboard/runs").key(RIVAL).send().await;
    assert_eq!(listed.json, json!({ "runs": [] }));
}

/// R15: a key that asks too often hears that first, whatever its scopes.
#[tokio::test]
async fn the_rate_is_judged_before_the_scope() {
    let host =
        TestHost::configured(ServerConfig { requests_per_second: 1, ..ServerConfig::default() })
            .await;
    assert_eq!(host.get("/v1/runs/x").key(CANCELLER).send().await.status, 403);
    assert_eq!(host.get("/v1/runs/x").key(CANCELLER).send().await.refusal(), (429, "rate_limited"));
    assert_eq!(
        host.get("/v1/runs/x").key(READER).send().await.status,
        404,
        "each key has its own rate"
    );
    assert_eq!(host.get("/v1/runs/x").key("nobody").send().await.status, 401);
    assert_eq!(host.get("/v1/runs/x").key("nobody").send().await.status, 401);
}
