//! Workflow definitions: read verbatim, registered per tenant.

use axum::http::Method;
use serde_json::json;

use crate::given::{READER, RIVAL, TestHost, workflow};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";

#[tokio::test]
async fn a_definition_comes_back_as_it_was_sent() {
    let host = TestHost::start().await;
    let text = format!("{:#}\n", workflow("mine", &[("a", "core.noop")]));
    let sent = host.call(Method::POST, WORKFLOWS).bytes(text.clone()).send().await;
    assert_eq!(sent.status, 201);
    let read = host.get("/v1/workflows/mine").send().await;
    assert_eq!(String::from_utf8_lossy(&read.bytes), text);
    assert_eq!(read.header("content-type"), "application/json");
}

#[tokio::test(start_paused = true)]
async fn registering_makes_replaces_and_runs() {
    let host = TestHost::start().await;
    let one = workflow("mine", &[("a", "core.noop")]);
    assert_eq!(host.post(WORKFLOWS, &one).send().await.status, 201);
    assert_eq!(host.post(WORKFLOWS, &one).send().await.status, 200);
    let run = host.run("mine", json!({})).await;
    let two = workflow("mine", &[("a", "core.noop"), ("b", "core.noop")]);
    let replaced = host.call(Method::PUT, &format!("{WORKFLOWS}/mine")).json(&two).send().await;
    assert_eq!((replaced.status, &replaced.json), (200, &two));
    let nodes =
        host.end_of(&run).await.iter().filter(|event| event["type"] == "node.completed").count();
    assert_eq!(nodes, 1, "an edit never touches a run in flight");
    let fresh = host
        .call(Method::PUT, &format!("{WORKFLOWS}/other"))
        .json(&workflow("other", &[("a", "core.noop")]));
    assert_eq!(fresh.send().await.status, 201);
    assert_eq!(host.call(Method::DELETE, &format!("{WORKFLOWS}/mine")).send().await.status, 204);
    assert_eq!(host.call(Method::DELETE, &format!("{WORKFLOWS}/mine")).send().await.status, 404);
    assert_eq!(host.get("/v1/workflows/mine").send().await.refusal(), (404, "not_found"));
}

#[tokio::test]
async fn a_registered_workflow_is_its_tenants_own() {
    let host = TestHost::start().await;
    host.post(WORKFLOWS, &workflow("mine", &[("a", "core.noop")])).send().await;
    let (foreign, unknown) = (
        host.get("/v1/workflows/mine").key(RIVAL).send().await,
        host.get("/v1/workflows/none").key(RIVAL).send().await,
    );
    assert_eq!(foreign.bytes, unknown.bytes);
    let ids = async |key: &str| {
        let listed = host.get(WORKFLOWS).key(key).send().await;
        let workflows = listed.json["workflows"].as_array().cloned().unwrap_or_default();
        workflows
            .iter()
            .map(|line| format!("{} {}", line["workflowId"], line["origin"]))
            .collect::<Vec<_>>()
    };
    assert!(ids("cb_live").await.contains(&r#""mine" "registered""#.to_owned()));
    assert!(ids("cb_live").await.contains(&r#""noop" "loaded""#.to_owned()));
    assert!(!ids(RIVAL).await.iter().any(|line| line.contains("mine")));
    assert_eq!(
        host.call(Method::DELETE, &format!("{WORKFLOWS}/mine")).key(RIVAL).send().await.status,
        404
    );
    assert_eq!(
        host.post("/v1/runs", &json!({ "workflowId": "mine" })).key(RIVAL).send().await.status,
        400
    );
}

#[tokio::test]
async fn wrong_definitions_are_refused_with_their_place() {
    let host = TestHost::start().await;
    let mut odd = workflow("mine", &[("a", "core.noop")]);
    odd["nodes"][0]["surprise"] = json!(1);
    let reply = host.post(WORKFLOWS, &odd).send().await;
    assert_eq!(reply.refusal(), (400, "validation_error"));
    assert!(
        reply.message().contains("surprise") && reply.message().contains("nodes[0]"),
        "{}",
        reply.message()
    );
    let gated = host.post(WORKFLOWS, &workflow("sub", &[("s", "core.ai.embed")])).send().await;
    assert_eq!(gated.refusal(), (422, "capability_required"));
    assert_eq!(gated.json["details"]["offendingTypeId"], "core.ai.embed");
    let renamed = host
        .call(Method::PUT, &format!("{WORKFLOWS}/other"))
        .json(&workflow("mine", &[("a", "core.noop")]));
    assert_eq!(renamed.send().await.refusal(), (400, "validation_error"));
    let bytes = host.call(Method::POST, WORKFLOWS).bytes(&b"\xff{}"[..]).send().await;
    assert_eq!(bytes.refusal(), (400, "validation_error"));
}

#[tokio::test]
async fn what_the_host_loaded_stays() {
    let host = TestHost::start().await;
    let noop = workflow("noop", &[("a", "core.noop")]);
    assert_eq!(host.post(WORKFLOWS, &noop).send().await.refusal(), (409, "workflow_reserved"));
    let removed = host.call(Method::DELETE, &format!("{WORKFLOWS}/noop")).send().await;
    assert_eq!(removed.refusal(), (409, "workflow_reserved"));
    assert_eq!(host.post(WORKFLOWS, &noop).key(READER).send().await.status, 403);
    assert_eq!(host.get(&format!("{WORKFLOWS}?page=2")).send().await.status, 400);
}

/// A workflow as people write it.
const WRITTEN: &str = "\
id: letters
variables: { name: string }
nodes:
  greet:
    type: core.identity
    inputs: { greeting: \"Hello, ${vars.name}!\" }
  close: { type: core.noop, after: greet }
";

#[tokio::test(start_paused = true)]
async fn yaml_is_registered_expanded_and_runs() {
    let host = TestHost::start().await;
    let yaml = |method: Method, path: &str, text: &str| {
        let call = host.call(method, path).header("content-type", "application/yaml");
        call.bytes(text.to_owned()).send()
    };
    let made = yaml(Method::POST, WORKFLOWS, WRITTEN).await;
    assert_eq!(made.status, 201, "{}", made.json);
    let read = host.get("/v1/workflows/letters").send().await;
    assert_eq!(read.json["nodes"][0]["position"], json!({ "x": 0, "y": 0 }));
    assert_eq!(read.json, made.json);
    let run = host.run("letters", json!({ "name": "Ada" })).await;
    host.end_of(&run).await;
    let ended = host.get(&format!("/v1/runs/{run}")).send().await;
    assert_eq!(ended.json["variables"]["greeting"], "Hello, Ada!");
    // One without an id gets the one of its address.
    let nameless = WRITTEN.replace("id: letters\n", "");
    let path = format!("{WORKFLOWS}/by-path");
    assert_eq!(yaml(Method::PUT, &path, &nameless).await.json["id"], "by-path");
    assert_eq!(yaml(Method::PUT, &path, WRITTEN).await.refusal(), (400, "validation_error"));
    let short = json!({ "id": "short", "nodes": { "a": { "type": "core.noop" } } });
    assert_eq!(host.post(WORKFLOWS, &short).send().await.status, 201);
}

#[tokio::test]
async fn all_that_is_wrong_is_told_in_one_answer() {
    let host = TestHost::start().await;
    let text = WRITTEN.replace("vars.name", "vars.nam").replace("after: greet", "after: great");
    let call = host.call(Method::POST, WORKFLOWS).header("content-type", "text/yaml");
    let refused = call.bytes(text).send().await;
    assert_eq!(refused.refusal(), (400, "validation_error"));
    let problems = &refused.json["details"]["problems"];
    assert_eq!(problems.as_array().map(Vec::len), Some(2), "{problems}");
    assert_eq!(problems[0]["line"], 6);
    assert_eq!(problems[0]["path"], "nodes.greet.inputs.greeting");
    assert_eq!(problems[0]["didYouMean"], "vars.name");
    assert_eq!(problems[1]["didYouMean"], "greet");
    // What only compiling shows is told where it was written, too.
    let cycle = "id: c\nnodes:\n  a: { type: core.noop, next: [x, y] }\n  x: { type: core.noop, after: y }\n  y: { type: core.noop, after: x }\n";
    let call = host.call(Method::POST, WORKFLOWS).header("content-type", "application/yaml");
    let refused = call.bytes(cycle.to_owned()).send().await;
    assert_eq!(refused.json["details"]["problems"][0]["line"], 4, "{}", refused.json);
}

#[tokio::test]
async fn an_unknown_type_is_answered_with_the_nearest() {
    let host = TestHost::start().await;
    let refused = host.post(WORKFLOWS, &workflow("mine", &[("a", "core.nop")])).send().await;
    assert_eq!(refused.refusal(), (422, "capability_required"));
    assert_eq!(refused.json["details"]["didYouMean"], "core.noop");
}

#[tokio::test]
async fn every_listed_node_type_can_be_registered() {
    let host = TestHost::start().await;
    let listed = host.get("/v1/host/callboard/nodes").send().await;
    assert_eq!(listed.status, 200);
    let nodes = listed.json["nodes"].as_array().cloned().unwrap_or_default();
    assert!(nodes.len() > 20, "{}", nodes.len());
    // What `backends` performs is not part of this host.
    let acts = [
        "callboard.notify.",
        "callboard.reply.",
        "core.ai.",
        "core.crypto.hmac-",
        "core.files.",
        "core.openwop.ai.",
        "core.openwop.http.",
        "core.openwop.integration.",
        "core.openwop.mcp.",
        "core.storage.",
    ];
    for node in nodes {
        let type_id = node["typeId"].as_str().unwrap_or_default();
        if type_id == "callboard.tool" || acts.iter().any(|family| type_id.starts_with(family)) {
            continue;
        }
        let answer = host.post(WORKFLOWS, &workflow("mine", &[("a", type_id)])).send().await;
        assert_ne!(answer.status, 422, "{type_id}: {}", answer.json);
    }
}
