//! R78: what nodes leave behind.

use serde_json::json;

use crate::given::{LIVE, READER, RIVAL, TEST, TestHost, workflow};

#[tokio::test(start_paused = true)]
async fn an_artifact_is_read_by_the_id_that_the_log_tells() {
    let host = TestHost::start().await;
    let mut echo = workflow("plan", &[("make", "core.identity"), ("end", "core.noop")]);
    echo["nodes"][0]["artifactType"] = json!("plan");
    echo["nodes"][0]["outputSensitivity"] = json!({ "secret": true });
    echo["nodes"][0]["inputs"] = json!({
        "text": { "type": "static", "value": "step one" },
        "secret": { "type": "static", "value": "hunter2-hunter2" },
    });
    assert_eq!(host.post("/v1/host/callboard/workflows", &echo).send().await.status, 201);
    let run = host.run("plan", json!({})).await;
    let events = host.end_of(&run).await;
    let told: Vec<_> = events.iter().filter(|event| event["type"] == "artifact.created").collect();
    assert_eq!(told.len(), 1);
    let id = told[0]["payload"]["artifactId"].as_str().expect("an id");
    let reply = host.get(&format!("/v1/runs/{run}/artifacts/{id}")).send().await;
    assert_eq!(
        reply.json,
        json!({ "artifactId": "make-0", "artifactType": "plan", "nodeId": "make", "version": "1",
            "data": { "text": "step one", "secret": "[REDACTED]" } })
    );
}

#[tokio::test(start_paused = true)]
async fn r78_strangers_learn_nothing_about_artifacts() {
    let host = TestHost::start().await;
    let mut plan = workflow("plan", &[("make", "core.noop")]);
    plan["nodes"][0]["artifactType"] = json!("plan");
    host.post("/v1/host/callboard/workflows", &plan).send().await;
    let run = host.run("plan", json!({})).await;
    host.end_of(&run).await;
    let path = format!("/v1/runs/{run}/artifacts/make-0");
    assert_eq!(host.get(&path).send().await.status, 200);
    let elsewhere = "/v1/runs/run_0/artifacts/make-0";
    for path in [path.as_str(), elsewhere] {
        assert_eq!(host.get(path).anonymous().send().await.status, 401, "{path}");
        let lacking = host.get(path).key(READER).send().await;
        assert_eq!(lacking.status, 403, "{path}");
        assert_eq!(lacking.json["details"]["scopeRequired"], "artifacts:read");
    }
    let unknown = host.get(elsewhere).send().await;
    assert_eq!(unknown.status, 404);
    for (key, path) in
        [(RIVAL, &*path), (TEST, &path), (LIVE, &format!("/v1/runs/{run}/artifacts/make-1"))]
    {
        let hidden = host.get(path).key(key).send().await;
        assert_eq!((hidden.status, &hidden.bytes), (404, &unknown.bytes), "{key} {path}");
    }
}
