//! What people say of runs.

use serde_json::{Value, json};

use crate::given::{LAB, OPS, READER, RIVAL, TestHost};
use crate::schemas::{check, openwop};

fn place(run: &str) -> String {
    format!("/v1/runs/{run}/annotations")
}

async fn listed(host: &TestHost, run: &str) -> Value {
    let reply = host.get(&place(run)).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json["annotations"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_an_ended_run_is_kept_beside_its_log() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    let events = host.end_of(&run).await;
    assert_eq!(listed(&host, &run).await, json!([]));
    let mut said = Vec::new();
    for body in [
        json!({ "signal": { "kind": "rating", "rating": 5 } }),
        json!({ "signal": { "kind": "label", "label": "off-brand" }, "target": { "nodeId": "only" } }),
        json!({ "signal": { "kind": "correction", "correction": "Tuesday" },
            "target": { "eventId": format!("{run}-1") }, "note": "he said Tuesday" }),
        json!({ "signal": { "kind": "flag" } }),
    ] {
        let reply = host.post(&place(&run), &body).send().await;
        assert_eq!(reply.status, 201, "{reply:?}");
        if let Some(folder) = openwop() {
            check(&folder, "annotation.schema.json", &reply.json);
        }
        said.push(reply.json);
    }
    assert_eq!(said[0]["target"], json!({ "runId": run }));
    assert_eq!(said[0]["actor"]["principalRef"], "key:static-9a08bb59");
    assert_eq!(said[2]["note"], "he said Tuesday");
    assert_eq!(listed(&host, &run).await, json!(said));
    assert_eq!(host.end_of(&run).await, events, "a log says nothing of it");
}

#[tokio::test(start_paused = true)]
async fn a_repetition_under_one_key_says_it_once() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    let body = json!({ "signal": { "kind": "flag" } });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let call = host.post(&place(&run), &body).header("idempotency-key", "once");
        ids.push(call.send().await.text_at("annotationId"));
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(listed(&host, &run).await.as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    for body in [
        json!({}),
        json!({ "signal": {} }),
        json!({ "signal": { "kind": "praise" } }),
        json!({ "signal": { "kind": "rating" } }),
        json!({ "signal": { "kind": "rating", "rating": 0 } }),
        json!({ "signal": { "kind": "rating", "rating": 6 } }),
        json!({ "signal": { "kind": "label" } }),
        json!({ "signal": { "kind": "correction" } }),
        json!({ "signal": { "kind": "flag", "colour": "red" } }),
        json!({ "signal": { "kind": "flag" }, "target": { "runId": run } }),
        json!({ "signal": { "kind": "flag" }, "target": { "eventId": "run_0-0" } }),
        json!({ "signal": { "kind": "flag" }, "target": { "eventId": format!("{run}-999") } }),
        json!({ "signal": { "kind": "flag" }, "actor": { "principalRef": "somebody else" } }),
        json!({ "signal": { "kind": "flag" }, "note": "x".repeat(65_537) }),
    ] {
        let reply = host.post(&place(&run), &body).send().await;
        assert_eq!(
            (reply.status, &reply.json["error"]),
            (400, &json!("validation_error")),
            "{body}"
        );
    }
    assert_eq!(listed(&host, &run).await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn annotations_stay_with_those_who_see_the_run() {
    let host = TestHost::start().await;
    let run = host.run_as(OPS, json!({ "workflowId": "noop" })).await;
    let body = json!({ "signal": { "kind": "flag" } });
    assert_eq!(host.post(&place(&run), &body).key(OPS).send().await.status, 201);
    let unknown = host.get(&place("run_0")).send().await;
    for key in [RIVAL, LAB] {
        let hidden = host.get(&place(&run)).key(key).send().await;
        assert_eq!((hidden.status, &hidden.bytes), (404, &unknown.bytes), "{key}");
        assert_eq!(host.post(&place(&run), &body).key(key).send().await.status, 404, "{key}");
    }
    assert_eq!(host.get(&place(&run)).key(READER).send().await.status, 200);
    assert_eq!(host.post(&place(&run), &body).key(READER).send().await.status, 403);
    assert_eq!(listed(&host, &run).await.as_array().map(Vec::len), Some(1));
}

/// R74: a key that somebody pastes into a note is not even stored.
#[tokio::test(start_paused = true)]
async fn r74_credentials_in_notes_are_not_kept() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    let secret = format!("sk-{}", "0123456789abcdef0123");
    let body = json!({ "signal": { "kind": "correction", "correction": format!("use {secret}") }, "note": secret });
    let reply = host.post(&place(&run), &body).send().await;
    assert_eq!(reply.json["signal"]["correction"], "use [REDACTED]");
    assert!(!listed(&host, &run).await.to_string().contains(&secret));
}
