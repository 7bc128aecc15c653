//! The table of operations, the router and the OpenAPI document say the same.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use callboard_server::{Access, operations};
use serde_json::Value;

use crate::given::TestHost;
use crate::interrupts::asked;

/// A path that a client could send.
fn example(path: &str) -> String {
    path.replace("{runId}", "run_0")
        .replace("{workflowId}", "none")
        .replace("{keyId}", "key_0")
        .replace("{webhookId}", "wh_0")
        .replace("{nodeId}", "node_0")
        .replace("{artifactId}", "artifact_0")
        .replace("{callId}", "0")
        .replace("{provider}", "none")
        .replace("{deliveryId}", "del_0")
        .replace("{attachmentId}", "0")
        .replace("{channel}", "channel_0")
        .replace("{token}", "none")
        .replace("{agentId}", "none")
        .replace("{name}", "vendor.acme.none")
        .replace("{secretName}", "none")
        .replace("{version}", "1.0.0")
        .replace("{rosterId}", "host:none")
        .replace("{workId}", "work_0")
}

#[tokio::test]
async fn every_operation_is_routed_and_guarded() {
    let host = TestHost::start().await;
    for operation in operations() {
        let method: Method = operation.method.as_str().parse().expect("a method");
        let reply = host.call(method, &example(operation.path)).anonymous().send().await;
        let expected = match operation.access {
            // Nobody gives tokens for this host.
            Access::Public if operation.path.contains("oauth-protected-resource") => 404,
            Access::Public => 200,
            // Nothing is there for those who show no key.
            Access::Anyone(_) if operation.path.contains('{') => 404,
            Access::Anyone(_) => 200,
            Access::Scope(_) | Access::OneOf(_) => 401,
            // A link that is none is not found, whatever is sent to it.
            Access::Link => 404,
        };
        assert_eq!(reply.status, expected, "{}", operation.name);
    }
}

#[tokio::test]
async fn every_route_is_in_the_table() {
    let host = TestHost::start().await;
    let mut methods: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for operation in operations() {
        for path in [Some(operation.path.to_owned()), operation.second_path()].into_iter().flatten()
        {
            methods.entry(path).or_default().insert(operation.method.as_str());
        }
    }
    for (path, known) in methods {
        let reply = host.call(Method::OPTIONS, &example(&path)).anonymous().send().await;
        let allowed: BTreeSet<&str> =
            reply.header("allow").split(',').filter(|method| *method != "HEAD").collect();
        assert_eq!(allowed, known, "{path}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "the snapshot of one operation is long")]
async fn the_openapi_document_names_every_operation() {
    let host = TestHost::start().await;
    let document = host.get("/v1/openapi.json").anonymous().send().await.json;
    let paths = document["paths"].as_object().expect("paths");
    let described: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, _)| (path, method))
        })
        .map(|(path, method)| format!("{} {path}", method.to_uppercase()))
        .collect();
    let first = operations().filter(|operation| operation.is_in_first());
    let known: BTreeSet<String> = first.map(|operation| operation.name.to_owned()).collect();
    assert_eq!(described, known);
    insta::assert_json_snapshot!(document["paths"]["/v1/runs/{runId}:pause"], @r##"
    {
      "post": {
        "operationId": "pauseRun",
        "parameters": [
          {
            "in": "path",
            "name": "runId",
            "required": true,
            "schema": {
              "type": "string"
            }
          },
          {
            "description": "A repetition under the same key within a day gets the first answer again.",
            "in": "header",
            "name": "Idempotency-Key",
            "schema": {
              "maxLength": 255,
              "minLength": 1,
              "type": "string"
            }
          }
        ],
        "requestBody": {
          "content": {
            "application/json": {
              "schema": {
                "$ref": "#/components/schemas/PauseRun"
              }
            }
          },
          "required": false
        },
        "responses": {
          "202": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/PausedRun"
                }
              }
            },
            "description": "Pause a run"
          },
          "default": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/ErrorEnvelope"
                }
              }
            },
            "description": "The request was not carried out."
          }
        },
        "security": [
          {
            "bearer": []
          }
        ],
        "summary": "Pause a run",
        "tags": [
          "runs"
        ],
        "x-openwop-scope": "runs:cancel"
      }
    }
    "##);
}

/// The schemas of our own document hold for what is really answered.
#[tokio::test(start_paused = true)]
async fn answers_match_the_openapi_schemas() {
    let host = TestHost::start().await;
    let document = host.get("/v1/openapi.json").anonymous().send().await.json;
    let run = host.run("wait", serde_json::json!({ "delayMs": 10 })).await;
    host.end_of(&run).await;
    let config = serde_json::json!({ "requiredApprovals": 2, "timeoutMs": 60_000 });
    let asking = asked(&host, "core.approvalGate", config).await;
    let vote = serde_json::json!({ "action": "accept" });
    host.post(&format!("/v1/runs/{asking}/approvals/gate"), &vote).send().await;
    for (schema, path) in [
        ("Capabilities", "/.well-known/openwop".to_owned()),
        ("RunSnapshot", format!("/v1/runs/{run}")),
        ("PolledEvents", format!("/v1/runs/{run}/events/poll")),
        ("PolledEvents", format!("/v1/runs/{asking}/events/poll?timeout=1")),
        ("RunSnapshot", format!("/v1/runs/{asking}")),
        ("RunList", "/v1/host/callboard/runs".to_owned()),
        ("Inbox", "/v1/host/callboard/inbox".to_owned()),
        ("WorkflowDefinition", "/v1/workflows/wait".to_owned()),
        ("WorkflowList", "/v1/host/callboard/workflows".to_owned()),
        ("KeyList", "/v1/host/callboard/keys".to_owned()),
        ("TriggerSubscriptionList", "/v1/trigger-subscriptions".to_owned()),
        ("ScheduleList", "/v1/host/callboard/schedules".to_owned()),
        ("WebhookList", "/v1/host/callboard/webhooks".to_owned()),
        ("AgentInventory", "/v1/agents".to_owned()),
        ("PackCatalog", "/v1/packs".to_owned()),
        ("PackExport", "/v1/packs/export".to_owned()),
        ("PackList", "/v1/host/callboard/packs".to_owned()),
        ("RunComparison", format!("/v1/host/callboard/runs/{run}/comparison?against={asking}")),
        ("ErrorEnvelope", "/v1/runs/run_0".to_owned()),
    ] {
        let body = host.get(&path).send().await.json;
        check(&document, schema, &body);
    }
}

/// What a body may look like is shown, and is what its schema says.
#[tokio::test]
async fn every_body_that_is_taken_has_an_example() {
    let host = TestHost::start().await;
    let document = host.get("/v1/openapi.json").anonymous().send().await.json;
    let paths = document["paths"].as_object().into_iter().flat_map(|paths| paths.values());
    for operation in
        paths.flat_map(|item| item.as_object().into_iter().flat_map(|item| item.values()))
    {
        let taken = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let Some(name) = taken.as_str().and_then(|path| path.rsplit('/').next()) else { continue };
        let examples = document["components"]["schemas"][name]["examples"].as_array();
        let examples = examples.filter(|examples| !examples.is_empty());
        for example in examples.unwrap_or_else(|| panic!("{name} has no example")) {
            check(&document, name, example);
        }
    }
}

fn check(document: &Value, schema: &str, body: &Value) {
    let mut root = document.clone();
    root["$ref"] = format!("#/components/schemas/{schema}").into();
    let validator = jsonschema::validator_for(&root).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{schema}: {errors:?}");
}
