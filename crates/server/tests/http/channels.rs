//! F22: writing into a run's channel from outside.

use serde_json::{Value, json};

use crate::given::{READER, RIVAL, TestHost, workflow};

/// A run that waits at a gate, of a workflow with one channel of each kind.
async fn waiting(host: &TestHost) -> String {
    let mut definition = workflow("board", &[("gate", "core.approvalGate")]);
    definition["channels"] = json!({
        "notes": { "reducer": "append", "schema": { "items": { "type": "string" } } },
        "votes:gate": { "reducer": "votes" },
        "current": { "reducer": "replace" },
        "state": { "reducer": "merge" },
        "mix": { "reducer": "vendor.acme.mix" },
        "own": { "reducer": "append", "access": { "writers": ["gate"] } },
    });
    let reply = host.post("/v1/host/callboard/workflows", &definition).send().await;
    assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    let run = host.run("board", json!({})).await;
    let path = format!("/v1/runs/{run}/events/poll?timeout=60");
    while host.get(&path).send().await.json["runStatus"] != "waiting-approval" {}
    run
}

fn place(run: &str, channel: &str) -> String {
    format!("/v1/host/callboard/runs/{run}/channels/{channel}")
}

async fn written(host: &TestHost, run: &str) -> Vec<Value> {
    let page = host.get(&format!("/v1/runs/{run}/events/poll")).send().await.json;
    let events = page["events"].as_array().cloned().unwrap_or_default();
    events.into_iter().filter(|event| event["type"] == "channel.written").collect()
}

#[tokio::test(start_paused = true)]
async fn f22_a_write_lands_in_the_run_with_its_source() {
    let host = TestHost::start().await;
    let run = waiting(&host).await;
    let body = json!({ "value": "hi", "sourceEngineId": "engine-7", "sourceRunId": "run_x" });
    let reply = host.post(&place(&run, "notes"), &body).send().await;
    let expected = json!({ "runId": run, "channel": "notes", "status": "waiting-approval" });
    assert_eq!((reply.status, reply.json), (200, expected));
    // A channel's name may hold a colon, as the protocol's own convention does.
    let vote = json!({ "value": { "userId": "u", "action": "accept" } });
    let reply = host.post(&place(&run, "votes:gate"), &vote).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let told = written(&host, &run).await;
    assert_eq!(told.len(), 2);
    let payload = &told[0]["payload"];
    assert_eq!(
        (&payload["sourceEngineId"], &payload["sourceRunId"]),
        (&json!("engine-7"), &json!("run_x"))
    );
    assert_eq!((payload.get("nodeId"), told[1]["payload"].get("sourceRunId")), (None, None));
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert_eq!(snapshot["channels"]["notes"], json!(["hi"]));
    assert_eq!(snapshot["channels"]["votes:gate"][0]["userId"], "u");
}

#[tokio::test(start_paused = true)]
async fn f22_what_cannot_be_written_from_outside_is_refused_by_name() {
    let host = TestHost::start().await;
    let run = waiting(&host).await;
    let body = json!({ "value": {}, "sourceEngineId": "engine-7", "sourceRunId": "run_x" });
    for (channel, reducer) in
        [("current", "replace"), ("state", "merge"), ("mix", "vendor.acme.mix")]
    {
        let refused = host.post(&place(&run, channel), &body).send().await;
        assert_eq!(
            (refused.status, refused.text_at("error").as_str()),
            (400, "channel_cross_engine_write_forbidden")
        );
        let details = json!({ "channel": channel, "reducer": reducer,
            "sourceEngineId": "engine-7", "sourceRunId": "run_x" });
        assert_eq!(refused.json["details"], details);
    }
    for (channel, body, code) in [
        ("own", json!({ "value": 1 }), "channel_access_denied"),
        ("nowhere", json!({ "value": 1 }), "validation_error"),
        ("notes", json!({ "value": 1 }), "validation_error"),
        ("notes", json!({}), "validation_error"),
        ("notes", json!({ "value": "x", "nodeId": "gate" }), "validation_error"),
        ("notes", json!({ "value": "x", "sourceRunId": "" }), "validation_error"),
    ] {
        let refused = host.post(&place(&run, channel), &body).send().await;
        assert_eq!(
            (refused.status, refused.text_at("error").as_str()),
            (400, code),
            "{channel} {body}"
        );
    }
    let hello = json!({ "value": "hello" });
    let reader = host.post(&place(&run, "notes"), &hello).key(READER).send().await;
    assert_eq!(
        (reader.status, reader.json["details"]["scopeRequired"].as_str()),
        (403, Some("runs:create"))
    );
    let rival = host.post(&place(&run, "notes"), &hello).key(RIVAL).send().await;
    assert_eq!((rival.status, rival.text_at("error").as_str()), (404, "not_found"));
    assert_eq!(written(&host, &run).await, Vec::<Value>::new());
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await;
    host.end_of(&run).await;
    let late = host.post(&place(&run, "notes"), &hello).send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "run_terminal"));
}

#[tokio::test(start_paused = true)]
async fn f22_a_repetition_under_the_same_key_writes_once() {
    let host = TestHost::start().await;
    let run = waiting(&host).await;
    let body = json!({ "value": "once" });
    for _ in 0..2 {
        let call = host.post(&place(&run, "notes"), &body).header("idempotency-key", "k1");
        assert_eq!(call.send().await.status, 200);
    }
    assert_eq!(written(&host, &run).await.len(), 1);
    let fork = json!({ "fromSeq": 0, "mode": "replay" });
    let forked = host.post(&format!("/v1/runs/{run}:fork"), &fork).send().await.text_at("runId");
    host.end_of(&forked).await;
    let refused = host.post(&place(&forked, "notes"), &body).send().await;
    assert_eq!(refused.status, 409, "a replay takes nothing from outside: {refused:?}");
    assert_eq!(written(&host, &forked).await.len(), 1, "but tells what its source was told");
}
