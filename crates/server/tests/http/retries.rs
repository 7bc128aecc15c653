//! Retries over HTTP: one run, many runs, and what each refusal says.

use axum::http::Method;
use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, TestHost};

const MANY: &str = "/v1/host/callboard/runs:retry";

fn retry_of(run: &str) -> String {
    format!("/v1/host/callboard/runs/{run}/retry")
}

/// A workflow of its own, whose second step fails until it is mended.
fn definition(step: &Value) -> Value {
    let (kind, config) = (&step["typeId"], &step["config"]);
    let second = json!({ "id": "second", "typeId": kind, "name": "second", "config": config,
        "position": { "x": 0, "y": 0 }, "inputs": {} });
    json!({
        "id": "mended", "name": "mended", "version": "1.0",
        "nodes": [
            { "id": "first", "typeId": "core.noop", "name": "first", "position": { "x": 0, "y": 0 },
              "config": {}, "inputs": {} },
            second,
        ],
        "edges": [{ "id": "e", "sourceNodeId": "first", "targetNodeId": "second" }],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

async fn put(host: &TestHost, step: Value) {
    let path = "/v1/host/callboard/workflows/mended";
    let reply = host.call(Method::PUT, path).json(&definition(&step)).send().await;
    assert!(reply.status < 300, "{reply:?}");
}

fn broken() -> Value {
    json!({ "typeId": "core.fail", "config": { "code": "bad" } })
}

fn whole() -> Value {
    json!({ "typeId": "core.noop", "config": {} })
}

async fn failed(host: &TestHost) -> String {
    let run = host.run("mended", json!({})).await;
    host.end_of(&run).await;
    run
}

fn started(events: &[Value], node: &str) -> usize {
    let is_start =
        |event: &&Value| event["type"] == "node.started" && event["payload"]["nodeId"] == node;
    events.iter().filter(is_start).count()
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_goes_on_with_the_mended_definition() {
    let host = TestHost::start().await;
    put(&host, broken()).await;
    let source = failed(&host).await;
    let before = host.end_of(&source).await;
    put(&host, whole()).await;
    let pinned = host.post(&retry_of(&source), &json!({})).send().await;
    assert_eq!(pinned.status, 201, "{pinned:?}");
    let end = host.end_of(&pinned.text_at("runId")).await;
    assert_eq!(end.last().unwrap()["type"], "run.failed", "its own definition fails again");

    let retry = |key: &str| {
        host.post(&retry_of(&source), &json!({ "latest": true })).header("Idempotency-Key", key)
    };
    let reply = retry("k").send().await;
    let run = reply.text_at("runId");
    let expected = json!({
        "runId": run, "sourceRunId": source, "fromSeq": 5, "nodes": ["second"],
        "status": "pending", "eventsUrl": format!("/v1/runs/{run}/events"),
    });
    assert_eq!((reply.status, &reply.json), (201, &expected));
    let end = host.end_of(&run).await;
    assert_eq!(end.last().unwrap()["type"], "run.completed");
    assert_eq!((started(&end, "first"), started(&end, "second")), (1, 2), "{end:#?}");
    assert_eq!(retry("k").send().await.json, expected, "one request, one retry");
    let shown = host.get(&format!("/v1/runs/{run}")).send().await;
    let fork = json!({ "sourceRunId": source, "fromSeq": 5, "mode": "branch" });
    assert_eq!(shown.json["fork"], fork);
    assert_eq!(host.end_of(&source).await, before, "the source is only read");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_retried_is_refused_with_its_reason() {
    let host = TestHost::start().await;
    let done = host.run("chain", json!({})).await;
    host.end_of(&done).await;
    let running = host.run("wait", json!({ "delayMs": 60_000 })).await;
    put(&host, broken()).await;
    let source = failed(&host).await;
    for (run, body, status, code) in [
        (&running, json!({}), 409, "run_not_ended"),
        (&done, json!({}), 409, "run_completed"),
        (&source, json!({ "from": "third" }), 422, "retry_node_invalid"),
        (&source, json!({ "form": "second" }), 400, "validation_error"),
        (&source, json!({ "latest": "yes" }), 400, "validation_error"),
        (&"run_0".to_owned(), json!({}), 404, "not_found"),
    ] {
        let reply = host.post(&retry_of(run), &body).send().await;
        assert_eq!((reply.status, reply.text_at("error").as_str()), (status, code), "{body}");
    }
    let foreign = host.post(&retry_of(&source), &json!({})).key(RIVAL).send().await;
    let unknown = host.post(&retry_of("run_0"), &json!({})).key(RIVAL).send().await;
    assert_eq!((foreign.status, foreign.json), (unknown.status, unknown.json));
    let reader = host.post(&retry_of(&source), &json!({})).key(READER).send().await;
    assert_eq!(reader.status, 403, "{reader:?}");
    host.call(Method::DELETE, "/v1/host/callboard/workflows/mended").send().await;
    let gone = host.post(&retry_of(&source), &json!({ "latest": true })).send().await;
    assert_eq!((gone.status, gone.text_at("error").as_str()), (422, "retry_definition_gone"));
    let own = host.post(&retry_of(&source), &json!({})).key(LIVE).send().await;
    assert_eq!(own.status, 201, "its own definition is kept");
}

#[tokio::test(start_paused = true)]
async fn many_are_retried_once_each_and_a_dry_run_does_nothing() {
    let host = TestHost::start().await;
    put(&host, broken()).await;
    let (one, two) = (failed(&host).await, failed(&host).await);
    put(&host, whole()).await;
    let many = async |more: Value| {
        let mut body = json!({ "workflowId": "mended", "latest": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = host.post(MANY, &body).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json
    };
    let told = |answer: &Value, what: &str| {
        let results = answer["results"].as_array().unwrap();
        let mut runs: Vec<String> = results
            .iter()
            .filter(|item| item["outcome"] == what)
            .map(|item| item["runId"].as_str().unwrap().to_owned())
            .collect();
        runs.sort();
        runs
    };
    let mut both = vec![one, two];
    both.sort();
    let planned = many(json!({ "dryRun": true })).await;
    assert_eq!((told(&planned, "planned"), &planned["dryRun"]), (both.clone(), &json!(true)));
    let first = many(json!({ "limit": 1 })).await;
    assert_eq!(told(&first, "retried").len(), 1);
    let rest = many(json!({})).await;
    assert_eq!((told(&rest, "retried").len(), told(&rest, "already-retried").len()), (1, 1));
    assert_eq!(told(&many(json!({})).await, "already-retried"), both);
    let page = many(json!({ "limit": 1, "cursor": first["nextCursor"] })).await;
    assert_eq!(page["results"].as_array().unwrap().len(), 1);
    for wrong in [json!({ "status": "running" }), json!({ "limit": 101 }), json!({ "x": 1 })] {
        assert_eq!(host.post(MANY, &wrong).send().await.status, 400, "{wrong}");
    }
}
