//! R29–R35: the log as pollers read it.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::given::TestHost;

async fn poll(host: &TestHost, run: &str, query: &str) -> Value {
    let reply = host.get(&format!("/v1/runs/{run}/events/poll{query}")).send().await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json
}

fn sequences(body: &Value) -> Vec<u64> {
    body["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|event| event["sequence"].as_u64())
        .collect()
}

/// A run of `chain` that has completed, and how many events it has.
async fn completed(host: &TestHost) -> (String, u64) {
    let run = host.run("chain", json!({})).await;
    let count = host.end_of(&run).await.len();
    (run, count as u64)
}

/// R29, R30, R31.
#[tokio::test(start_paused = true)]
async fn events_are_complete_and_in_order() {
    let host = TestHost::start().await;
    let (run, _) = completed(&host).await;
    let body = poll(&host, &run, "").await;
    let events = body["events"].as_array().cloned().unwrap_or_default();
    for (index, event) in events.iter().enumerate() {
        for field in ["eventId", "runId", "type", "timestamp"] {
            assert!(event[field].is_string(), "{field}: {event}");
        }
        assert!(event.get("payload").is_some(), "{event}");
        assert_eq!(event["sequence"].as_u64(), Some(index as u64), "{event}");
    }
    let ids: BTreeSet<&str> = events.iter().filter_map(|event| event["eventId"].as_str()).collect();
    assert_eq!(ids.len(), events.len());
    let ends = events.iter().filter(|event| is_terminal(event)).count();
    assert_eq!((ends, events.last().is_some_and(is_terminal)), (1, true));
    assert_eq!(events[0]["type"], "run.started");
    assert_eq!(events[0]["payload"]["transport"], "rest");
}

fn is_terminal(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled"))
}

/// R30: callers that write at the same time get numbers of their own.
#[tokio::test(start_paused = true)]
async fn writers_at_the_same_time_get_numbers_of_their_own() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let pause = json!({ "drainPolicy": "immediate" });
    let calls = (0..8).map(|number| match number % 2 {
        0 => host.post(&format!("/v1/runs/{run}:pause"), &pause).send(),
        _ => host.post(&format!("/v1/runs/{run}:resume"), &json!({})).send(),
    });
    futures_util::future::join_all(calls).await;
    host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await;
    let events = host.end_of(&run).await;
    let expected: Vec<u64> = (0..events.len() as u64).collect();
    assert_eq!(sequences(&json!({ "events": events })), expected);
}

/// R32.
#[tokio::test(start_paused = true)]
async fn polls_of_an_ended_run_are_identical() {
    let host = TestHost::start().await;
    let (run, _) = completed(&host).await;
    let path = format!("/v1/runs/{run}/events/poll");
    let (one, two) = (host.get(&path).send().await, host.get(&path).send().await);
    assert_eq!(one.bytes, two.bytes);
}

/// R33.
#[tokio::test(start_paused = true)]
async fn the_cursor_is_exclusive_from_one_on() {
    let host = TestHost::start().await;
    let (run, count) = completed(&host).await;
    let all: Vec<u64> = (0..count).collect();
    for from_start in ["", "?lastSequence=0", "?lastSequence=-1", "?since=0"] {
        assert_eq!(sequences(&poll(&host, &run, from_start).await), all, "{from_start}");
    }
    assert_eq!(sequences(&poll(&host, &run, "?lastSequence=1").await), all[2..]);
    assert_eq!(sequences(&poll(&host, &run, "?since=3").await), all[4..]);
    for past in [
        "?lastSequence=99999".to_owned(),
        format!("?lastSequence={}", count - 1),
        "?lastSequence=9223372036854775807".to_owned(),
    ] {
        let body = poll(&host, &run, &past).await;
        assert!(sequences(&body).is_empty(), "{past}");
        assert_eq!(body["lastEventSeq"].as_u64(), Some(count - 1));
        assert_eq!((&body["isTerminal"], &body["isComplete"]), (&json!(true), &json!(true)));
        assert_eq!((&body["runId"], &body["runStatus"]), (&json!(run), &json!("completed")));
    }
    for wrong in
        ["lastSequence=x", "lastSequence=1.5", "since=x", "timeout=0", "timeout=61", "timeout=x"]
    {
        let reply = host.get(&format!("/v1/runs/{run}/events/poll?{wrong}")).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{wrong}");
    }
}

/// R34: nothing to wait for is answered at once; otherwise the wait is as long as asked.
#[tokio::test(start_paused = true)]
async fn a_poll_waits_as_long_as_it_was_told() {
    let host = TestHost::start().await;
    let (ended, count) = completed(&host).await;
    let began = Instant::now();
    poll(&host, &ended, &format!("?timeout=60&lastSequence={count}")).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "an ended run will say nothing new");

    let run = host.waiting_run().await;
    let pause = json!({ "drainPolicy": "immediate" });
    host.post(&format!("/v1/runs/{run}:pause"), &pause).send().await;
    let seen = poll(&host, &run, "").await["lastEventSeq"].clone();
    let began = Instant::now();
    let body = poll(&host, &run, &format!("?timeout=7&lastSequence={seen}")).await;
    assert_eq!((sequences(&body).len(), body["runStatus"].as_str()), (0, Some("paused")));
    assert_eq!(began.elapsed().as_secs(), 7);
}

/// R34: a new event ends the wait.
#[tokio::test(start_paused = true)]
async fn a_poll_hears_of_a_new_event() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let seen = poll(&host, &run, "").await["lastEventSeq"].clone();
    let began = Instant::now();
    let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={seen}");
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        host.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().await
    };
    let (polled, _) = tokio::join!(host.get(&path).send(), cancel);
    assert!(!sequences(&polled.json).is_empty());
    assert_eq!(began.elapsed().as_secs(), 3);
}

/// A long poll does not outlive the host.
#[tokio::test(start_paused = true)]
async fn a_poll_ends_when_the_host_stops() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let seen = poll(&host, &run, "").await["lastEventSeq"].clone();
    let began = Instant::now();
    host.shutdown.cancel();
    poll(&host, &run, &format!("?timeout=60&lastSequence={seen}")).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Nor the key: it ends when the key does, and shows nothing that came later.
#[tokio::test(start_paused = true)]
async fn a_poll_ends_when_its_key_expires_or_is_revoked() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let seen = poll(&host, &run, "").await["lastEventSeq"].clone();
    let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={seen}");
    let keys = "/v1/host/callboard/keys";
    let body = json!({ "name": "short", "expiresAt": host.now().plus_millis(5_000) });
    let short = host.post(keys, &body).send().await.text_at("key");
    let began = Instant::now();
    let polled = host.get(&path).key(&short).send().await;
    assert_eq!((polled.refusal(), began.elapsed().as_secs()), ((401, "key_expired"), 5));

    let made = host.post(keys, &json!({ "name": "gone" })).send().await;
    let (key, id) = (made.text_at("key"), made.text_at("id"));
    let revoke = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        host.call(Method::DELETE, &format!("{keys}/{id}")).send().await
    };
    let began = Instant::now();
    let (polled, _) = tokio::join!(host.get(&path).key(&key).send(), revoke);
    assert_eq!((polled.refusal(), began.elapsed().as_secs()), ((401, "key_revoked"), 3));
}

/// R35: nothing under the protocol's prefixes that the protocol does not know.
#[tokio::test(start_paused = true)]
async fn every_kind_of_event_is_the_protocols_or_ours() {
    let host = TestHost::start().await;
    let known: BTreeSet<&str> = callboard_protocol::Event::KINDS.iter().copied().collect();
    for (workflow, inputs) in
        [("chain", json!({})), ("fail", json!({})), ("wait", json!({ "delayMs": 5 }))]
    {
        let run = host.run(workflow, inputs).await;
        for event in host.end_of(&run).await {
            let kind = event["type"].as_str().unwrap_or_default();
            assert!(known.contains(kind) || kind.starts_with("callboard."), "{kind}");
        }
    }
}

/// No page size cuts a log short.
#[tokio::test(start_paused = true)]
async fn a_long_log_is_answered_whole() {
    let host = TestHost::start().await;
    let nodes: Vec<String> = (0..90).map(|number| format!("n{number}")).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|id| (id.as_str(), "core.noop")).collect();
    let definition = crate::given::workflow("long", &nodes);
    assert_eq!(host.post("/v1/host/callboard/workflows", &definition).send().await.status, 201);
    let run = host.run("long", json!({})).await;
    let count = host.end_of(&run).await.len();
    assert_eq!(sequences(&poll(&host, &run, "").await).len(), count);
    let asked = host.get(&format!("/v1/runs/{run}/events?streamMode=updates"));
    let updates = asked.header("accept", "application/json").send().await;
    assert_eq!(updates.header("content-type"), "application/json");
    assert_eq!(sequences(&updates.json).len(), 92, "the run's two ends, and each node's");
    assert_eq!(updates.json["lastEventSeq"].as_u64(), Some(count as u64 - 1));
    let stream = host.get(&format!("/v1/runs/{run}/events?streamMode=debug")).open().await;
    assert_eq!(stream.rest().await.len(), count);
}
