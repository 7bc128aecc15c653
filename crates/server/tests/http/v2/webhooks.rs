//! Webhooks that were registered under the second major, beside those of the first.

use axum::http::Method;
use serde_json::{Value, json};

use super::{bare, check, refused, segment};
use crate::given::{LIVE, OPS, RIVAL, TestHost};
use crate::webhooks::{Receiver, open_host, signature};

async fn register(host: &TestHost, body: &Value) -> crate::given::Reply {
    host.post("/webhooks", body).send().await
}

/// V-33.
#[tokio::test]
async fn a_registration_is_closed_and_tells_its_secret_once() {
    let host = open_host().await;
    let receiver = Receiver::start().await;
    let url = &receiver.url;
    for wrong in [
        json!({ "url": url, "events": ["agent.toolCalled"] }),
        json!({ "url": url, "events": ["run.dead_lettered"] }),
        json!({ "url": url, "events": ["runOrchestrator.*"] }),
        json!({ "url": url, "events": [] }),
        json!({ "url": url, "events": ["run.completed"], "durable": true }),
        json!({ "url": url, "events": ["run.completed"], "tenantId": "acme" }),
        json!({ "url": url, "events": ["run.completed"], "signatureAlgorithms": ["v9"] }),
        json!({ "url": url, "events": ["run.completed"], "secret": "" }),
    ] {
        assert_eq!(refused(&register(&host, &wrong).await), (400, "validation_error"), "{wrong}");
    }
    let inside = TestHost::start().await;
    let body = json!({ "url": "http://127.0.0.1/x", "events": ["run.completed"] });
    assert_eq!(refused(&register(&inside, &body).await), (400, "webhook_url_rejected"));
    let events = json!(["run.completed", "agent.tool-called", "orchestrator.*", "*"]);
    let made =
        register(&host, &json!({ "url": url, "events": events, "signatureAlgorithms": ["v1"] }))
            .await;
    assert_eq!(made.status, 201, "{made:?}");
    let fields: Vec<&String> = made.json.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["createdAt", "eventTypes", "secret", "subscriptionId", "url", "webhookId"]);
    assert_eq!(made.json["eventTypes"], events);
    assert_eq!(made.json["webhookId"], made.json["subscriptionId"]);
    assert!(made.text_at("webhookId").starts_with("acme/wh_"));
    let theirs =
        register(&host, &json!({ "url": url, "events": ["run.completed"], "secret": "mine" }))
            .await;
    assert_eq!((theirs.status, theirs.json.get("secret")), (201, None));
    let id = segment(&theirs.text_at("webhookId"));
    let gone = |key: &str| host.call(Method::DELETE, &format!("/webhooks/{id}")).key(key).send();
    assert_eq!(refused(&gone(RIVAL).await), (403, "id_tenant_mismatch"));
    assert_eq!(refused(&gone(OPS).await), (404, "not_found"));
    assert_eq!(gone(LIVE).await.status, 204);
    assert_eq!(refused(&gone(LIVE).await), (404, "not_found"));
    let letters = host.get(&format!("/webhooks/{id}/dead-letters")).send().await;
    assert_eq!(refused(&letters), (404, "not_found"));
    let rotate = host.post(&format!("/webhooks/{id}/rotate-secret"), &json!({})).send().await;
    assert_eq!(refused(&rotate), (404, "not_found"));
}

/// V-34: a webhook of each major hears of the same run, each in its words.
#[tokio::test]
async fn a_delivery_speaks_the_major_of_its_registration() {
    let host = open_host().await;
    let (mut first, mut second) = (Receiver::start().await, Receiver::start().await);
    let body = json!({ "url": first.url, "events": ["run.started"] });
    host.post("/v1/webhooks", &body).send().await;
    let made = register(&host, &json!({ "url": second.url, "events": ["run.started"] })).await;
    let run = host.second_noop().await;
    let events = host.second_end(&run).await;
    let old = first.next().await;
    assert_eq!(old.json()["event"]["runId"], bare(&run));
    assert_eq!(
        (&old.json()["type"], &old.json()["workspaceId"]),
        (&json!("run.started"), &json!("acme"))
    );
    let letter = second.next().await;
    assert_eq!(letter.json(), json!({ "runId": run, "event": events[0] }));
    check::event(&letter.json()["event"]);
    for (name, value) in [
        ("webhook-id", made.text_at("webhookId")),
        ("event-type", "run.started".to_owned()),
        ("signature-algorithm", "v1".to_owned()),
        (
            "signature",
            signature(&made.text_at("secret"), letter.header("openwop-timestamp"), &letter.body),
        ),
    ] {
        assert_eq!(letter.header(&format!("openwop-{name}")), value, "{name}");
        assert_eq!(letter.header(&format!("x-openwop-{name}")), value, "{name}");
    }
    // A run of a workspace names it.
    let place = host.post("/runs", &json!({ "workflowId": "noop" })).key(OPS).send().await;
    assert_eq!(second.next().await.json()["workspaceId"], "ops", "{place:?}");
}

/// V-35, trap 12: names are matched in the subscription's own words.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_delivered_is_read_page_by_page() {
    let host = open_host().await;
    // Nobody listens there.
    let url = "http://127.0.0.1:1/hook";
    let made =
        register(&host, &json!({ "url": url, "events": ["run.started", "run.completed"] })).await;
    let id = segment(&made.text_at("webhookId"));
    let run = host.second_noop().await;
    host.second_end(&run).await;
    let path = format!("/webhooks/{id}/dead-letters");
    let letters = loop {
        let page = host.get(&path).send().await;
        assert_eq!(page.status, 200, "{page:?}");
        let letters = page.json["deliveries"].as_array().cloned().expect("a list");
        if letters.len() == 2 {
            break letters;
        }
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    };
    for letter in &letters {
        let members: Vec<&String> = letter.as_object().expect("an object").keys().collect();
        assert_eq!(
            members,
            [
                "attempts",
                "deadLetteredAt",
                "deliveryId",
                "eventId",
                "eventType",
                "expiresAt",
                "reason",
                "runId",
                "webhookId"
            ]
        );
        assert_eq!(
            (&letter["runId"], &letter["webhookId"]),
            (&json!(run), &made.json["webhookId"])
        );
        assert_eq!(
            (&letter["reason"], &letter["attempts"]),
            (&json!("retries_exhausted"), &json!(10))
        );
        assert!(letter["deliveryId"].as_str().is_some_and(|id| id.len() == "acme/del_".len() + 20));
    }
    let first = host.get(&format!("{path}?limit=1")).send().await.json;
    assert_eq!(first["deliveries"], json!([letters[0]]));
    let next = first["nextCursor"].as_str().expect("a cursor");
    let second = host.get(&format!("{path}?limit=1&cursor={next}")).send().await.json;
    assert_eq!((&second["deliveries"], second.get("nextCursor")), (&json!([letters[1]]), None));
    let wrong = host.get(&format!("{path}?cursor=eHg")).send().await;
    assert_eq!(refused(&wrong), (400, "validation_error"));
}

/// §9: a question goes to its run's address in the words of the major that made the run.
#[tokio::test]
async fn a_question_is_posted_in_the_major_that_made_the_run() {
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let ready =
        crate::interrupts::asked(&host, "core.approvalGate", json!({ "title": "Ship it?" })).await;
    assert!(!ready.is_empty());
    let run =
        host.second_run(json!({ "workflowId": "question", "callbackUrl": receiver.url })).await;
    let body = receiver.next().await.json();
    assert_eq!((&body["runId"], body.get("workspaceId")), (&json!(run), None));
    check::without_bare(&body, bare(&run));
    assert!(body["interruptId"].as_str().is_some_and(|id| id.starts_with("acme/int_")));
    let link = body["interrupt"]["callbackUrl"].as_str().expect("a link");
    assert!(link.starts_with("/interrupts/ow2.hs256."), "{link}");
    let accept = json!({ "resumeValue": { "action": "accept" } });
    assert_eq!(host.post(link, &accept).anonymous().send().await.status, 200);
}
