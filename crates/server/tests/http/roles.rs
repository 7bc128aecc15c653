//! Roles as names for sets of scopes, keys that are made with them, and keys that an operator makes for others.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{LIVE, OPS, RIVAL, Reply, Setup, TestHost};

const KEYS: &str = "/v1/host/callboard/keys";
const ROLES: &str = "/v1/host/callboard/roles";
const ROOT: &str = "cb_root";
const NARROW: &str = "cb_narrow";
const HOLDERS: [&str; 6] = [
    "cb_live=acme",
    "cb_rival=rival",
    "cb_ops=acme/ops",
    "cb_root=default",
    "cb_half=default+admin+runs:read",
    "cb_narrow=acme+admin+runs:read",
];

async fn host() -> TestHost {
    TestHost::of(Setup { keys: &HOLDERS, ..Setup::default() }).await
}

async fn put(host: &TestHost, name: &str, scopes: Value) -> Reply {
    host.call(Method::PUT, &format!("{ROLES}/{name}"))
        .json(&json!({ "scopes": scopes }))
        .send()
        .await
}

async fn made(host: &TestHost, by: &str, body: Value) -> Reply {
    let reply = host.post(KEYS, &body).key(by).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply
}

async fn status(host: &TestHost, path: &str, key: &str) -> u16 {
    host.get(path).key(key).send().await.status
}

#[tokio::test]
async fn a_key_may_what_its_role_stands_for_as_that_changes() {
    let host = host().await;
    assert_eq!(put(&host, "desk", json!(["runs:read"])).await.status, 201);
    let key = made(&host, LIVE, json!({ "name": "n", "roles": ["desk"] })).await.text_at("key");
    assert_eq!(status(&host, "/v1/runs/x", &key).await, 404);
    assert_eq!(status(&host, KEYS, &key).await, 403);
    assert_eq!(put(&host, "desk", json!(["runs:read", "admin"])).await.status, 200);
    assert_eq!(status(&host, KEYS, &key).await, 200);
    let gone = host.call(Method::DELETE, &format!("{ROLES}/desk")).send().await;
    assert_eq!(gone.status, 204);
    assert_eq!(status(&host, "/v1/runs/x", &key).await, 403, "nothing is left of it");
    let again = host.call(Method::DELETE, &format!("{ROLES}/desk")).send().await;
    assert_eq!(again.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_stands_for_less_ends_the_streams_of_those_who_have_it() {
    let host = host().await;
    put(&host, "desk", json!(["runs:read", "runs:cancel"])).await;
    let key = made(&host, LIVE, json!({ "name": "n", "roles": ["desk"] })).await.text_at("key");
    let run = host.waiting_run().await;
    let path = format!("/v1/runs/{run}/events");
    let mut stream = host.get(&path).key(&key).open().await;
    assert_eq!(stream.next().await.map(|frame| frame.event), Some("run.started".to_owned()));
    put(&host, "desk", json!(["runs:cancel"])).await;
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn nobody_puts_more_into_a_role_or_a_key_than_it_has() {
    let host = host().await;
    let body = json!({ "scopes": ["runs:read", "runs:create"] });
    let refused =
        host.call(Method::PUT, &format!("{ROLES}/desk")).json(&body).key(NARROW).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(refused.json["details"]["scopeRequired"], "runs:create");
    let every = json!({ "scopes": ["*"] });
    let refused =
        host.call(Method::PUT, &format!("{ROLES}/desk")).json(&every).key(NARROW).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(put(&host, "everything", json!(["*"])).await.status, 201);
    for role in ["everything", "author"] {
        let body = json!({ "name": "n", "roles": [role] });
        let refused = host.post(KEYS, &body).key(NARROW).send().await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "{role}");
    }
    let wide = made(&host, LIVE, json!({ "name": "n", "roles": ["everything"] })).await;
    assert_eq!(status(&host, KEYS, &wide.text_at("key")).await, 200);
}

#[tokio::test]
async fn a_role_is_its_tenants_own_and_those_of_the_protocol_stay() {
    let host = host().await;
    put(&host, "desk", json!(["runs:read"])).await;
    let names = async |key: &str| {
        let listed = host.get(ROLES).key(key).send().await.json;
        let names = listed["roles"].as_array().expect("a list").clone();
        names.iter().map(|role| role["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (mine, theirs): (Vec<String>, Vec<String>) = (names(LIVE).await, names(RIVAL).await);
    assert!(mine.contains(&"desk".to_owned()) && !theirs.contains(&"desk".to_owned()));
    assert!(theirs.contains(&"viewer".to_owned()));
    let body = json!({ "name": "n", "roles": ["desk"] });
    assert_eq!(host.post(KEYS, &body).key(RIVAL).send().await.status, 400);
    assert_eq!(put(&host, "viewer", json!(["admin"])).await.refusal(), (409, "role_reserved"));
    for (name, scopes) in [("Desk", json!(["runs:read"])), ("d", json!([])), ("d", json!(["x"]))] {
        assert_eq!(put(&host, name, scopes).await.status, 400, "{name}");
    }
    let body = json!({ "scopes": ["runs:read"] });
    let refused = host.call(Method::PUT, &format!("{ROLES}/d")).json(&body).key(OPS).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"), "a workspace decides nothing for the others");
}

#[tokio::test]
async fn discovery_names_the_roles_that_the_caller_can_meet() {
    let host = host().await;
    put(&host, "desk", json!(["runs:read"])).await;
    let seen = host.get("/v1/host/callboard/capabilities").send().await.json;
    let roles =
        seen.pointer("/authorization/roles").or(seen.pointer("/capabilities/authorization/roles"));
    let roles = roles.and_then(Value::as_array).expect("roles");
    assert!(roles.contains(&json!({ "role": "desk", "scopes": ["runs:read"] })), "{roles:?}");
}

#[tokio::test]
async fn an_operators_key_makes_keys_for_every_tenant_and_nobody_elses_does() {
    let host = host().await;
    let body = json!({ "name": "n", "tenant": "new", "workspace": "ops", "scopes": ["admin", "runs:read"] });
    let reply = made(&host, ROOT, body.clone()).await;
    let (id, key) = (reply.text_at("id"), reply.text_at("key"));
    let who = host.get("/v1/host/callboard/whoami").key(&key).send().await.json;
    assert_eq!((&who["tenant"], &who["workspace"]), (&json!("new"), &json!("ops")));
    for holder in [LIVE, RIVAL, "cb_half"] {
        let refused = host.post(KEYS, &body).key(holder).send().await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "{holder}");
        assert_eq!(refused.json["details"]["scopeRequired"], "tenants:manage");
        let path = format!("{KEYS}?tenant=new");
        assert_eq!(host.get(&path).key(holder).send().await.status, 403, "{holder}");
    }
    let listed = host.get(&format!("{KEYS}?tenant=new")).key(ROOT).send().await.json;
    assert_eq!(listed["keys"][0]["id"], id.as_str());
    let path = format!("{KEYS}/{id}");
    let foreign = host.call(Method::DELETE, &path).key(ROOT).send().await;
    assert_eq!(foreign.status, 404, "without the tenant it is nobody's here");
    let gone = host.call(Method::DELETE, &format!("{path}?tenant=new")).key(ROOT).send().await;
    assert_eq!(gone.status, 204);
    assert_eq!(host.get("/v1/runs/x").key(&key).send().await.error(), "key_revoked");
}

#[tokio::test]
async fn what_an_operators_key_made_elsewhere_goes_with_it() {
    let host = host().await;
    let second = made(&host, ROOT, json!({ "name": "second" })).await;
    let body = json!({ "name": "n", "tenant": "new" });
    let child = made(&host, &second.text_at("key"), body).await.text_at("key");
    assert_eq!(status(&host, "/v1/runs/x", &child).await, 404);
    let path = format!("{KEYS}/{}?cascade=1", second.text_at("id"));
    assert_eq!(host.call(Method::DELETE, &path).key(ROOT).send().await.status, 204);
    assert_eq!(host.get("/v1/runs/x").key(&child).send().await.error(), "key_revoked");
}

#[tokio::test]
async fn a_workspaces_key_is_made_by_its_tenants_and_by_no_other_workspaces() {
    let host = host().await;
    made(&host, LIVE, json!({ "name": "n", "workspace": "lab" })).await;
    let body = json!({ "name": "n", "workspace": "lab" });
    let refused = host.post(KEYS, &body).key(OPS).send().await;
    assert_eq!(refused.refusal(), (403, "workspace_membership_required"));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_key_works_until_its_grace_is_over() {
    let host = host().await;
    let old = made(&host, LIVE, json!({ "name": "n", "roles": ["viewer"] })).await;
    let (id, old) = (old.text_at("id"), old.text_at("key"));
    for wrong in ["-1", "2592001", "1h"] {
        let path = format!("{KEYS}/{id}/rotate?graceSeconds={wrong}");
        assert_eq!(host.call(Method::POST, &path).send().await.status, 400, "{wrong}");
    }
    let path = format!("{KEYS}/{id}/rotate?graceSeconds=3600");
    let new = host.call(Method::POST, &path).send().await;
    assert_eq!(new.json["previousEndsAt"], json!(host.now().plus_millis(3_600_000)));
    for key in [old.as_str(), &new.text_at("key")] {
        assert_eq!(status(&host, "/v1/runs/x", key).await, 404);
    }
    tokio::time::sleep(std::time::Duration::from_secs(3601)).await;
    assert_eq!(host.get("/v1/runs/x").key(&old).send().await.error(), "key_expired");
    assert_eq!(status(&host, "/v1/runs/x", &new.text_at("key")).await, 404);
}

#[tokio::test]
async fn a_key_shows_when_it_was_used_last_and_writes_it_down_rarely() {
    let host = host().await;
    let new = made(&host, LIVE, json!({ "name": "n", "scopes": ["runs:read"] })).await;
    let path = format!("{KEYS}/{}", new.text_at("id"));
    let shown = async || host.get(&path).send().await.json["key"]["lastUsedAt"].clone();
    assert_eq!(shown().await, Value::Null);
    host.get("/v1/runs/x").key(&new.text_at("key")).send().await;
    assert_eq!(shown().await, json!(host.now()));
    let stored = || async {
        callboard_engine::Keys::new(host.store.inner()).uses().await.expect("uses").len()
    };
    assert_eq!(stored().await, 0, "no request writes it");
    host.keys.note_uses().await.expect("noted");
    assert_eq!(stored().await, 2, "this key, and the one that asked");
}

#[tokio::test]
async fn a_change_of_a_role_is_in_the_audit_log() {
    let host = host().await;
    put(&host, "desk", json!(["runs:read"])).await;
    let log = host.get("/v1/host/callboard/audit").send().await.json.to_string();
    assert!(log.contains("role.made") && log.contains("runs:read"), "{log}");
}
