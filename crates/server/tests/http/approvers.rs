//! Approvals that are for whoever has a role (RFC 0104).

use serde_json::{Value, json};

use crate::given::{Setup, TestHost, workflow};

const KEYS: [&str; 3] = [
    "cb_live=acme",
    "cb_approver=acme+role:approver",
    "cb_answers=acme+approvals:respond+runs:read+runs:create+workflows:write",
];
const APPROVER: &str = "cb_approver";
/// May answer, and has not all that makes an approver.
const ANSWERS: &str = "cb_answers";

/// A run that waits for one of these, with whom it waits for as its inbox shows it.
async fn waiting(host: &TestHost, config: Value) -> String {
    let mut gate = workflow("gate", &[("ask", "core.approvalGate")]);
    gate["nodes"][0]["config"] = config;
    let stored = host.post("/v1/host/callboard/workflows", &gate).send().await;
    assert!(stored.status < 300, "{stored:?}");
    let run = host.run_as(ANSWERS, json!({ "workflowId": "gate" })).await;
    loop {
        let status = host.get(&format!("/v1/runs/{run}")).send().await.text_at("status");
        if status == "waiting-approval" {
            return run;
        }
        tokio::task::yield_now().await;
    }
}

async fn answer(host: &TestHost, run: &str, key: &str) -> u16 {
    let path = format!("/v1/runs/{run}/interrupts/ask");
    let body = json!({ "resumeValue": { "action": "accept" } });
    host.post(&path, &body).key(key).send().await.status
}

async fn may_decide(host: &TestHost, key: &str) -> Value {
    let inbox = host.get("/v1/host/callboard/inbox").key(key).send().await;
    inbox.json["interrupts"][0]["mayDecide"].clone()
}

async fn host() -> TestHost {
    TestHost::of(Setup { keys: &KEYS, ..Setup::default() }).await
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_a_role_is_answered_by_whoever_has_it() {
    for role in ["approver", "role:approver"] {
        let host = host().await;
        let run = waiting(&host, json!({ "title": "Pay?", "approverRoleRefs": [role] })).await;
        assert_eq!(may_decide(&host, ANSWERS).await, false);
        assert_eq!(answer(&host, &run, ANSWERS).await, 403, "{role}");
        assert_eq!(may_decide(&host, APPROVER).await, true);
        assert_eq!(answer(&host, &run, APPROVER).await, 200, "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_nobody_knows_admits_nobody_and_names_still_count() {
    let host = host().await;
    let run = waiting(&host, json!({ "title": "Pay?", "approverRoleRefs": ["controller"] })).await;
    assert_eq!(answer(&host, &run, APPROVER).await, 403);
    assert_eq!(answer(&host, &run, crate::given::LIVE).await, 403, "whatever else it may do");

    let listed = json!({
        "title": "Pay?", "approverRoleRefs": ["controller"], "approversList": ["key:static-2a56af3a"],
    });
    let run = waiting(&host, listed).await;
    assert_eq!(answer(&host, &run, ANSWERS).await, 403);
    assert_eq!(answer(&host, &run, APPROVER).await, 200);
}

/// What was written for whoever routes is told as it was written.
#[tokio::test(start_paused = true)]
async fn refs_and_audience_are_shown_unchanged() {
    let host = host().await;
    let refs = json!({
        "title": "Pay?", "approverRoleRefs": ["role:approver"],
        "approverGroupRefs": ["grp:finance"], "audience": { "groups": ["grp:audit"] },
    });
    waiting(&host, refs.clone()).await;
    let inbox = host.get("/v1/host/callboard/inbox").send().await;
    let data = &inbox.json["interrupts"][0]["data"];
    for name in ["approverRoleRefs", "approverGroupRefs", "audience"] {
        assert_eq!(data[name], refs[name], "{name}");
    }
}
