//! Questions asked through one major and answered through the other.

use serde_json::{Value, json};

use super::{bare, check, refused, segment};
use crate::given::{READER, TestHost};
use crate::interrupts::{asked, asked_by};

fn accept() -> Value {
    json!({ "resumeValue": { "action": "accept" } })
}

fn gate(run: &str) -> String {
    format!("/runs/{}/interrupts/gate", segment(run))
}

/// V-29, V-40; trap 9.
#[tokio::test]
async fn an_approval_is_answered_through_the_second_major() {
    let host = TestHost::start().await;
    let run =
        format!("acme/{}", asked(&host, "core.approvalGate", json!({ "title": "Ship it?" })).await);
    for wrong in [
        json!({ "action": "accept" }),
        json!({ "resumeValue": { "action": "accept" }, "more": 1 }),
        json!({}),
        json!({ "resumeValue": { "action": "timeout" } }),
        json!({ "resumeValue": { "action": "dance" } }),
    ] {
        let reply = host.post(&gate(&run), &wrong).send().await;
        assert_eq!(refused(&reply), (400, "validation_error"), "{wrong}");
    }
    let may_not = host.post(&gate(&run), &accept()).key(READER).send().await;
    assert_eq!(refused(&may_not), (403, "forbidden"));
    let answered = host.post(&gate(&run), &accept()).send().await;
    assert_eq!((answered.status, &answered.json["runId"]), (200, &json!(run)), "{answered:?}");
    assert_eq!(answered.json.as_object().map(serde_json::Map::len), Some(3));
    let again = host.post(&gate(&run), &accept()).send().await;
    assert_eq!(refused(&again), (409, "interrupt_already_resolved"));
    let events = host.second_end(&run).await;
    let find = |name: &str| {
        events.iter().find(|event| event["type"] == name).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(find("approval.requested")["payload"], find("interrupt.requested")["payload"]);
    for name in ["approval.received", "interrupt.resolved"] {
        let told = &find(name)["payload"];
        assert_eq!(told["interruptId"], find("node.suspended")["payload"]["interruptId"], "{name}");
        assert_eq!(
            (&told["action"], &told["decision"]),
            (&json!("accept"), &json!("granted")),
            "{name}"
        );
        assert_eq!(told["resolvedBy"]["issuer"], "urn:callboard:api-key", "{name}");
        assert_eq!(told["kind"], "approval");
    }
    // It is in the log itself, so that nobody has to look for the question.
    let log = host.get(&format!("/v1/runs/{}/events/poll?timeout=1", bare(&run))).send().await;
    let log = log.json["events"].as_array().cloned().expect("events");
    let named = |kind: &str, member: &str| {
        let event = log.iter().find(|event| event["type"] == kind);
        event.map(|event| event["payload"][member].clone()).unwrap_or_else(|| panic!("{kind}"))
    };
    let question = named("interrupt.requested", "key");
    assert!(question.is_string(), "{question}");
    assert_eq!(named("approval.received", "interruptId"), question);
    // A reader that begins in the middle is told the same.
    for event in &events {
        let before = event["sequence"].as_u64().expect("a number").checked_sub(1);
        let Some(before) = before else { continue };
        let path = format!("/runs/{}/events/poll?afterSequence={before}", segment(&run));
        let reply = host.get(&path).send().await.json;
        assert_eq!(reply["events"][0], *event);
    }
}

/// V-29.
#[tokio::test]
async fn a_rejection_fails_the_run_and_a_timeout_is_one() {
    let host = TestHost::start().await;
    let run =
        format!("acme/{}", asked(&host, "core.approvalGate", json!({ "title": "Ship it?" })).await);
    let reject = json!({ "resumeValue": { "action": "reject" } });
    assert_eq!(host.post(&gate(&run), &reject).send().await.status, 200);
    let events = host.second_end(&run).await;
    let end = events.last().expect("events");
    assert_eq!(end["type"], "run.failed");
    assert_eq!(end["payload"]["error"]["code"], "approval_rejected");
    assert_eq!(end["payload"]["error"]["retryable"], false);
    assert_eq!(end["payload"]["failedNodeId"], "gate");
}

/// V-28; floor: interrupt-token-scheme.
#[tokio::test]
async fn tokens_of_both_schemes_count_at_both_addresses() {
    let host = TestHost::start().await;
    let config = json!({
        "kind": "external-event", "data": { "eventType": "paid", "correlation": { "id": 7 } },
    });
    let value = json!({ "resumeValue": { "id": 7 } });
    for path in ["/v1/interrupts/", "/interrupts/"] {
        let run = asked(&host, "core.interrupt", config.clone()).await;
        let bound = format!("acme/{run}");
        let first = host.get(&format!("/v1/runs/{run}")).send().await.json["interrupt"].clone();
        let second = host.second_snapshot(&bound).await["interrupt"].clone();
        let (old, new) = (text(&first["interruptToken"]), text(&second["interruptToken"]));
        assert!(new.starts_with("ow2.hs256.") && !old.starts_with("ow2."), "{new}");
        assert_eq!(second["callbackUrl"], json!(format!("/interrupts/{new}")));
        for token in [&old, &new] {
            let shown = host.get(&format!("{path}{token}")).anonymous().send().await;
            assert_eq!((shown.status, &shown.json["kind"]), (200, &json!("external-event")));
            let is_second = path == "/interrupts/";
            assert_eq!(shown.json.get("requestedAt").is_none(), is_second);
        }
        let token = if path == "/interrupts/" { &old } else { &new };
        let flat = host.post(&format!("/interrupts/{token}"), &json!({ "eventType": "paid" }));
        assert_eq!(refused(&flat.anonymous().send().await), (400, "validation_error"));
        let mut wrong = value.clone();
        wrong["resumeValue"]["id"] = json!(8);
        let mismatch = host.post(&format!("/interrupts/{token}"), &wrong).anonymous().send().await;
        assert_eq!(refused(&mismatch), (400, "validation_error"));
        let answered = host.post(&format!("{path}{token}"), &value).anonymous().send().await;
        let expected = if path == "/interrupts/" { &bound } else { &run };
        assert_eq!(
            (answered.status, &answered.json["runId"]),
            (200, &json!(expected)),
            "{answered:?}"
        );
        let events = host.second_end(&bound).await;
        let resolved = events.iter().find(|event| event["type"] == "interrupt.resolved");
        let by = &resolved.expect("it")["payload"]["resolvedBy"];
        assert_eq!(by["lane"], "anonymous");
        check::without_bare(by, &run);
        let late = host.get(&format!("/interrupts/{token}")).anonymous().send().await;
        assert_eq!(refused(&late), (409, "interrupt_already_resolved"));
        let late = host.post(&format!("/interrupts/{token}"), &value).anonymous().send().await;
        assert_eq!(refused(&late), (409, "interrupt_already_resolved"));
    }
    for (token, expected) in [
        ("nonsense", (404, "interrupt_not_found")),
        ("ow2.hs256.nokid.x.y", (401, "interrupt_token_invalid")),
        ("ow2.none.g0.x.y", (401, "interrupt_token_invalid")),
        ("ow2.", (401, "interrupt_token_invalid")),
    ] {
        let reply = host.get(&format!("/interrupts/{token}")).anonymous().send().await;
        assert_eq!(refused(&reply), expected, "{token}");
        let old = host.get(&format!("/v1/interrupts/{token}")).anonymous().send().await;
        assert_eq!(old.refusal(), (404, "interrupt_not_found"), "{token}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Every kind of question that a gate asks has data that the second major's schema takes.
#[tokio::test]
async fn every_question_fits_its_closed_schema() {
    let host = TestHost::start().await;
    for (type_id, config) in [
        (
            "core.approvalGate",
            json!({ "title": "Ship it?", "approversList": ["key:a"], "timeoutMs": 1000 }),
        ),
        ("core.clarificationGate", json!({ "questions": [{ "id": "a", "question": "Why?" }] })),
        (
            "core.interrupt",
            json!({ "kind": "external-event", "data": { "eventType": "paid", "correlation": { "id": 7 } } }),
        ),
    ] {
        let order = json!({ "workflowId": "question" });
        let run = asked_by(&host, type_id, config, order).await;
        let path = format!("/runs/acme~2F{run}/events/poll");
        let reply = host.get(&path).send().await;
        assert_eq!(reply.status, 200, "{type_id}: {reply:?}");
        check::polled(&reply.json);
    }
}
