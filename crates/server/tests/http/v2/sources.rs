//! Triggers, roster, agents, tools and prompts without a version.

use serde_json::{Value, json};

use super::{bare, check, refused, segment};
use crate::given::{RIVAL, TestHost};

/// V-36.
#[tokio::test]
async fn a_trigger_is_registered_posted_to_and_read() {
    let host = TestHost::start().await;
    let body = json!({ "source": "form", "workflowId": "noop" });
    let made = host.post("/trigger-subscriptions", &body).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json["subscription"]["subscriptionId"].as_str().expect("an id");
    assert!(id.starts_with("acme/"), "{id}");
    let ingest = made.json["binding"]["ingestUrl"].as_str().expect("a link");
    assert!(ingest.starts_with(&format!("/trigger-subscriptions/{}", segment(id))), "{ingest}");
    let read = host.get(&format!("/trigger-subscriptions/{}", segment(id))).send().await.json;
    assert_eq!(read["subscription"]["subscriptionId"], json!(id));
    let post = || {
        host.post(ingest, &json!({ "fields": { "a": 1 } }))
            .header("webhook-id", "m1")
            .anonymous()
            .send()
    };
    let delivered = post().await;
    assert_eq!(delivered.status, 202, "{delivered:?}");
    let run = delivered.text_at("runId");
    assert!(run.starts_with("acme/run_"), "{run}");
    let events = host.second_end(&run).await;
    let told =
        events.iter().find(|event| event["type"] == "trigger.delivery-attempted").expect("it");
    assert_eq!(told["payload"]["subscriptionId"], json!(id));
    assert_eq!(events[0]["causationId"], told["eventId"]);
    check::without_bare(&told["payload"], bare(id));
    let letters =
        host.get(&format!("/trigger-subscriptions/{}/dead-letters", segment(id))).send().await;
    assert_eq!((letters.status, &letters.json["deliveries"]), (200, &json!([])));
    let other = host.get(&format!("/trigger-subscriptions/{}", bare(id))).key(RIVAL).send().await;
    assert_eq!(refused(&other), (404, "not_found"));
}

/// V-36.
#[tokio::test]
async fn lists_have_the_same_bodies_under_both_majors() {
    let host = TestHost::start().await;
    for path in
        ["/agents", "/agents/roster", "/agents/org-chart", "/tools", "/prompts", "/workflows/noop"]
    {
        let first = host.get(&format!("/v1{path}")).send().await;
        let second = host.get(path).send().await;
        assert_eq!((second.status, &second.json), (200, &first.json), "{path}");
    }
    let prompt =
        json!({ "templateId": "t.greet", "version": "1.0.0", "kind": "system", "text": "Hello" });
    let made = host.post("/prompts", &prompt).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let again = host.post("/prompts", &prompt).send().await;
    assert_eq!(refused(&again), (409, "version_conflict"));
    let read: Value = host.get("/prompts/t.greet").send().await.json;
    assert_eq!(read["text"], "Hello");
}

/// V-37; floor: effect-seam-manifest.
#[tokio::test]
async fn every_way_out_is_guarded_against_replays() {
    let host = TestHost::start().await;
    let discovery = host.get("/.well-known/openwop").header("openwop-version", "2").send().await;
    let path = discovery.json["replay"]["effectSeamsManifest"].as_str().expect("a path").to_owned();
    assert_eq!(refused(&host.get(&path).anonymous().send().await), (401, "unauthenticated"));
    let manifest = host.get(&path).send().await;
    assert_eq!((manifest.status, &manifest.json["manifestVersion"]), (200, &json!("1")));
    let seams = manifest.json["seams"].as_array().expect("rows");
    assert!(!seams.is_empty());
    for seam in seams {
        let kinds = ["http", "queue", "storage", "provider-sdk", "webhook-fanout"];
        assert!(kinds.contains(&seam["kind"].as_str().expect("a kind")), "{seam}");
        assert_eq!(seam["guarded"], true, "{seam}");
        assert!(seam["guardedBy"].as_str().is_some_and(|by| !by.is_empty()), "{seam}");
    }
}
