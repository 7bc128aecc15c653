//! S-25: a replay whose model has begun to refuse, or has ceased to.

use serde_json::{Value, json};

use crate::given::TestHost;
use crate::models::{ask, kinds, of, open, structured};

const VALID: &str = r#"{"valid":true}"#;

fn valid() -> Value {
    json!([{ "content": VALID }])
}

fn refusal() -> Value {
    json!([{ "content": "", "stopReason": "safety", "refusalText": "REFUSAL-CANARY" }])
}

/// Stages what the mock says next, and replays the run from its start.
async fn replayed(host: &TestHost, source: &str, program: Option<Value>) -> (Value, Vec<Value>) {
    if let Some(program) = program {
        let body = json!({ "nodeId": "call", "program": program });
        assert_eq!(ask(host, "test/mock-ai/program", body).await.0, 200);
    }
    let body = json!({ "fromSeq": 0, "mode": "replay" });
    let forked = host.post(&format!("/v1/runs/{source}:fork"), &body).send().await;
    assert_eq!(forked.status, 201, "{forked:?}");
    let run = forked.text_at("runId");
    let events = host.end_of(&run).await;
    (host.get(&format!("/v1/runs/{run}")).send().await.json, events)
}

#[tokio::test(start_paused = true)]
async fn s25_both_directions_end_the_replay_at_the_node() {
    for (was, now, kinds) in
        [(valid(), refusal(), ["valid", "refusal"]), (refusal(), valid(), ["refusal", "valid"])]
    {
        let host = open().await;
        let events = structured(&host, json!({}), was).await;
        let source = events[0]["runId"].as_str().unwrap();
        let (snapshot, events) = replayed(&host, source, Some(now)).await;
        assert_eq!(snapshot["status"], "failed");
        assert_eq!(snapshot["error"]["code"], "replay_diverged_at_refusal");
        let told = of(&events, "replay.divergedAtRefusal");
        assert_eq!(told.len(), 1);
        assert_eq!((&told[0]["sourceRunId"], &told[0]["nodeId"]), (&json!(source), &json!("call")));
        let found = ["originalEnvelopeKind", "replayEnvelopeKind"].map(|key| &told[0][key]);
        assert_eq!(found, kinds);
        assert!(of(&events, "replay.diverged").is_empty(), "it is no plain divergence");
        assert!(of(&events, "node.completed").is_empty(), "nothing goes on behind the node");
        assert!(!json!(events).to_string().contains("REFUSAL-CANARY"));
    }
}

#[tokio::test(start_paused = true)]
async fn s25_the_second_entry_of_a_program_is_the_replays() {
    let host = open().await;
    let program = json!([valid()[0], refusal()[0]]);
    let events = structured(&host, json!({}), program).await;
    let source = events[0]["runId"].as_str().unwrap();
    assert_eq!(kinds(&events).last(), Some(&"run.completed"));
    let (snapshot, _) = replayed(&host, source, None).await;
    assert_eq!(snapshot["error"]["code"], "replay_diverged_at_refusal");
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_nobody_staged_anything_for_tells_what_was_told() {
    for program in [valid(), refusal()] {
        let host = open().await;
        let events = structured(&host, json!({}), program.clone()).await;
        let source = events[0]["runId"].as_str().unwrap();
        for staged in [None, Some(program)] {
            let (_, again) = replayed(&host, source, staged).await;
            assert_eq!(kinds(&again), kinds(&events));
            // A-87.
            assert_eq!(of(&again, "provider.usage"), of(&events, "provider.usage"));
        }
    }
}
