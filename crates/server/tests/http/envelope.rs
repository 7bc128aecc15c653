//! R16, R17, R19: whatever goes wrong, the answer is the envelope. Its shape is checked on every reply of every test.

use axum::body::Body;
use axum::http::Method;
use callboard_server::ServerConfig;
use serde_json::json;

use crate::given::{Fault, TestHost};

#[tokio::test]
async fn a_refusal_as_a_person_reads_it() {
    let host = TestHost::start().await;
    let reply = host.post("/v1/runs", &json!({ "workflowId": "noop", "inptus": {} })).send().await;
    insta::assert_json_snapshot!(reply.json, @r#"
    {
      "details": {
        "path": "inptus"
      },
      "error": "validation_error",
      "message": "inptus: unknown field `inptus`, expected one of `workflowId`, `agentId`, `inputs`, `tenantId`, `scopeId`, `callbackUrl`, `configurable`, `tags`, `metadata`, `residency`, `mode`, `evalSuiteRef`"
    }
    "#);
}

/// R19.
#[tokio::test]
async fn bodies_that_are_no_json_object_are_refused() {
    let host = TestHost::start().await;
    let bodies: [&[u8]; 8] = [
        b"",
        b"  ",
        b"{",
        b"[]",
        b"null",
        b"\"text\"",
        b"{\"workflowId\": \"\xff\"}",
        b"{} trailing",
    ];
    for body in bodies {
        let reply = host.call(Method::POST, "/v1/runs").bytes(Body::from(body)).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{body:?}");
    }
    let deep = "[".repeat(10_000);
    assert_eq!(host.call(Method::POST, "/v1/runs").bytes(deep).send().await.status, 400);
}

/// `secret-leakage-error-envelope`: what was sent by mistake is not sent back, in words or in details.
#[tokio::test]
async fn a_refusal_repeats_no_credential() {
    let host = TestHost::start().await;
    let token = format!("eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOnRydWV9.{}", "CANARY-signature");
    for body in [
        json!({ "workflowId": format!("nonexistent-{token}") }),
        json!({ "agentId": format!("sk-{}", "CANARY-0123456789-0123456789") }),
        json!({ "workflowId": "noop", token.as_str(): 1 }),
    ] {
        let reply = host.post("/v1/runs", &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"));
        assert!(!reply.json.to_string().contains("CANARY"), "{}", reply.json);
    }
}

#[tokio::test]
async fn wrong_types_are_named_with_their_place() {
    let host = TestHost::start().await;
    let reply =
        host.post("/v1/runs", &json!({ "workflowId": "noop", "tags": ["a", 7] })).send().await;
    assert_eq!(reply.refusal(), (400, "validation_error"));
    assert!(reply.message().starts_with("tags[1]: "), "{}", reply.message());
    assert_eq!(reply.json["details"]["path"], "tags[1]");
}

#[tokio::test]
async fn methods_that_a_path_does_not_know_are_named() {
    let host = TestHost::start().await;
    for (method, path, allow) in [
        (Method::DELETE, "/v1/runs", "POST"),
        (Method::POST, "/v1/runs/x", "GET,HEAD"),
        (Method::GET, "/v1/runs/x:pause", "POST"),
        (Method::GET, "/v1/runs:bulk-cancel", "POST"),
        (Method::PATCH, "/v1/host/callboard/keys", "GET,HEAD,POST"),
        (Method::POST, "/.well-known/openwop", "GET,HEAD"),
    ] {
        let reply = host.call(method.clone(), path).send().await;
        assert_eq!(reply.refusal(), (405, "method_not_allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn head_and_options_are_understood() {
    let host = TestHost::start().await;
    let head = host.call(Method::HEAD, "/.well-known/openwop").anonymous().send().await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert!(!head.header("etag").is_empty());
    let options = host.call(Method::OPTIONS, "/v1/runs").anonymous().send().await;
    assert_eq!((options.status, options.header("allow")), (204, "POST"));
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let host =
        TestHost::configured(ServerConfig { max_body_bytes: 100, ..ServerConfig::default() }).await;
    let body = json!({ "workflowId": "noop", "inputs": { "text": "x".repeat(100) } });
    let reply = host.post("/v1/runs", &body).send().await;
    assert_eq!(reply.refusal(), (413, "payload_too_large"));
    assert_eq!(reply.json["details"]["maxRequestBodyBytes"], 100);
    assert_eq!(host.post("/v1/runs", &json!({ "workflowId": "noop" })).send().await.status, 201);
}

#[tokio::test]
async fn a_large_body_within_the_limit_is_read() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop", "inputs": { "text": "x".repeat(3_000_000) } });
    assert_eq!(host.post("/v1/runs", &body).send().await.status, 201);
}

#[tokio::test]
async fn only_json_is_read() {
    let host = TestHost::start().await;
    let send = async |content_type: &str| {
        let call = host.call(Method::POST, "/v1/runs").bytes(r#"{"workflowId":"noop"}"#);
        call.header("content-type", content_type).send().await.status
    };
    assert_eq!(send("text/plain").await, 415);
    assert_eq!(send("application/x-www-form-urlencoded").await, 415);
    assert_eq!(send("application/json; charset=utf-8").await, 201);
    assert_eq!(send("application/vnd.openwop+json").await, 201);
    let untyped =
        host.call(Method::POST, "/v1/runs").bytes(r#"{"workflowId":"noop"}"#).send().await;
    assert_eq!(untyped.status, 201);
    let packed = host.call(Method::POST, "/v1/runs").bytes(r#"{"workflowId":"noop"}"#);
    let packed = packed.header("content-encoding", "gzip").send().await;
    assert_eq!(packed.refusal(), (415, "unsupported_media_type"));
}

#[tokio::test]
async fn malformed_paths_are_refused() {
    let host = TestHost::start().await;
    for path in ["/v1/runs/%zz", "/v1/runs/%ff", "/v1/workflows/%"] {
        assert_eq!(host.get(path).send().await.refusal(), (400, "validation_error"), "{path}");
    }
    for path in ["/v1/runs/x/@pause", "/v1/runs/@bulk-cancel"] {
        let reply = host.post(path, &json!({ "runIds": ["x"] })).send().await;
        assert_eq!(reply.refusal(), (404, "not_found"), "{path}");
    }
}

/// R17: what breaks on this side says nothing of its inside, but how to find it.
#[tokio::test]
async fn faults_of_the_store_are_told_without_their_cause() {
    for (fault, expected) in [
        (Fault::Away, (503, "service_unavailable")),
        (Fault::Full, (507, "insufficient_storage")),
        (Fault::Damaged, (500, "internal_error")),
    ] {
        let host = TestHost::start().await;
        host.store.fail(fault);
        let reply = host.post("/v1/runs", &json!({ "workflowId": "noop" })).send().await;
        assert_eq!(reply.refusal(), expected, "{fault:?}");
        assert!(!reply.json.to_string().contains("secret"), "{fault:?}: {}", reply.json);
        host.store.fail(Fault::None);
        assert_eq!(
            host.post("/v1/runs", &json!({ "workflowId": "noop" })).send().await.status,
            201
        );
    }
}

#[tokio::test]
async fn a_panic_is_an_answer_and_the_host_goes_on() {
    let host = TestHost::start().await;
    host.store.fail(Fault::Panic);
    assert_eq!(host.get("/readyz").anonymous().send().await.refusal(), (500, "internal_error"));
    assert_eq!(host.get("/healthz").anonymous().send().await.status, 200);
}

#[tokio::test]
async fn every_code_is_told_apart_and_explained() {
    use callboard_server::Code;
    let names: std::collections::BTreeSet<&str> =
        Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    assert!(
        Code::ALL.iter().all(|code| !code.status().is_success() && code.meaning().ends_with('.'))
    );
}
