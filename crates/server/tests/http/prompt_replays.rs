//! M-79: replays of runs whose prompts would be others today.

use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{Setup, TestHost, TestSeams, workflow};

fn tone(version: &str, text: &str) -> Value {
    json!({
        "templateId": "tone", "version": version, "kind": "system", "text": text,
        "variables": [
            { "name": "tone", "type": "string", "required": true },
            { "name": "apiKey", "type": "string", "required": false, "source": "secret" },
        ],
    })
}

/// A host where a node has said its prompt once; with the run's id and what it told.
async fn said(reference: &str) -> (TestHost, String, Vec<Value>) {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let first = tone("1.0.0", "Write in a {{tone}} tone for {{runId}}. {{apiKey}}");
    assert_eq!(host.post("/v1/prompts", &first).send().await.status, 201);
    let mut shown = workflow("shown", &[("say", "local.sample.demo.mock-ai")]);
    shown["nodes"][0]["config"] = json!({ "systemPromptRef": reference });
    shown["nodes"][0]["inputs"] = json!({ "tone": { "type": "static", "value": "dry" } });
    assert_eq!(host.post("/v1/host/callboard/workflows", &shown).send().await.status, 201);
    let run = host.run("shown", json!({})).await;
    let events = host.end_of(&run).await;
    (host, run, events)
}

async fn replayed(host: &TestHost, source: &str) -> (String, Vec<Value>) {
    let body = json!({ "fromSeq": 0, "mode": "replay" });
    let forked = host.post(&format!("/v1/runs/{source}:fork"), &body).send().await;
    assert_eq!(forked.status, 201, "{forked:?}");
    let run = forked.text_at("runId");
    let events = host.end_of(&run).await;
    (run, events)
}

async fn renew(host: &TestHost, version: &str, text: &str) {
    let put = host.call("PUT".parse().expect("a method"), "/v1/prompts/tone");
    assert_eq!(put.json(&tone(version, text)).send().await.status, 200);
}

fn payloads<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).map(|event| &event["payload"]).collect()
}

fn without_reports(events: &[Value]) -> Vec<(&Value, &Value)> {
    let told = events.iter().filter(|event| event["type"] != "replay.diverged");
    told.map(|event| (&event["type"], &event["payload"])).collect()
}

#[tokio::test(start_paused = true)]
async fn m79_a_template_that_was_renewed_is_told_and_the_recorded_prompt_stands() {
    let (host, source, events) = said("prompt:tone").await;
    let (_, same) = replayed(&host, &source).await;
    assert!(payloads(&same, "replay.diverged").is_empty(), "nothing has changed yet");
    renew(&host, "1.1.0", "Write in a {{tone}}, {{tone}} tone.").await;
    let (replay, again) = replayed(&host, &source).await;
    let place = events.iter().position(|event| event["type"] == "prompt.composed").unwrap();
    let expected = json!({
        "sourceRunId": source, "atSequence": events[place]["sequence"],
        "originalEventId": events[place]["eventId"],
        "divergenceKind": "output", "divergencePoint": "prompt.composed",
    });
    assert_eq!(payloads(&again, "replay.diverged"), [&expected]);
    assert_eq!(without_reports(&again), without_reports(&events));
    assert_eq!(again.last().unwrap()["type"], "run.completed");
    // A replay of the replay is compared with today as well.
    let (_, third) = replayed(&host, &replay).await;
    let sources: Vec<&Value> =
        payloads(&third, "replay.diverged").iter().map(|report| &report["sourceRunId"]).collect();
    assert_eq!(sources, [&json!(source), &json!(replay)]);
    assert_eq!(without_reports(&third), without_reports(&events));
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_gone_or_a_secret_that_came_is_a_change_and_a_newer_version_of_a_pinned_one_is_none()
 {
    let (host, source, _) = said("prompt:tone@1.0.0").await;
    renew(&host, "1.1.0", "Be brief.").await;
    let points = |events: Vec<Value>| -> Vec<Value> {
        let told = payloads(&events, "replay.diverged").into_iter();
        told.map(|report| report["divergencePoint"].clone()).collect()
    };
    assert!(points(replayed(&host, &source).await.1).is_empty(), "the node names its version");
    let secret = host.call("PUT".parse().expect("a method"), "/v1/host/callboard/secrets/apiKey");
    let stored = secret.json(&json!({ "value": "s3cret-of-the-archive" })).send().await;
    assert_eq!(stored.status, 201, "{stored:?}");
    assert_eq!(points(replayed(&host, &source).await.1), ["prompt.composed"]);
    let gone = host.call("DELETE".parse().expect("a method"), "/v1/prompts/tone").send().await;
    assert_eq!(gone.status, 204);
    let (_, events) = replayed(&host, &source).await;
    assert_eq!(events.last().unwrap()["type"], "run.completed", "the recorded facts go on");
    assert_eq!(points(events), ["prompt.composed"]);
}
