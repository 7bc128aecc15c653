//! Heartbeats over HTTP, and S-16 through the suite's door.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{READER, RIVAL, Setup, TestHost, TestSeams, workflow};
use crate::schemas::{check, openwop};

const HEARTBEATS: &str = "/v1/host/callboard/heartbeats";

async fn host() -> TestHost {
    let host = TestHost::of(Setup { seams: TestSeams::On, ..Setup::default() }).await;
    let noop = workflow("watch", &[("n", "core.noop")]);
    let stored = host.post("/v1/host/callboard/workflows", &noop).send().await;
    assert_eq!(stored.status, 201, "{stored:?}");
    host
}

async fn tick(host: &TestHost, state: Value, slow: u64) -> Value {
    let body = json!({
        "heartbeatId": "suite", "observedState": state, "simulateSlowMs": slow, "workflowId": "watch",
    });
    let reply = host.post("/v1/host/sample/heartbeat/tick", &body).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json
}

/// S-16.
#[tokio::test(start_paused = true)]
async fn s16_only_a_change_is_told_and_acted_upon() {
    let host = host().await;
    for _ in 0..3 {
        let same = tick(&host, json!({ "size": 1 }), 0).await;
        assert_eq!(
            same["evaluated"],
            json!([{ "heartbeatId": "suite", "status": "ok", "changed": false }])
        );
        assert_eq!((&same["stateChanged"], &same["enqueuedRuns"]), (&json!([]), &json!(0)));
    }
    let other = tick(&host, json!({ "size": 2 }), 0).await;
    assert_eq!(other["evaluated"][0]["changed"], true);
    assert_eq!(
        other["stateChanged"],
        json!([{ "heartbeatId": "suite", "from": { "size": 1 }, "to": { "size": 2 } }])
    );
    assert_eq!(other["enqueuedRuns"], 1);
    let run = other["runIds"][0].as_str().expect("a run");
    assert_eq!(host.end_of(run).await.last().expect("an end")["type"], "run.completed");
    if let Some(folder) = openwop() {
        check(&folder, "heartbeat-evaluated.schema.json", &other["evaluated"][0]);
        check(&folder, "heartbeat-state-changed.schema.json", &other["stateChanged"][0]);
    }
    assert_eq!(tick(&host, json!({ "size": 2 }), 0).await["enqueuedRuns"], 0);
}

/// S-16.
#[tokio::test(start_paused = true)]
async fn s16_a_look_that_takes_too_long_is_given_up_and_changes_nothing() {
    let host = host().await;
    tick(&host, json!({ "size": 1 }), 0).await;
    let slow = tick(&host, json!({ "size": 2 }), 60_000).await;
    let evaluated = json!([{ "heartbeatId": "suite", "status": "timeout", "changed": false }]);
    assert_eq!((&slow["evaluated"], &slow["enqueuedRuns"]), (&evaluated, &json!(0)));
    assert_eq!(slow["stateChanged"], json!([]));
    let seen = tick(&host, json!({ "size": 2 }), 4_000).await;
    assert_eq!(seen["enqueuedRuns"], 1, "the next look sees what the slow one missed");
}

/// RFC 0060 keeps what heartbeats tell out of every log; whoever listens hears it between what the logs tell.
#[tokio::test(start_paused = true)]
async fn a_tenants_stream_carries_what_its_heartbeats_tell() {
    let host = host().await;
    let mut frames = host.get("/v1/host/callboard/events").open().await;
    let mut rival = host.get("/v1/host/callboard/events").key(RIVAL).open().await;
    tick(&host, json!({ "size": 1 }), 0).await;
    let changed = tick(&host, json!({ "size": 2 }), 0).await;
    let mut told = Vec::new();
    let mut fired = Vec::new();
    while told.len() < 3 || fired.is_empty() {
        let frame = frames.next().await.expect("a frame");
        if frame.event.starts_with("heartbeat.") {
            assert_eq!(frame.id, None, "nobody can come back for it");
            assert_eq!(frame.data["type"], json!(frame.event));
            told.push((frame.event, frame.data["payload"].clone()));
        } else if frame.event == "run.started" {
            fired.push(frame.data["runId"].clone());
        }
    }
    let evaluated = |changed: bool| {
        let payload = json!({ "heartbeatId": "suite", "status": "ok", "changed": changed });
        ("heartbeat.evaluated".to_owned(), payload)
    };
    let other = ("heartbeat.stateChanged".to_owned(), changed["stateChanged"][0].clone());
    assert_eq!(told, [evaluated(false), evaluated(true), other]);
    assert_eq!(fired, [changed["runIds"][0].clone()]);
    assert_eq!(rival.next().await.expect("a frame").comment, "connected");
    host.shutdown.cancel();
    assert!(rival.next().await.is_none(), "another tenant hears nothing of it");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_made_paused_and_removed() {
    let host = host().await;
    let body = json!({ "workflowId": "watch", "url": "https://example.invalid/", "intervalSec": 1, "enabled": false });
    let made = host.post(HEARTBEATS, &body).send().await;
    assert_eq!((made.status, &made.json["intervalSec"]), (201, &json!(10)), "{made:?}");
    let path = format!("{HEARTBEATS}/{}", made.text_at("id"));
    assert_eq!(host.get(&path).send().await.json, made.json);
    assert_eq!(host.get(HEARTBEATS).send().await.json["heartbeats"], json!([made.json]));
    let change = json!({ "enabled": false });
    let paused = host.call(Method::PATCH, &path).json(&change).send().await;
    assert_eq!((paused.status, &paused.json["enabled"]), (200, &json!(false)));
    let foreign = host.get(&path).key(RIVAL).send().await;
    let unknown = host.get(&format!("{HEARTBEATS}/hb_0")).key(RIVAL).send().await;
    assert_eq!(foreign.refusal(), (404, "not_found"));
    assert_eq!(foreign.json["message"], unknown.json["message"]);
    assert_eq!(host.post(HEARTBEATS, &body).key(READER).send().await.status, 403);
    for (field, wrong) in [
        ("url", json!("ftp://example.com/")),
        ("url", json!("https://user:pass@example.com/")),
        ("url", json!("/relative")),
        // What the host may not call is refused where somebody reads the answer.
        ("url", json!("https://127.0.0.1/")),
        ("url", json!("https://169.254.169.254/latest/meta-data/")),
        ("rosterId", json!("host:nobody")),
        ("extra", json!(1)),
    ] {
        let mut bad = body.clone();
        bad[field] = wrong.clone();
        let refused = host.post(HEARTBEATS, &bad).send().await;
        assert_eq!(refused.refusal(), (400, "validation_error"), "{field} {wrong}");
    }
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(host.call(Method::DELETE, &path).send().await.refusal(), (404, "not_found"));
}

#[tokio::test(start_paused = true)]
async fn what_is_advertised_of_heartbeats_is_what_holds() {
    let host = host().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let expected = json!({ "supported": true, "minIntervalSec": 10, "maxRuntimeMs": 5000 });
    assert_eq!(document["heartbeat"], expected);
}
