//! R36–R44: the log as streams show it.

use callboard_core::Head;
use callboard_engine::{Append, Batch, KeyMode, Row, Scope, Store};
use callboard_protocol::RunStatus;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::given::{Frame, Frames, TEST, TestHost};

async fn open(host: &TestHost, run: &str, query: &str) -> Frames {
    host.get(&format!("/v1/runs/{run}/events{query}")).open().await
}

async fn all(host: &TestHost, run: &str, query: &str) -> Vec<Frame> {
    open(host, run, query).await.rest().await
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

/// R36: the default mode, live, closed by the server.
#[tokio::test(start_paused = true)]
async fn the_default_mode_shows_updates_and_closes() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let live = all(&host, &run, "").await;
    assert_eq!(
        names(&live),
        ["run.started", "node.completed", "node.completed", "node.completed", "run.completed"]
    );
    for frame in &live {
        assert_eq!(frame.id, frame.data["sequence"].as_u64());
        assert_eq!(frame.data["type"], json!(frame.event));
        assert_eq!(frame.data["runId"], json!(run));
    }
    assert_eq!(all(&host, &run, "").await, live, "an ended run is replayed, then closed");
    assert_eq!(all(&host, &run, "?streamMode=updates").await, live);
}

/// R37: a wrong mode is refused as JSON whatever the client accepts.
#[tokio::test(start_paused = true)]
async fn wrong_modes_are_refused() {
    let host = TestHost::start().await;
    let run = host.run("noop", json!({})).await;
    for mode in ["bogus", "", "updates,bogus", "values,updates", "Updates"] {
        for accept in ["application/json", "text/event-stream", "*/*"] {
            let path = format!("/v1/runs/{run}/events?streamMode={mode}&bufferMs=99999");
            let reply = host.get(&path).header("accept", accept).send().await;
            assert_eq!(reply.refusal(), (400, "unsupported_stream_mode"), "{mode} {accept}");
            assert_eq!(
                reply.json["details"]["supported"],
                json!(["updates", "values", "messages", "debug"])
            );
        }
    }
}

/// R38.
#[tokio::test(start_paused = true)]
async fn values_show_the_run_after_each_step() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let frames = all(&host, &run, "?streamMode=values").await;
    assert!(!frames.is_empty());
    assert!(frames.iter().all(|frame| frame.event == "state.snapshot"), "{:?}", names(&frames));
    let first = &frames[0];
    assert_eq!((first.id, &first.data["atSeq"]), (Some(0), &json!(0)));
    assert_eq!((&first.data["runId"], &first.data["status"]), (&json!(run), &json!("running")));
    let mut last = frames.last().map(|frame| frame.data.clone()).unwrap_or_default();
    assert_eq!(last["status"], "completed");
    last.as_object_mut().map(|fields| fields.remove("atSeq"));
    assert_eq!(
        last,
        host.get(&format!("/v1/runs/{run}")).send().await.json,
        "the last one is the run as it stands"
    );
}

/// R39.
#[tokio::test(start_paused = true)]
async fn messages_show_chunks_alone_in_order() {
    let host = TestHost::start().await;
    let config = json!({ "tokens": ["Hello", " ", "world", "!"], "delayMsPerToken": 10 });
    let configurable = json!({ "mockProvider": { "id": "stream-text", "config": config } });
    let run =
        host.run_as(TEST, json!({ "workflowId": "chat", "configurable": configurable })).await;
    let follow = async |query: &str| {
        host.get(&format!("/v1/runs/{run}/events{query}")).key(TEST).open().await.rest().await
    };
    let frames = follow("?streamMode=messages").await;
    assert!(frames.iter().all(|frame| frame.event == "ai.message.chunk"), "{:?}", names(&frames));
    let chunks: Vec<&Value> = frames.iter().map(|frame| &frame.data["chunk"]).collect();
    assert_eq!(json!(chunks), config["tokens"]);
    let is_last: Vec<bool> =
        frames.iter().map(|frame| frame.data["isLast"] == json!(true)).collect();
    assert_eq!(is_last, [false, false, false, true]);
    assert!(frames.iter().all(|frame| frame.data.get("type").is_none()), "the payload only");
    let mixed = follow("?streamMode=updates,messages").await;
    assert_eq!(
        names(&mixed).iter().filter(|name| **name == "output.chunk").count(),
        4,
        "R41: the union"
    );
    assert_eq!(names(&mixed).last(), Some(&"run.completed"));
}

/// R39: a run without chunks is silent until it closes.
#[tokio::test(start_paused = true)]
async fn messages_of_a_silent_run_are_none() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    assert!(all(&host, &run, "?streamMode=messages").await.is_empty());
}

/// R40, R41.
#[tokio::test(start_paused = true)]
async fn debug_shows_everything_that_any_mode_shows() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let debug = all(&host, &run, "?streamMode=debug").await;
    let updates = all(&host, &run, "?streamMode=updates").await;
    assert!(debug.len() > updates.len());
    assert!(updates.iter().all(|frame| debug.contains(frame)));
    assert_eq!(debug.len(), host.end_of(&run).await.len(), "every event of the log");
    assert_eq!(all(&host, &run, "?streamMode=updates,debug").await, debug);
}

/// R42: batches, flushed by time and by the end.
#[tokio::test(start_paused = true)]
async fn events_are_collected_into_batches() {
    let host = TestHost::start().await;
    let run = host.run("wait", json!({ "delayMs": 10_000 })).await;
    let began = Instant::now();
    let mut stream = open(&host, &run, "?bufferMs=2000").await;
    let first = stream.next().await.expect("a batch");
    assert_eq!(began.elapsed().as_secs(), 2, "the window begins with its first event");
    assert_eq!((first.event.as_str(), first.id), ("batch", Some(0)));
    assert_eq!(first.data[0]["type"], "run.started");
    let last = stream.rest().await;
    assert_eq!(names(&last), ["batch"]);
    assert_eq!(began.elapsed().as_secs(), 10, "the end does not wait for its window");
    let events = last[0].data.as_array().cloned().unwrap_or_default();
    assert_eq!(events.last().map(|event| event["type"].clone()), Some(json!("run.completed")));
    assert_eq!(
        last[0].id,
        events.last().and_then(|event| event["sequence"].as_u64()),
        "the highest id"
    );
}

/// R42: zero is no batching, and what is out of range is refused.
#[tokio::test(start_paused = true)]
async fn the_buffer_has_bounds() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let plain = all(&host, &run, "").await;
    assert_eq!(all(&host, &run, "?bufferMs=0").await, plain);
    let batched = all(&host, &run, "?bufferMs=5000").await;
    assert_eq!(names(&batched), ["batch"]);
    for wrong in ["5001", "99999", "-1", "x", "1.5"] {
        for accept in ["application/json", "text/event-stream"] {
            let path = format!("/v1/runs/{run}/events?bufferMs={wrong}");
            let reply = host.get(&path).header("accept", accept).send().await;
            assert_eq!(reply.refusal(), (400, "validation_error"), "{wrong}");
        }
    }
}

/// R42: somebody is asked for something, so the batch does not wait.
#[tokio::test(start_paused = true)]
async fn a_suspension_flushes_the_batch() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let pause = json!({ "drainPolicy": "immediate" });
    host.post(&format!("/v1/runs/{run}:pause"), &pause).send().await;
    let mut stream = open(&host, &run, "?bufferMs=5000").await;
    assert_eq!(stream.next().await.map(|frame| frame.event), Some("batch".to_owned()));
    let began = Instant::now();
    append(&host, &run, "node.suspended").await;
    let frame = stream.next().await.expect("a batch");
    assert_eq!(frame.data[0]["type"], "node.suspended");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Writes an event that this host does not emit yet.
async fn append(host: &TestHost, run: &str, kind: &str) {
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let found = host.store.find(&scope, &run.into()).await.expect("readable").expect("there");
    let row = Row {
        at: host.now(),
        kind: kind.to_owned(),
        node: None,
        payload: "{}".to_owned(),
        private: None,
        cause: None,
    };
    let appended = Append {
        run: run.into(),
        expected: found.version,
        fence: None,
        rows: vec![row],
        head: Head {
            status: RunStatus::Paused,
            version: found.version,
            wake_at: None,
            updated_at: host.now(),
        },
        snapshot: None,
        interrupts: None,
        outcome: None,
        children: Vec::new(),
        wakes: None,
    };
    host.store.commit(Batch::of_append(appended)).await.expect("appended");
}

/// R43.
#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_a_sign_of_life() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    for query in ["", "?streamMode=messages", "?streamMode=debug&bufferMs=5000"] {
        let mut stream = open(&host, &run, query).await;
        let began = Instant::now();
        let mut comments = 0;
        while comments < 3 {
            let frame = stream.next().await.expect("the stream goes on");
            comments += usize::from(frame.comment == "keepalive");
        }
        assert!(began.elapsed() <= Duration::from_secs(3 * 30), "{query}");
    }
}

/// R44.
#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_after_the_last_id_seen() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let resume = async |query: &str, id: &str| {
        let call = host.get(&format!("/v1/runs/{run}/events{query}")).header("last-event-id", id);
        call.open().await.rest().await
    };
    let frames = all(&host, &run, "").await;
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.id.expect("an id").to_string();
        assert_eq!(
            resume("", &id).await,
            frames[index + 1..],
            "after {id}; the last one closes at once"
        );
    }
    assert_eq!(resume("", "").await, frames, "no id is the start");
    assert!(resume("", "99999").await.is_empty());
    let batch = resume("?bufferMs=100", "0").await;
    assert_eq!(names(&batch), ["batch"]);
    assert_eq!(batch[0].data.as_array().map(Vec::len), Some(frames.len() - 1));
    assert!(resume("?bufferMs=100", &batch[0].id.unwrap_or_default().to_string()).await.is_empty());
    for wrong in ["x", "-1", "1.5"] {
        let call = host.get(&format!("/v1/runs/{run}/events")).header("last-event-id", wrong);
        assert_eq!(call.send().await.refusal(), (400, "validation_error"), "{wrong}");
    }
}

/// R44: values begin with where the run stands.
#[tokio::test(start_paused = true)]
async fn resumed_values_begin_with_a_snapshot() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let frames = all(&host, &run, "?streamMode=values").await;
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.id.expect("an id").to_string();
        let call = host.get(&format!("/v1/runs/{run}/events?streamMode=values"));
        let resumed = call.header("last-event-id", &id).open().await.rest().await;
        assert_eq!(resumed, frames[index..], "after {id}");
    }
}

/// S-34: those who accept JSON and no stream get the log as it is.
#[tokio::test(start_paused = true)]
async fn events_are_json_for_those_who_ask() {
    let host = TestHost::start().await;
    let run = host.run("chain", json!({})).await;
    let events = host.end_of(&run).await;
    let ask = async |query: &str, accept: &str| {
        host.get(&format!("/v1/runs/{run}/events{query}")).header("accept", accept).send().await
    };
    let reply = ask("", "application/json").await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.json["events"], json!(events));
    assert_eq!(reply.json["isTerminal"], json!(true));
    let filtered = ask("?streamMode=updates", "application/json;q=0.9").await;
    assert_eq!(filtered.json["events"].as_array().map(Vec::len), Some(5));
    let both = ask("", "application/json, text/event-stream").await;
    assert_eq!(both.header("content-type"), "text/event-stream");
}

/// A stream that waits ends when the host does, with what it still held.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_host_stops() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let mut stream = open(&host, &run, "?bufferMs=5000").await;
    let began = Instant::now();
    {
        let next = stream.next();
        tokio::pin!(next);
        assert!(futures_util::poll!(next.as_mut()).is_pending(), "the batch is not due");
        host.shutdown.cancel();
        assert_eq!(next.await.map(|frame| frame.event), Some("batch".to_owned()));
    }
    assert_eq!(stream.next().await, None);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A stream of a run that ends meanwhile sees the end, whenever it attached.
#[tokio::test(start_paused = true)]
async fn streams_opened_at_any_moment_see_the_end() {
    let host = TestHost::start().await;
    let run = host.run("wait", json!({ "delayMs": 100 })).await;
    let attach = |wait: u64| {
        let (host, run) = (&host, &run);
        async move {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            all(host, run, "").await
        }
    };
    let seen = futures_util::future::join_all([0, 50, 99, 100, 101, 200].map(attach)).await;
    for frames in seen {
        assert_eq!(names(&frames), ["run.started", "node.completed", "run.completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_expires_ends_its_streams() {
    let host = TestHost::start().await;
    let run = host.waiting_run().await;
    let body = json!({ "name": "short", "expiresAt": host.now().plus_millis(20_000) });
    let key = host.post("/v1/host/callboard/keys", &body).send().await.text_at("key");
    let stream = host.get(&format!("/v1/runs/{run}/events")).key(&key).open().await;
    let began = Instant::now();
    assert_eq!(names(&stream.rest().await), ["run.started"]);
    assert_eq!(began.elapsed().as_secs(), 20, "when it expires");
}

/// What goes on all the time must not keep a stream from looking at its key.
#[tokio::test(start_paused = true)]
async fn a_busy_run_does_not_keep_the_stream_of_an_expired_key_open() {
    let host = TestHost::start().await;
    for path in ["/v1/runs/RUN/events", "/v1/host/callboard/events"] {
        let run = host.waiting_run().await;
        let body = json!({ "name": "short", "expiresAt": host.now().plus_millis(20_000) });
        let key = host.post("/v1/host/callboard/keys", &body).send().await.text_at("key");
        let stream = host.get(&path.replace("RUN", &run)).key(&key).open().await;
        let busy = async {
            let pause = json!({ "drainPolicy": "immediate" });
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(3)).await;
                host.post(&format!("/v1/runs/{run}:pause"), &pause).send().await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                host.post(&format!("/v1/runs/{run}:resume"), &json!({})).send().await;
            }
        };
        let began = Instant::now();
        let ended = async {
            stream.rest().await;
            began.elapsed().as_secs()
        };
        let ((), ended) = tokio::join!(busy, ended);
        assert_eq!(ended, 20, "{path}: when it expires");
    }
}
