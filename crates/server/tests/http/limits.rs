//! How many runs are started and at work, and which goes first: what callers get and read.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_engine::{Ceilings, Concurrency, StoredLimits};
use callboard_server::{ServerConfig, StartLimits, Starts, StartsAMinute};
use serde_json::{Value, json};

use crate::given::{LIVE, RIVAL, TestHost};

fn starts(every: StartsAMinute) -> ServerConfig {
    let starts = Starts::default();
    starts.set(StartLimits { every, tenants: BTreeMap::new() });
    ServerConfig { starts: Arc::new(starts), ..ServerConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_starts_too_many_runs_hears_when_it_may() {
    let every = StartsAMinute { runs: Some(2), ..StartsAMinute::default() };
    let host = TestHost::configured(starts(every)).await;
    let chain = json!({ "workflowId": "chain" });
    let start = || host.post("/v1/runs", &chain).key(LIVE);
    let first = start().header("idempotency-key", "once").send().await;
    assert_eq!(first.status, 201);
    assert_eq!(start().send().await.status, 201);
    let refused = start().send().await;
    assert_eq!(refused.refusal(), (429, "rate_limited"));
    let details = &refused.json["details"];
    assert_eq!((&details["scope"], &details["limit"]), (&json!("tenant"), &json!(2)));
    assert!(refused.json["message"].as_str().unwrap().contains("limits.runs_per_minute.tenant"));
    assert_eq!(refused.retry_after(), Some(30));
    // What was answered before is answered again, another tenant has its own, and a fork is a start.
    let again = start().header("idempotency-key", "once").send().await;
    assert_eq!((again.status, &again.json["runId"]), (201, &first.json["runId"]));
    assert_eq!(host.post("/v1/runs", &chain).key(RIVAL).send().await.status, 201);
    let run = first.json["runId"].as_str().unwrap();
    let fork = json!({ "mode": "branch", "fromSeq": 1 });
    let fork = host.post(&format!("/v1/runs/{run}:fork"), &fork).key(LIVE).send().await;
    assert_eq!(fork.status, 429, "{}", fork.json);
}

async fn listed(host: &TestHost, run: &str) -> Value {
    let path = format!("/v1/host/callboard/runs?runId={run}");
    host.get(&path).send().await.json["runs"][0].take()
}

#[tokio::test(start_paused = true)]
async fn a_run_over_a_limit_says_so_and_its_priority() {
    let host = TestHost::start().await;
    let every = Ceilings { runs: Some(1), ..Ceilings::default() };
    let limits = |every| Concurrency { every, tenants: BTreeMap::new() };
    // Nothing is taken up while a dead host holds all there is: here, nobody may hold any.
    host.engine.set_concurrency(limits(Ceilings { runs: Some(0), ..every.clone() }));
    let body = json!({ "workflowId": "chain", "configurable": { "callboard.priority": "high" } });
    let made = host.post("/v1/runs", &body).send().await;
    let run = made.json["runId"].as_str().unwrap().to_owned();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let line = listed(&host, &run).await;
    assert_eq!((&line["status"], &line["priority"]), (&json!("pending"), &json!("high")));
    assert_eq!(line["wait"]["reason"], "concurrency-limit", "{line}");
    assert_eq!(line["wait"]["limit"], "limits.concurrency.tenant");
    host.engine.set_concurrency(limits(every));
    host.end_of(&run).await;
    assert_eq!(listed(&host, &run).await["wait"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_priority_is_one_of_three() {
    let host = TestHost::start().await;
    for wrong in [json!("urgent"), json!(1)] {
        let body =
            json!({ "workflowId": "chain", "configurable": { "callboard.priority": wrong } });
        let refused = host.post("/v1/runs", &body).send().await;
        assert_eq!(refused.refusal(), (400, "validation_error"));
        assert_eq!(refused.json["details"]["path"], "configurable.callboard.priority");
    }
    let body = json!({ "workflowId": "chain", "cron": "0 9 * * *", "priority": "low" });
    let made = host.post("/v1/host/callboard/schedules", &body).send().await;
    assert_eq!((made.status, &made.json["priority"]), (201, &json!("low")), "{}", made.json);
    let body = json!({ "workflowId": "chain", "cron": "0 9 * * *", "priority": "urgent" });
    assert_eq!(host.post("/v1/host/callboard/schedules", &body).send().await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_as_many_runs_as_it_may_have_reads_and_begins_none() {
    let every = StartsAMinute { runs: Some(60), ..StartsAMinute::default() };
    let host = TestHost::configured(starts(every)).await;
    let chain = json!({ "workflowId": "chain" });
    let run = host.post("/v1/runs", &chain).key(LIVE).send().await.text_at("runId");
    let tenant = host.get("/v1/host/callboard/limits").key(LIVE).send().await;
    assert_eq!((tenant.status, &tenant.json["storedRuns"]), (200, &Value::Null));
    let quotas = host.engine.quotas();
    quotas.set(StoredLimits { every: Some(2), tenants: BTreeMap::new() });
    quotas.counted([("acme".into(), 1)], host.engine.clock().now());
    assert_eq!(host.post("/v1/runs", &chain).key(LIVE).send().await.status, 201);
    let refused = host.post("/v1/runs", &chain).key(LIVE).send().await;
    assert_eq!(refused.refusal(), (507, "insufficient_storage"));
    let details = &refused.json["details"];
    assert_eq!((&details["stored"], &details["limit"]), (&json!(2), &json!(2)), "{details}");
    let shown = host.get("/v1/host/callboard/limits").key(LIVE).send().await.json;
    assert_eq!(
        shown["runsPerMinute"],
        json!([{ "name": "limits.runs_per_minute.tenant", "most": 60 }])
    );
    let stored = &shown["storedRuns"];
    assert_eq!((&stored["used"], &stored["name"]), (&json!(2), &json!("limits.stored_runs")));
    assert_eq!(host.get(&format!("/v1/runs/{run}")).key(LIVE).send().await.status, 200);
    assert_eq!(host.post("/v1/runs", &chain).key(RIVAL).send().await.status, 201, "another tenant");
}
