//! Keys that make keys: what they can hand out, in whose name what they made votes, and what goes on without them.

use axum::http::Method;
use serde_json::{Value, json};

use crate::agents::{TRIAGER, setup};
use crate::given::{LIVE, Setup, TestHost, workflow};

const KEYS: &str = "/v1/host/callboard/keys";
const ROSTER: &str = "/v1/host/callboard/roster";
const NARROW: &str = "cb_narrow";
const HOLDERS: [&str; 2] = ["cb_live=acme", "cb_narrow=acme+admin+approvals:respond+runs:read"];

async fn host() -> TestHost {
    TestHost::of(Setup { keys: &HOLDERS, ..setup() }).await
}

async fn made(host: &TestHost, by: &str, body: Value) -> (String, String) {
    let reply = host.post(KEYS, &body).key(by).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    (reply.text_at("id"), reply.text_at("key"))
}

#[tokio::test]
async fn a_key_hands_out_no_scope_that_it_lacks() {
    let host = host().await;
    for (scopes, missing) in [
        (json!(["runs:read", "runs:create"]), "runs:create"),
        (json!(["tools:mail"]), "tools:mail"),
        (json!(["approvals:delegate"]), "approvals:delegate"),
    ] {
        let body = json!({ "name": "n", "scopes": scopes });
        let refused = host.post(KEYS, &body).key(NARROW).send().await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "{scopes}");
        assert_eq!(refused.json["details"]["scopeRequired"], missing);
    }
    let (_, key) = made(&host, NARROW, json!({ "name": "n" })).await;
    assert_eq!(host.get("/v1/runs/x").key(&key).send().await.status, 404);
    let run = host.post("/v1/runs", &json!({ "workflowId": "noop" })).key(&key).send().await;
    assert_eq!(run.status, 403);
}

#[tokio::test]
async fn a_key_hands_out_no_more_time_than_it_has() {
    let host = host().await;
    let end = host.now().plus_millis(60_000);
    let (_, brief) = made(&host, LIVE, json!({ "name": "brief", "expiresAt": end })).await;
    let later = json!({ "name": "n", "expiresAt": end.plus_millis(1) });
    let refused = host.post(KEYS, &later).key(&brief).send().await;
    assert_eq!((refused.status, &refused.json["details"]["path"]), (400, &json!("expiresAt")));
    let (id, _) = made(&host, &brief, json!({ "name": "heir" })).await;
    let keys = host.get(KEYS).send().await.json["keys"].clone();
    let heir = keys.as_array().expect("a list").iter().find(|key| key["id"] == id.as_str());
    assert_eq!(heir.expect("the heir")["expiresAt"], json!(end));
}

/// A run whose gate wants this.
async fn asked(host: &TestHost, config: Value) -> String {
    let mut definition = workflow("question", &[("gate", "core.approvalGate")]);
    definition["nodes"][0]["config"] = config;
    host.post("/v1/host/callboard/workflows", &definition).send().await;
    let run = host.run("question", json!({})).await;
    let shown = || host.get(&format!("/v1/runs/{run}")).send();
    while shown().await.json["status"] != "waiting-approval" {
        tokio::task::yield_now().await;
    }
    run
}

/// How the run stands after this key has accepted.
async fn accepted(host: &TestHost, run: &str, key: &str) -> String {
    let place = format!("/v1/runs/{run}/interrupts/gate");
    let reply = host.post(&place, &json!({ "action": "accept" })).key(key).send().await;
    match reply.status {
        200 => reply.text_at("status"),
        _ => reply.error().to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn made_keys_vote_as_their_maker() {
    let host = host().await;
    for maker in [NARROW, LIVE] {
        let run = asked(&host, json!({ "requiredApprovals": 3 })).await;
        let body = json!({ "name": "n" });
        let (_, child) = made(&host, maker, body.clone()).await;
        let (id, grandchild) = made(&host, &child, body.clone()).await;
        let rotated = host.call(Method::POST, &format!("{KEYS}/{id}/rotate")).key(maker);
        for key in [maker, &child, &grandchild, &rotated.send().await.text_at("key")] {
            assert_ne!(accepted(&host, &run, key).await, "completed", "{maker}");
        }
        let others: [&str; 2] = if maker == LIVE { [LIVE, NARROW] } else { [NARROW, LIVE] };
        for key in others {
            assert_ne!(accepted(&host, &run, key).await, "completed", "{maker}: two have voted");
        }
    }
}

/// Whoever writes a gate can take made keys for people: by naming them.
#[tokio::test(start_paused = true)]
async fn a_made_key_that_the_gate_names_votes_for_itself() {
    let host = host().await;
    let body = json!({ "name": "n", "scopes": ["approvals:respond"] });
    let (one, first) = made(&host, LIVE, body.clone()).await;
    let (two, second) = made(&host, LIVE, body.clone()).await;
    let (_, third) = made(&host, LIVE, body).await;
    let list = json!([format!("key:{one}"), format!("key:{two}")]);
    let run = asked(&host, json!({ "requiredApprovals": 2, "approversList": list })).await;
    assert_eq!(accepted(&host, &run, &third).await, "forbidden");
    assert_eq!(accepted(&host, &run, &first).await, "waiting-approval");
    assert_eq!(accepted(&host, &run, &second).await, "completed");
}

#[tokio::test]
async fn nobody_rotates_a_key_into_more_than_it_has() {
    let host = host().await;
    let rotate = async |by: &str, id: &str| {
        host.call(Method::POST, &format!("{KEYS}/{id}/rotate")).key(by).send().await
    };
    let (wide, _) = made(&host, LIVE, json!({ "name": "wide" })).await;
    assert_eq!(rotate(NARROW, &wide).await.refusal(), (403, "forbidden"));
    let voting = json!({ "name": "voting", "scopes": ["approvals:respond"] });
    let (voter, _) = made(&host, LIVE, voting).await;
    let refused = rotate(NARROW, &voter).await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(refused.json["details"]["scopeRequired"], "approvals:delegate");
    let (reading, _) = made(&host, LIVE, json!({ "name": "r", "scopes": ["runs:read"] })).await;
    assert_eq!(rotate(NARROW, &reading).await.status, 201);
    for key in [wide, voter] {
        assert_eq!(rotate(LIVE, &key).await.status, 201);
    }
}

/// Makes one of each with this key.
async fn furnished(host: &TestHost, key: &str) {
    let member =
        json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER }, "workflows": ["noop"] });
    let schedule = json!({ "workflowId": "noop", "cron": "0 6 * * *", "timezone": "UTC" });
    let trigger = json!({ "source": "form", "workflowId": "noop" });
    let heartbeat =
        json!({ "workflowId": "noop", "url": "https://8.8.8.8/x", "intervalSec": 3600 });
    let webhook = json!({ "url": "https://8.8.8.8/x", "events": ["run.*"] });
    for (path, body) in [
        ("/v1/host/callboard/schedules", schedule),
        ("/v1/trigger-subscriptions", trigger),
        ("/v1/host/callboard/heartbeats", heartbeat),
        ("/v1/webhooks", webhook),
        (ROSTER, member),
    ] {
        let reply = host.post(path, &body).key(key).send().await;
        assert_eq!(reply.status, 201, "{path} {reply:?}");
    }
}

async fn goes_on(host: &TestHost, id: &str) -> Vec<usize> {
    let page = host.get(&format!("{KEYS}/{id}")).send().await;
    assert_eq!(page.status, 200, "{page:?}");
    let kinds = ["keys", "schedules", "triggers", "heartbeats", "webhooks", "members"];
    kinds.iter().map(|kind| page.json["goesOn"][kind].as_array().map_or(9, Vec::len)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_revoked_key_made_is_listed_and_stopped_when_asked() {
    let host = host().await;
    let (root, key) = made(&host, LIVE, json!({ "name": "root" })).await;
    let (_, child) = made(&host, &key, json!({ "name": "child" })).await;
    furnished(&host, &key).await;
    furnished(&host, &child).await;
    furnished(&host, LIVE).await;
    assert_eq!(goes_on(&host, &root).await, [1, 2, 2, 2, 2, 2]);
    let path = format!("{KEYS}/{root}");
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(goes_on(&host, &root).await, [1, 2, 2, 2, 2, 2], "all of it goes on");
    let wrong = host.call(Method::DELETE, &format!("{path}?cascade=yes")).send().await;
    assert_eq!(wrong.refusal(), (400, "validation_error"));
    assert_eq!(host.call(Method::DELETE, &format!("{path}?cascade=1")).send().await.status, 204);
    assert_eq!(goes_on(&host, &root).await, [0, 0, 0, 0, 0, 0]);
    assert_eq!(host.get("/v1/runs/x").key(&child).send().await.error(), "key_revoked");
    let schedules = host.get("/v1/host/callboard/schedules").send().await.json;
    let enabled = |line: &&Value| line["enabled"] == true;
    let schedules = schedules["schedules"].as_array().cloned().unwrap_or_default();
    assert_eq!(schedules.iter().filter(enabled).count(), 1, "what others made is left alone");
    let roster = host.get(ROSTER).send().await.json;
    let members = roster["roster"].as_array().cloned().unwrap_or_default();
    assert_eq!(members.len(), 3, "nobody is dismissed: {members:?}");
    assert_eq!(members.iter().filter(enabled).count(), 1, "theirs are paused");
}
