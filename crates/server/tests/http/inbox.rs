//! What runs ask, in one list: who sees it, in which order, and when a question leaves it.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{LAB, LIVE, OPS, READER, RIVAL, TEST, TestHost, workflow};
use crate::interrupts::asked;

const INBOX: &str = "/v1/host/callboard/inbox";

async fn open(host: &TestHost, query: &str) -> Vec<Value> {
    let reply = host.get(&format!("{INBOX}{query}")).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json["interrupts"].as_array().cloned().expect("a list of interrupts")
}

#[tokio::test(start_paused = true)]
async fn a_question_stands_in_the_inbox_until_it_is_settled() {
    let host = TestHost::start().await;
    assert_eq!(open(&host, "").await, [Value::Null; 0]);
    let config = json!({ "title": "Ship it?", "timeoutMs": 60_000, "requiredApprovals": 2 });
    let run = asked(&host, "core.approvalGate", config).await;
    let found = open(&host, "").await;
    insta::assert_json_snapshot!(found, { "[].runId" => "[run]", "[].interruptId" => "[id]", "[].key" => "[key]" }, @r#"
    [
      {
        "data": {
          "actions": [
            "accept",
            "reject"
          ],
          "artifactId": "gate",
          "artifactType": "approval",
          "requiredApprovals": 2,
          "title": "Ship it?"
        },
        "expiresAt": "2025-11-16T00:01:00.000Z",
        "interruptId": "[id]",
        "key": "[key]",
        "kind": "approval",
        "mayDecide": true,
        "nodeId": "gate",
        "requestedAt": "2025-11-16T00:00:00.000Z",
        "requiresAuth": false,
        "runId": "[run]",
        "workflowId": "question"
      }
    ]
    "#);
    let place = format!("/v1/runs/{run}/interrupts/gate");
    host.post(&place, &json!({ "action": "accept", "voter": "ann" })).send().await;
    assert_eq!(open(&host, "").await[0]["votes"], json!([{ "voter": "ann", "action": "accept" }]));
    host.post(&place, &json!({ "action": "accept", "voter": "bob" })).send().await;
    assert_eq!(open(&host, "").await, [Value::Null; 0]);
}

/// F40, F42: a deadline and a cancel empty the inbox too.
#[tokio::test(start_paused = true)]
async fn a_question_leaves_with_its_deadline_or_its_run() {
    let host = TestHost::start().await;
    let late = asked(&host, "core.approvalGate", json!({ "timeoutMs": 1_000 })).await;
    let cancelled = asked(
        &host,
        "core.clarificationGate",
        json!({ "questions": [{ "id": "q", "question": "?" }] }),
    )
    .await;
    assert_eq!(open(&host, "").await.len(), 2);
    host.end_of(&late).await;
    host.call(Method::POST, &format!("/v1/runs/{cancelled}/cancel")).send().await;
    assert_eq!(open(&host, "").await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_still_runs_elsewhere_is_in_the_inbox() {
    let host = TestHost::start().await;
    let mut definition = workflow("both", &[("gate", "core.approvalGate"), ("wait", "core.delay")]);
    definition["edges"] = json!([]);
    definition["nodes"][1]["config"] = json!({ "ms": 600_000 });
    host.post("/v1/host/callboard/workflows", &definition).send().await;
    let run = host.run("both", json!({})).await;
    while open(&host, "").await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.get(&format!("/v1/runs/{run}")).send().await.text_at("status"), "running");
    let reply = host
        .post(&format!("/v1/runs/{run}/interrupts/gate"), &json!({ "action": "accept" }))
        .send()
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(open(&host, "").await, [Value::Null; 0]);
}

/// An answer under the key's own name would not count, and the inbox says so before anybody tries.
#[tokio::test(start_paused = true)]
async fn who_is_no_approver_sees_that() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({ "approversList": ["ann"] })).await;
    assert_eq!(open(&host, "").await[0]["mayDecide"], false);
    let place = format!("/v1/runs/{run}/interrupts/gate");
    let refused = host.post(&place, &json!({ "action": "accept" })).send().await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let named = host.post(&place, &json!({ "action": "accept", "voter": "ann" })).send().await;
    assert_eq!(named.status, 200, "{named:?}");
}

/// A key that may answer answers for itself; only one that may answer for people names them.
#[tokio::test(start_paused = true)]
async fn who_answers_for_people_needs_a_scope_for_it() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({ "approversList": ["ann"] })).await;
    let place = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({ "name": "desk", "scopes": ["approvals:respond"] });
    let made = host.post("/v1/host/callboard/keys", &body).send().await;
    let desk = made.text_at("key");
    let named = json!({ "resumeValue": { "action": "accept", "voter": "ann" } });
    let refused = host.post(&place, &named).key(&desk).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(refused.json["details"]["scopeRequired"], "approvals:delegate");
    let claimed = json!({ "resumeValue": { "action": "accept", "decidedBy": "ann" } });
    for key in [desk.as_str(), LIVE] {
        let refused = host.post(&place, &claimed).key(key).send().await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "{key}");
    }
    assert_eq!(host.post(&place, &named).send().await.status, 200);
    let events = host.end_of(&run).await;
    let told = events.iter().find(|event| event["type"] == "approval.received").expect("told");
    let by = told["payload"]["decidedBy"].as_str().expect("somebody");
    assert!(by.starts_with("key:") && by.ends_with("/ann"), "{by}");
}

#[tokio::test(start_paused = true)]
async fn an_inbox_shows_its_own_tenant_workspace_and_mode_only() {
    let host = TestHost::start().await;
    let definition = workflow("ask", &[("gate", "core.approvalGate")]);
    host.post("/v1/host/callboard/workflows", &definition).send().await;
    let run = host.run_as(OPS, json!({ "workflowId": "ask" })).await;
    while open(&host, "").await.is_empty() {
        tokio::task::yield_now().await;
    }
    for (key, seen) in [(OPS, 1), (LAB, 0), (TEST, 0), (RIVAL, 0)] {
        for query in [String::new(), format!("?runId={run}")] {
            let reply = host.get(&format!("{INBOX}{query}")).key(key).send().await;
            assert_eq!(
                reply.json["interrupts"].as_array().map(Vec::len),
                Some(seen),
                "{key} {query}"
            );
        }
    }
    let reader = host.get(INBOX).key(READER).send().await;
    assert_eq!(reader.status, 403);
    assert_eq!(reader.json["details"]["scopeRequired"], "approvals:respond");
}

#[tokio::test(start_paused = true)]
async fn an_inbox_is_filtered_and_read_page_by_page() {
    let host = TestHost::start().await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(asked(&host, "core.approvalGate", json!({})).await);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    let custom = json!({ "kind": "custom", "data": { "customKind": "x" } });
    runs.push(asked(&host, "core.interrupt", custom).await);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = host.get(&format!("{INBOX}?limit=2{cursor}")).send().await;
        let page = reply.json["interrupts"].as_array().cloned().unwrap_or_default();
        // The last one of the page is answered before the next page is read.
        let last = page.last().and_then(|item| item["runId"].as_str()).expect("a run").to_owned();
        host.post(&format!("/v1/runs/{last}/interrupts/gate"), &json!({ "action": "accept" }))
            .send()
            .await;
        seen.extend(page.iter().filter_map(|item| item["runId"].as_str().map(str::to_owned)));
        match reply.json["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, runs, "longest waiting first, none twice, none lost");
    assert_eq!(open(&host, "?kind=approval").await.len(), 2);
    assert_eq!(open(&host, &format!("?runId={}&workflowId=question", runs[0])).await.len(), 1);
    assert_eq!(open(&host, "?workflowId=other").await.len(), 0);
    for wrong in ["?kind=poll", "?limit=0", "?cursor=AAAA", "?colour=red"] {
        assert_eq!(host.get(&format!("{INBOX}{wrong}")).send().await.status, 400, "{wrong}");
    }
}
