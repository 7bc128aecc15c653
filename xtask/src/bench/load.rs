//! A closed loop of clients: each creates a run, waits for its end, and starts over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::measure::KEY;
use crate::wire::{Connection, Request};

/// The result of a load.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) elapsed: Duration,
    /// From sending the request to its 201, in order.
    pub(crate) creates: Vec<Duration>,
    /// From sending the request to the answer that shows the run's end, in order.
    pub(crate) ends: Vec<Duration>,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        self.ends.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// The value below which this share of an ordered list lies.
pub(crate) fn percentile(ordered: &[Duration], share: f64) -> Duration {
    let place = (ordered.len() as f64 * share) as usize;
    ordered.get(place.min(ordered.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Orders the same run `total` times from `clients` kept-alive connections.
pub(crate) async fn drive(
    address: SocketAddr,
    order: &Value,
    clients: usize,
    total: usize,
) -> Result<Sample> {
    let request = Request::post("/v1/runs", order).bearer(KEY).render();
    let (request, left) = (Arc::new(request), Arc::new(AtomicUsize::new(total)));
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(address).await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn(client(connection, Arc::clone(&request), Arc::clone(&left)));
    }
    let mut sample = Sample::default();
    for part in tasks.join_all().await {
        let part = part?;
        sample.creates.extend(part.creates);
        sample.ends.extend(part.ends);
    }
    sample.elapsed = started.elapsed();
    sample.creates.sort();
    sample.ends.sort();
    Ok(sample)
}

async fn client(
    mut connection: Connection,
    request: Arc<Vec<u8>>,
    left: Arc<AtomicUsize>,
) -> Result<Sample> {
    let mut sample = Sample::default();
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let started = Instant::now();
        let (status, body) = connection.exchange(&request).await?;
        ensure!(status == 201, "create answered {status}: {body}");
        sample.creates.push(started.elapsed());
        let run = field(body, "runId").context("a created run without runId")?.to_owned();
        wait_for_end(&mut connection, &run).await?;
        sample.ends.push(started.elapsed());
    }
    Ok(sample)
}

/// Times one run from its creation to its end without reading its events, and answers how many there are.
pub(crate) async fn time_unread(address: SocketAddr, workflow: &str) -> Result<(Duration, u64)> {
    let mut connection = Connection::open(address).await?;
    let request = Request::post("/v1/runs", &json!({ "workflowId": workflow })).bearer(KEY);
    let started = Instant::now();
    let created = connection.send(&request).await?;
    ensure!(created.status == 201, "create answered {}: {}", created.status, created.text());
    let run = created.json()?["runId"].as_str().context("a created run without runId")?.to_owned();
    loop {
        // A cursor beyond any log: nothing comes until the run has ended.
        let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence=1000000000");
        let page = connection.send(&Request::get(path).bearer(KEY)).await?.json()?;
        if page["isTerminal"] == true {
            ensure!(page["runStatus"] == "completed", "the run ended {}", page["runStatus"]);
            let elapsed = started.elapsed();
            let last =
                connection.send(&Request::get(format!("/v1/runs/{run}")).bearer(KEY)).await?;
            let last = last.json()?["lastSequence"].as_u64().context("no lastSequence")?;
            return Ok((elapsed, last + 1));
        }
    }
}

/// Long-polls until the run has ended. The host answers as soon as there is something new.
pub(crate) async fn wait_for_end(connection: &mut Connection, run: &str) -> Result<()> {
    let mut cursor = String::new();
    loop {
        let head = format!(
            "GET /v1/runs/{run}/events/poll?timeout=30{cursor} HTTP/1.1\r\nhost: callboard\r\nauthorization: Bearer {KEY}\r\n\r\n"
        );
        let (status, page) = connection.exchange(head.as_bytes()).await?;
        ensure!(status == 200, "poll answered {status}: {page}");
        if page.rfind("\"isTerminal\":true").is_some() {
            return Ok(());
        }
        let page: Value = serde_json::from_str(page)?;
        if let Some(seen) = page["lastEventSeq"].as_u64().filter(|seen| *seen > 0) {
            cursor = format!("&lastSequence={seen}");
        }
    }
}

/// A text field of a small JSON body, found without parsing it whole.
pub(crate) fn field<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let rest = body.split_once(name)?.1.strip_prefix("\":\"")?;
    Some(rest.split_once('"')?.0)
}
