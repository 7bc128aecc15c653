//! R52–R54, R58: forks over HTTP, and what each refusal says.

use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, TEST, TestHost};

fn fork_of(run: &str) -> String {
    format!("/v1/runs/{run}:fork")
}

/// What two replays must agree in.
fn told(events: &[Value]) -> Vec<(Value, Value, Value)> {
    let tell =
        |event: &Value| (event["type"].clone(), event["nodeId"].clone(), event["payload"].clone());
    events.iter().map(tell).collect()
}

/// R52, R53: the shape of a fork, and a replay that begins at the start.
#[tokio::test(start_paused = true)]
async fn r52_a_fork_is_a_new_run() {
    let host = TestHost::start().await;
    let source = host.run("chain", json!({})).await;
    let before = host.end_of(&source).await;
    let reply = host.post(&fork_of(&source), &json!({ "mode": "replay" })).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let run = reply.text_at("runId");
    assert_ne!(run, source);
    let expected = json!({
        "runId": run, "sourceRunId": source, "fromSeq": 0, "mode": "replay", "status": "pending",
        "eventsUrl": format!("/v1/runs/{run}/events"),
    });
    assert_eq!(reply.json, expected);
    let replayed = host.end_of(&run).await;
    assert_eq!(told(&replayed), told(&before));
    assert!(replayed.iter().all(|event| event["runId"] == run.as_str()), "its events are its own");
    let shown = host.get(&format!("/v1/runs/{run}")).send().await;
    assert_eq!(
        shown.json["fork"],
        json!({ "sourceRunId": source, "fromSeq": 0, "mode": "replay" })
    );
    assert_eq!(host.end_of(&source).await, before, "R58: the source is only read");
}

/// R52, R53: what cannot be forked.
#[tokio::test(start_paused = true)]
async fn r52_wrong_forks_are_refused() {
    let host = TestHost::start().await;
    let source = host.run("chain", json!({})).await;
    let last = host.end_of(&source).await.len() as u64 - 1;
    for (body, status, code) in [
        (json!({ "mode": "replay", "fromSeq": -1 }), 400, "validation_error"),
        (json!({ "mode": "replay", "fromSeq": 1.5 }), 400, "validation_error"),
        (json!({ "mode": "rewind", "fromSeq": 1 }), 400, "validation_error"),
        (json!({ "fromSeq": 1 }), 400, "validation_error"),
        (json!({ "mode": "branch" }), 400, "validation_error"),
        (json!({ "mode": "replay", "extra": 1 }), 400, "validation_error"),
        (
            json!({ "mode": "replay", "runOptionsOverlay": { "tags": ["x"] } }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": { "inputs": {} } }),
            400,
            "validation_error",
        ),
        (json!({ "mode": "replay", "fromSeq": 99_999 }), 422, "invalid_from_seq"),
        (json!({ "mode": "branch", "fromSeq": last + 1 }), 422, "invalid_from_seq"),
        (
            json!({ "mode": "branch", "fromSeq": 1,
                "runOptionsOverlay": { "configurable": { "recursionLimit": 0 } } }),
            400,
            "validation_error",
        ),
        (
            json!({ "mode": "branch", "fromSeq": 1,
                "runOptionsOverlay": { "configurable": { "mockProvider": { "id": "stream-text" } } } }),
            403,
            "mock_provider_forbidden",
        ),
    ] {
        let reply = host.post(&fork_of(&source), &body).send().await;
        assert_eq!((reply.status, reply.text_at("error").as_str()), (status, code), "{body}");
    }
    let at_the_last = json!({ "mode": "replay", "fromSeq": last });
    assert_eq!(host.post(&fork_of(&source), &at_the_last).send().await.status, 201);
}

/// R52: whoever may not read a run may not fork it either, and does not learn that it is there.
#[tokio::test(start_paused = true)]
async fn r52_a_foreign_run_cannot_be_forked() {
    let host = TestHost::start().await;
    let source = host.run("chain", json!({})).await;
    let body = json!({ "mode": "replay" });
    let unknown = host.post(&fork_of("run_nowhere"), &body).send().await;
    assert_eq!((unknown.status, unknown.text_at("error").as_str()), (404, "not_found"));
    for key in [RIVAL, TEST] {
        let foreign = host.post(&fork_of(&source), &body).key(key).send().await;
        assert_eq!((foreign.status, &foreign.json), (404, &unknown.json), "{key}");
    }
    let reader = host.post(&fork_of(&source), &body).key(READER).send().await;
    assert_eq!((reader.status, reader.text_at("error").as_str()), (403, "forbidden"));
}

/// R58: a branch keeps what came before, changes its options and goes on.
#[tokio::test(start_paused = true)]
async fn r58_a_branch_changes_options_and_goes_on() {
    let host = TestHost::start().await;
    let source = host.run("chain", json!({ "x": 1 })).await;
    let before = host.end_of(&source).await;
    let overlay = json!({ "configurable": { "recursionLimit": 2 }, "tags": ["retry"] });
    let body = json!({ "mode": "branch", "fromSeq": 3, "runOptionsOverlay": overlay });
    let reply = host.post(&fork_of(&source), &body).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let branch = reply.text_at("runId");
    let events = host.end_of(&branch).await;
    assert_eq!(told(&events[..3]), told(&before[..3]));
    assert_eq!(events[3]["type"], "run.resumed");
    let shown = host.get(&format!("/v1/runs/{branch}")).send().await.json;
    assert_eq!(shown["error"]["code"], "recursion_limit_exceeded");
    assert_eq!((&shown["tags"], &shown["variables"]["x"]), (&json!(["retry"]), &json!(1)));
    let of_source = host.get(&format!("/v1/runs/{source}")).send().await.json;
    assert_eq!(of_source["status"], "completed", "the overlay is the branch's alone");
}

/// A repeated request is one fork.
#[tokio::test(start_paused = true)]
async fn a_fork_is_made_once_per_key() {
    let host = TestHost::start().await;
    let source = host.run("noop", json!({})).await;
    host.end_of(&source).await;
    let body = json!({ "mode": "replay" });
    let make = || host.post(&fork_of(&source), &body).header("idempotency-key", "f1").send();
    let (first, again) = (make().await, make().await);
    assert_eq!((first.status, first.json), (201, again.json));
}

/// Forks of runs that still move, that were cancelled, and of forks.
#[tokio::test(start_paused = true)]
async fn runs_in_any_state_can_be_forked() {
    let host = TestHost::start().await;
    let running = host.waiting_run().await;
    let replay = json!({ "mode": "replay" });
    let first = host.post(&fork_of(&running), &replay).send().await.text_at("runId");
    let ended = host.end_of(&first).await;
    assert_eq!(ended.last().expect("events")["type"], "run.completed", "a delay is not waited for");
    host.post(&format!("/v1/runs/{running}/cancel"), &json!({})).send().await;
    host.end_of(&running).await;
    let cancelled = host.post(&fork_of(&running), &replay).send().await.text_at("runId");
    assert_eq!(told(&host.end_of(&cancelled).await), told(&ended), "a cancel is not replayed");
    let of_fork = host.post(&fork_of(&first), &json!({ "mode": "replay", "fromSeq": 2 }));
    let of_fork = of_fork.send().await.text_at("runId");
    assert_eq!(told(&host.end_of(&of_fork).await), told(&ended), "a replay of a replay");
    let listed = host.get("/v1/host/callboard/runs").key(LIVE).send().await;
    assert_eq!(listed.json["runs"].as_array().map(Vec::len), Some(4));
}
