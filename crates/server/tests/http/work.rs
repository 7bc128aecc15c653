//! Work items: each time one comes to the top of a member's queue, it fires once.

use std::time::Duration;

use axum::http::Method;
use callboard_engine::{Filter, KeyMode, Scope, Store};
use serde_json::{Value, json};

use crate::agents::{host, task};
use crate::given::{LIVE, RIVAL, Reply, TestHost};
use crate::roster::{patch, sally};

async fn add(host: &TestHost, id: &str, body: Value) -> Reply {
    host.post(&format!("/v1/host/callboard/roster/{id}/work"), &body).send().await
}

async fn move_to(host: &TestHost, item: &Value, state: &str) -> Reply {
    let text = |field: &str| item[field].as_str().expect("a text").to_owned();
    let path = format!("/v1/host/callboard/roster/{}/work/{}", text("rosterId"), text("workId"));
    patch(host, &path, json!({ "state": state })).await
}

/// The item once it waits no longer.
async fn begun(host: &TestHost, item: &Value) -> Value {
    let path =
        format!("/v1/host/callboard/roster/{}/work", item["rosterId"].as_str().expect("an id"));
    loop {
        let listed = host.get(&path).send().await.json;
        let items = listed["work"].as_array().expect("a list");
        let found = items.iter().find(|known| known["workId"] == item["workId"]).expect("the item");
        if found["state"] != "todo" {
            return found.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
    let name = format!("work-{}-", id.trim_start_matches("host:"));
    assert!(subscription.starts_with(&name), "{subscription}");
    assert!(!told.to_string().contains("Printer"), "an attribution holds no content");
    let listed = host.get(&format!("/v1/host/callboard/roster/{id}/work")).send().await.json;
    assert_eq!(listed["work"][0]["runStatus"], "completed");
    let done = move_to(&host, item, "done").await;
    assert_eq!((done.status, done.text_at("state")), (200, "done".to_owned()));
}

/// RFC 0086 §E: an item is delivered over the bridge, and everything from it to its member can be followed.
#[tokio::test(start_paused = true)]
async fn an_item_its_delivery_its_run_and_its_member_are_one_chain() {
    let host = host().await;
    let id = sally(&host).await;
    let item = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await.json;
    let run = item["runId"].as_str().expect("a run");
    let events = host.end_of(run).await;
    let kinds: Vec<&Value> = events.iter().take(3).map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["run.started", "roster.run.initiated", "trigger.delivery.attempted"]);
    let delivery = &events[2];
    assert_eq!(events[0]["causationId"], delivery["eventId"]);
    assert!(!delivery.to_string().contains("Printer"), "a delivery is told without its content");
    let told = &delivery["payload"];
    let origin = host.get(&format!("/v1/host/callboard/runs/{run}/ancestry")).send().await.json;
    assert_eq!(
        origin["delivery"],
        json!({ "deliveryId": delivery["eventId"], "subscriptionId": told["subscriptionId"],
            "dedupKey": told["dedupKey"], "attempt": 1, "workId": item["workId"] })
    );
    assert_eq!((&origin["member"], &origin["runs"]), (&events[1]["payload"], &json!([])));
    let queue = told["subscriptionId"].as_str().expect("a subscription");
    let read = host.get(&format!("/v1/trigger-subscriptions/{queue}")).send().await.json;
    assert_eq!(read["subscription"]["source"], "queue");
    assert_eq!(read["subscription"]["state"], "active");
    // Moved back, the item is another thing delivered.
    let back = move_to(&host, &item, "todo").await.json;
    let again = host.end_of(back["runId"].as_str().expect("a run")).await;
    assert_ne!(again[2]["payload"]["dedupKey"], told["dedupKey"]);
    assert_eq!(again[2]["payload"]["subscriptionId"], told["subscriptionId"]);
    let foreign = host.get(&format!("/v1/host/callboard/runs/{run}/ancestry")).key(RIVAL);
    assert_eq!(foreign.send().await.refusal(), (404, "not_found"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_takes_no_item_and_nothing_else_ever_does() {
    let host = host().await;
    let id = sally(&host).await;
    let item = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await.json;
    let queue =
        host.end_of(item["runId"].as_str().expect("a run")).await[2]["payload"]["subscriptionId"]
            .as_str()
            .expect("a queue")
            .to_owned();
    let path = format!("/v1/host/callboard/trigger-subscriptions/{queue}");
    let beside = host.post(&format!("{path}/deliver"), &json!({ "id": "a" })).send().await;
    assert_eq!(beside.refusal(), (400, "validation_error"), "no run without its item");
    assert_eq!(patch(&host, &path, json!({ "state": "paused" })).await.status, 200);
    let waits = add(&host, &id, json!({ "title": "Stapler", "inputs": task() })).await.json;
    assert_eq!((&waits["state"], waits.get("runId")), (&json!("todo"), None));
    assert_eq!(waits["reason"], "the queue is paused");
    assert_eq!(patch(&host, &path, json!({ "state": "active" })).await.status, 200);
    assert_eq!(begun(&host, &waits).await["claimedBy"], json!(id));
    assert_eq!(runs(&host).await, 2 + 2, "the two items, and what tells of the queue");
    // Whoever dismisses a member dismisses its queue.
    let member = format!("/v1/host/callboard/roster/{id}");
    assert_eq!(host.call(Method::DELETE, &member).send().await.status, 204);
    let gone = host.get(&format!("/v1/trigger-subscriptions/{queue}")).send().await;
    assert_eq!(gone.status, 404);
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
async fn what_waited_begins_by_itself_once_its_member_is_resumed() {
    let host = host().await;
    let id = sally(&host).await;
    let member = format!("/v1/host/callboard/roster/{id}");
    patch(&host, &member, json!({ "enabled": false })).await;
    let item = add(&host, &id, json!({ "title": "Printer", "inputs": task() })).await.json;
    assert_eq!(item["reason"], "the member is paused");
    patch(&host, &member, json!({ "persona": "Sal" })).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(runs(&host).await, 0, "another change resumes nobody");
    patch(&host, &member, json!({ "enabled": true })).await;
    let begun = begun(&host, &item).await;
    assert_eq!((&begun["claimedBy"], begun.get("reason")), (&json!(id), None));
    let events = host.end_of(begun["runId"].as_str().expect("a run")).await;
    assert_eq!(events[1]["payload"]["triggerSource"], "queue");
    tokio::time::sleep(Duration::from_secs(60)).await;
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
