//! What runs and members may use, over HTTP: RFC 0084, `contract/roster.md` §13.

use axum::http::Method;
use callboard_server::{ServerConfig, TestKeys};
use serde_json::{Value, json};

use crate::agents::host;
use crate::given::{LIVE, READER, RIVAL, Setup, TestHost, TestSeams, workflow};
use crate::roster::sally;

/// Runs one structured call of a model that needs two turns of ten tokens.
async fn two_turns(budget: Value) -> Vec<Value> {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let mut definition = workflow("structured", &[("call", "core.ai.structuredOutput")]);
    definition["nodes"][0]["config"] = json!({
        "provider": "mock", "model": "mock-mini",
        "outputSchema": { "type": "object", "required": ["valid"] },
    });
    definition["nodes"][0]["inputs"] = json!({
        "messages": { "type": "static", "value": [{ "role": "user", "content": "Answer." }] }
    });
    let stored = host.post("/v1/host/callboard/workflows", &definition).send().await;
    assert!(stored.status < 300, "{stored:?}");
    let turn = |text: &str| json!({ "content": text, "inputTokens": 7, "outputTokens": 3 });
    let program = json!({ "nodeId": "call", "program": [turn("no"), turn("{\"valid\":true}")] });
    let put = host.post("/v1/host/sample/test/mock-ai/program", &program).send().await;
    assert_eq!(put.status, 200, "{put:?}");
    let body = json!({ "workflowId": "structured", "configurable": { "budget": budget } });
    let run = host.run_as(LIVE, body).await;
    host.end_of(&run).await
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let of_budget = |kind: &&str| {
        kind.starts_with("budget.") || kind.starts_with("run.") || *kind == "cap.breached"
    };
    events.iter().filter_map(|event| event["type"].as_str()).filter(of_budget).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_asks_a_model_is_held_below_the_budget_too() {
    let events = two_turns(json!({ "maxTokens": 10 })).await;
    let expected = [
        "run.started",
        "budget.reserved",
        "budget.consumed",
        "budget.exhausted",
        "cap.breached",
        "run.failed",
    ];
    assert_eq!(kinds(&events), expected);
    let error = &events.last().expect("an end")["payload"]["error"];
    assert_eq!(error["code"], "budget_exhausted");
    let events = two_turns(json!({ "maxRetries": 0 })).await;
    let breach = events.iter().find(|event| event["type"] == "cap.breached").expect("a breach");
    let payload = json!({ "kind": "budget-retries", "limit": 0, "observed": 1 });
    assert_eq!(breach["payload"], payload);
    let events = two_turns(json!({ "maxTokens": 20, "maxRetries": 1 })).await;
    assert_eq!(kinds(&events).last(), Some(&"run.completed"));
    let events = two_turns(json!({ "modelDeny": ["mock-*"] })).await;
    let error = &events.last().expect("an end")["payload"]["error"];
    assert_eq!(error["code"], "budget_model_denied");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_means_nothing_is_refused_before_there_is_a_run() {
    let host = TestHost::start().await;
    let stored = workflow("w", &[("n", "core.noop")]);
    assert!(host.post("/v1/host/callboard/workflows", &stored).send().await.status < 300);
    for budget in [
        json!({ "maxTokens": 0 }),
        json!({ "maxCostUsd": -0.5 }),
        json!({ "onExhaustion": "retry" }),
        json!({ "maxWallTimeMs": 5 }),
        json!("much"),
    ] {
        let body = json!({ "workflowId": "w", "configurable": { "budget": budget } });
        let reply = host.post("/v1/runs", &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{budget}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_member_may_use_in_a_day_is_said_beside_its_entry() {
    let host = host().await;
    let id = sally(&host).await;
    let path = format!("/v1/host/callboard/roster/{id}/budget");
    let usual = host.get(&path).send().await;
    assert_eq!((usual.status, &usual.json["source"]), (200, &json!("host")), "{usual:?}");
    assert_eq!(usual.json["allowance"], json!({}));
    let put = |body: Value| host.call(Method::PUT, &path).json(&body).send();
    let said = put(json!({ "maxTokens": 500_000_000, "maxCostUsd": 2.5 })).await;
    assert_eq!(said.json["allowance"], json!({ "maxTokens": 500_000_000, "maxCostUsd": 2.5 }));
    assert_eq!(
        (&said.json["source"], &said.json["limits"]),
        (&json!("member"), &said.json["allowance"])
    );
    assert_eq!(said.json["spent"], json!({ "inputTokens": 0, "outputTokens": 0, "costUsd": 0.0 }));
    // The normative reads show nothing of it: the entry is closed.
    let entry = host.get(&format!("/v1/agents/roster/{id}")).send().await.json;
    assert!(!entry.to_string().contains("500000000"), "{entry}");
    let activity = host.get(&format!("/v1/host/callboard/roster/{id}/activity")).send().await.json;
    assert_eq!(activity["today"], said.json);
    for wrong in [json!({ "maxTokens": -1 }), json!({ "maxCostUsd": -1 }), json!({ "max": 1 })] {
        assert_eq!(put(wrong.clone()).await.refusal(), (400, "validation_error"), "{wrong}");
    }
    let gone = host.call(Method::DELETE, &path).send().await;
    assert_eq!((gone.status, &gone.json["source"]), (200, &json!("host")));
    let read = host.call(Method::PUT, &path).key(READER).json(&json!({})).send().await;
    assert_eq!(read.status, 403, "a right to read is none to spend");
    let foreign = host.get(&path).key(RIVAL).send().await;
    let unknown = host.get("/v1/host/callboard/roster/host:nobody/budget").key(RIVAL).send().await;
    assert_eq!(foreign.refusal(), (404, "not_found"));
    assert_eq!(foreign.json["message"], unknown.json["message"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_asks_no_model_promises_no_budget() {
    let discovered = async |config: ServerConfig| {
        let host = TestHost::configured(config).await;
        host.get("/.well-known/openwop").anonymous().send().await.json
    };
    assert_eq!(discovered(ServerConfig::default()).await.get("budget"), None);
    let live = discovered(ServerConfig::default().live()).await;
    assert_eq!(
        live["budget"],
        json!({
            "supported": true, "enforce": "hard", "scopes": ["run", "agent", "project"],
            "dimensions": ["tokens", "cost", "toolCalls", "retries", "model"],
        })
    );
}

/// Every source that discovery names asks for whom it fires.
#[tokio::test(start_paused = true)]
async fn all_that_fires_for_members_is_advertised() {
    let host = host().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(
        document["agents"]["roster"]["portfolioTriggerSources"],
        json!([
            "schedule",
            "webhook",
            "queue",
            "email",
            "form",
            "callboard.heartbeat",
            "callboard.manual"
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn the_suite_sees_a_budget_hold() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let play = async |scenario: &str| {
        let body = json!({ "scenario": scenario });
        host.post("/v1/host/sample/budget/run", &body).send().await
    };
    let spent = play("hard-cost-exhaust").await;
    assert_eq!(
        (spent.status, &spent.json["error"]),
        (200, &json!("budget_exhausted")),
        "{spent:?}"
    );
    let events = spent.json["events"].as_array().expect("events");
    let expected = [
        "run.started",
        "budget.reserved",
        "budget.consumed",
        "budget.threshold.crossed",
        "budget.exhausted",
        "cap.breached",
        "run.failed",
    ];
    assert_eq!(kinds(events), expected);
    let breach = events.iter().find(|event| event["type"] == "cap.breached").expect("a breach");
    assert_eq!(breach["payload"]["kind"], "budget-cost");
    let denied = play("model-denied").await;
    assert_eq!(denied.json["error"], "budget_model_denied", "{denied:?}");
    assert_eq!(denied.json["modelCalled"], false);
    assert_eq!(play("advisory").await.refusal(), (400, "validation_error"), "it is not offered");
}
