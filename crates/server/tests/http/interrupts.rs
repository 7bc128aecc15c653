//! F28–F35, F38, F39, F42, R27, R46, R50, R78, R80: questions answered over HTTP.

use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_engine::{KeyMode, LinkSecrets, Realm};
use callboard_protocol::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::given::{READER, RIVAL, TestHost};

fn workflow(id: &str, type_id: &str, config: &Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "edges": [], "variables": [], "metadata": {}, "settings": {},
        "triggers": [],
        "nodes": [{
            "id": "gate", "typeId": type_id, "name": "Gate", "position": { "x": 0, "y": 0 }, "config": config,
            "inputs": {},
        }],
    })
}

/// Starts a run of one gate and returns it once it waits.
pub(crate) async fn asked(host: &TestHost, type_id: &str, config: Value) -> String {
    asked_by(host, type_id, config, json!({ "workflowId": "question" })).await
}

/// The same for an order of its own.
pub(crate) async fn asked_by(
    host: &TestHost,
    type_id: &str,
    config: Value,
    order: Value,
) -> String {
    let reply = host
        .post("/v1/host/callboard/workflows", &workflow("question", type_id, &config))
        .send()
        .await;
    assert!((200..300).contains(&reply.status), "{reply:?}");
    let reply = host.post("/v1/runs", &order).send().await;
    let run = reply.text_at("runId");
    loop {
        let shown = host.get(&format!("/v1/runs/{run}")).send().await;
        if shown.text_at("status").starts_with("waiting") {
            return run;
        }
        tokio::task::yield_now().await;
    }
}

fn place(run: &str) -> String {
    format!("/v1/runs/{run}/interrupts/gate")
}

fn accept() -> Value {
    json!({ "resumeValue": { "action": "accept" } })
}

/// F28, F29, R27: where it waits, what a wrong answer gets, and what a right one does.
#[tokio::test(start_paused = true)]
async fn an_approval_is_answered_with_a_key() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({ "actions": ["accept", "reject"] })).await;
    let shown = host.get(&format!("/v1/runs/{run}")).send().await;
    assert_eq!(shown.text_at("status"), "waiting-approval");
    assert_eq!(shown.text_at("currentNodeId"), "gate");
    let maybe = json!({ "resumeValue": { "action": "maybe" } });
    let wrong = host.post(&place(&run), &maybe).send().await;
    assert_eq!((wrong.status, wrong.text_at("error").as_str()), (400, "validation_error"));
    let unknown = host.post(&format!("/v1/runs/{run}/interrupts/nowhere"), &accept()).send().await;
    assert_eq!((unknown.status, unknown.text_at("error").as_str()), (404, "interrupt_not_found"));
    let reply = host.post(&place(&run), &accept()).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json, json!({ "runId": run, "nodeId": "gate", "status": "completed" }));
    let again = host.post(&place(&run), &accept()).send().await;
    assert_eq!(
        (again.status, again.text_at("error").as_str()),
        (409, "interrupt_already_resolved")
    );
}

/// Another tenant's question does not exist, and answering needs its own scope.
#[tokio::test(start_paused = true)]
async fn only_those_who_may_can_answer() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({})).await;
    let stranger = host.post(&place(&run), &accept()).key(RIVAL).send().await;
    assert_eq!((stranger.status, stranger.text_at("error").as_str()), (404, "not_found"));
    let reader = host.post(&place(&run), &accept()).key(READER).send().await;
    assert_eq!(reader.status, 403);
    assert_eq!(reader.json["details"]["scopeRequired"], "approvals:respond");
    let anonymous = host.post(&place(&run), &accept()).anonymous().send().await;
    assert_eq!(anonymous.status, 401);
}

/// F35, R46: of many answers at once, one counts.
#[tokio::test(start_paused = true)]
async fn of_many_answers_one_counts() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({})).await;
    let mut won = 0;
    let path = place(&run);
    let body = accept();
    let answers = (0..8).map(|_| host.post(&path, &body).send());
    for reply in futures_util::future::join_all(answers).await {
        match reply.status {
            200 => won += 1,
            other => assert_eq!(other, 409, "{reply:?}"),
        }
    }
    assert_eq!(won, 1);
    let events = host.end_of(&run).await;
    assert_eq!(events.iter().filter(|event| event["type"] == "approval.received").count(), 1);
}

/// F42: a cancelled run takes its questions with it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_run_takes_its_questions_with_it() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({})).await;
    let pause = host.call(Method::POST, &format!("/v1/runs/{run}:pause")).send().await;
    assert_eq!(pause.status, 409, "R50: a waiting run is not paused");
    assert_eq!(pause.json["details"]["runStatus"], "waiting-approval");
    host.call(Method::POST, &format!("/v1/runs/{run}/cancel")).send().await;
    let late = host.post(&place(&run), &accept()).send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "run_terminal"));
    let older = format!("/v1/runs/{run}/approvals/gate");
    let late = host.post(&older, &json!({ "action": "accept" })).send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "run_terminal"));
}

fn external() -> Value {
    json!({ "kind": "external-event", "data": { "eventType": "paid", "correlation": { "order": 7 } }, "timeoutMs": 60_000 })
}

async fn link(host: &TestHost, run: &str) -> String {
    let shown = host.get(&format!("/v1/runs/{run}")).send().await;
    shown.json["interrupt"]["callbackUrl"].as_str().map(str::to_owned).expect("a link")
}

/// F33, R80: the link needs no key, the event must be the right one, and the link works once.
#[tokio::test(start_paused = true)]
async fn an_external_event_comes_through_its_link() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.interrupt", external()).await;
    let link = link(&host, &run).await;
    let shown = host.get(&link).anonymous().send().await;
    assert_eq!((shown.status, shown.text_at("kind").as_str()), (200, "external-event"));
    let foreign = json!({ "resumeValue": { "order": 8 } });
    let wrong = host.post(&link, &foreign).anonymous().send().await;
    assert_eq!((wrong.status, wrong.text_at("error").as_str()), (422, "correlation_mismatch"));
    let right = json!({ "resumeValue": { "order": 7 } });
    let reply = host.post(&link, &right).anonymous().send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (200, "completed"), "{reply:?}");
    let again = host.post(&link, &right).anonymous().send().await;
    assert_eq!(
        (again.status, again.text_at("error").as_str()),
        (409, "interrupt_already_resolved")
    );
    let forged = host.post("/v1/interrupts/e30.AAAA", &right).anonymous().send().await;
    assert_eq!((forged.status, forged.text_at("error").as_str()), (404, "interrupt_not_found"));
}

/// A link as the host itself would sign it.
fn signed(host: &TestHost, run: &str, intent: &str) -> String {
    let realm = Realm { tenant: "acme".into(), mode: KeyMode::Live };
    let secret = LinkSecrets::new(host.store.inner()).link_secret(&realm, 0);
    let said = json!({
        "keyId": 0, "runId": run, "nodeId": "gate", "interruptId": format!("{run}:gate:0"),
        "expiresAt": host.now().plus_millis(60_000), "intent": intent,
    });
    let said = URL_SAFE_NO_PAD.encode(said.to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret).expect("any length will do");
    mac.update(said.as_bytes());
    format!("/v1/interrupts/{said}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// F38: a link that may look may not answer.
#[tokio::test(start_paused = true)]
async fn a_link_to_look_does_not_answer() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({})).await;
    let link = signed(&host, &run, "inspect");
    assert_eq!(host.get(&link).anonymous().send().await.status, 200);
    let refused = host.post(&link, &accept()).anonymous().send().await;
    assert_eq!((refused.status, refused.text_at("error").as_str()), (403, "forbidden"));
    let link = signed(&host, &run, "resolve");
    assert_eq!(host.post(&link, &accept()).anonymous().send().await.status, 200);
}

/// F39: where a key is asked for, a link is refused and the question stays open.
#[tokio::test(start_paused = true)]
async fn a_question_that_needs_a_key_refuses_a_link() {
    let host = TestHost::start().await;
    let config = json!({ "profile": "openwop-interrupt-auth-required" });
    let run = asked(&host, "core.approvalGate", config).await;
    let refused = host.post(&signed(&host, &run, "resolve"), &accept()).anonymous().send().await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let reply = host.post(&place(&run), &accept()).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// F38: rotating the secret once breaks no link, rotating it twice ends those from before.
#[tokio::test(start_paused = true)]
async fn a_link_outlives_one_rotation_and_not_two() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.interrupt", external()).await;
    let first = link(&host, &run).await;
    let rotate = "/v1/host/callboard/interrupt-links/rotate";
    let reader = host.call(Method::POST, rotate).key(READER).send().await;
    assert_eq!(
        (reader.status, reader.json["details"]["scopeRequired"].as_str()),
        (403, Some("admin"))
    );
    let reply = host.call(Method::POST, rotate).send().await;
    assert_eq!((reply.status, reply.json), (200, json!({ "generation": 1 })));
    // Another tenant's secrets are its own business.
    host.call(Method::POST, rotate).key(RIVAL).send().await;
    host.call(Method::POST, rotate).key(RIVAL).send().await;
    assert_eq!(host.get(&first).anonymous().send().await.status, 200);
    let second = link(&host, &run).await;
    host.call(Method::POST, rotate).send().await;
    let right = json!({ "resumeValue": { "order": 7 } });
    let forgotten = host.post(&first, &right).anonymous().send().await;
    assert_eq!(
        (forgotten.status, forgotten.text_at("error").as_str()),
        (404, "interrupt_not_found")
    );
    let reply = host.post(&second, &right).anonymous().send().await;
    assert_eq!((reply.status, reply.text_at("status").as_str()), (200, "completed"), "{reply:?}");
}

/// D-17, W-11: the older path and the flat body mean the same, and nothing may stand beside `resumeValue`.
#[tokio::test(start_paused = true)]
async fn older_clients_are_understood() {
    let host = TestHost::start().await;
    for (path, body) in [
        ("approvals", json!({ "action": "accept" })),
        ("approvals", accept()),
        ("interrupts", json!({ "action": "accept", "feedback": "fine" })),
    ] {
        let run = asked(&host, "core.approvalGate", json!({})).await;
        let place = format!("/v1/runs/{run}/{path}/gate");
        let mixed = json!({ "resumeValue": { "action": "accept" }, "note": "x" });
        let wrong = host.post(&place, &mixed).send().await;
        assert_eq!((wrong.status, wrong.json["details"]["path"].as_str()), (400, Some("note")));
        let reply = host.post(&place, &body).send().await;
        assert_eq!(
            (reply.status, reply.text_at("status").as_str()),
            (200, "completed"),
            "{path} {body}"
        );
    }
}

/// F38: a link dies with its interrupt's deadline, which also fails the node.
#[tokio::test(start_paused = true)]
async fn a_link_expires_no_later_than_its_question() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.interrupt", external()).await;
    let link = link(&host, &run).await;
    let shown = host.get(&link).anonymous().send().await;
    let expires: Timestamp = shown.text_at("expiresAt").parse().expect("a time");
    assert!(expires.since(host.now()).as_secs() <= 60);
    let events = host.end_of(&run).await;
    assert_eq!(events.last().expect("an end")["type"], "run.failed");
    let late = host.post(&link, &json!({ "resumeValue": { "order": 7 } })).anonymous().send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (410, "interrupt_expired"));
}

/// Whoever holds the link can answer: it is shown to those who may.
#[tokio::test(start_paused = true)]
async fn who_only_reads_gets_no_link_that_answers() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.interrupt", external()).await;
    let made = json!({ "name": "desk", "scopes": ["runs:read", "approvals:respond"] });
    let desk = host.post("/v1/host/callboard/keys", &made).send().await.text_at("key");
    let shown = host.get(&format!("/v1/runs/{run}")).key(&desk).send().await;
    assert!(shown.json["interrupt"]["interruptToken"].is_string(), "{shown:?}");
    for path in ["", "/events/poll", "/debug-bundle", "/ancestry"] {
        let reply = host.get(&format!("/v1/runs/{run}{path}")).key(READER).send().await;
        let text = String::from_utf8_lossy(&reply.bytes).into_owned();
        assert!(!text.contains("interruptToken") && !text.contains("/v1/interrupts/"), "{text}");
    }
    let shown = host.get(&format!("/v1/runs/{run}")).key(READER).send().await;
    assert_eq!(shown.text_at("status"), "waiting-external");
}

#[tokio::test]
async fn who_may_not_answer_leaves_no_address_for_answers() {
    let host = TestHost::start().await;
    let made = json!({ "name": "starter", "scopes": ["runs:create"] });
    let starter = host.post("/v1/host/callboard/keys", &made).send().await.text_at("key");
    let order = json!({ "workflowId": "noop", "callbackUrl": "https://8.8.8.8/x" });
    let refused = host.post("/v1/runs", &order).key(&starter).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(refused.json["details"]["scopeRequired"], "approvals:respond");
    assert_eq!(host.post("/v1/runs", &order).send().await.status, 201);
}
