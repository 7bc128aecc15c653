//! S-01–S-05: the doors of the protocol's test suite.

use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{RIVAL, Setup, TEST, TestHost, TestSeams, workflow};

const EVENTS: &str = "/v1/host/sample/test/runs/__probe__/events";
const SEAMS: [(&str, &str); 35] = [
    ("GET", EVENTS),
    ("GET", "/v1/host/sample/test/runs/__probe__/variables"),
    ("POST", "/v1/host/sample/test/runs/__probe__/variables"),
    ("GET", "/v1/host/sample/test/otel/spans?runId=x"),
    ("POST", "/v1/host/sample/test/debug-bundle/export"),
    ("POST", "/v1/host/sample/test/idempotency/concurrent-claim"),
    ("POST", "/v1/host/sample/test/idempotency/effect-retry"),
    ("POST", "/v1/host/sample/effect-seams/fire"),
    ("POST", "/v1/host/sample/event-log/seed"),
    ("POST", "/v1/host/sample/webhooks/receive"),
    ("GET", "/v1/host/sample/identity/owned-run"),
    ("POST", "/v1/host/sample/identity/cross-workspace-read"),
    ("POST", "/v1/host/sample/test/reset"),
    ("POST", "/v1/host/sample/test/capability-toggle"),
    ("POST", "/v1/host/sample/workflows"),
    ("POST", "/v1/host/sample/agents/deployment-transition"),
    ("POST", "/v1/host/sample/prompt/resolve"),
    ("POST", "/v1/host/sample/prompt/compose"),
    ("POST", "/v1/host/sample/test/llm-prompt-wrap"),
    ("POST", "/v1/host/sample/test/mock-ai/program"),
    ("GET", "/v1/host/sample/test/mock-ai/last-dispatch-budget?nodeId=n"),
    ("POST", "/v1/host/sample/test/llm-cache-key"),
    ("POST", "/v1/host/sample/test/evaluate-model-capability-gate"),
    ("POST", "/v1/host/sample/envelope/accept"),
    ("POST", "/v1/host/sample/test/emit-provider-usage"),
    ("POST", "/v1/host/sample/test/emit-envelope-reliability"),
    ("POST", "/v1/host/sample/test/memory/expire-snapshots"),
    ("POST", "/v1/host/sample/test/memory/cross-run-ttl-roundtrip"),
    ("POST", "/v1/test/memory/seed"),
    ("POST", "/v1/test/memory/compact"),
    ("POST", "/v1/host/sample/deadletter/exhaust"),
    ("POST", "/v1/host/sample/dispatch/fanout"),
    ("POST", "/v1/host/sample/scheduling/tick"),
    ("POST", "/v1/host/sample/trigger-bridge/deliver"),
    ("POST", "/v1/host/sample/trigger-bridge/ingest"),
];

async fn open() -> TestHost {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    TestHost::of(setup).await
}

async fn seams_in_discovery(host: &TestHost) -> Value {
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    document["observability"]["testSeams"].clone()
}

/// S-01.
#[tokio::test]
async fn s01_without_the_switch_no_door_exists() {
    let host = TestHost::start().await;
    for (method, path) in SEAMS {
        for anonymous in [true, false] {
            let call = host.call(method.parse().expect("a method"), path).json(&json!({}));
            let call = if anonymous { call.anonymous() } else { call.key(TEST) };
            assert_eq!(call.send().await.status, 404, "{method} {path}");
        }
    }
    assert_eq!(seams_in_discovery(&host).await, Value::Null);
}

/// S-02.
#[tokio::test]
async fn s02_with_the_switch_every_door_asks_for_a_key() {
    let host = open().await;
    for (method, path) in SEAMS {
        let call = host.call(method.parse().expect("a method"), path).json(&json!({}));
        assert_eq!(call.anonymous().send().await.status, 401, "{method} {path}");
    }
    let advertised = seams_in_discovery(&host).await;
    assert_eq!(advertised, json!({ "otelScrape": true, "debugBundleExport": true }));
    let document = host.get("/v1/openapi.json").anonymous().send().await.json;
    assert!(
        !document["paths"].to_string().contains("/host/sample/"),
        "doors are no part of the API"
    );
}

/// S-03.
#[tokio::test(start_paused = true)]
async fn s03_a_log_is_read_by_what_its_events_say() {
    let host = open().await;
    assert_eq!(host.get(EVENTS).send().await.json, json!({ "events": [] }));
    let run = host.run("chain", json!({})).await;
    let all = host.end_of(&run).await;
    let path = format!("/v1/host/sample/test/runs/{run}/events");
    assert_eq!(host.get(&path).send().await.json["events"], json!(all));
    for (query, expected) in [
        ("type=node.completed", 3),
        ("nodeId=b", 2),
        ("type=node.completed&nodeId=b", 1),
        ("causationId=x", 0),
        ("correlationId=x", 0),
    ] {
        let events = host.get(&format!("{path}?{query}")).send().await.json["events"].clone();
        assert_eq!(events.as_array().map(Vec::len), Some(expected), "{query}");
    }
    assert_eq!(host.get(&path).key(RIVAL).send().await.json, json!({ "events": [] }));
}

/// S-04, S-05.
#[tokio::test]
async fn s05_a_capability_that_is_switched_off_refuses_the_workflow() {
    let host = open().await;
    let toggle = "/v1/host/sample/test/capability-toggle";
    let chat = json!({ "workflowId": "loose", "nodes": [{ "nodeId": "ai", "typeId": "core.ai.callPrompt" }] });
    let maps = |config: Value| {
        json!({ "workflowId": "maps", "nodes": [
        { "nodeId": "s", "typeId": "core.orchestrator.supervisor",
            "config": { "mockDispatchPlan": [{ "kind": "terminate" }] } },
        { "nodeId": "d", "typeId": "core.dispatch", "config": config },
    ] })
    };
    let per_worker = maps(json!({ "perWorkerOutputMappings": { "w": { "a": "b" } } }));
    let maps = [maps(json!({ "inputMapping": { "a": "b" } })), per_worker, maps(json!({}))];
    let off = |name: &str| json!({ "name": name, "value": false });
    for (name, body) in [
        ("aiProviders", &chat),
        ("agents.dispatchMapping", &maps[0]),
        ("agents.dispatchMapping", &maps[1]),
    ] {
        let reply = host.post(toggle, &off(name)).send().await;
        assert_eq!(reply.json["overlay"][name], json!(false));
        let refused = host.post("/v1/host/sample/workflows", body).send().await;
        assert_eq!((refused.status, &refused.json["error"]), (400, &json!("validation_error")));
        assert_eq!(refused.json["details"]["requiredCapability"], name);
    }
    assert_eq!(host.post("/v1/host/sample/workflows", &maps[2]).send().await.status, 201);
    let one = host.post(toggle, &json!({ "name": "aiProviders", "value": null })).send().await;
    assert_eq!(one.json["overlay"], json!({ "agents.dispatchMapping": false }));
    assert_eq!(host.post("/v1/host/sample/workflows", &chat).send().await.status, 201);
    host.post(toggle, &off("aiProviders")).send().await;
    assert_eq!(
        host.post("/v1/host/sample/test/reset", &json!({})).send().await.json,
        json!({ "ok": true })
    );
    assert_eq!(host.post("/v1/host/sample/workflows", &chat).send().await.status, 201);
    let cleared = host.post(toggle, &json!({ "reset": true })).send().await;
    assert_eq!(cleared.json["overlay"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_few_words_runs_like_any_other() {
    let host = open().await;
    let body = json!({ "workflowId": "loose", "nodes": [
        { "nodeId": "one", "typeId": "core.noop" }, { "nodeId": "two", "typeId": "core.noop" },
    ] });
    let reply = host.post("/v1/host/sample/workflows", &body).send().await;
    assert_eq!((reply.status, &reply.json), (201, &json!({ "workflowId": "loose" })));
    let run = host.run("loose", json!({ "x": 1 })).await;
    let events = host.end_of(&run).await;
    let done: Vec<_> = events.iter().filter(|event| event["type"] == "node.completed").collect();
    assert_eq!((&done[0]["nodeId"], &done[1]["nodeId"]), (&json!("one"), &json!("two")));

    let variables = format!("/v1/host/sample/test/runs/{run}/variables");
    assert_eq!(host.get(&variables).send().await.json, json!({ "variables": { "x": 1 } }));
    let late = host.post(&variables, &json!({ "variables": { "x": 2 } })).send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "run_terminal"));

    let edges = json!({ "workflowId": "fan", "nodes": [
        { "id": "a", "typeId": "core.noop" }, { "id": "b", "typeId": "core.noop" },
    ], "edges": [{ "source": "b", "target": "a" }] });
    assert_eq!(host.post("/v1/host/sample/workflows", &edges).send().await.status, 201);
    let lost = json!({ "workflowId": "fan", "nodes": [], "edges": [{ "source": "b" }] });
    assert_eq!(host.post("/v1/host/sample/workflows", &lost).send().await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn spans_and_bundles_are_those_of_the_run() {
    let host = open().await;
    let run = host.run("noop", json!({})).await;
    host.end_of(&run).await;
    let spans = host.get(&format!("/v1/host/sample/test/otel/spans?runId={run}")).send().await.json;
    assert_eq!(spans["spans"][0]["name"], "openwop.run");
    assert_eq!(spans["spans"][0]["attributes"]["openwop.run_id"], json!(run));
    assert_eq!(spans["spans"][0]["events"], json!([]));
    let unknown = host.get("/v1/host/sample/test/otel/spans?runId=run_0").send().await;
    assert_eq!((unknown.status, unknown.json), (200, json!({ "spans": [] })));
    let export = "/v1/host/sample/test/debug-bundle/export";
    let mut exported = host.post(export, &json!({ "runId": run })).send().await.json;
    let mut read = host.get(&format!("/v1/runs/{run}/debug-bundle")).send().await.json;
    for bundle in [&mut exported, &mut read] {
        bundle["generatedAt"].take();
    }
    assert_eq!(exported, read);
    assert_eq!(host.post(export, &json!({ "runId": "run_0" })).send().await.status, 404);
}

/// R76: a child's run nests under the call that started it; a fork has a trace of its own, linked to its source.
#[tokio::test(start_paused = true)]
async fn r76_children_nest_and_forks_are_linked() {
    let host = open().await;
    let mut outer = workflow("outer", &[("call", "core.subWorkflow")]);
    outer["nodes"][0]["config"] = json!({ "workflowId": "chain" });
    let registered = host.post("/v1/host/callboard/workflows", &outer).send().await;
    assert_eq!(registered.status, 201, "{registered:?}");
    let run = host.run("outer", json!({})).await;
    host.end_of(&run).await;
    let parent = spans_of(&host, &run).await;
    let call = parent.iter().find(|span| span["name"] == "openwop.node.core.subWorkflow");
    let shown = host.get(&format!("/v1/runs/{run}")).send().await.json;
    let child = shown["childRuns"][0]["runId"].as_str().expect("a child").to_owned();
    let below = spans_of(&host, &child).await;
    assert_eq!(below[0]["name"], "openwop.run");
    assert_eq!(below[0]["parentSpanId"], call.expect("a span of the call")["spanId"]);
    assert!(below.iter().all(|span| span["traceId"] == parent[0]["traceId"]), "one trace");
    assert_eq!(below[0]["attributes"]["openwop.parent.run_id"], json!(run));
    assert_eq!(below[0]["attributes"]["openwop.parent.node_id"], "call");

    let body = json!({ "mode": "replay", "fromSeq": 1 });
    let forked = host.post(&format!("/v1/runs/{run}:fork"), &body).send().await.text_at("runId");
    host.end_of(&forked).await;
    let fork = spans_of(&host, &forked).await;
    let source = json!({ "traceId": parent[0]["traceId"], "spanId": parent[0]["spanId"] });
    assert_eq!(fork[0]["links"], json!([source]));
    assert_ne!(fork[0]["traceId"], parent[0]["traceId"]);
    assert_eq!(fork[0]["parentSpanId"], Value::Null);
    assert_eq!(fork[0]["attributes"]["openwop.replay.source_run_id"], json!(run));
    assert_eq!(fork[0]["attributes"]["openwop.replay.from_seq"], 1);
    assert_eq!(fork[0]["attributes"]["openwop.replay.mode"], "replay");
}

/// The spans behind the door, which are those of the bundle.
async fn spans_of(host: &TestHost, run: &str) -> Vec<Value> {
    let scraped = host.get(&format!("/v1/host/sample/test/otel/spans?runId={run}")).send().await;
    let bundle = host.get(&format!("/v1/runs/{run}/debug-bundle")).send().await;
    assert_eq!(scraped.json["spans"], bundle.json["spans"]);
    scraped.json["spans"].as_array().expect("spans").clone()
}

/// F58: what hands variables down is refused where that is switched off, and an empty mapping hands down nothing.
#[tokio::test]
async fn f58_a_mapping_of_inputs_is_refused_where_it_is_not_advertised() {
    let host = open().await;
    let maps = |mapping: Value| {
        json!({ "workflowId": "maps", "nodes": [{ "nodeId": "call", "typeId": "core.subWorkflow",
            "config": { "workflowId": "noop", "inputMapping": mapping } }] })
    };
    let register = "/v1/host/sample/workflows";
    let full = json!({ "theirs": "ours" });
    assert_eq!(host.post(register, &maps(full.clone())).send().await.status, 201);
    let off = json!({ "name": "subWorkflow.inputMapping", "value": false });
    host.post("/v1/host/sample/test/capability-toggle", &off).send().await;
    for path in [register, "/v1/host/callboard/workflows"] {
        let mut body = maps(full.clone());
        if path != register {
            body = workflow("maps", &[("call", "core.subWorkflow")]);
            body["nodes"][0]["config"] = json!({ "workflowId": "noop", "inputMapping": full });
        }
        let refused = host.post(path, &body).send().await;
        assert_eq!((refused.status, refused.text_at("error").as_str()), (400, "validation_error"));
        assert_eq!(refused.json["details"]["requiredCapability"], "subWorkflow.inputMapping");
    }
    assert_eq!(host.post(register, &maps(json!({}))).send().await.status, 201);
}

/// The capability of conversations can be switched off for a test, and is refused by name then.
#[tokio::test]
async fn a_conversation_is_refused_where_it_is_switched_off() {
    let host = open().await;
    let body = json!({ "workflowId": "talk", "nodes": [{ "nodeId": "t", "typeId": "core.conversationGate" }] });
    assert_eq!(host.post("/v1/host/sample/workflows", &body).send().await.status, 201);
    let off = json!({ "name": "conversationPrimitive", "value": false });
    host.post("/v1/host/sample/test/capability-toggle", &off).send().await;
    let refused = host.post("/v1/host/sample/workflows", &body).send().await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json["details"]["requiredCapability"], "conversationPrimitive");
}

/// F44: what a test sets in a parent does not reach the child that was started before.
#[tokio::test(start_paused = true)]
async fn variables_are_set_in_a_run_that_waits() {
    let host = open().await;
    let mut child = workflow("child", &[("gate", "core.approvalGate")]);
    child["variables"] = json!([{ "name": "theirs", "type": "string" }]);
    let mut parent = workflow("parent", &[("call", "core.subWorkflow")]);
    parent["nodes"][0]["config"] =
        json!({ "workflowId": "child", "inputMapping": { "theirs": "ours" } });
    parent["channels"] = json!({ "c": { "reducer": "append" } });
    for definition in [&child, &parent] {
        host.post("/v1/host/callboard/workflows", definition).send().await;
    }
    let run = host.run("parent", json!({ "ours": "seeded" })).await;
    let below = until_child(&host, &run).await;
    let variables = format!("/v1/host/sample/test/runs/{run}/variables");
    let set = host.post(&variables, &json!({ "variables": { "ours": "mutated" } })).send().await;
    assert_eq!((set.status, &set.json["variables"]["ours"]), (200, &json!("mutated")));
    let channel = host.post(&variables, &json!({ "variables": { "c": [] } })).send().await;
    assert_eq!((channel.status, channel.text_at("error").as_str()), (400, "validation_error"));
    let foreign =
        host.post(&variables, &json!({ "variables": { "x": 1 } })).key(RIVAL).send().await;
    assert_eq!(foreign.status, 404);
    let answer = json!({ "resumeValue": { "action": "accept" } });
    host.post(&format!("/v1/runs/{below}/interrupts/gate"), &answer).send().await;
    let events = host.end_of(&run).await;
    let changed: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "variable.changed").collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].get("nodeId"), None);
    let below = host.get(&format!("/v1/runs/{below}")).send().await;
    assert_eq!(below.json["variables"]["theirs"], "seeded");
}

/// The child of a run, once it waits.
async fn until_child(host: &TestHost, run: &str) -> String {
    let mut seen = 0;
    loop {
        let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
        if snapshot["status"] == "waiting-approval" {
            return snapshot["childRuns"][0]["runId"].as_str().expect("a child").to_owned();
        }
        let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={seen}");
        let polled = host.get(&path).send().await.json;
        let last = polled["events"].as_array().and_then(|events| events.last().cloned());
        seen = last.and_then(|event| event["sequence"].as_u64()).unwrap_or(seen);
    }
}

/// R65: however many executors reach an outward call, all call it the same and one makes it.
#[tokio::test(start_paused = true)]
async fn one_of_many_executors_makes_the_call() {
    let host = open().await;
    let seam = "/v1/host/sample/test/idempotency/concurrent-claim";
    for executors in [2, 5, 32] {
        let body = json!({ "executors": executors });
        let raced = host.post(seam, &body).key(TEST).send().await;
        assert_eq!(raced.status, 200, "{raced:?}");
        let ids = raced.json["mintedIds"].as_array().expect("ids");
        assert_eq!((ids.len(), &raced.json["attempted"]), (executors, &json!(executors)));
        assert!(ids.iter().all(|id| *id == raced.json["logicalInvocationId"]), "{raced:?}");
        assert_eq!(raced.json["delivered"], 1);
    }
    for wrong in [json!({ "executors": 1 }), json!({ "executors": 33 })] {
        assert_eq!(host.post(seam, &wrong).key(TEST).send().await.status, 400, "{wrong}");
    }
}

/// A run says whose it is, and another workspace of the same tenant does not read it.
#[tokio::test(start_paused = true)]
async fn a_run_is_its_workspaces_own() {
    let host = open().await;
    let owned = host.get("/v1/host/sample/identity/owned-run").key(TEST).send().await;
    assert_eq!((owned.status, &owned.json["owner"]["tenant"]), (200, &json!("acme")));
    let seam = "/v1/host/sample/identity/cross-workspace-read";
    let read = host.post(seam, &json!({})).key(TEST).send().await;
    assert_eq!(read.refusal(), (403, "run_forbidden"));
}

/// RFC 0053: a run that has used up its retries is given up, stays where it is and can be forked.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_given_up_can_still_be_forked() {
    let host = open().await;
    let path = "/v1/host/sample/deadletter/exhaust";
    for scenario in ["exhaust-retries", "fork-after-dead-letter"] {
        let reply = host.post(path, &json!({ "scenario": scenario })).send().await;
        let (event, run) = (&reply.json["event"], &reply.json["runId"]);
        assert_eq!((reply.status, &event["type"]), (200, &json!("run.dead_lettered")), "{reply:?}");
        let told =
            json!({ "runId": run, "nodeId": "only", "reason": "always_busy", "attempts": 2 });
        assert_eq!(event["payload"], told);
        let read = host.get(&format!("/v1/runs/{}", run.as_str().expect("an id"))).send().await;
        assert_eq!(read.json["status"], "failed");
        let is_forked = scenario == "fork-after-dead-letter";
        assert_eq!(reply.json["forkEligible"] == true, is_forked, "{reply:?}");
        if is_forked {
            let events = host.end_of(&reply.text_at("forkRunId")).await;
            let kinds: Vec<_> = events.iter().rev().take(2).map(|it| &it["type"]).collect();
            assert_eq!(
                kinds,
                ["run.failed", "run.dead_lettered"],
                "told again, without a divergence"
            );
        }
    }
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["deadLetter"], json!({ "supported": true }), "kept for ever");
}
