//! Conversations over HTTP: the inbox, the turns, and which event caused which.

use serde_json::{Value, json};

use crate::given::TestHost;
use crate::interrupts::asked;

#[tokio::test(start_paused = true)]
async fn a_conversation_is_held_over_http() {
    let host = TestHost::start().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["conversationPrimitive"], true);
    let config =
        json!({ "prompts": ["Which colour?", "Sure?"], "outcomeSchema": { "type": "string" } });
    let run = asked(&host, "core.conversationGate", config).await;
    let place = format!("/v1/runs/{run}/interrupts/gate");
    let inbox = format!("/v1/host/callboard/inbox?runId={run}&kind=conversation.exchange");
    for (answer, prompt, status) in
        [("blue", "Which colour?", "waiting-approval"), ("yes", "Sure?", "completed")]
    {
        let open = host.get(&inbox).send().await.json["interrupts"].clone();
        assert_eq!(open.as_array().map(Vec::len), Some(1), "{open}");
        assert_eq!(open[0]["data"]["prompt"], prompt);
        let wrong = host.post(&place, &json!({ "resumeValue": 7 })).send().await;
        assert_eq!((wrong.status, wrong.text_at("error").as_str()), (400, "validation_error"));
        let reply = host.post(&place, &json!({ "resumeValue": answer })).send().await;
        assert_eq!((reply.status, reply.text_at("status").as_str()), (200, status));
    }
    let events = host.end_of(&run).await;
    let opened = events.iter().position(|event| event["type"] == "conversation.opened");
    let opened = opened.expect("it opened");
    let before = &events[opened - 1];
    assert_eq!(before["type"], "node.suspended");
    assert_eq!(events[opened]["causationId"], before["eventId"]);
    let caused: Vec<&Value> = events.iter().filter_map(|event| event.get("causationId")).collect();
    assert_eq!(caused.len(), 1);
    assert_eq!(host.get(&inbox).send().await.json["interrupts"], json!([]));
}
