//! Two runs compared.

use serde_json::json;

use crate::given::{CANCELLER, RIVAL, TestHost};
use crate::schemas::{check, openwop};

#[tokio::test(start_paused = true)]
async fn runs_of_the_same_do_not_differ() {
    let host = TestHost::start().await;
    let (a, b) = (host.run("chain", json!({})).await, host.run("chain", json!({})).await);
    for run in [&a, &b] {
        host.end_of(run).await;
    }
    for other in [&a, &b] {
        let reply = host.get(&format!("/v1/runs/{a}:diff?against={other}")).send().await;
        assert_eq!(
            reply.json,
            json!({ "a": a, "b": other, "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {} })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_inputs_show_in_the_first_event_and_in_the_state() {
    let host = TestHost::start().await;
    let a = host.run("noop", json!({ "day": "monday", "same": 1 })).await;
    let b = host.run("noop", json!({ "day": "friday", "same": 1 })).await;
    for run in [&a, &b] {
        host.end_of(run).await;
    }
    let diff = host.get(&format!("/v1/runs/{a}:diff?against={b}")).send().await.json;
    assert_eq!(diff["divergedAtSeq"], json!(0));
    assert_eq!(diff["eventDiffs"].as_array().map(Vec::len), Some(1));
    assert_eq!(diff["eventDiffs"][0]["op"], "changed");
    assert_eq!(diff["eventDiffs"][0]["bEvent"]["payload"]["inputs"]["day"], "friday");
    assert_eq!(
        diff["stateDiff"],
        json!({ "variables": { "day": { "a": "monday", "b": "friday" } } })
    );
    if let Some(folder) = openwop() {
        check(&folder, "run-diff-response.schema.json", &diff);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_is_compared_as_far_as_it_goes() {
    let host = TestHost::start().await;
    let waiting = host.waiting_run().await;
    let done = host.run("wait", json!({ "delayMs": 3_600_000 })).await;
    host.get(&format!("/v1/runs/{done}/events/poll")).send().await;
    let diff = host.get(&format!("/v1/runs/{waiting}:diff?against={done}")).send().await.json;
    assert_eq!((&diff["divergedAtSeq"], &diff["truncated"]), (&json!(null), &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn both_runs_must_be_visible() {
    let host = TestHost::start().await;
    let own = host.run("noop", json!({})).await;
    let foreign = host.run_as(RIVAL, json!({ "workflowId": "noop" })).await;
    let unknown = host.get(&format!("/v1/runs/{own}:diff?against=run_0")).send().await;
    assert_eq!(unknown.status, 404);
    for (a, b) in [(&own, &foreign), (&foreign, &own)] {
        let hidden = host.get(&format!("/v1/runs/{a}:diff?against={b}")).send().await;
        assert_eq!((hidden.status, &hidden.bytes), (404, &unknown.bytes));
    }
    assert_eq!(host.get(&format!("/v1/runs/{own}:diff")).send().await.status, 400);
    let path = format!("/v1/runs/{own}:diff?against={own}");
    assert_eq!(host.get(&path).key(CANCELLER).send().await.status, 403);
    assert_eq!(host.get(&path).anonymous().send().await.status, 401);
}

/// A fork that takes one event more moves every place; node by node, only what came out differently differs.
#[tokio::test(start_paused = true)]
async fn a_comparison_aligns_by_node_and_visit() {
    let host = TestHost::start().await;
    let a = host.run("chain", json!({})).await;
    let last = host.end_of(&a).await.len();
    let body = json!({ "mode": "branch", "fromSeq": 3 });
    let b = host.post(&format!("/v1/runs/{a}:fork"), &body).send().await.text_at("runId");
    assert!(host.end_of(&b).await.len() > last, "it is told that it branched");
    let diff = host.get(&format!("/v1/runs/{a}:diff?against={b}")).send().await.json;
    assert_ne!(diff["eventDiffs"], json!([]), "place by place, all that follows differs");
    let path = format!("/v1/host/callboard/runs/{a}/comparison?against={b}");
    let found = host.get(&path).send().await.json;
    let nodes = found["nodes"].as_array().expect("nodes");
    assert!(!nodes.is_empty() && nodes.iter().all(|node| node["op"] == "same"), "{found:#}");
    assert_eq!((&found["a"]["runId"], &found["b"]["status"]), (&json!(a), &json!("completed")));
    let foreign = host.get(&path).key(RIVAL).send().await;
    let unknown = host.get("/v1/host/callboard/runs/run_0/comparison?against=run_1").key(RIVAL);
    let unknown = unknown.send().await;
    assert_eq!((foreign.status, foreign.bytes), (404, unknown.bytes));
    let wrong = host.get(&format!("/v1/host/callboard/runs/{a}/comparison?with={b}")).send().await;
    assert_eq!(wrong.status, 400);
}
