//! What models were sent and what they were paid, and why runs wait, as lists tell it.

use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{LIVE, READER, RIVAL, Setup, TestHost, TestSeams, workflow};
use crate::interrupts::asked;

/// One structured call of a model that needs two turns of ten tokens, a secret-looking text among what it is told.
async fn two_turns() -> (TestHost, String) {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let mut definition = workflow("structured", &[("call", "core.ai.structuredOutput")]);
    definition["nodes"][0]["config"] = json!({
        "provider": "mock", "model": "mock-mini",
        "outputSchema": { "type": "object", "required": ["valid"] },
    });
    let said = "Answer with sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH.";
    definition["nodes"][0]["inputs"] = json!({
        "messages": { "type": "static", "value": [{ "role": "user", "content": said }] }
    });
    let stored = host.post("/v1/host/callboard/workflows", &definition).send().await;
    assert!(stored.status < 300, "{stored:?}");
    let turn = |text: &str| json!({ "content": text, "inputTokens": 7, "outputTokens": 3 });
    let program = json!({ "nodeId": "call", "program": [turn("no"), turn("{\"valid\":true}")] });
    let put = host.post("/v1/host/sample/test/mock-ai/program", &program).send().await;
    assert_eq!(put.status, 200, "{put:?}");
    let run = host.run_as(LIVE, json!({ "workflowId": "structured" })).await;
    host.end_of(&run).await;
    (host, run)
}

/// The console's inspector: each call whole, although only what differs is kept of the second.
#[tokio::test(start_paused = true)]
async fn what_a_model_was_sent_and_answered_can_be_read() {
    let (host, run) = two_turns().await;
    let path = format!("/v1/host/callboard/runs/{run}/calls");
    let listed = host.get(&path).send().await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let calls = listed.json["calls"].as_array().cloned().unwrap_or_default();
    assert_eq!(calls.len(), 2, "{listed:?}");
    assert_eq!((&calls[1]["nodeId"], &calls[1]["ordinal"]), (&json!("call"), &json!(1)));
    let mut seen = Vec::new();
    for call in &calls {
        let reply = host.get(&format!("{path}/{}", call["callId"])).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(!reply.json.to_string().contains("sk-proj-abc"), "{reply:?}");
        seen.push(reply.json);
    }
    let messages = |call: &Value| call["request"]["messages"].as_array().map_or(0, Vec::len);
    assert!(messages(&seen[0]) > 0, "{:?}", seen[0]);
    assert!(seen.iter().all(|call| call["isWhole"] == true), "{seen:?}");
    assert_eq!(seen[0]["answer"]["text"], "no");
    assert_eq!(seen[1]["answer"]["text"], "{\"valid\":true}");
    assert_eq!(seen[0]["request"]["model"], "mock/mock-mini");
    assert_ne!(seen[0]["request"], seen[1]["request"], "the second asks for a repair");
    let first = host.get(&format!("{path}?limit=1")).send().await.json;
    assert_eq!(first["calls"].as_array().map(Vec::len), Some(1));
    let next = host.get(&format!("{path}?from={}", first["nextFrom"])).send().await.json;
    assert_eq!(next["calls"][0]["callId"], calls[1]["callId"]);
    // A replay has no calls of its own: what its source was sent is what it goes by.
    let forked =
        host.post(&format!("/v1/runs/{run}:fork"), &json!({ "mode": "replay" })).send().await;
    let replay = forked.text_at("runId");
    host.end_of(&replay).await;
    let again = format!("/v1/host/callboard/runs/{replay}/calls/{}", calls[0]["callId"]);
    assert_eq!(host.get(&again).send().await.json["request"], seen[0]["request"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_else_reads_what_a_model_was_sent() {
    let (host, run) = two_turns().await;
    let path = format!("/v1/host/callboard/runs/{run}/calls");
    let call = host.get(&path).send().await.json["calls"][0]["callId"].clone();
    for path in [path.clone(), format!("{path}/{call}")] {
        assert_eq!(host.get(&path).key(RIVAL).send().await.refusal().0, 404, "{path}");
    }
    let reader = host.get(&format!("{path}/{call}")).key(READER).send().await;
    assert_eq!(reader.refusal(), (403, "forbidden"), "reading runs is not enough");
    for wrong in ["0", "x", "99999"] {
        assert_eq!(host.get(&format!("{path}/{wrong}")).send().await.status, 404, "{wrong}");
    }
}

/// Sums come from what is counted by day: tokens of both turns, under the workflow and the model.
#[tokio::test(start_paused = true)]
async fn what_was_spent_is_summed_by_day_and_name() {
    let (host, _) = two_turns().await;
    let spend = host.get("/v1/host/callboard/spend?days=2").send().await;
    assert_eq!(spend.status, 200, "{spend:?}");
    let spend = spend.json;
    let days = spend["days"].as_array().cloned().unwrap_or_default();
    assert_eq!(days.len(), 2);
    assert_eq!((&days[0]["used"]["calls"], &days[1]["used"]["calls"]), (&json!(0), &json!(2)));
    assert_eq!(spend["total"]["inputTokens"], 14);
    assert_eq!(spend["total"]["outputTokens"], 6);
    assert_eq!(spend["byModel"][0]["name"], "mock/mock-mini");
    assert_eq!(spend["byWorkflow"][0]["name"], "structured");
    assert_eq!(spend["byWorkflow"][0]["used"], spend["total"]);
    assert_eq!(spend["isCut"], false);
    let rival = host.get("/v1/host/callboard/spend").key(RIVAL).send().await.json;
    assert_eq!((&rival["total"]["calls"], &rival["byModel"]), (&json!(0), &json!([])));
    for days in ["0", "93", "x"] {
        let reply = host.get(&format!("/v1/host/callboard/spend?days={days}")).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{days}");
    }
}

async fn wait(host: &TestHost, run: &str) -> Value {
    let listed = host.get(&format!("/v1/host/callboard/runs?runId={run}")).send().await.json;
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    listed["runs"][0]["wait"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_list_says_why_runs_wait() {
    let host = TestHost::start().await;
    let run = asked(&host, "core.approvalGate", json!({ "title": "Send it?" })).await;
    let question = wait(&host, &run).await;
    assert_eq!((&question["reason"], &question["nodeId"]), (&json!("question"), &json!("gate")));
    assert!(question["since"].is_string() && question["kind"].is_string(), "{question}");
    let waiting = host.waiting_run().await;
    host.post(&format!("/v1/runs/{waiting}:pause"), &json!({ "drainPolicy": "immediate" }))
        .send()
        .await;
    assert_eq!(wait(&host, &waiting).await["reason"], "paused");
    host.post(&format!("/v1/runs/{waiting}/cancel"), &json!({})).send().await;
    host.end_of(&waiting).await;
    assert_eq!(wait(&host, &waiting).await, Value::Null);
    let rival = host.get(&format!("/v1/host/callboard/runs?runId={run}")).key(RIVAL).send().await;
    assert_eq!(rival.json["runs"], json!([]));
}
