//! How subscriptions outlive what they cannot use, and how they end.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{RIVAL, TestHost, workflow};
use crate::triggers::{OURS, SUBSCRIPTIONS, hook, queue, send, state};
use crate::{agents, roster};

#[tokio::test(start_paused = true)]
async fn what_its_workflow_cannot_take_is_a_dead_letter_and_the_next_thing_is_taken() {
    let host = TestHost::start().await;
    let mut definition = workflow("orders", &[("only", "core.noop")]);
    definition["variables"] = json!([{ "name": "n", "type": "number", "required": true }]);
    let workflows = "/v1/host/callboard/workflows";
    assert_eq!(host.post(workflows, &definition).send().await.status, 201);
    let mapping = json!({ "n": "queue.n" });
    let body = json!({ "source": "queue", "workflowId": "orders", "inputMapping": mapping });
    let id = queue(&host, body).await;
    let path = format!("{OURS}/{id}/deliver");
    let put = host.post(&path, &json!({ "id": "a", "payload": { "m": 1 } })).send().await;
    let said = json!({ "outcome": "dead-lettered", "message": "inputs.n: is required" });
    assert_eq!((put.status, &put.json), (200, &said));
    assert_eq!(state(&host, &id).await, "active");
    let page = host.get(&format!("{SUBSCRIPTIONS}/{id}/dead-letters")).send().await.json;
    let letter = &page["deliveries"][0];
    assert_eq!(letter["reason"], "retries_exhausted");
    assert_eq!(letter["stateChange"], Value::Null, "the subscription has not moved");
    let next = host.post(&path, &json!({ "id": "b", "payload": { "n": 1 } })).send().await;
    assert_eq!((next.status, &next.json["outcome"]), (202, &json!("delivered")), "{next:?}");
    definition["variables"][0]["required"] = json!(false);
    assert_eq!(host.post(workflows, &definition).send().await.status, 200);
    let letter = letter["attemptEventId"].as_str().expect("an id");
    let replay = format!("{OURS}/{id}/dead-letters/{letter}/replay");
    assert_eq!(host.post(&replay, &json!({})).send().await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_says_what_it_starts_until_it_is_removed() {
    let host = TestHost::start().await;
    let hook = hook(&host, json!({ "inputMapping": { "day": "webhook.body.day" } })).await;
    let path = format!("{OURS}/{}", hook.id);
    let read = host.get(&path).send().await;
    assert_eq!((&read.json["workflowId"], &read.json["state"]), (&json!("noop"), &json!("active")));
    assert_eq!(read.json["inputMapping"]["day"], "webhook.body.day");
    assert_eq!(read.json["binding"], json!({ "ingestUrl": hook.url }));
    assert!(!String::from_utf8_lossy(&read.bytes).contains("whsec_"));
    assert_eq!(host.get(OURS).send().await.json["subscriptions"], json!([read.json]));
    let foreign = host.call(Method::DELETE, &path).key(RIVAL).send().await;
    assert_eq!(foreign.status, 404);
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    for gone in [host.get(&path), host.call(Method::DELETE, &path)] {
        assert_eq!(gone.send().await.status, 404);
    }
    assert_eq!(send(&host, &hook, "msg_0123456789_1", "{}").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn what_brought_work_to_a_member_fails_when_she_leaves() {
    let host = agents::host().await;
    let sally = roster::sally(&host).await;
    let body = json!({ "source": "queue", "workflowId": "campaign" });
    let anybodys = queue(&host, body.clone()).await;
    let mut body = body;
    body["rosterId"] = json!(sally);
    let hers = queue(&host, body).await;
    let gone = host.call(Method::DELETE, &format!("/v1/host/callboard/roster/{sally}"));
    assert_eq!(gone.send().await.status, 204);
    assert_eq!(state(&host, &hers).await, "failed");
    assert_eq!(state(&host, &anybodys).await, "active");
    let told = host.get("/v1/host/callboard/runs?workflowId=callboard-trigger").send().await;
    let run = told.json["runs"][0]["runId"].as_str().expect("a run that tells of it").to_owned();
    let events = host.end_of(&run).await;
    let moved = events.iter().find(|event| event["type"] == "trigger.subscription.state.changed");
    assert_eq!(moved.expect("the change")["payload"]["reason"], "source-removed");
}
