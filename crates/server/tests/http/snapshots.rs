//! Large runs as `values` streams show them: as they stand, and not once for every step.

use serde_json::{Value, json};

use crate::given::{Frame, Setup, TestHost, workflow};

/// A host with a run that has ended, whose snapshots are as large as the text.
async fn ended(text: usize) -> (TestHost, String) {
    let mut large =
        workflow("large", &[("a", "core.noop"), ("b", "core.noop"), ("c", "core.noop")]);
    large["variables"] = json!([{ "name": "text", "type": "string", "required": true }]);
    let host = TestHost::of(Setup { workflows: vec![large], ..Setup::default() }).await;
    let run = host.run("large", json!({ "text": "x".repeat(text) })).await;
    host.end_of(&run).await;
    (host, run)
}

async fn values(host: &TestHost, run: &str, more: &str) -> Vec<Frame> {
    host.get(&format!("/v1/runs/{run}/events?streamMode=values{more}")).open().await.rest().await
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_behind_sees_a_large_run_once_as_it_stands() {
    let (host, run) = ended(300_000).await;
    let now = host.get(&format!("/v1/runs/{run}")).send().await.json;
    let frames = values(&host, &run, "").await;
    assert_eq!(frames.len(), 1, "one for every step would be the whole run each time");
    let (name, mut shown) = (frames[0].event.as_str(), frames[0].data.clone());
    assert_eq!((name, shown["status"].as_str()), ("state.snapshot", Some("completed")));
    assert_eq!(shown["atSeq"].as_u64(), frames[0].id);
    shown.as_object_mut().map(|fields| fields.remove("atSeq"));
    assert_eq!(shown, now);
    let batched = values(&host, &run, "&bufferMs=100").await;
    assert_eq!((batched.len(), batched[0].event.as_str()), (1, "batch"));
    assert_eq!(batched[0].data[0]["atSeq"].as_u64(), batched[0].id);
    let (small, run) = ended(10).await;
    assert!(values(&small, &run, "").await.len() > 4, "a small one is shown after each step");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_to_a_large_run_sees_it_first() {
    let (host, run) = ended(300_000).await;
    let path = format!("/v1/runs/{run}/events?streamMode=values");
    for seen in ["0", "2", "999"] {
        let frames = host.get(&path).header("last-event-id", seen).open().await.rest().await;
        let shown: Vec<&Value> = frames.iter().map(|frame| &frame.data["status"]).collect();
        assert_eq!(shown, [&json!("completed")], "{seen}");
    }
}

/// A run that becomes large while it is followed is shown as it stands from then on, to its end.
#[tokio::test(start_paused = true)]
async fn a_large_run_is_followed_to_its_end() {
    let mut large = workflow("large", &[("wait", "core.delay"), ("b", "core.noop")]);
    large["nodes"][0]["config"] = json!({ "delayMs": 5000 });
    large["variables"] = json!([{ "name": "text", "type": "string", "required": true }]);
    let host = TestHost::of(Setup { workflows: vec![large], ..Setup::default() }).await;
    let run = host.run("large", json!({ "text": "x".repeat(300_000) })).await;
    let frames = values(&host, &run, "").await;
    let states: Vec<&str> = frames.iter().filter_map(|it| it.data["status"].as_str()).collect();
    assert_eq!((states.first(), states.last()), (Some(&"running"), Some(&"completed")));
    let ids: Vec<_> = frames.iter().map(|frame| frame.id).collect();
    assert!(ids.is_sorted() && ids.first() != ids.last(), "{ids:?}");
}
