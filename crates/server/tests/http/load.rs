//! R70, R71: a full host and a hasty key.

use callboard_server::ServerConfig;
use serde_json::json;

use crate::given::{LIVE, TestHost};

/// R70: header and body agree, and with what discovery says.
#[tokio::test(start_paused = true)]
async fn a_full_host_says_when_to_come_back() {
    let host = TestHost::configured(ServerConfig {
        inflight: 2,
        retry_after_seconds: 7,
        ..ServerConfig::default()
    })
    .await;
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}/events");
    let first = host.get(&path).open().await;
    let second = host.get(&path).open().await;
    let reply = host.get(&format!("/v1/runs/{run}")).send().await;
    assert_eq!(reply.refusal(), (503, "service_unavailable"));
    assert_eq!((reply.retry_after(), &reply.json["details"]["retryAfter"]), (Some(7), &json!(7)));
    drop(first);
    assert_eq!(
        host.get(&format!("/v1/runs/{run}")).send().await.status,
        200,
        "a closed stream makes room"
    );
    drop(second);
}

/// R71: what anybody may ask is answered by a full host too.
#[tokio::test(start_paused = true)]
async fn a_full_host_still_says_what_it_is() {
    let host = TestHost::configured(ServerConfig { inflight: 1, ..ServerConfig::default() }).await;
    let run = host.waiting_run().await;
    let _stream = host.get(&format!("/v1/runs/{run}/events")).open().await;
    for path in ["/.well-known/openwop", "/v1/openapi.json", "/healthz", "/readyz", "/metrics"] {
        assert_eq!(host.get(path).anonymous().send().await.status, 200, "{path}");
    }
    let discovery = host.get("/.well-known/openwop").anonymous().send().await;
    assert_eq!(discovery.json["production"]["backpressure"]["inflightCap"], 1);
    assert_eq!(host.get("/v1/runs/x").send().await.status, 503);
}

/// R70.
#[tokio::test]
async fn a_hasty_key_hears_how_long_to_wait() {
    let host =
        TestHost::configured(ServerConfig { requests_per_second: 1, ..ServerConfig::default() })
            .await;
    assert_eq!(host.get("/v1/runs/x").key(LIVE).send().await.status, 404);
    let reply = host.get("/v1/runs/x").key(LIVE).send().await;
    assert_eq!(reply.refusal(), (429, "rate_limited"));
    let details = &reply.json["details"];
    assert_eq!((&details["scope"], &details["limit"]), (&json!("key"), &json!(1)));
    let millis = details["retryAfterMs"].as_u64().expect("a number");
    let seconds = reply.retry_after().expect("a header");
    assert!(
        seconds * 1000 >= millis && seconds * 1000 <= millis + 1000,
        "{millis} ms, {seconds} s"
    );
}

/// A place is given back whatever becomes of the request.
#[tokio::test]
async fn places_are_given_back() {
    let host = TestHost::configured(ServerConfig { inflight: 1, ..ServerConfig::default() }).await;
    for _ in 0..3 {
        assert_eq!(host.get("/v1/runs/x").key("nobody").send().await.status, 401);
        assert_eq!(host.get("/v1/runs/x").send().await.status, 404);
        assert_eq!(host.post("/v1/runs", &json!({})).send().await.status, 400);
    }
}
