//! Questions that go to the `callbackUrl` of their run, over real connections.

use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, TestHost};
use crate::interrupts::asked_by;
use crate::observe::Lines;
use crate::webhooks::{Receiver, open_host, signature};

const SECRET: &str = "/v1/host/callboard/callback-secret";

/// A run of one gate whose questions go to this address.
async fn asked(host: &TestHost, url: &str, config: Value) -> String {
    let order = json!({ "workflowId": "question", "callbackUrl": url });
    asked_by(host, "core.approvalGate", config, order).await
}

#[tokio::test]
async fn a_question_comes_signed_with_the_token_that_answers_it() {
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let config = json!({ "title": "Ship it?", "timeoutMs": 60_000 });
    let run = asked(&host, &receiver.url, config).await;
    let letter = receiver.next().await;
    let body = letter.json();
    let listed = host.get("/v1/host/callboard/inbox").send().await.json["interrupts"][0].clone();
    for field in ["runId", "nodeId", "interruptId", "kind", "data", "requestedAt", "expiresAt"] {
        assert_eq!(body[field], listed[field], "{field}");
    }
    assert_eq!((&body["runId"], &body["workspaceId"]), (&json!(run), &json!("acme")));

    let secret = host.get(SECRET).send().await.text_at("secret");
    let timestamp = letter.header("x-openwop-timestamp");
    assert_eq!(letter.header("x-openwop-signature"), signature(&secret, timestamp, &letter.body));
    assert_eq!(letter.header("openwop-event-type"), "interrupt.requested");
    let id = format!("cb_{}", body["eventId"].as_str().expect("an id"));
    assert_eq!(letter.header("x-openwop-webhook-id"), id);

    let link = body["interrupt"]["callbackUrl"].as_str().expect("a link");
    assert!(link.ends_with(body["interrupt"]["interruptToken"].as_str().expect("a token")));
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let reply = host.post(link, &accept).anonymous().send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (200, "completed"), "{reply:?}");
    let events = host.end_of(&run).await;
    assert!(!json!(events).to_string().contains(&receiver.url), "the address is nobody's news");
}

#[tokio::test]
async fn where_a_link_is_not_enough_none_is_sent() {
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let config = json!({ "profile": "openwop-interrupt-auth-required" });
    asked(&host, &receiver.url, config).await;
    let body = receiver.next().await.json();
    assert_eq!((&body["requiresAuth"], body.get("interrupt")), (&json!(true), None));
}

#[tokio::test]
async fn addresses_that_the_host_does_not_call_are_refused_at_create() {
    let host = TestHost::start().await;
    let long = format!("https://8.8.8.8/{}", "x".repeat(2_048));
    for url in [
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost/",
        "http://8.8.8.8/",
        "ftp://8.8.8.8/",
        "https://ann:secret@8.8.8.8/",
        "/relative",
        &long,
    ] {
        let order = json!({ "workflowId": "noop", "callbackUrl": url });
        let reply = host.post("/v1/runs", &order).key(LIVE).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{url}");
        assert_eq!(reply.json["details"]["path"], "callbackUrl", "{url}");
        assert!(!String::from_utf8_lossy(&reply.bytes).contains("ann:secret"));
    }
    assert_eq!(host.get("/v1/host/callboard/runs").send().await.json, json!({ "runs": [] }));
}

/// Rotating the links rotates it, too.
#[tokio::test]
async fn the_secret_is_the_tenants_and_for_administrators() {
    let host = TestHost::start().await;
    let secret = host.get(SECRET).send().await.text_at("secret");
    assert_eq!(secret.len(), 64);
    assert_ne!(host.get(SECRET).key(RIVAL).send().await.text_at("secret"), secret);
    let reader = host.get(SECRET).key(READER).send().await;
    assert_eq!((reader.status, &reader.json["details"]["scopeRequired"]), (403, &json!("admin")));
    host.post("/v1/host/callboard/interrupt-links/rotate", &json!({})).send().await;
    assert_ne!(host.get(SECRET).send().await.text_at("secret"), secret);
}

#[tokio::test]
async fn a_callback_that_fails_is_logged_without_token_or_address() {
    let lines = Lines::default();
    let logger = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let logger = logger.with_writer(lines.clone()).finish();
    // As in `webhooks`: a second logger, so that tests on other threads do not switch the lines of this one off.
    let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    // For this thread alone, which is the only one of this test.
    let _guard = tracing::subscriber::set_default(logger);
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url.replace("hook", "token-in-path");
    asked(&host, &url, json!({ "title": "content-of-the-question" })).await;
    let letter = receiver.next().await;
    while !lines.text().contains("webhook not delivered") {
        tokio::task::yield_now().await;
    }
    let (text, body) = (lines.text(), letter.json());
    let token = body["interrupt"]["interruptToken"].as_str().expect("a token");
    let secret = host.get(SECRET).send().await.text_at("secret");
    for hidden in [token, &secret, "token-in-path", "content-of-the-question"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
}
