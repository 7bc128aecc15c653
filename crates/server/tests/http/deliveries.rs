//! What came in over triggers, dead letters that people replay or drop, and the processes that do the work.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{READER, RIVAL, TestHost, workflow};
use crate::triggers::{OURS, SUBSCRIPTIONS, queue};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";

/// A queue whose workflow needs a number, with three things in it that have none and one that has.
async fn filled(host: &TestHost) -> (String, Value) {
    let mut definition = workflow("orders", &[("only", "core.noop")]);
    definition["variables"] = json!([{ "name": "n", "type": "number", "required": true }]);
    assert_eq!(host.post(WORKFLOWS, &definition).send().await.status, 201);
    let mapping = json!({ "n": "queue.n" });
    let body = json!({ "source": "queue", "workflowId": "orders", "inputMapping": mapping });
    let id = queue(host, body).await;
    for (thing, payload) in [
        ("a", json!({ "m": "canary", "token": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789" })),
        ("b", json!({ "m": 2 })),
        ("c", json!({ "m": 3 })),
        ("d", json!({ "n": 4 })),
    ] {
        let body = json!({ "id": thing, "payload": payload });
        let put = host.post(&format!("{OURS}/{id}/deliver"), &body).send().await;
        assert!(put.status < 300, "{put:?}");
    }
    (id, definition)
}

async fn letters(host: &TestHost, id: &str) -> Vec<String> {
    let page = host.get(&format!("{SUBSCRIPTIONS}/{id}/dead-letters")).send().await.json;
    let all = page["deliveries"].as_array().into_iter().flatten();
    all.filter_map(|letter| letter["attemptEventId"].as_str()).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn deliveries_are_listed_with_attempts_and_latency() {
    let host = TestHost::start().await;
    let (id, _) = filled(&host).await;
    let path = format!("{OURS}/{id}/deliveries");
    let listed = host.get(&path).send().await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let all = listed.json["deliveries"].as_array().cloned().unwrap_or_default();
    let of = |state: &str| all.iter().filter(|line| line["state"] == state).collect::<Vec<_>>();
    assert_eq!((of("delivered").len(), of("dead-lettered").len()), (1, 3), "{all:?}");
    let done = of("delivered")[0];
    assert!(done["latencyMs"].is_u64() && done["runId"].is_string(), "{done}");
    assert_eq!(of("dead-lettered")[0]["attempts"], 1);
    assert!(!listed.json.to_string().contains("canary"), "a list tells no content");
    assert_eq!(host.get(&path).key(RIVAL).send().await.status, 404);
    assert_eq!(host.get(&path).key(READER).send().await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_read_dropped_or_replayed_with_all_others() {
    let host = TestHost::start().await;
    let (id, mut definition) = filled(&host).await;
    let before = letters(&host, &id).await;
    assert_eq!(before.len(), 3);
    let mut contents = Vec::new();
    for letter in &before {
        let path = format!("{OURS}/{id}/dead-letters/{letter}");
        assert_eq!(host.get(&path).key(RIVAL).send().await.status, 404);
        let shown = host.get(&path).send().await;
        assert_eq!((shown.status, &shown.json["delivery"]["deliveryId"]), (200, &json!(letter)));
        contents.push(shown.json.to_string());
    }
    let contents = contents.concat();
    assert!(contents.contains("canary") && !contents.contains("sk-proj-"), "{contents}");

    let dropped = format!("{OURS}/{id}/dead-letters/{}", before[0]);
    assert_eq!(host.call(Method::DELETE, &dropped).key(RIVAL).send().await.status, 404);
    assert_eq!(host.call(Method::DELETE, &dropped).send().await.status, 204);
    assert_eq!(host.call(Method::DELETE, &dropped).send().await.status, 404, "once");
    let all = format!("{OURS}/{id}/dead-letters/replay");
    let too_soon = host.post(&all, &json!({})).send().await.json;
    assert_eq!(too_soon["runIds"], json!([]));
    assert_eq!(too_soon["left"].as_array().map(Vec::len), Some(2), "{too_soon}");
    definition["variables"][0]["required"] = json!(false);
    assert_eq!(host.post(WORKFLOWS, &definition).send().await.status, 200);
    let replayed = host.post(&all, &json!({ "again": true })).send().await.json;
    assert_eq!(replayed["runIds"].as_array().map(Vec::len), Some(2), "{replayed}");
    assert!(letters(&host, &id).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_host_says_what_it_holds_and_whom_it_can_ask() {
    let host = TestHost::start().await;
    host.waiting_run().await;
    let found = host.get("/v1/host/callboard/hosts").send().await;
    assert_eq!(found.status, 200, "{found:?}");
    let line = &found.json["hosts"][0];
    assert_eq!(found.json["hosts"].as_array().map(Vec::len), Some(1));
    assert!(line["claims"]["mostRuns"].as_u64() > Some(0) && line["startedAt"].is_string());
    assert_eq!(found.json["database"]["isReady"], true);
    assert_eq!(found.json["providers"], json!([]));
    let probe = "/v1/host/callboard/providers/none/probe";
    assert_eq!(host.call(Method::POST, probe).send().await.status, 404);
    assert_eq!(host.call(Method::POST, probe).key(READER).send().await.status, 403);
}
