//! Open streams: their lag behind commits, and their cost.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::definitions::TICKS;
use super::measure::KEY;
use crate::sse::Frames;
use crate::wire::{Connection, Request};

/// Runs that are watched at once for the lag.
const WATCHED: usize = 20;

/// From an event's timestamp to its arrival at a client, in order.
pub(crate) async fn lags(address: SocketAddr) -> Result<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    for _ in 0..WATCHED {
        tasks.spawn(lags_of_one(address));
    }
    let mut lags = Vec::new();
    for part in tasks.join_all().await {
        lags.extend(part?);
    }
    lags.sort();
    Ok(lags)
}

async fn lags_of_one(address: SocketAddr) -> Result<Vec<Duration>> {
    let run = create(address, TICKS).await?;
    let mut frames = open(address, &run).await?;
    let mut lags = Vec::new();
    while let Some(frame) = frames.next().await? {
        if frame.comment.is_none() {
            let arrived = SystemTime::now().duration_since(UNIX_EPOCH)?;
            lags.push(since(arrived, frame.json()?["timestamp"].as_str().unwrap_or_default())?);
        }
    }
    // Events from before the stream was open show nothing about its lag.
    lags.drain(..lags.len().min(4));
    Ok(lags)
}

pub(crate) async fn create(address: SocketAddr, workflow: &str) -> Result<String> {
    create_as(address, &json!({ "workflowId": workflow })).await
}

pub(crate) async fn create_as(address: SocketAddr, order: &Value) -> Result<String> {
    let request = Request::post("/v1/runs", order).bearer(KEY);
    let answer = Connection::open(address).await?.send(&request).await?;
    ensure!(answer.status == 201, "{}: {}", answer.status, answer.text());
    Ok(answer.json()?["runId"].as_str().context("a created run without runId")?.to_owned())
}

pub(crate) async fn open(address: SocketAddr, run: &str) -> Result<Frames> {
    let request = Request::get(format!("/v1/runs/{run}/events?streamMode=debug"))
        .header("accept", "text/event-stream")
        .bearer(KEY);
    let (answer, body) = Connection::open(address).await?.stream(&request).await?;
    ensure!(answer.status == 200, "a stream answered {}", answer.status);
    Ok(Frames::new(body))
}

/// How long after an RFC 3339 time in UTC. Both are taken within their day; a benchmark at midnight wraps.
fn since(now: Duration, stamp: &str) -> Result<Duration> {
    const DAY_MS: u128 = 86_400_000;
    let clock = stamp.split_once('T').context("no time")?.1.trim_end_matches('Z');
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let mut part = || parts.next().context("no time")?.context("no time");
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let told = ((hours * 60.0 + minutes) * 60_000.0 + seconds * 1000.0).round() as u128;
    let late = (now.as_millis() % DAY_MS + DAY_MS - told) % DAY_MS;
    // The machine's clock may have been set between the two; a lag of hours is none.
    Ok(Duration::from_millis(if late > DAY_MS / 2 { 0 } else { u64::try_from(late)? }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::since;

    #[test]
    fn a_lag_is_taken_within_the_day() {
        let now = Duration::from_millis(86_400_000 * 20_000 + 3_723_250);
        assert_eq!(since(now, "2024-10-04T01:02:03.200Z").unwrap(), Duration::from_millis(50));
        assert_eq!(
            since(Duration::from_millis(5), "2024-10-04T23:59:59.995Z").unwrap(),
            Duration::from_millis(10)
        );
    }
}
