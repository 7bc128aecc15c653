//! Work items: each time one comes to the top of a member's queue, it fires once.

use callboard_engine::{Filter, KeyMode, Scope, Store};
use serde_json::{Value, json};

use crate::agents::{host, task};
use crate::given::{LIVE, Reply, TestHost};
use crate::roster::{patch, sally};

async fn add(host: &TestHost, id: &str, body: Value) -> Reply {
    host.post(&format!("/v1/host/callboard/roster/{id}/work"), &body).send().await
}

async fn move_to(host: &TestHost, item: &Value, state: &str) -> Reply {
    let text = |field: &str| item[field].as_str().expect("a text").to_owned();
    let path = format!("/v1/host/callboard/roster/{}/work/{}", text("rosterId"), text("workId"));
    patch(host, &path, json!({ "state": state })).await
}

async fn runs(host: &TestHost) -> usize {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let filter = Filter { limit: 100, ..Filter::default() };
    host.store.list(&scope, &filter).await.expect("a list").len()
}

#[tokio::test(start_paused = true)]
async fn an_item_begins_at_once_and_is_attributed_over_its_subscription() {
    let host = host().await;
    let id = sally(&host).await;
    let reply = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let item = &reply.json;
    assert_eq!((&item["state"], &item["claimedBy"]), (&json!("doing"), &json!(id)));
    assert_eq!((&item["workflowId"], &item["moves"]), (&json!("campaign"), &json!(1)));
    let run = reply.text_at("runId");
    let events = host.end_of(&run).await;
    let told = &events[1]["payload"];
    assert_eq!((&told["rosterId"], &told["triggerSource"]), (&json!(id), &json!("queue")));
    let subscription = told["triggerSubscriptionId"].as_str().expect("a subscription");
    assert_eq!(subscription, format!("work-{}", id.trim_start_matches("host:")));
    assert!(!told.to_string().contains("Printer"), "an attribution holds no content");
    let listed = host.get(&format!("/v1/host/callboard/roster/{id}/work")).send().await.json;
    assert_eq!(listed["work"][0]["runStatus"], "completed");
    let done = move_to(&host, item, "done").await;
    assert_eq!((done.status, done.text_at("state")), (200, "done".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn moving_an_item_back_fires_again_and_only_then() {
    let host = host().await;
    let id = sally(&host).await;
    let first = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await.json;
    assert_eq!(move_to(&host, &first, "doing").await.refusal(), (409, "work_conflict"));
    assert_eq!(move_to(&host, &first, "done").await.status, 200);
    assert_eq!(move_to(&host, &first, "done").await.refusal(), (409, "work_conflict"));
    assert_eq!(runs(&host).await, 1);
    let back = move_to(&host, &first, "todo").await;
    assert_eq!((back.status, &back.json["state"]), (200, &json!("doing")));
    assert_eq!(back.json["moves"], 2);
    assert_ne!(back.json["runId"], first["runId"]);
    assert_eq!(runs(&host).await, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_put_before_a_paused_member_waits() {
    let host = host().await;
    let id = sally(&host).await;
    let member = format!("/v1/host/callboard/roster/{id}");
    patch(&host, &member, json!({ "enabled": false })).await;
    let item = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await.json;
    assert_eq!((&item["state"], item.get("runId")), (&json!("todo"), None));
    assert_eq!(move_to(&host, &item, "todo").await.json["state"], "todo");
    assert_eq!(runs(&host).await, 0);
    // A person may take it meanwhile, and give it back.
    let taken = move_to(&host, &item, "doing").await.json;
    assert!(taken["claimedBy"].as_str().is_some_and(|who| who.starts_with("key:")), "{taken}");
    patch(&host, &member, json!({ "enabled": true })).await;
    let back = move_to(&host, &item, "todo").await.json;
    assert_eq!((&back["state"], &back["claimedBy"]), (&json!("doing"), &json!(id)));
    assert_eq!(runs(&host).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_adds_one_item() {
    let host = host().await;
    let id = sally(&host).await;
    let path = format!("/v1/host/callboard/roster/{id}/work");
    let body = json!({ "title": "Printer", "inputs": task() });
    let call = || host.post(&path, &body).header("idempotency-key", "once").key(LIVE);
    let (first, second) = (call().send().await, call().send().await);
    assert_eq!((first.status, first.json), (second.status, second.json));
    assert_eq!(runs(&host).await, 1);
    assert_eq!(host.get(&path).send().await.json["work"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_done_is_refused() {
    let host = host().await;
    let id = sally(&host).await;
    for (body, status, code) in [
        (json!({ "title": "" }), 400, "validation_error"),
        (json!({ "title": "x", "workflowId": "chain" }), 403, "not_in_portfolio"),
        (json!({ "title": "x", "column": "To Do" }), 400, "validation_error"),
    ] {
        assert_eq!(add(&host, &id, body.clone()).await.refusal(), (status, code), "{body}");
    }
    let item = add(&host, &id, json!({ "title": "x", "inputs": task() })).await.json;
    let member = format!("/v1/host/callboard/roster/{id}");
    patch(&host, &member, json!({ "workflows": [] })).await;
    assert_eq!(move_to(&host, &item, "todo").await.refusal(), (409, "work_conflict"));
    let none = add(&host, &id, json!({ "title": "x" })).await;
    assert_eq!(none.refusal(), (400, "validation_error"));
    let list = host.get(&format!("{member}/work?state=doing")).send().await.json;
    assert_eq!(list["work"].as_array().map(Vec::len), Some(1));
}
