//! Polling and following in the second major.

use serde_json::{Value, json};

use super::{bare, check, refused, segment};
use crate::given::{Frame, RIVAL, TEST, TestHost};

/// V-25; floor: poll-cursor-v2.
#[tokio::test]
async fn zero_is_a_cursor_like_any_other() {
    let host = TestHost::start().await;
    let run = host.second_noop().await;
    let all = host.second_end(&run).await;
    let path = format!("/runs/{}/events/poll", segment(&run));
    let poll = async |query: &str| {
        let reply = host.get(&format!("{path}?{query}")).send().await;
        assert_eq!(reply.status, 200, "{query}");
        check::polled(&reply.json);
        reply.json
    };
    let last = all.len() as u64 - 1;
    assert_eq!(poll("").await["events"], json!(all));
    assert_eq!(poll("afterSequence=0").await["events"], json!(all[1..]));
    assert_eq!(poll("lastSequence=2&since=2").await["events"], json!(all), "no parameters here");
    assert_eq!(
        poll(&format!("afterSequence={}", last - 1)).await["events"],
        json!([all[last as usize]])
    );
    for past in [last, last + 1000] {
        let reply = poll(&format!("afterSequence={past}")).await;
        assert_eq!((&reply["events"], &reply["lastSequence"]), (&json!([]), &json!(last)));
        assert_eq!(reply["isTerminal"], true);
    }
    for wrong in ["afterSequence=-1", "afterSequence=x", "timeout=0", "timeout=61", "timeout=x"] {
        let reply = host.get(&format!("{path}?{wrong}")).send().await;
        assert_eq!(refused(&reply), (400, "validation_error"), "{wrong}");
    }
}

async fn frames(host: &TestHost, path: &str, last: Option<&str>) -> Vec<Frame> {
    let call = host.get(path);
    let call = match last {
        Some(last) => call.header("last-event-id", last),
        None => call,
    };
    let mut open = call.open().await;
    let mut frames = Vec::new();
    while let Some(frame) = open.next().await {
        frames.push(frame);
    }
    frames
}

/// V-26; floor: sse-last-event-id, sse-last-event-id-cursor.
#[tokio::test]
async fn a_stream_is_resumed_at_any_place_and_closed_by_the_host() {
    let host = TestHost::start().await;
    let run = host.second_run(json!({ "workflowId": "chain" })).await;
    let all = host.second_end(&run).await;
    let path = format!("/runs/{}/events?streamMode=debug&resumable=true", segment(&run));
    let seen = frames(&host, &path, None).await;
    assert_eq!(seen.len(), all.len());
    for (frame, event) in seen.iter().zip(&all) {
        assert_eq!((frame.id, &frame.data), (event["sequence"].as_u64(), event));
        assert_eq!(json!(frame.event), event["type"]);
    }
    assert_eq!(frames(&host, &path, Some("0")).await, seen[1..]);
    let last = all.len() - 1;
    for past in [last, last + 1000] {
        assert_eq!(frames(&host, &path, Some(&past.to_string())).await, []);
    }
    for wrong in ["abc", "-1", "1.5"] {
        let reply = host.get(&path).header("last-event-id", wrong).send().await;
        assert_eq!(refused(&reply), (400, "validation_error"), "{wrong}");
        let hidden = format!("/runs/{}/events", bare(&run));
        let unreadable = host.get(&hidden).key(RIVAL).send().await;
        let with = host.get(&hidden).key(RIVAL).header("last-event-id", wrong).send().await;
        assert_eq!((unreadable.status, &unreadable.json), (with.status, &with.json));
        assert_eq!(refused(&with), (404, "not_found"));
    }
    let updates = frames(&host, &format!("/runs/{}/events", segment(&run)), None).await;
    assert!(updates.len() < all.len() && !updates.is_empty());
    let values = format!("/runs/{}/events?streamMode=values", segment(&run));
    let states = frames(&host, &values, Some("1")).await;
    assert_eq!(states[0].event, "state.snapshot");
    for state in &states {
        check::snapshot(&state.data);
        check::without_bare(&state.data, bare(&run));
    }
    let batched = frames(&host, &format!("{path}&bufferMs=1000"), None).await;
    let events: Vec<Value> = batched
        .iter()
        .filter(|frame| frame.event == "batch")
        .flat_map(|frame| frame.data.as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(events, all);
    for wrong in ["no", "updates,values", ""] {
        let reply = host.get(&format!("/runs/{}/events?streamMode={wrong}", segment(&run)));
        let reply = reply.header("accept", "application/json").send().await;
        assert_eq!(refused(&reply), (400, "unsupported_stream_mode"), "{wrong}");
        assert_eq!(
            reply.json["details"]["supported"],
            json!(["updates", "values", "messages", "debug"])
        );
    }
}

#[tokio::test]
async fn chunks_are_told_without_their_envelope() {
    let host = TestHost::start().await;
    let body = json!({
        "workflowId": "chat",
        "configurable": { "version": 1, "ai": { "mockProvider": { "id": "stream-text" } } },
    });
    let reply = host.post("/runs", &body).key(TEST).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let run = reply.text_at("runId");
    let events = host.second_end_as(TEST, &run).await;
    let chunks: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "output.chunk").collect();
    assert!(!chunks.is_empty());
    let path = format!("/runs/{}/events?streamMode=messages", segment(&run));
    let mut open = host.get(&path).key(TEST).open().await;
    let mut shown = Vec::new();
    while let Some(frame) = open.next().await {
        assert_eq!(frame.event, "ai.message.chunk");
        shown.push(frame.data);
    }
    let payloads: Vec<Value> = chunks.iter().map(|chunk| chunk["payload"].clone()).collect();
    assert_eq!(shown, payloads);
    assert_eq!(payloads[0]["x-callboard-contentTrust"], "untrusted");
    assert_eq!(payloads[0]["runId"], json!(run));
}
