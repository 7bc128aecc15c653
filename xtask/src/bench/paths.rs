//! What clients do with a host, each with its rate and its processor time: create, follow, poll, read, list. Several
//! hosts, such as two versions, are measured by turns.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::bare::Bare;
use super::definitions::{CHAIN, NOOP};
use super::load::{field, wait_for_end};
use super::measure::{KEY, processor_time, register_some, run_of};
use super::stages::{self, Shares};
use super::{Scale, watch};
use crate::child::Host;
use crate::say;
use crate::wire::{Connection, Request};

/// What one client does over and over on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Creates a run and does not look at it again.
    Create,
    /// Creates a run and long-polls its events until it has ended.
    Poll,
    /// The same with a chain of ten nodes.
    PollChain,
    /// Creates a run and reads its event stream, which the host closes.
    Follow,
    /// Creates a run and reads its snapshot until it has ended.
    Snapshots,
    /// Reads the snapshot of a run that has ended.
    Read,
    /// Reads the newest twenty runs.
    List,
}

pub(crate) const USES: [Use; 7] =
    [Use::Create, Use::Poll, Use::PollChain, Use::Follow, Use::Snapshots, Use::Read, Use::List];

/// As many as the outside generator that the goals were set with.
pub(crate) const CALLERS: usize = 64;

impl Use {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Poll => "create, long-poll to the end",
            Self::PollChain => "create a chain of ten, long-poll to the end",
            Self::Follow => "create, follow the event stream to the end",
            Self::Snapshots => "create, read snapshots until the end",
            Self::Read => "read a run",
            Self::List => "list twenty runs",
        }
    }
}

/// What a use costs. The best of several turns: other load on the machine can only slow it down.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) per_second: f64,
    /// Of the host, for one operation.
    pub(crate) processor: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Cost {
    fn keep_best(&mut self, other: Self) {
        if other.per_second > self.per_second {
            (self.per_second, self.p50, self.p99) = (other.per_second, other.p50, other.p99);
        }
        if self.processor.is_zero() || other.processor < self.processor {
            self.processor = other.processor;
        }
    }
}

/// The costs of every use, for each host in the order given, and of a bare handler that sends a run's bytes.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) costs: Vec<[Cost; USES.len()]>,
    /// Where the time of each use goes in the first host; nothing where that cannot be seen.
    pub(crate) stages: [Shares; USES.len()],
    pub(crate) bare: Cost,
}

/// A host under load.
struct Subject {
    host: Host,
    /// A run that has ended.
    ended: String,
}

pub(crate) async fn measure(
    binaries: &[PathBuf],
    folder: &Path,
    arguments: &[&str],
    scale: Scale,
) -> Result<Paths> {
    let mut subjects = Vec::new();
    for (number, binary) in binaries.iter().enumerate() {
        let home = folder.join(format!("paths-{number}"));
        std::fs::create_dir(&home)?;
        let host = Host::start(binary, &home, arguments).await?;
        register_some(host.address, &[NOOP, CHAIN]).await?;
        let ended = watch::create(host.address, NOOP).await?;
        wait_for_end(&mut Connection::open(host.address).await?, &ended).await?;
        subjects.push(Subject { host, ended });
    }
    let mut paths = Paths { costs: vec![Default::default(); subjects.len()], ..Paths::default() };
    for (place, used) in USES.into_iter().enumerate() {
        say::line(format_args!("{}, concurrency {CALLERS}", used.name()));
        for _ in 0..scale.turns {
            for (subject, costs) in subjects.iter().zip(&mut paths.costs) {
                let cost =
                    load(subject.host.address, subject.host.id()?, used, &subject.ended, scale);
                costs[place].keep_best(cost.await?);
            }
        }
        // In a turn of its own: being looked at takes time too.
        let subject = subjects.first().context("no host")?;
        let (address, process) = (subject.host.address, subject.host.id()?);
        if let Some(watched) = stages::watch(process, folder).await? {
            load(address, process, used, &subject.ended, scale).await?;
            paths.stages[place] = watched.end().await?;
        }
    }
    paths.bare = bare(subjects.first().context("no host")?, folder, scale).await?;
    for subject in subjects {
        subject.host.stop().await?;
    }
    Ok(paths)
}

/// The cost of sending the bytes of a run's snapshot and nothing else.
async fn bare(subject: &Subject, folder: &Path, scale: Scale) -> Result<Cost> {
    let request = Request::get(format!("/v1/runs/{}", subject.ended)).bearer(KEY);
    let answer = Connection::open(subject.host.address).await?.send(&request).await?;
    let bare = Bare::start(folder, &answer.body).await?;
    let mut best = Cost::default();
    for _ in 0..scale.turns {
        best.keep_best(load(bare.address, bare.id()?, Use::Read, &subject.ended, scale).await?);
    }
    Ok(best)
}

async fn load(
    address: SocketAddr,
    process: u32,
    used: Use,
    ended: &str,
    scale: Scale,
) -> Result<Cost> {
    let total = scale.runs[2] / 2;
    let left = Arc::new(AtomicUsize::new(total));
    let mut clients = Vec::new();
    for _ in 0..CALLERS {
        let connection = Connection::open(address).await?;
        clients.push(Client { connection, used, ended: ended.to_owned() });
    }
    let (before, started) = (processor_time(process)?, Instant::now());
    let mut tasks = JoinSet::new();
    for client in clients {
        tasks.spawn(client.work(Arc::clone(&left)));
    }
    let mut times = Vec::with_capacity(total);
    for part in tasks.join_all().await {
        times.extend(part?);
    }
    let elapsed = started.elapsed();
    times.sort();
    Ok(Cost {
        per_second: total as f64 / elapsed.as_secs_f64(),
        processor: (processor_time(process)? - before) / u32::try_from(total)?,
        p50: super::load::percentile(&times, 0.5),
        p99: super::load::percentile(&times, 0.99),
    })
}

struct Client {
    connection: Connection,
    used: Use,
    ended: String,
}

impl Client {
    async fn work(mut self, left: Arc<AtomicUsize>) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let is_left = || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        };
        while is_left() {
            let started = Instant::now();
            self.once().await?;
            times.push(started.elapsed());
        }
        Ok(times)
    }

    async fn once(&mut self) -> Result<()> {
        match self.used {
            Use::Create => self.create(NOOP).await.map(drop),
            Use::Poll => {
                let run = self.create(NOOP).await?;
                wait_for_end(&mut self.connection, &run).await
            }
            Use::PollChain => {
                let run = self.create(CHAIN).await?;
                wait_for_end(&mut self.connection, &run).await
            }
            Use::Follow => {
                let run = self.create(NOOP).await?;
                self.follow(&run).await
            }
            Use::Snapshots => {
                let run = self.create(NOOP).await?;
                while !self.snapshot(&run).await? {}
                Ok(())
            }
            Use::Read => {
                let run = self.ended.clone();
                ensure!(self.snapshot(&run).await?, "the run has not ended");
                Ok(())
            }
            Use::List => {
                let request = get("/v1/host/callboard/runs?limit=20");
                let (status, body) = self.connection.exchange(request.as_bytes()).await?;
                ensure!(status == 200, "list answered {status}: {body}");
                Ok(())
            }
        }
    }

    async fn create(&mut self, workflow: &str) -> Result<String> {
        let request = Request::post("/v1/runs", &run_of(workflow)).bearer(KEY).render();
        let (status, body) = self.connection.exchange(&request).await?;
        ensure!(status == 201, "create answered {status}: {body}");
        Ok(field(body, "runId").context("a created run without runId")?.to_owned())
    }

    async fn follow(&mut self, run: &str) -> Result<()> {
        let request = get(&format!("/v1/runs/{run}/events"));
        let answer = self.connection.send_bytes(request.as_bytes()).await?;
        ensure!(answer.status == 200, "a stream answered {}", answer.status);
        let is_whole = answer.text().contains("event: run.completed");
        ensure!(is_whole, "the stream ended before its run: {}", answer.text());
        Ok(())
    }

    /// Whether the run has completed.
    async fn snapshot(&mut self, run: &str) -> Result<bool> {
        let request = get(&format!("/v1/runs/{run}"));
        let (status, body) = self.connection.exchange(request.as_bytes()).await?;
        ensure!(status == 200, "a run answered {status}: {body}");
        Ok(body.contains("\"status\":\"completed\""))
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: callboard\r\nauthorization: Bearer {KEY}\r\n\r\n")
}
