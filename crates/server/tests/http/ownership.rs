//! Whose things are whose, by kind of key and by workspace: what one may see, use and replace of another's.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{LAB, LIVE, OPS, TEST, TestHost, workflow};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";
const SECRETS: &str = "/v1/host/callboard/secrets";
const ROTATE: &str = "/v1/host/callboard/interrupt-links/rotate";
const CALLBACK_SECRET: &str = "/v1/host/callboard/callback-secret";

/// Which nodes a run of `mine` completes.
async fn completed(host: &TestHost, key: &str) -> Vec<String> {
    let run = host.run_as(key, json!({ "workflowId": "mine" })).await;
    let events = host.end_as(key, &run).await;
    let done = events.iter().filter(|event| event["type"] == "node.completed");
    done.map(|event| event["nodeId"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn register(host: &TestHost, key: &str, node: &str) -> u16 {
    let definition = workflow("mine", &[(node, "core.noop")]);
    host.post(WORKFLOWS, &definition).key(key).send().await.status
}

async fn remove(host: &TestHost, key: &str, path: &str) -> (u16, String) {
    let reply = host.call(Method::DELETE, path).key(key).send().await;
    (reply.status, reply.error().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_test_key_replaces_no_workflow_that_live_runs_use() {
    let host = TestHost::start().await;
    assert_eq!(register(&host, LIVE, "live").await, 201);
    let unseen = host.get("/v1/workflows/mine").key(TEST).send().await;
    assert_eq!(unseen.refusal(), (404, "not_found"));
    assert_eq!(register(&host, TEST, "test").await, 201, "it is another workflow");
    assert_eq!(completed(&host, LIVE).await, ["live"]);
    assert_eq!(completed(&host, TEST).await, ["test"]);
    let mine = format!("{WORKFLOWS}/mine");
    assert_eq!(remove(&host, TEST, &mine).await.0, 204);
    assert_eq!(remove(&host, TEST, &mine).await, (404, "not_found".to_owned()));
    assert_eq!(completed(&host, LIVE).await, ["live"]);
}

#[tokio::test(start_paused = true)]
async fn a_workspaces_workflow_stands_before_the_tenants_in_that_workspace_alone() {
    let host = TestHost::start().await;
    assert_eq!(register(&host, LIVE, "tenant").await, 201);
    assert_eq!(completed(&host, OPS).await, ["tenant"]);
    let mine = format!("{WORKFLOWS}/mine");
    assert_eq!(remove(&host, OPS, &mine).await, (403, "forbidden".to_owned()));
    assert_eq!(register(&host, OPS, "ops").await, 201);
    for (key, node) in [(OPS, "ops"), (LAB, "tenant"), (LIVE, "tenant")] {
        assert_eq!(completed(&host, key).await, [node], "{key}");
    }
    let listed = host.get(WORKFLOWS).key(OPS).send().await.json;
    let of_id = |line: &&Value| line["workflowId"] == "mine";
    assert_eq!(listed["workflows"].as_array().expect("a list").iter().filter(of_id).count(), 1);
    assert_eq!(remove(&host, OPS, &mine).await.0, 204);
    assert_eq!(completed(&host, OPS).await, ["tenant"]);
}

#[tokio::test]
async fn a_prompt_is_changed_only_where_it_stands() {
    let host = TestHost::start().await;
    let template = |version: &str| json!({ "templateId": "greet", "version": version, "kind": "user", "text": version });
    let put = async |key: &str, version: &str| {
        let request = host.call(Method::PUT, "/v1/prompts/greet").json(&template(version));
        let reply = request.key(key).send().await;
        (reply.status, reply.error().to_owned())
    };
    assert_eq!(host.post("/v1/prompts", &template("1.0.0")).send().await.status, 201);
    assert_eq!(put(OPS, "2.0.0").await, (403, "prompt_read_only".to_owned()));
    assert_eq!(put(TEST, "2.0.0").await.0, 404);
    assert_eq!(remove(&host, OPS, "/v1/prompts/greet").await.0, 403);
    assert_eq!(remove(&host, TEST, "/v1/prompts/greet").await.0, 404);
    let test = host.post("/v1/prompts", &template("9.0.0")).key(TEST).send().await;
    assert_eq!(test.status, 201);
    for (key, version) in [(LIVE, "1.0.0"), (OPS, "1.0.0"), (TEST, "9.0.0")] {
        let read = host.get("/v1/prompts/greet").key(key).send().await;
        assert_eq!(read.text_at("version"), version, "{key}");
    }
}

/// How long the secret is that a run of this key gets under the name.
async fn secret_length(host: &TestHost, key: &str) -> Value {
    let mut definition = workflow("echo", &[("echo", "conformance.secret.echo")]);
    definition["nodes"][0]["config"] = json!({ "secretId": "crm" });
    host.post(WORKFLOWS, &definition).key(key).send().await;
    let run = host.run_as(key, json!({ "workflowId": "echo" })).await;
    host.end_as(key, &run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).key(key).send().await.json;
    snapshot["variables"]["echo"]["secretLength"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_workspace_has_secrets_of_its_own_and_changes_no_others() {
    let host = TestHost::start().await;
    let crm = format!("{SECRETS}/crm");
    let put = async |key: &str, value: &str| {
        host.call(Method::PUT, &crm).json(&json!({ "value": value })).key(key).send().await.status
    };
    assert_eq!(put(LIVE, "the tenant's").await, 201);
    assert_eq!(secret_length(&host, OPS).await, "the tenant's".len());
    assert_eq!(remove(&host, OPS, &crm).await, (403, "forbidden".to_owned()));
    assert_eq!(put(OPS, "of ops").await, 201, "it replaces nothing");
    for (key, value) in [(OPS, "of ops"), (LAB, "the tenant's"), (LIVE, "the tenant's")] {
        assert_eq!(secret_length(&host, key).await, value.len(), "{key}");
        let listed = host.get(SECRETS).key(key).send().await.json;
        assert_eq!(listed["secrets"].as_array().map(Vec::len), Some(1), "{key}");
    }
    assert_eq!(remove(&host, OPS, &crm).await.0, 204);
    assert_eq!(secret_length(&host, OPS).await, "the tenant's".len());
}

#[tokio::test]
async fn each_workspace_and_kind_of_key_has_another_callback_secret_and_only_a_tenants_key_rotates()
{
    let host = TestHost::start().await;
    let secret =
        async |key: &str| host.get(CALLBACK_SECRET).key(key).send().await.text_at("secret");
    let (of_tenant, of_ops) = (secret(LIVE).await, secret(OPS).await);
    let all = [of_tenant.clone(), of_ops.clone(), secret(LAB).await, secret(TEST).await];
    for (place, one) in all.iter().enumerate() {
        assert!(!one.is_empty() && !all[place + 1..].contains(one), "{all:?}");
    }
    let refused = host.call(Method::POST, ROTATE).key(OPS).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(host.call(Method::POST, ROTATE).key(TEST).send().await.status, 200);
    assert_eq!(secret(LIVE).await, of_tenant, "nothing of live keys has changed");
    assert_eq!(host.call(Method::POST, ROTATE).send().await.status, 200);
    assert_ne!(secret(LIVE).await, of_tenant);
    assert_ne!(secret(OPS).await, of_ops);
}

#[tokio::test]
async fn a_workspace_decides_nothing_for_the_others() {
    let host = TestHost::start().await;
    let install = host.call(Method::POST, "/v1/host/callboard/packs").bytes("no archive");
    assert_eq!(install.key(OPS).send().await.refusal(), (403, "forbidden"));
    let pack = "/v1/host/callboard/packs/vendor.acme.desk/1.0.0";
    assert_eq!(remove(&host, OPS, pack).await, (403, "forbidden".to_owned()));
    let promote = json!({ "version": "1.0.0", "transition": "promote" });
    let deployments = "/v1/agents/vendor.acme.desk.assistant/deployments";
    let refused = host.post(deployments, &promote).key(OPS).send().await;
    assert_eq!(refused.refusal(), (403, "forbidden"), "{refused:?}");
}
