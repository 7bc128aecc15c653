//! Secrets over HTTP: stored and never seen again, used by runs and told by none.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{Call, Fault, LIVE, READER, RIVAL, TEST, TestHost, workflow};

const SECRETS: &str = "/v1/host/callboard/secrets";
const VALUE: &str = "CANARY~hunter2~0aB8mYjPpQe7";

fn put<'h>(host: &'h TestHost, name: &str, body: &Value) -> Call<'h> {
    host.call(Method::PUT, &format!("{SECRETS}/{name}")).json(body)
}

fn remove<'h>(host: &'h TestHost, name: &str) -> Call<'h> {
    host.call(Method::DELETE, &format!("{SECRETS}/{name}"))
}

/// Registers a workflow that echoes a secret, and answers the snapshot of one run of it.
async fn echo(host: &TestHost, key: &str, config: Value) -> (String, Value) {
    let mut definition = workflow("echo", &[("resolve-secret", "conformance.secret.echo")]);
    definition["nodes"][0]["config"] = config;
    let applied = host.post("/v1/host/callboard/workflows", &definition).key(key).send().await;
    assert!(applied.status < 300, "{applied:?}");
    let run = host.run_as(key, json!({ "workflowId": "echo" })).await;
    host.end_as(key, &run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).key(key).send().await.json;
    (run, snapshot)
}

#[tokio::test]
async fn a_secret_is_stored_listed_by_name_replaced_and_removed() {
    let host = TestHost::start().await;
    let stored = put(&host, "openai", &json!({ "value": VALUE })).send().await;
    assert_eq!(stored.status, 201);
    assert_eq!(stored.json["name"], "openai");
    assert_eq!(put(&host, "github.v2_x-1", &json!({ "value": "x" })).send().await.status, 201);
    assert_eq!(put(&host, "openai", &json!({ "value": VALUE })).send().await.status, 200);
    let listed = host.get(SECRETS).send().await;
    assert!(!String::from_utf8_lossy(&listed.bytes).contains("CANARY"));
    insta::assert_json_snapshot!(listed.json, { ".secrets[].*" => insta::dynamic_redaction(|value, _| {
        let text = value.as_str().unwrap_or_default();
        if text.ends_with('Z') { "[time]".to_owned() } else { text.to_owned() }
    }) }, @r#"
    {
      "secrets": [
        {
          "createdAt": "[time]",
          "name": "github.v2_x-1",
          "updatedAt": "[time]"
        },
        {
          "createdAt": "[time]",
          "name": "openai",
          "updatedAt": "[time]"
        }
      ]
    }
    "#);
    assert_eq!(remove(&host, "openai").send().await.status, 204);
    assert_eq!(remove(&host, "openai").send().await.refusal(), (404, "not_found"));
    let left = host.get(SECRETS).send().await.json;
    assert_eq!(left["secrets"].as_array().map(Vec::len), Some(1), "{left}");
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_without_repeating_it() {
    let host = TestHost::start().await;
    for body in [
        json!({}),
        json!({ "value": "" }),
        json!({ "value": 8_675_309 }),
        json!({ "value": ["8675309"] }),
        json!({ "value": null }),
        json!({ "value": "8675309", "scope": "user" }),
        json!({ "value": "8675309".repeat(10_000) }),
        json!("8675309"),
        json!([{ "value": "8675309" }]),
    ] {
        let reply = put(&host, "openai", &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{body}");
        assert!(!reply.json.to_string().contains("8675309"), "{reply:?}");
    }
    let long = "n".repeat(129);
    for name in ["-x", ".x", "a%20b", "a%2Fb", "a%5Db", "%C3%A4", "run:x", &long] {
        let reply = put(&host, name, &json!({ "value": VALUE })).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{name}");
    }
    assert_eq!(host.get(SECRETS).send().await.json, json!({ "secrets": [] }));
}

#[tokio::test]
async fn secrets_take_the_scope_admin() {
    let host = TestHost::start().await;
    for request in [
        host.get(SECRETS),
        put(&host, "openai", &json!({ "value": VALUE })),
        remove(&host, "openai"),
    ] {
        let reply = request.key(READER).send().await;
        assert_eq!(reply.refusal(), (403, "forbidden"));
        assert_eq!(reply.json["details"]["scopeRequired"], "admin");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_tenant_is_one_that_nobody_has() {
    let host = TestHost::start().await;
    put(&host, "openai", &json!({ "value": VALUE })).send().await;
    let foreign = remove(&host, "openai").key(RIVAL).send().await;
    let unknown = remove(&host, "nobodys").key(RIVAL).send().await;
    assert_eq!((foreign.status, &foreign.bytes), (unknown.status, &unknown.bytes));
    assert_eq!(host.get(SECRETS).key(RIVAL).send().await.json, json!({ "secrets": [] }));
    let (_, snapshot) = echo(&host, RIVAL, json!({ "secretId": "openai" })).await;
    assert_eq!(snapshot["error"]["code"], "credential_not_found", "{snapshot}");
    let own = put(&host, "openai", &json!({ "value": "the rival's own" })).key(RIVAL).send().await;
    assert_eq!(own.status, 201);
    let (_, snapshot) = echo(&host, LIVE, json!({ "secretId": "openai" })).await;
    assert_eq!(snapshot["variables"]["resolve-secret"]["secretLength"], VALUE.len());
}

#[tokio::test(start_paused = true)]
async fn a_test_keys_secrets_are_apart_from_the_live_ones() {
    let host = TestHost::start().await;
    put(&host, "openai", &json!({ "value": VALUE })).send().await;
    assert_eq!(host.get(SECRETS).key(TEST).send().await.json, json!({ "secrets": [] }));
    assert_eq!(remove(&host, "openai").key(TEST).send().await.refusal(), (404, "not_found"));
    let (_, snapshot) = echo(&host, TEST, json!({ "secretId": "openai" })).await;
    assert_eq!(snapshot["error"]["code"], "credential_not_found", "{snapshot}");
    let own = put(&host, "openai", &json!({ "value": "for tests" })).key(TEST).send().await;
    assert_eq!(own.status, 201);
    for (key, length) in [(LIVE, VALUE.len()), (TEST, "for tests".len())] {
        let (_, snapshot) = echo(&host, key, json!({ "secretId": "openai" })).await;
        assert_eq!(snapshot["variables"]["resolve-secret"]["secretLength"], length, "{key}");
    }
    assert_eq!(remove(&host, "openai").key(TEST).send().await.status, 204);
    assert_eq!(remove(&host, "openai").send().await.status, 204);
}

/// R74.
#[tokio::test(start_paused = true)]
async fn a_run_uses_a_secret_and_no_view_of_it_shows_one() {
    let host = TestHost::start().await;
    put(&host, "openai", &json!({ "value": VALUE })).send().await;
    let (run, snapshot) = echo(&host, LIVE, json!({ "secretId": "openai" })).await;
    assert_eq!(snapshot["status"], "completed");
    let told = &snapshot["variables"]["resolve-secret"];
    assert_eq!(told["secretLength"], VALUE.len(), "{snapshot}");
    assert_eq!(told["secretSha256"].as_str().map(str::len), Some(64));
    for path in [
        "",
        "/events?streamMode=debug",
        "/events?streamMode=values",
        "/events/poll?timeout=1",
        "/debug-bundle",
    ] {
        let reply = host.get(&format!("/v1/runs/{run}{path}")).send().await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!String::from_utf8_lossy(&reply.bytes).contains("CANARY"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_its_secret_says_what_is_missing() {
    let host = TestHost::start().await;
    let (_, snapshot) = echo(&host, LIVE, json!({ "secretId": "nobodys" })).await;
    assert_eq!(snapshot["error"]["code"], "credential_not_found", "{snapshot}");
    let (_, snapshot) = echo(&host, LIVE, json!({})).await;
    assert_eq!(snapshot["error"]["code"], "credential_required", "{snapshot}");
}

#[tokio::test]
async fn an_idempotency_key_keeps_nothing_of_a_secret() {
    let host = TestHost::start().await;
    for (value, status) in [("the first value", 201), ("the second value", 200)] {
        let put = put(&host, "openai", &json!({ "value": value }));
        let reply = put.header("idempotency-key", "same").send().await;
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.headers.get("openwop-idempotent-replay").is_none());
    }
}

#[tokio::test]
async fn a_store_that_is_away_says_so_and_nothing_else() {
    let host = TestHost::start().await;
    host.store.fail(Fault::Away);
    let reply = put(&host, "openai", &json!({ "value": VALUE })).send().await;
    assert_eq!(reply.refusal(), (503, "service_unavailable"));
    assert!(!reply.json.to_string().contains("CANARY"), "{reply:?}");
}
