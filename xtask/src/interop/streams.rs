//! Server-sent events in every mode, with mixing, batching and resuming.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::fixtures::stream_text;
use super::session::Session;
use crate::sse::Frame;
use crate::wire::Request;

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let noop = ended(session, &json!({ "workflowId": "conformance-noop" })).await?;
    let mut spoken = stream_text();
    spoken["workflowId"] = "conformance-stream-text".into();
    let spoken = ended(session, &spoken).await?;

    let outcome = updates(session, &noop).await;
    session.book.enter(
        "stream: updates is the default, tells start and end, and the server closes",
        outcome,
    );
    let outcome = values(session, &noop).await;
    session.book.enter("stream: values shows snapshots up to the last", outcome);
    let outcome = messages(session, &spoken).await;
    session.book.enter("stream: messages yields the chunks in order and nothing else", outcome);
    let outcome = debug(session, &noop).await;
    session.book.enter("stream: debug shows every event of the log", outcome);
    let outcome = mixed(session, &spoken).await;
    session.book.enter("stream: updates,messages is their union in the order of the log", outcome);
    let outcome = resumed(session, &noop).await;
    session
        .book
        .enter("stream: Last-Event-ID goes on after it; a terminal id closes at once", outcome);
    let outcome = batched(session, &noop).await;
    session.book.enter("stream: bufferMs batches, 0 does not", outcome);
    let outcome = flushed(session).await;
    session.book.enter("stream: the end of a run flushes a batch at once", outcome);
    let outcome = live(session).await;
    session.book.enter("stream: a run is watched live from its first to its last event", outcome);
    let outcome = as_json(session, &noop).await;
    session.book.enter("stream: Accept application/json answers a list", outcome);
    let outcome = session.settle();
    session.book.enter("stream: every frame matches its schema", outcome);
    Ok(())
}

async fn ended(session: &mut Session, body: &Value) -> Result<String> {
    let run = session.create(body).await?;
    session.observe(&run, Duration::from_secs(10)).await?;
    Ok(run)
}

fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

async fn read(session: &mut Session, run: &str, query: &str) -> Result<Vec<Frame>> {
    let (answer, frames) =
        session.stream(Request::get(format!("/v1/runs/{run}/events{query}"))).await?;
    ensure!(answer.status == 200, "{}", answer.status);
    let kind = answer.header("content-type").unwrap_or_default();
    ensure!(kind.starts_with("text/event-stream"), "content type {kind}");
    ensure!(
        answer.header("cache-control").is_some_and(|value| value.contains("no-cache")),
        "it may be cached"
    );
    Ok(frames)
}

/// Checks that a frame is an event of the log, sent once and under its own sequence.
fn note_events(session: &mut Session, frames: &[Frame]) -> Result<()> {
    for frame in frames {
        let event = frame.json()?;
        ensure!(
            event["type"] == frame.event.as_str(),
            "event {} holds {}",
            frame.event,
            event["type"]
        );
        ensure!(frame.id.as_deref() == Some(&event["sequence"].to_string()), "id {:?}", frame.id);
        session.note_event(&event);
    }
    Ok(())
}

async fn updates(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "").await?;
    note_events(session, &frames)?;
    ensure!(
        kinds(&frames) == ["run.started", "node.completed", "run.completed"],
        "{:?}",
        kinds(&frames)
    );
    ensure!(read(session, run, "?streamMode=updates").await? == frames, "named, it differs");
    Ok(())
}

async fn values(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "?streamMode=values").await?;
    ensure!(
        !frames.is_empty() && frames.iter().all(|frame| frame.event == "state.snapshot"),
        "{:?}",
        kinds(&frames)
    );
    for frame in &frames {
        let snapshot = frame.json()?;
        session.note_snapshot(&snapshot);
    }
    let last = frames.last().context("no frame")?.json()?;
    ensure!(last["status"] == "completed", "the last shows {}", last["status"]);
    let request = Request::get(format!("/v1/runs/{run}/events?streamMode=values"))
        .header("last-event-id", "0");
    let (_, resumed) = session.stream(request).await?;
    ensure!(
        resumed.first().is_some_and(|frame| frame.event == "state.snapshot"),
        "resuming shows no snapshot first"
    );
    Ok(())
}

async fn messages(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "?streamMode=messages").await?;
    ensure!(frames.iter().all(|frame| frame.event == "ai.message.chunk"), "{:?}", kinds(&frames));
    let mut text = String::new();
    for frame in &frames {
        let chunk = frame.json()?;
        session.note("output.chunk", &chunk);
        text.push_str(chunk["chunk"].as_str().unwrap_or_default());
    }
    ensure!(text == "Hello world", "{text}");
    ensure!(frames.last().context("no frame")?.json()?["isLast"] == true, "the last is not marked");
    Ok(())
}

async fn debug(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "?streamMode=debug").await?;
    note_events(session, &frames)?;
    let log = session.log(run).await?;
    let streamed = frames.iter().map(Frame::json).collect::<Result<Vec<Value>>>()?;
    ensure!(streamed == log, "{} frames for {} events", streamed.len(), log.len());
    Ok(())
}

async fn mixed(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "?streamMode=updates,messages").await?;
    note_events(session, &frames)?;
    let ids: Vec<u64> =
        frames.iter().filter_map(|frame| frame.id.as_deref()?.parse().ok()).collect();
    ensure!(ids.len() == frames.len() && ids.is_sorted_by(|left, right| left < right), "{ids:?}");
    let kinds = kinds(&frames);
    ensure!(
        kinds.first() == Some(&"run.started") && kinds.last() == Some(&"run.completed"),
        "{kinds:?}"
    );
    // In a mixture every frame keeps the type of its event, or clients could not see which mode admitted it.
    ensure!(kinds.iter().filter(|kind| **kind == "output.chunk").count() == 3, "{kinds:?}");
    Ok(())
}

async fn resumed(session: &mut Session, run: &str) -> Result<()> {
    let path = format!("/v1/runs/{run}/events?streamMode=debug");
    let log = session.log(run).await?;
    for seen in 0..log.len() {
        let (answer, frames) =
            session.stream(Request::get(&path).header("last-event-id", &seen.to_string())).await?;
        ensure!(answer.status == 200, "{} after {seen}", answer.status);
        let left = frames.iter().map(Frame::json).collect::<Result<Vec<Value>>>()?;
        ensure!(left == log[seen + 1..], "after {seen}: {:?}", kinds(&frames));
    }
    Ok(())
}

async fn batched(session: &mut Session, run: &str) -> Result<()> {
    let frames = read(session, run, "?streamMode=debug&bufferMs=200").await?;
    ensure!(frames.iter().all(|frame| frame.event == "batch"), "{:?}", kinds(&frames));
    let mut events = Vec::new();
    for frame in &frames {
        let batch = frame.json()?;
        let batch = batch.as_array().context("a batch that is no list")?;
        let highest = batch
            .iter()
            .filter_map(|event| event["sequence"].as_u64())
            .max()
            .context("an empty batch")?;
        ensure!(
            frame.id.as_deref() == Some(&highest.to_string()),
            "id {:?} of {highest}",
            frame.id
        );
        events.extend(batch.iter().cloned());
    }
    ensure!(events == session.log(run).await?, "batches lose or repeat events");
    let plain = read(session, run, "?bufferMs=0").await?;
    ensure!(plain.iter().all(|frame| frame.event != "batch"), "{:?}", kinds(&plain));
    Ok(())
}

/// With a buffer far longer than the run, the last batch still comes when the run ends.
async fn flushed(session: &mut Session) -> Result<()> {
    let body = json!({ "workflowId": "conformance-delay", "inputs": { "delayMs": 200 } });
    let run = session.create(&body).await?;
    let started = Instant::now();
    let frames = read(session, &run, "?bufferMs=5000").await?;
    ensure!(
        started.elapsed() < Duration::from_millis(2500),
        "the last batch took {:?}",
        started.elapsed()
    );
    let last = frames.last().context("no frame")?.json()?;
    let ends = last
        .as_array()
        .and_then(|batch| batch.last())
        .is_some_and(|event| event["type"] == "run.completed");
    ensure!(ends, "the last batch does not end with the run");
    Ok(())
}

async fn live(session: &mut Session) -> Result<()> {
    let body = json!({ "workflowId": "conformance-delay", "inputs": { "delayMs": 300 } });
    let run = session.create(&body).await?;
    let frames = read(session, &run, "?streamMode=debug").await?;
    note_events(session, &frames)?;
    let streamed = frames.iter().map(Frame::json).collect::<Result<Vec<Value>>>()?;
    ensure!(streamed == session.log(&run).await?, "{:?}", kinds(&frames));
    Ok(())
}

async fn as_json(session: &mut Session, run: &str) -> Result<()> {
    let request =
        Request::get(format!("/v1/runs/{run}/events")).header("accept", "application/json");
    let page = session.expect(200, request).await?;
    ensure!(page["events"].as_array().is_some_and(|events| !events.is_empty()), "{page}");
    Ok(())
}
