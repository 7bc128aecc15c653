//! What the audit log tells, and to whom.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{Call, LIVE, OPS, READER, RIVAL, Reply, TEST, TestHost};
use crate::interrupts::asked;
use crate::schemas::{check, openwop};

const AUDIT: &str = "/v1/host/callboard/audit";
const KEYS: &str = "/v1/host/callboard/keys";

async fn told(host: &TestHost, key: &str) -> Vec<Value> {
    let reply = host.get(&format!("{AUDIT}?limit=200")).key(key).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut entries = reply.json["entries"].as_array().cloned().unwrap_or_default();
    entries.reverse();
    entries.into_iter().map(|kept| kept["entry"].clone()).collect()
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["action"].as_str()).collect()
}

fn put<'a>(host: &'a TestHost, path: &str, body: &Value) -> Call<'a> {
    host.call(Method::PUT, path).json(body)
}

fn delete<'a>(host: &'a TestHost, path: &str) -> Call<'a> {
    host.call(Method::DELETE, path)
}

async fn verified(host: &TestHost) -> Reply {
    host.get("/v1/audit/verify?fromSeq=0&toSeq=1000").send().await
}

#[tokio::test]
async fn a_key_is_told_from_its_making_to_its_end_and_its_text_never() {
    let host = TestHost::start().await;
    let made = host.post(KEYS, &json!({ "name": "ci", "scopes": ["runs:read"] })).send().await;
    let (id, text) = (made.text_at("id"), made.text_at("key"));
    assert_eq!(delete(&host, &format!("{KEYS}/{id}")).send().await.status, 204);
    assert_eq!(host.get("/v1/runs/x").key(&text).send().await.status, 401);
    let entries = told(&host, LIVE).await;
    assert_eq!(actions(&entries), ["key.made", "key.revoked", "request.refused"]);
    assert!(entries[..2].iter().all(|entry| entry["subject"] == id.as_str()), "{entries:?}");
    assert_eq!(entries[0]["details"]["scopes"], json!(["runs:read"]));
    assert_eq!(entries[0]["operation"], "POST /v1/host/callboard/keys");
    assert!(entries[0]["actor"].as_str().unwrap_or_default().starts_with("key:static-"));
    assert_eq!(entries[2]["actor"], format!("key:{id}"));
    assert!(!json!(entries).to_string().contains(&text));
    assert_eq!(entries[0]["prevHash"], Value::Null);
    let walked = verified(&host).await;
    assert_eq!(walked.json["chainValid"], true, "{walked:?}");
    if let Some(folder) = openwop() {
        check(&folder, "audit-verify-result.schema.json", &walked.json);
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_refusals_and_approvals_are_told_without_what_is_secret() {
    let host = TestHost::start().await;
    let secret = "/v1/host/callboard/secrets/openai";
    assert_eq!(put(&host, secret, &json!({ "value": "sk-canary-1" })).send().await.status, 201);
    assert_eq!(put(&host, secret, &json!({ "value": "sk-canary-2" })).send().await.status, 200);
    assert_eq!(delete(&host, secret).send().await.status, 204);
    assert_eq!(host.get(KEYS).key(READER).send().await.status, 403);
    let run = asked(&host, "core.approvalGate", json!({})).await;
    let answer = json!({ "resumeValue": { "action": "accept" } });
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let answered = host.post(&path, &answer).send().await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let entries = told(&host, LIVE).await;
    let expected = [
        "secret.made",
        "secret.changed",
        "secret.removed",
        "request.refused",
        "workflow.made",
        "approval.received",
    ];
    assert_eq!(actions(&entries), expected, "{entries:?}");
    assert_eq!(entries[3]["subject"], "GET /v1/host/callboard/keys");
    assert_eq!(entries[3]["details"]["scopesAccepted"], json!(["admin"]));
    assert_eq!(entries[5]["subject"], format!("{run}/gate"));
    assert_eq!(entries[5]["details"]["decision"], "accept");
    assert!(!json!(entries).to_string().contains("canary"));
}

#[tokio::test]
async fn a_log_is_its_tenants_own_and_a_workspace_sees_its_part() {
    let host = TestHost::start().await;
    for key in [LIVE, OPS, RIVAL, TEST] {
        assert_eq!(host.post(KEYS, &json!({ "name": "n" })).key(key).send().await.status, 201);
    }
    assert_eq!(told(&host, LIVE).await.len(), 2);
    let ops = told(&host, OPS).await;
    assert_eq!(ops.len(), 1);
    assert_eq!(ops[0]["workspace"], "ops");
    assert_eq!(told(&host, RIVAL).await.len(), 1);
    assert_eq!(told(&host, TEST).await.len(), 1);
    for path in [AUDIT, "/v1/audit/verify?fromSeq=0&toSeq=1"] {
        let refused = host.get(path).key(READER).send().await;
        assert_eq!((refused.status, refused.text_at("error")), (403, "forbidden".to_owned()));
    }
}

#[tokio::test]
async fn pages_follow_each_other_in_both_orders_and_wrong_wishes_are_refused() {
    let host = TestHost::start().await;
    for number in 0..5 {
        let path = format!("/v1/host/callboard/secrets/s{number}");
        assert_eq!(put(&host, &path, &json!({ "value": "12345678" })).send().await.status, 201);
    }
    let sequences = async |path: &str| {
        let page = host.get(path).send().await;
        let entries = page.json["entries"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = entries.iter().filter_map(|kept| kept["sequence"].as_u64()).collect();
        (found, page.json["next"].as_u64())
    };
    assert_eq!(sequences(&format!("{AUDIT}?limit=2")).await, (vec![5, 4], Some(4)));
    assert_eq!(sequences(&format!("{AUDIT}?limit=3&after=4")).await, (vec![3, 2, 1], None));
    // Whoever takes all of it along is told of, too.
    let oldest = sequences(&format!("{AUDIT}?order=oldest")).await;
    assert_eq!(oldest, (vec![1, 2, 3, 4, 5, 6], None));
    assert_eq!(told(&host, LIVE).await[5]["action"], "audit.exported");
    for wrong in ["?order=random", "?limit=0", "?after=x", "?actor=me"] {
        assert_eq!(host.get(&format!("{AUDIT}{wrong}")).send().await.status, 400, "{wrong}");
    }
    for wrong in ["fromSeq=2&toSeq=1", "fromSeq=-1&toSeq=1", "fromSeq=0&toSeq=x"] {
        let reply = host.get(&format!("/v1/audit/verify?{wrong}")).send().await;
        assert_eq!(reply.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn both_majors_walk_it_and_discovery_says_with_which_key() {
    let host = TestHost::start().await;
    let walked = verified(&host).await;
    let empty = json!({ "fromSeq": 0, "toSeq": 1000, "chainValid": true, "checkpointsValid": true,
        "checkpoints": [], "anomalies": [] });
    assert_eq!(walked.json, empty);
    let second = host.get("/audit/verify?fromSeq=0&toSeq=1000");
    let second = second.header("openwop-version", "2.0").send().await;
    assert_eq!(second.json, empty, "{second:?}");
    let document = host.get("/.well-known/openwop").send().await.json;
    assert_eq!(document["auth"]["profiles"], json!(["openwop-audit-log-integrity"]));
    let integrity = &document["auth"]["auditLogIntegrity"];
    assert_eq!(integrity["checkpointSignatureAlgorithm"], "ed25519");
    let key = integrity["checkpointPublicKey"].as_str().unwrap_or_default();
    assert!(key.starts_with("MCowBQYDK2VwAyEA") && key.len() == 60, "{key}");
}
