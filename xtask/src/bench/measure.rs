//! The order of a benchmark: start-up, memory, raw limits and load by turns, chains, streams, live agents.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::console::{self, Console};
use super::definitions::{self, CHAIN, NOOP, WAIT};
use super::fires::{self, Fires};
use super::lists::{self, Lists};
use super::live::{self, Live};
use super::load::{self, Sample};
use super::paths::{self, Paths};
use super::steps::{self, Steps};
use super::together::Together;
use super::{Part, Scale};
use super::{raw, watch};
use crate::child::Host;
use crate::say;
use crate::wire::{Connection, Request};

pub(crate) const KEY: &str = "bench-0123456789abcdef0123456789abcdef";

pub(crate) const CALLERS: [usize; 3] = [1, 16, 64];

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) quick: bool,
    pub(crate) machine: String,
    pub(crate) flushes: f64,
    /// Runs per second through bare SQLite, for each number of callers.
    pub(crate) raw: [f64; 3],
    pub(crate) noop: [Option<Sample>; 3],
    /// Processor time of the host per no-op run at the highest concurrency.
    pub(crate) cpu_per_run: Duration,
    /// The same of the load generator, which the host has to share the cores with.
    pub(crate) generator_per_run: Duration,
    pub(crate) commits_per_run: Option<f64>,
    pub(crate) chain: [Option<Sample>; 2],
    /// Time per event in a log of a thousand and of ten thousand events.
    pub(crate) per_event: [Duration; 2],
    pub(crate) steps: Steps,
    pub(crate) lags: Vec<Duration>,
    pub(crate) ready_empty: Duration,
    pub(crate) ready_full: Duration,
    pub(crate) idle_kb: u64,
    pub(crate) held_runs: usize,
    pub(crate) held_kb: u64,
    pub(crate) streams: usize,
    pub(crate) stream_kb: f64,
    pub(crate) together: Together,
    /// None where it was not asked for, like the next.
    pub(crate) fires: Option<Fires>,
    pub(crate) live: Option<Live>,
    pub(crate) paths: Option<Paths>,
    pub(crate) lists: Option<Lists>,
    pub(crate) console: Option<Console>,
}

/// Measures `binary`, and what clients do also with `against`, by turns.
pub(crate) async fn all(
    binary: &Path,
    against: Option<&Path>,
    folder: &Path,
    scale: Scale,
    only: Option<Part>,
) -> Result<Figures> {
    let is_wanted = |part| only.is_none_or(|only| only == part);
    let mut figures = Figures { quick: scale.quick, machine: machine(), ..Figures::default() };
    let config = folder.join("callboard.toml");
    fs::write(&config, "[limits]\nmax_node_executions = 100000\n")?;
    let config = config.to_str().context("the folder's path is no UTF-8")?.to_owned();
    let arguments = ["--api-key", KEY, "--config", config.as_str()];
    if is_wanted(Part::Runs) {
        runs(&mut figures, binary, folder, &arguments, scale).await?;
    }
    if is_wanted(Part::Fires) {
        let home = folder.join("fires");
        fs::create_dir(&home)?;
        let host = Host::start(binary, &home, &arguments).await?;
        register(host.address).await?;
        figures.fires = Some(fires::measure(&host, scale).await?);
        host.stop().await?;
    }
    if is_wanted(Part::Live) {
        figures.live = Some(live::all(binary, folder, scale).await?);
    }
    if is_wanted(Part::Paths) {
        let binaries: Vec<_> =
            [Some(binary), against].into_iter().flatten().map(Path::to_owned).collect();
        figures.paths = Some(paths::measure(&binaries, folder, &arguments, scale).await?);
    }
    if is_wanted(Part::Lists) {
        figures.lists = Some(lists::measure(binary, folder, &arguments, scale).await?);
    }
    if is_wanted(Part::Console) {
        figures.console = Some(console::all(binary, folder, &arguments, scale).await?);
    }
    Ok(figures)
}

async fn runs(
    figures: &mut Figures,
    binary: &Path,
    folder: &Path,
    arguments: &[&str],
    scale: Scale,
) -> Result<()> {
    say::line("start-up");
    figures.ready_empty = start_up(binary, folder, arguments, scale.starts).await?;
    let home = folder.join("host");
    fs::create_dir(&home)?;
    let host = Host::start(binary, &home, arguments).await?;
    // Long enough for whatever a host does right after its start.
    tokio::time::sleep(Duration::from_secs(2)).await;
    figures.idle_kb = resident_kb(host.id()?)?;

    register(host.address).await?;
    load::drive(host.address, &run_of(NOOP), 1, 1).await?;
    host.stop().await?;
    let model = raw::Model::copy(&home.join("data/callboard.db"))?;
    figures.flushes = raw::flushes_per_second(folder, Duration::from_secs(1))?;

    let host = Host::start(binary, &home, arguments).await?;
    figures.together = Together::begin(host.address).await?;
    // First, so that what is resident afterwards is due to so many runs; it also warms up what follows.
    memory(figures, &host, scale).await?;
    for (place, callers) in CALLERS.into_iter().enumerate() {
        say::line(format_args!("no-op runs, concurrency {callers}"));
        // By turns, and the best of each counts: a neighbour on the machine can only slow one of them down.
        for turn in 0..scale.turns {
            let path = folder.join(format!("raw-{callers}-{turn}.db"));
            let raw = raw::runs_per_second(&model, &path, callers, scale.runs[place]).await?;
            figures.raw[place] = figures.raw[place].max(raw);
            noop(figures, &host, &home, place, scale).await?;
        }
    }
    chains(figures, host.address, scale).await?;
    figures.steps = steps::measure(host.address, binary, folder, scale).await?;
    figures.together.end(host.address, scale.fills).await?;
    host.stop().await?;
    let host = Host::start(binary, &home, arguments).await?;
    figures.ready_full = host.ready_in;
    host.stop().await
}

async fn noop(
    figures: &mut Figures,
    host: &Host,
    home: &Path,
    place: usize,
    scale: Scale,
) -> Result<()> {
    let (host_id, own_id) = (host.id()?, std::process::id());
    let before = commits(home);
    let (cpu, own_cpu) = (processor_time(host_id)?, processor_time(own_id)?);
    let sample =
        load::drive(host.address, &run_of(NOOP), CALLERS[place], scale.runs[place]).await?;
    let runs = u32::try_from(sample.ends.len())?;
    if CALLERS[place] == 1 {
        let made = before.and_then(|before| Some(commits(home)?.wrapping_sub(before)));
        figures.commits_per_run = made.map(|made| f64::from(made) / f64::from(runs));
    }
    let best =
        figures.noop[place].as_ref().is_none_or(|best| best.per_second() < sample.per_second());
    if best {
        figures.cpu_per_run = (processor_time(host_id)? - cpu) / runs;
        figures.generator_per_run = (processor_time(own_id)? - own_cpu) / runs;
        figures.noop[place] = Some(sample);
    }
    Ok(())
}

async fn chains(figures: &mut Figures, address: SocketAddr, scale: Scale) -> Result<()> {
    say::line("chains");
    let few = scale.runs[0];
    figures.chain[0] = Some(load::drive(address, &run_of(CHAIN), 1, few).await?);
    figures.chain[1] = Some(load::drive(address, &run_of(CHAIN), 64, scale.runs[2] / 4).await?);
    for (place, (workflow, _)) in definitions::ROUNDS.into_iter().enumerate() {
        let mut times = Vec::new();
        for _ in 0..scale.rounds {
            let (elapsed, events) = load::time_unread(address, workflow).await?;
            times.push(elapsed / u32::try_from(events)?);
        }
        times.sort();
        figures.per_event[place] = load::percentile(&times, 0.5);
    }
    say::line("lag of streams");
    figures.lags = watch::lags(address).await?;
    Ok(())
}

async fn memory(figures: &mut Figures, host: &Host, scale: Scale) -> Result<()> {
    say::line("memory");
    load::drive(host.address, &run_of(NOOP), 64, scale.held_runs).await?;
    figures.held_runs = scale.held_runs;
    figures.held_kb = settled_kb(host.id()?).await?;
    let run = watch::create(host.address, WAIT).await?;
    let mut open = Vec::new();
    for _ in 0..scale.streams {
        let mut frames = watch::open(host.address, &run).await?;
        // The first frame shows that the host serves the stream.
        ensure!(frames.next().await?.is_some(), "a stream without a frame");
        open.push(frames);
    }
    let with_streams = settled_kb(host.id()?).await?;
    figures.streams = open.len();
    figures.stream_kb = with_streams.saturating_sub(figures.held_kb) as f64 / open.len() as f64;
    Ok(())
}

async fn settled_kb(process: u32) -> Result<u64> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    resident_kb(process)
}

/// The median over fresh folders.
async fn start_up(
    binary: &Path,
    folder: &Path,
    arguments: &[&str],
    times: usize,
) -> Result<Duration> {
    let mut all = Vec::new();
    for number in 0..times {
        let home = folder.join(format!("start-{number}"));
        fs::create_dir(&home)?;
        let host = Host::start(binary, &home, arguments).await?;
        all.push(host.ready_in);
        host.stop().await?;
    }
    all.sort();
    Ok(load::percentile(&all, 0.5))
}

pub(crate) async fn register(address: SocketAddr) -> Result<()> {
    for definition in definitions::all() {
        put(address, &definition).await?;
    }
    Ok(())
}

/// For a binary that may be older than this benchmark and not run everything that it knows.
pub(crate) async fn register_some(address: SocketAddr, ids: &[&str]) -> Result<()> {
    let is_wanted = |it: &Value| ids.iter().any(|id| it["id"] == *id);
    for definition in definitions::all().into_iter().filter(is_wanted) {
        put(address, &definition).await?;
    }
    Ok(())
}

pub(crate) async fn put(address: SocketAddr, definition: &Value) -> Result<()> {
    let request = Request::post("/v1/host/callboard/workflows", definition).bearer(KEY);
    let answer = Connection::open(address).await?.send(&request).await?;
    ensure!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text());
    Ok(())
}

pub(crate) fn run_of(workflow: &str) -> Value {
    json!({ "workflowId": workflow })
}

fn resident_kb(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no VmRSS")?.parse()?)
}

/// User and system time. The kernel counts in hundredths of a second.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = line.rsplit_once(')').context("no process name")?.1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u64 = fields.get(11).context("no utime")?.parse::<u64>()?
        + fields.get(12).context("no stime")?.parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// SQLite's own count of committed transactions, from the header of the write-ahead log's index.
fn commits(home: &Path) -> Option<u32> {
    const CHANGES_AT: u64 = 8;
    let mut file = fs::File::open(home.join("data/callboard.db-shm")).ok()?;
    file.seek(SeekFrom::Start(CHANGES_AT)).ok()?;
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes).ok()?;
    Some(u32::from_ne_bytes(bytes))
}

fn machine() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |line: &&str| line.starts_with("model name");
    let model = information
        .lines()
        .find(named)
        .and_then(|line| line.split(": ").nth(1))
        .unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {model}, Linux {}", kernel.trim())
}
