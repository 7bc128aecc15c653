//! The events of every run of a tenant on one stream.

use serde_json::json;

use crate::given::{LIVE, OPS, RIVAL, TEST, TestHost};

const EVENTS: &str = "/v1/host/callboard/events";

#[tokio::test(start_paused = true)]
async fn a_tenant_hears_of_all_its_runs_and_of_no_others() {
    let host = TestHost::start().await;
    let before = host.run("noop", json!({})).await;
    host.end_of(&before).await;
    let mut frames = host.get(EVENTS).open().await;
    for (key, workflow) in [(RIVAL, "noop"), (TEST, "noop"), (OPS, "noop"), (LIVE, "chain")] {
        let run = host.run_as(key, json!({ "workflowId": workflow })).await;
        host.end_as(key, &run).await;
    }
    let mut seen: Vec<(u64, String, String)> = Vec::new();
    while seen.iter().filter(|(_, _, kind)| kind == "run.completed").count() < 2 {
        let frame = frames.next().await.expect("a frame");
        let Some(id) = frame.id else { continue };
        let run = frame.data["runId"].as_str().expect("a run").to_owned();
        seen.push((id, run, frame.event));
    }
    assert!(seen.iter().all(|(_, run, _)| *run != before), "it begins with now");
    assert!(seen.is_sorted_by_key(|(position, _, _)| *position), "{seen:?}");
    let runs: std::collections::BTreeSet<&String> = seen.iter().map(|(_, run, _)| run).collect();
    assert_eq!(runs.len(), 2, "the rival's run and the test key's are not here: {seen:?}");
    // Whoever comes back with an id misses nothing and hears nothing twice.
    let (after, rest) = (seen[2].0, &seen[3..]);
    let mut again = host.get(EVENTS).header("last-event-id", &after.to_string()).open().await;
    assert_eq!(again.next().await.expect("a frame").comment, "connected");
    for (position, run, kind) in rest {
        let frame = again.next().await.expect("a frame");
        assert_eq!((frame.id, &frame.event), (Some(*position), kind));
        assert_eq!(frame.data["runId"].as_str(), Some(run.as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_workspace_hears_of_its_own_runs() {
    let host = TestHost::start().await;
    let mut frames = host.get(EVENTS).key(OPS).open().await;
    host.run_as(LIVE, json!({ "workflowId": "noop" })).await;
    let own = host.run_as(OPS, json!({ "workflowId": "noop" })).await;
    loop {
        let frame = frames.next().await.expect("a frame");
        if frame.id.is_some() {
            assert_eq!(frame.data["runId"], json!(own));
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_host_and_refuses_rubbish() {
    let host = TestHost::start().await;
    let reply = host.get(EVENTS).header("last-event-id", "soon").send().await;
    assert_eq!(reply.refusal(), (400, "validation_error"));
    let reply = host.get(&format!("{EVENTS}?all=1")).send().await;
    assert_eq!(reply.refusal(), (400, "validation_error"));
    host.shutdown.cancel();
    let ended = host.get(EVENTS).send().await;
    assert_eq!(ended.status, 200);
}
