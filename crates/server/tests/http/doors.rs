//! Doors without a key: strangers are known before their bodies are read, and use up nothing of anybody else's.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Method;
use callboard_server::ServerConfig;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::given::{OPS, READER, RIVAL, Reply, TestHost};
use crate::triggers::{OURS, SUBSCRIPTIONS, hook, send};

/// A body that begins with so many bytes and never ends.
fn unending(bytes: usize) -> Body {
    let begin = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))]);
    Body::from_stream(begin.chain(stream::pending()))
}

/// A form that a key's tenant has made; answers where it takes posts.
async fn form(host: &TestHost, key: &str) -> String {
    let body = json!({ "source": "form", "workflowId": "noop" });
    let reply = host.post(SUBSCRIPTIONS, &body).key(key).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json["binding"]["ingestUrl"].as_str().expect("an address").to_owned()
}

async fn fill_in(host: &TestHost, form: &str) -> Reply {
    host.post(form, &json!({ "name": "somebody" })).anonymous().send().await
}

type Posting<'a> = Pin<Box<dyn Future<Output = Reply> + 'a>>;

/// A post that is under way for as long as the answer is not wanted, or its refusal.
async fn hang<'a>(host: &'a TestHost, form: &str, bytes: usize) -> Result<Posting<'a>, Reply> {
    let call = host.call(Method::POST, form).anonymous().bytes(unending(bytes));
    let mut posting: Posting<'a> = Box::pin(call.send());
    match timeout(Duration::from_millis(1), &mut posting).await {
        Ok(reply) => Err(reply),
        Err(_) => Ok(posting),
    }
}

#[tokio::test(start_paused = true)]
async fn who_knocks_at_no_door_is_refused_before_a_byte_is_read() {
    let host = TestHost::start().await;
    let queue = host.post(OURS, &json!({ "source": "queue", "workflowId": "noop" })).send().await;
    let queue = queue.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
    for (path, code) in [
        (format!("{SUBSCRIPTIONS}/sub_0/ingest"), "not_found"),
        (format!("{SUBSCRIPTIONS}/{queue}/ingest"), "not_found"),
        ("/v1/interrupts/no-token".to_owned(), "interrupt_not_found"),
    ] {
        let began = Instant::now();
        let reply = host.call(Method::POST, &path).anonymous().bytes(unending(1)).send().await;
        assert_eq!(reply.refusal(), (404, code), "{path}");
        assert!(began.elapsed() < Duration::from_secs(1), "{path}: {:?}", began.elapsed());
        assert_eq!(reply.headers["connection"], "close", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_of_a_stranger_is_given_up_soon() {
    let host = TestHost::start().await;
    let form = form(&host, OPS).await;
    let began = Instant::now();
    let reply = host.call(Method::POST, &form).anonymous().bytes(unending(1)).send().await;
    assert_eq!(reply.refusal(), (408, "request_timeout"));
    assert_eq!(reply.headers["connection"], "close");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn strangers_use_up_only_their_own_places() {
    let config = ServerConfig {
        unkeyed_inflight: 64,
        unsigned_posts_per_minute: 0,
        ..ServerConfig::default()
    };
    let host = TestHost::configured(config).await;
    let (flooded, other) = (form(&host, OPS).await, form(&host, OPS).await);
    let foreign = form(&host, RIVAL).await;
    let mut hanging = Vec::new();
    let refused = loop {
        match hang(&host, &flooded, 1).await {
            Ok(posting) => hanging.push(posting),
            Err(reply) => break reply,
        }
    };
    assert_eq!(refused.refusal(), (429, "rate_limited"), "{refused:?}");
    assert_eq!(refused.json["details"]["scope"], "address");
    assert!(refused.retry_after().is_some() && hanging.len() < 64, "{}", hanging.len());
    for (form, whose) in [(&other, "the same tenant's"), (&foreign, "another tenant's")] {
        assert_eq!(fill_in(&host, form).await.status, 202, "{whose}");
    }
    assert_eq!(host.get("/v1/runs/x").key(READER).send().await.status, 404, "keys have their own");
    drop(hanging);
    assert_eq!(fill_in(&host, &flooded).await.status, 202, "places are given back");
}

#[tokio::test(start_paused = true)]
async fn bodies_of_strangers_take_no_more_memory_than_they_may() {
    let config = ServerConfig {
        unkeyed_body_bytes_inflight: 4 * 1024 * 1024,
        unsigned_posts_per_minute: 0,
        ..ServerConfig::default()
    };
    let host = TestHost::configured(config).await;
    let (flooded, other) = (form(&host, OPS).await, form(&host, RIVAL).await);
    let mut hanging = Vec::new();
    let refused = loop {
        match hang(&host, &flooded, 512 * 1024).await {
            Ok(posting) => hanging.push(posting),
            Err(reply) => break reply,
        }
    };
    assert_eq!(refused.refusal(), (429, "rate_limited"), "{refused:?}");
    assert_eq!(refused.headers["connection"], "close");
    assert!(hanging.len() < 8, "{}", hanging.len());
    assert_eq!(fill_in(&host, &other).await.status, 202, "others still get theirs through");
    let large = json!({ "workflowId": "noop", "inputs": { "text": "x".repeat(2 * 1024 * 1024) } });
    assert_eq!(host.post("/v1/runs", &large).send().await.status, 201, "keys have their own");
}

#[tokio::test(start_paused = true)]
async fn bodies_of_one_key_leave_room_for_those_of_others() {
    let config = ServerConfig {
        max_body_bytes: 1024 * 1024,
        body_bytes_inflight: 8 * 1024 * 1024,
        ..ServerConfig::default()
    };
    let host = TestHost::configured(config).await;
    let mut hanging = Vec::new();
    let refused = loop {
        let call = host.call(Method::POST, "/v1/runs").key(OPS).bytes(unending(1000 * 1000));
        let mut posting = Box::pin(call.send());
        match timeout(Duration::from_millis(1), &mut posting).await {
            Ok(reply) => break reply,
            Err(_) => hanging.push(posting),
        }
    };
    assert_eq!(refused.refusal(), (429, "rate_limited"), "{refused:?}");
    let large = json!({ "workflowId": "noop", "inputs": { "text": "x".repeat(900_000) } });
    assert_eq!(host.post("/v1/runs", &large).key(RIVAL).send().await.status, 201);
}

#[tokio::test]
async fn a_form_takes_no_more_than_its_rate_and_says_when_to_come_back() {
    let config = ServerConfig { unsigned_posts_per_minute: 3, ..ServerConfig::default() };
    let host = TestHost::configured(config).await;
    let (busy, other) = (form(&host, OPS).await, form(&host, OPS).await);
    for _ in 0..3 {
        assert_eq!(fill_in(&host, &busy).await.status, 202);
    }
    let call = host.call(Method::POST, &busy).anonymous().bytes(unending(1));
    let refused = call.send().await;
    assert_eq!(refused.refusal(), (429, "rate_limited"), "before the body is read");
    assert!(refused.retry_after().is_some_and(|seconds| (1..=60).contains(&seconds)));
    assert_eq!(refused.json["details"]["scope"], "subscription");
    assert_eq!(fill_in(&host, &other).await.status, 202, "each has its own");
}

/// A stranger who knows the address of a signed webhook cannot use up what its sender may post.
#[tokio::test]
async fn forged_posts_use_up_nothing_of_those_that_are_signed() {
    let config = ServerConfig {
        unsigned_posts_per_minute: 2,
        signed_posts_per_minute: 4,
        ..ServerConfig::default()
    };
    let host = TestHost::configured(config).await;
    let hook = hook(&host, json!({})).await;
    for _ in 0..6 {
        assert_eq!(fill_in(&host, &hook.url).await.refusal(), (401, "signature_invalid"));
    }
    let letters = host.get(&format!("{SUBSCRIPTIONS}/{}/dead-letters", hook.id)).send().await;
    let kept = letters.json["deliveries"].as_array().map(Vec::len);
    assert_eq!(kept, Some(2), "what is kept of them has a rate: {letters:?}");
    for number in 0..4 {
        let sent = send(&host, &hook, &format!("msg_0123456789abcd{number}"), "{}").await;
        assert_eq!(sent.status, 202, "{sent:?}");
    }
    let late = send(&host, &hook, "msg_0123456789abcd9", "{}").await;
    assert_eq!(late.refusal(), (429, "rate_limited"));
}

/// One reader cannot take every place with streams.
#[tokio::test(start_paused = true)]
async fn streams_of_one_key_leave_places_for_others() {
    let host = TestHost::configured(ServerConfig { inflight: 64, ..ServerConfig::default() }).await;
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}/events");
    let mut open = Vec::new();
    let refused = loop {
        let reply = host.get(&path).key(READER);
        match timeout(Duration::from_millis(1), reply.send()).await {
            // A stream that is open has no end to wait for.
            Err(_) => open.push(host.get(&path).key(READER).open().await),
            Ok(reply) => break reply,
        }
    };
    assert_eq!(refused.refusal(), (429, "rate_limited"), "{refused:?}");
    assert_eq!(refused.json["details"]["scope"], "key");
    assert!(open.len() < 48, "{}", open.len());
    assert_eq!(host.get(&format!("/v1/runs/{run}")).send().await.status, 200, "its tenant goes on");
    assert_eq!(host.get("/v1/runs/x").key(RIVAL).send().await.status, 404, "and others do");
    drop(open);
    assert_eq!(host.get(&format!("/v1/runs/{run}")).key(READER).send().await.status, 200);
}
