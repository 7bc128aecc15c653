//! R18–R25: starting runs.

use serde_json::{Value, json};

use crate::given::{LIVE, TEST, TestHost};

/// R18.
#[tokio::test(start_paused = true)]
async fn a_run_is_created_and_completes() {
    let host = TestHost::start().await;
    let reply = host.post("/v1/runs", &json!({ "workflowId": "noop" })).send().await;
    assert_eq!(reply.status, 201);
    let run = reply.text_at("runId");
    assert_eq!(reply.header("openwop-idempotent-replay"), "");
    let mut body = reply.json.clone();
    for field in ["runId", "eventsUrl", "statusUrl"] {
        body[field] = json!(body[field].as_str().unwrap_or_default().replace(&run, "[run]"));
    }
    insta::assert_json_snapshot!(body, @r#"
    {
      "eventsUrl": "/v1/runs/[run]/events",
      "runId": "[run]",
      "status": "pending",
      "statusUrl": "/v1/runs/[run]"
    }
    "#);
    host.end_of(&run).await;
    let snapshot = host.get(&reply.text_at("statusUrl")).send().await;
    assert_eq!(snapshot.json["status"], "completed");
}

/// R18: a run that will fail is created all the same.
#[tokio::test(start_paused = true)]
async fn a_run_that_will_fail_is_created() {
    let host = TestHost::start().await;
    let run = host.run("fail", json!({})).await;
    host.end_of(&run).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await;
    assert_eq!(snapshot.json["status"], "failed");
    for field in ["code", "message"] {
        assert!(
            snapshot.json["error"][field].as_str().is_some_and(|text| !text.is_empty()),
            "{snapshot:?}"
        );
    }
}

async fn refused(host: &TestHost, key: &str, body: &Value) -> (u16, String) {
    let reply = host.post("/v1/runs", body).key(key).send().await;
    (reply.status, reply.error().to_owned())
}

/// R19, R20, R22, R23 and what this host does not serve.
#[tokio::test]
async fn wrong_orders_are_refused() {
    let host = TestHost::start().await;
    let order = |fields: Value| {
        let mut body = json!({ "workflowId": "noop" });
        for (key, value) in fields.as_object().cloned().unwrap_or_default() {
            body[key] = value;
        }
        body
    };
    let invalid = (400, "validation_error".to_owned());
    for body in [
        json!({}),
        json!({ "workflowId": "" }),
        json!({ "workflowId": "nowhere" }),
        order(json!({ "surprise": 1 })),
        order(json!({ "inputs": [] })),
        order(json!({ "tags": vec!["x"; 101] })),
        order(json!({ "tags": ["x".repeat(257)] })),
        order(json!({ "tags": [""] })),
        order(json!({ "metadata": { "a": "x".repeat(9000) } })),
        order(json!({ "metadata": { "a": { "b": { "c": { "d": {} } } } } })),
        order(json!({ "callbackUrl": "/relative" })),
        order(json!({ "mode": "dance" })),
        order(json!({ "agentId": "a" })),
        order(json!({ "configurable": { "recursionLimit": 0 } })),
        order(json!({ "configurable": { "recursionLimit": 1.5 } })),
        json!({ "workflowId": "strict", "configurable": { "recursionLimit": "three" } }),
        json!({ "workflowId": "strict", "configurable": { "temperature": 1 } }),
    ] {
        assert_eq!(refused(&host, LIVE, &body).await, invalid, "{body}");
    }
    for (body, status, code) in [
        (order(json!({ "tenantId": "rival" })), 403, "forbidden"),
        (json!({ "agentId": "a" }), 400, "validation_error"),
        (json!({ "workflowId": "gated" }), 422, "capability_required"),
        (order(json!({ "mode": "eval" })), 501, "capability_not_provided"),
        (order(json!({ "residency": "eu" })), 501, "capability_not_provided"),
        (order(json!({ "evalSuiteRef": "x" })), 501, "capability_not_provided"),
    ] {
        assert_eq!(refused(&host, LIVE, &body).await, (status, code.to_owned()), "{body}");
    }
    assert_eq!(
        host.get("/v1/host/callboard/runs").send().await.json,
        json!({ "runs": [] }),
        "nothing was made"
    );
}

/// R20: the limits themselves are fine.
#[tokio::test]
async fn orders_at_the_limits_are_accepted_and_echoed() {
    let host = TestHost::start().await;
    let tags: Vec<String> = (0..100).map(|number| format!("{number:0>256}")).collect();
    let body = json!({
        "workflowId": "noop", "tenantId": "acme", "tags": tags, "inputs": { "a": [1, { "b": null }] },
        "metadata": { "a": { "b": { "c": { "d": 1 } } } }, "scopeId": "s", "callbackUrl": "https://8.8.8.8/x",
        "configurable": { "recursionLimit": 1_000_000, "acme.note": "kept" },
    });
    let run = host.run_as(LIVE, body.clone()).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).send().await.json;
    for field in ["tags", "metadata", "configurable"] {
        assert_eq!(snapshot[field], body[field], "{field}");
    }
    assert_eq!(snapshot["variables"]["a"], body["inputs"]["a"]);
    assert_eq!(snapshot["owner"], json!({ "tenant": "acme", "principal": "key:static-9a08bb59" }));
}

/// R23: the schema is shown with the workflow that has it.
#[tokio::test]
async fn a_workflow_shows_its_configurable_schema() {
    let host = TestHost::start().await;
    let reply = host.get("/v1/workflows/strict").send().await;
    assert_eq!(reply.json["configurableSchema"]["additionalProperties"], json!(false));
    let body = json!({ "workflowId": "strict", "configurable": { "recursionLimit": 5 } });
    assert_eq!(host.post("/v1/runs", &body).send().await.status, 201);
}

/// R24.
#[tokio::test]
async fn mock_providers_answer_test_keys_only() {
    let host = TestHost::start().await;
    let body = |id: &str| json!({ "workflowId": "chat", "configurable": { "mockProvider": { "id": id } } });
    assert_eq!(
        refused(&host, LIVE, &body("stream-text")).await,
        (403, "mock_provider_forbidden".to_owned())
    );
    assert_eq!(
        refused(&host, TEST, &body("nobody")).await,
        (400, "unsupported_mock_provider".to_owned())
    );
    assert_eq!(host.post("/v1/runs", &body("stream-text")).key(TEST).send().await.status, 201);
}

/// R25.
#[tokio::test(start_paused = true)]
async fn a_busy_scope_refuses_a_second_run() {
    let host = TestHost::start().await;
    let body =
        json!({ "workflowId": "wait", "inputs": { "delayMs": 3_600_000 }, "scopeId": "desk" });
    let send =
        async |body: &Value| host.post("/v1/runs", body).header("x-dedup", "enforce").send().await;
    let first = send(&body).await.text_at("runId");
    let reply = send(&body).await;
    assert_eq!(reply.refusal(), (409, "run_already_active"));
    assert_eq!(
        reply.json["details"],
        json!({ "activeRunId": first, "activeHost": "cloud", "retryAfter": reply.retry_after() })
    );
    assert!(reply.retry_after() > Some(0));
    let beside = host.post("/v1/runs", &body).send().await;
    assert_eq!(beside.status, 201, "without the header nobody asks");
    for run in [first, beside.text_at("runId")] {
        host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await;
        host.end_of(&run).await;
    }
    assert_eq!(send(&body).await.status, 201, "the scope is free again");
    let unscoped = json!({ "workflowId": "noop" });
    assert_eq!(send(&unscoped).await.refusal(), (400, "validation_error"));
    let odd = host.post("/v1/runs", &body).header("x-dedup", "maybe").send().await;
    assert_eq!(odd.refusal(), (400, "validation_error"));
}

#[tokio::test(start_paused = true)]
async fn an_engine_version_is_forced_by_test_keys_within_the_range() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    let force = async |key: &str, version: &str| {
        host.post("/v1/runs", &body).key(key).header("x-force-engine-version", version).send().await
    };
    assert_eq!(force(LIVE, "1").await.refusal(), (403, "force_engine_version_forbidden"));
    for version in ["3", "-1", "x"] {
        let reply = force(TEST, version).await;
        assert_eq!(reply.refusal(), (400, "unsupported_force_engine_version"), "{version}");
        assert_eq!(reply.json["details"], json!({ "min": 0, "max": 2 }));
    }
    for version in ["0", "1", "2"] {
        let run = force(TEST, version).await.text_at("runId");
        let events = host.end_as(TEST, &run).await;
        assert!(events.iter().all(|event| event["engineVersion"] == version), "{events:?}");
        assert_eq!(
            host.get(&format!("/v1/runs/{run}")).key(TEST).send().await.json["status"],
            "completed"
        );
    }
}
