//! What clients do with a host, each with its rate and its processor time: create, follow, poll, read, list. Several
//! hosts, such as two versions, are measured by turns.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::Scale;
use super::bare::Bare;
use super::definitions::{CHAIN, NOOP};
use super::load::{field, wait_for_end};
use super::measure::{KEY, processor_time, register_some, run_of};
use super::stages::{self, Shares};
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
    pub(crate) fn keep_best(&mut self, other: Self) {
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

/// A host under load, whoever has started it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// None where its processor time cannot be seen.
    pub(crate) process: Option<u32>,
    pub(crate) key: String,
    pub(crate) workflow: String,
    /// A run that has ended.
    pub(crate) ended: String,
}

impl Target {
    /// Knows no run yet.
    pub(crate) fn new(
        address: SocketAddr,
        process: Option<u32>,
        key: &str,
        workflow: &str,
    ) -> Self {
        let (key, workflow) = (key.to_owned(), workflow.to_owned());
        Self { address, process, key, workflow, ended: String::new() }
    }

    /// Creates a run and waits for its end, so that there is one to read.
    pub(crate) async fn prepare(mut self) -> Result<Self> {
        let connection = Connection::open(self.address).await?;
        let mut client = Client { connection, used: Use::Snapshots, target: self.clone() };
        let run = client.create(&self.workflow).await?;
        client.until_ended(&run).await?;
        self.ended = run;
        Ok(self)
    }
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
        let target = Target::new(host.address, Some(host.id()?), KEY, NOOP).prepare().await?;
        subjects.push((host, target));
    }
    let mut paths = Paths { costs: vec![Default::default(); subjects.len()], ..Paths::default() };
    for (place, used) in USES.into_iter().enumerate() {
        say::line(format_args!("{}, concurrency {CALLERS}", used.name()));
        for _ in 0..scale.turns {
            for ((_, target), costs) in subjects.iter().zip(&mut paths.costs) {
                costs[place].keep_best(load(target, used, scale.runs[2] / 2).await?);
            }
        }
        // In a turn of its own: being looked at takes time too.
        let (host, target) = subjects.first().context("no host")?;
        if let Some(watched) = stages::watch(host.id()?, folder).await? {
            load(target, used, scale.runs[2] / 2).await?;
            paths.stages[place] = watched.end().await?;
        }
    }
    paths.bare = bare(&subjects.first().context("no host")?.1, folder, scale).await?;
    for (host, _) in subjects {
        host.stop().await?;
    }
    Ok(paths)
}

/// The cost of sending the bytes of a run's snapshot and nothing else.
async fn bare(target: &Target, folder: &Path, scale: Scale) -> Result<Cost> {
    let request = Request::get(format!("/v1/runs/{}", target.ended)).bearer(&target.key);
    let answer = Connection::open(target.address).await?.send(&request).await?;
    let bare = Bare::start(folder, &answer.body).await?;
    let target = Target { address: bare.address, process: Some(bare.id()?), ..target.clone() };
    let mut best = Cost::default();
    for _ in 0..scale.turns {
        best.keep_best(load(&target, Use::Read, scale.runs[2] / 2).await?);
    }
    Ok(best)
}

/// Does the same so often from all connections together.
pub(crate) async fn load(target: &Target, used: Use, total: usize) -> Result<Cost> {
    let seen = || target.process.map_or(Ok(Duration::ZERO), processor_time);
    let left = Arc::new(AtomicUsize::new(total));
    let mut clients = Vec::new();
    for _ in 0..CALLERS {
        let connection = Connection::open(target.address).await?;
        clients.push(Client { connection, used, target: target.clone() });
    }
    let (before, started) = (seen()?, Instant::now());
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
        processor: (seen()? - before) / u32::try_from(total)?,
        p50: super::load::percentile(&times, 0.5),
        p99: super::load::percentile(&times, 0.99),
    })
}

struct Client {
    connection: Connection,
    used: Use,
    target: Target,
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
            Use::Create => self.create(&self.target.workflow.clone()).await.map(drop),
            Use::Poll => {
                let run = self.create(&self.target.workflow.clone()).await?;
                wait_for_end(&mut self.connection, &run).await
            }
            Use::PollChain => {
                let run = self.create(CHAIN).await?;
                wait_for_end(&mut self.connection, &run).await
            }
            Use::Follow => {
                let run = self.create(&self.target.workflow.clone()).await?;
                self.follow(&run).await
            }
            Use::Snapshots => {
                let run = self.create(&self.target.workflow.clone()).await?;
                self.until_ended(&run).await
            }
            Use::Read => {
                let run = self.target.ended.clone();
                ensure!(self.snapshot(&run).await?, "the run has not ended");
                Ok(())
            }
            Use::List => {
                let request = self.get("/v1/host/callboard/runs?limit=20");
                let (status, body) = self.connection.exchange(request.as_bytes()).await?;
                ensure!(status == 200, "list answered {status}: {body}");
                Ok(())
            }
        }
    }

    async fn create(&mut self, workflow: &str) -> Result<String> {
        let request = Request::post("/v1/runs", &run_of(workflow));
        let request = request.bearer(&self.target.key).render();
        let (status, body) = self.connection.exchange(&request).await?;
        ensure!(status == 201, "create answered {status}: {body}");
        Ok(field(body, "runId").context("a created run without runId")?.to_owned())
    }

    async fn follow(&mut self, run: &str) -> Result<()> {
        let request = self.get(&format!("/v1/runs/{run}/events"));
        let answer = self.connection.send_bytes(request.as_bytes()).await?;
        if answer.header("connection") == Some("close") {
            self.connection = Connection::open(self.target.address).await?;
        }
        ensure!(answer.status == 200, "a stream answered {}", answer.status);
        let is_whole = answer.text().contains("event: run.completed");
        ensure!(is_whole, "the stream ended before its run: {}", answer.text());
        Ok(())
    }

    async fn until_ended(&mut self, run: &str) -> Result<()> {
        while !self.snapshot(run).await? {}
        Ok(())
    }

    /// Whether the run has completed.
    async fn snapshot(&mut self, run: &str) -> Result<bool> {
        let request = self.get(&format!("/v1/runs/{run}"));
        let (status, body) = self.connection.exchange(request.as_bytes()).await?;
        ensure!(status == 200, "a run answered {status}: {body}");
        Ok(body.contains("\"status\":\"completed\""))
    }

    fn get(&self, path: &str) -> String {
        let key = &self.target.key;
        format!("GET {path} HTTP/1.1\r\nhost: callboard\r\nauthorization: Bearer {key}\r\n\r\n")
    }
}
