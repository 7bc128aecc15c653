//! F28–F35, F38, F39, F42, R27, R46, R50, R78, R80: questions answered over HTTP.

use axum::http::Method;
use callboard_protocol::Timestamp;
use serde_json::{Value, json};

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
async fn asked(host: &TestHost, type_id: &str, config: Value) -> String {
    let reply = host
        .post("/v1/host/callboard/workflows", &workflow("question", type_id, &config))
        .send()
        .await;
    assert!((200..300).contains(&reply.status), "{reply:?}");
    let reply = host.post("/v1/runs", &json!({ "workflowId": "question" })).send().await;
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
    assert_eq!((late.status, late.text_at("error").as_str()), (410, "interrupt_gone"));
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
