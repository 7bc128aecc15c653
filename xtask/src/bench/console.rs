//! K-16, the console beside the API that its pages are made from: a long run, a light page, live rows, and what an open page
//! costs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::definitions::{MANY_TICKS, ROUNDS, TICKS};
use super::load::percentile;
use super::measure::{KEY, processor_time, register};
use super::{Scale, watch};
use crate::child::Host;
use crate::say;
use crate::sse::Frames;
use crate::wire::{Answer, Connection, Request};

/// How often a page and the answer it is made from are timed, by turns.
const LOOKS: usize = 100;
/// Readers of one run whose cost is compared.
const READERS: usize = 50;
/// What the wire's client calls the host, and so where its forms come from.
const ORIGIN: &str = "http://callboard";

#[derive(Debug, Default)]
pub(crate) struct Console {
    /// Of a page of the log of a run of ten thousand events, in order; and of the same events by the API.
    pub(crate) page: Vec<Duration>,
    pub(crate) answer: Vec<Duration>,
    /// Of a run with two hundred events, and of what every page loads once.
    pub(crate) page_bytes: usize,
    pub(crate) asset_bytes: usize,
    /// From an event's frame of the API to its row, in order.
    pub(crate) rows: Vec<Duration>,
    /// Processor time of the host for each reader of one run: over the API, and on an open page.
    pub(crate) per_stream: Duration,
    pub(crate) per_page: Duration,
}

pub(crate) async fn all(
    binary: &Path,
    folder: &Path,
    arguments: &[&str],
    scale: Scale,
) -> Result<Console> {
    say::line("console");
    let home = folder.join("console");
    fs::create_dir(&home)?;
    let host = Host::start(binary, &home, arguments).await?;
    register(host.address).await?;
    let cookie = sign_in(host.address).await?;
    let mut console = Console::default();
    long_run(&mut console, host.address, &cookie).await?;
    weight(&mut console, host.address, &cookie).await?;
    console.rows = lags(host.address, &cookie, if scale.quick { 2 } else { 10 }).await?;
    console.per_stream = cost(&host, None).await?;
    console.per_page = cost(&host, Some(&cookie)).await?;
    host.stop().await?;
    Ok(console)
}

/// The cookie of a session.
async fn sign_in(address: SocketAddr) -> Result<String> {
    let request = Request::get("/console/login")
        .method("POST")
        .header("origin", ORIGIN)
        .header("content-type", "application/x-www-form-urlencoded")
        .raw(format!("key={KEY}"));
    let answer = Connection::open(address).await?.send(&request).await?;
    ensure!(answer.status == 303, "{}: {}", answer.status, answer.text());
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    Ok(cookie.context("no cookie")?.to_owned())
}

/// A run that has come to its end.
async fn finished(address: SocketAddr, workflow: &str) -> Result<String> {
    let run = watch::create(address, workflow).await?;
    let mut frames = watch::open(address, &run).await?;
    while frames.next().await?.is_some() {}
    Ok(run)
}

async fn look(connection: &mut Connection, request: &Request) -> Result<(Answer, Duration)> {
    let began = Instant::now();
    let answer = connection.send(request).await?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    Ok((answer, began.elapsed()))
}

/// A page in the middle of ten thousand events, and the same events by the API.
async fn long_run(console: &mut Console, address: SocketAddr, cookie: &str) -> Result<()> {
    let (workflow, _) = ROUNDS[1];
    let run = finished(address, workflow).await?;
    let page = Request::get(format!("/console/runs/{run}?tab=log&from=5000"));
    let page = page.header("cookie", cookie);
    let path = format!("/v1/runs/{run}/events/poll?lastSequence=4999&limit=200&timeout=1");
    let answer = Request::get(path).bearer(KEY);
    let mut connection = Connection::open(address).await?;
    for _ in 0..LOOKS {
        console.page.push(look(&mut connection, &page).await?.1);
        console.answer.push(look(&mut connection, &answer).await?.1);
    }
    console.page.sort();
    console.answer.sort();
    Ok(())
}

async fn weight(console: &mut Console, address: SocketAddr, cookie: &str) -> Result<()> {
    let run = finished(address, TICKS).await?;
    let page = Request::get(format!("/console/runs/{run}")).header("cookie", cookie);
    let mut connection = Connection::open(address).await?;
    let (answer, _) = look(&mut connection, &page).await?;
    let text = answer.text();
    let rows = text.matches("<li id=\"e-").count();
    ensure!(rows > 50, "the page of {run} has {rows} rows");
    let frame = text.find("<ol class=\"story\"").context("no story")?;
    let end = text[frame..].find("</ol>").context("no end of the story")?;
    // Rows weigh alike, so that a page of two hundred is what is around them and so many of them.
    console.page_bytes = text.len() - end + end * 200 / rows;
    for path in text.split('"').filter(|part| part.starts_with("/console/assets/")) {
        let (asset, _) = look(&mut connection, &Request::get(path)).await?;
        console.asset_bytes += asset.body.len();
    }
    Ok(())
}

/// Both streams of the same runs, at the same time.
async fn lags(address: SocketAddr, cookie: &str, runs: usize) -> Result<Vec<Duration>> {
    let mut lags = Vec::new();
    for _ in 0..runs {
        let run = watch::create(address, TICKS).await?;
        let page = page_stream(address, cookie, &run, "log").await?;
        let api = watch::open(address, &run).await?;
        let (shown, told) = tokio::try_join!(arrivals(page), arrivals(api))?;
        let late = |(id, at): (&String, &Instant)| {
            shown.get(id).map(|shown| shown.saturating_duration_since(*at))
        };
        lags.extend(told.iter().filter_map(late));
    }
    ensure!(lags.len() > runs * 50, "only {} rows were seen", lags.len());
    lags.sort();
    Ok(lags)
}

async fn page_stream(address: SocketAddr, cookie: &str, run: &str, tab: &str) -> Result<Frames> {
    let request = Request::get(format!("/console/runs/{run}/live?tab={tab}"))
        .header("accept", "text/event-stream")
        .header("cookie", cookie);
    let (answer, body) = Connection::open(address).await?.stream(&request).await?;
    ensure!(answer.status == 200, "a stream answered {}", answer.status);
    Ok(Frames::new(body))
}

/// When each event came.
async fn arrivals(mut frames: Frames) -> Result<HashMap<String, Instant>> {
    let mut seen = HashMap::new();
    while let Some(frame) = frames.next().await? {
        if let Some(id) = frame.id {
            seen.insert(id, Instant::now());
        }
    }
    Ok(seen)
}

/// What each reader of a run costs the host, beyond what the run itself does.
async fn cost(host: &Host, cookie: Option<&str>) -> Result<Duration> {
    let idle = watched_by(host, 0, cookie).await?;
    let busy = watched_by(host, READERS, cookie).await?;
    Ok(busy.saturating_sub(idle) / u32::try_from(READERS)?)
}

async fn watched_by(host: &Host, readers: usize, cookie: Option<&str>) -> Result<Duration> {
    let before = processor_time(host.id()?)?;
    let run = watch::create(host.address, MANY_TICKS).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..readers {
        let frames = match cookie {
            Some(cookie) => page_stream(host.address, cookie, &run, "story").await?,
            None => watch::open(host.address, &run).await?,
        };
        tasks.spawn(arrivals(frames));
    }
    let mut end = watch::open(host.address, &run).await?;
    while end.next().await?.is_some() {}
    while let Some(read) = tasks.join_next().await {
        read.map_err(io::Error::other)??;
    }
    Ok(processor_time(host.id()?)? - before)
}

impl Console {
    /// How many times as long a page takes as what it is made from.
    pub(crate) fn page_factor(&self) -> f64 {
        percentile(&self.page, 0.5).as_secs_f64() / percentile(&self.answer, 0.5).as_secs_f64()
    }

    /// What an open page costs beyond its stream, as a share of it.
    pub(crate) fn page_surplus(&self) -> f64 {
        self.per_page.as_secs_f64() / self.per_stream.as_secs_f64() - 1.0
    }
}
