//! Hosts on one PostgreSQL beside the same rows without a host, and beside a host on SQLite: by turns, in one run.
//!
//! Bare is what the hot path writes for a no-op run, by two statements over 32 runs on each of two connections: heads and
//! birth records, then heads, events, snapshots and the rows of the feed. The texts are copied from a real run.

mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use super::definitions::NOOP;
use super::measure::{KEY, put, register, run_of};
use super::report::{grouped, time};
use super::{Scale, load};
use crate::child::Host;
use crate::say;
use server::Server;

const CALLERS: usize = 64;
/// Runs of one statement of the bare script.
const BATCH: usize = 32;
const SEAL_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const LEASE: Duration = Duration::from_secs(5);
const TAKEN: &str = "bench-taken";

/// Runs per second, and processor time of the database for each.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    per_second: f64,
    database: Duration,
}

impl Cost {
    fn better(self, other: Self) -> Self {
        if other.per_second > self.per_second { other } else { self }
    }
}

/// Answers the table.
pub(super) async fn measure(binary: &Path, folder: &Path, scale: Scale) -> Result<String> {
    let server = Server::start().await?;
    let bench = Bench { server, binary, folder, total: scale.runs[2] };
    bench.make_model().await?;
    let [mut bare, mut one, mut three, mut embedded] = [Cost::default(); 4];
    for turn in 0..scale.turns {
        say::line(format_args!("bare arrays, one host, three hosts, SQLite: turn {}", turn + 1));
        bare = bare.better(bench.bare(&format!("bare_{turn}"), scale)?);
        one = one.better(bench.hosts(&format!("one_{turn}"), 1).await?);
        three = three.better(bench.hosts(&format!("three_{turn}"), 3).await?);
        embedded = embedded.better(bench.embedded(&format!("embedded_{turn}")).await?);
    }
    let runs = if scale.quick { 200 } else { 1_000 };
    say::line(format_args!("takeover of {runs} runs"));
    let taken = bench.takeover(runs).await?;
    let mut rows = vec![
        ("bare arrays, two connections".to_owned(), shown(bare), String::new()),
        (
            format!("no-op runs, one host, {CALLERS} callers"),
            format!("{} ({:.2} of bare)", shown(one), one.per_second / bare.per_second),
            "at least 0.5 of bare".to_owned(),
        ),
        (
            "— database processor per run".to_owned(),
            format!("{:.2} times bare", ratio(one.database, bare.database)),
            "at most 1.6".to_owned(),
        ),
        (
            format!("no-op runs, three hosts, {CALLERS} callers"),
            format!(
                "{}; {:.2} times one host's",
                shown(three),
                ratio(three.database, one.database)
            ),
            "database processor within 1.2 of one host".to_owned(),
        ),
    ];
    rows.push((
        "no-op runs, one host on SQLite".to_owned(),
        format!(
            "{} runs/s; PostgreSQL {:.2} of it",
            grouped(embedded.per_second),
            one.per_second / embedded.per_second
        ),
        "at least 0.35".to_owned(),
    ));
    rows.push((
        format!("{} runs of a killed host taken over", taken.0),
        format!("after {:.1} s, lease {} s", taken.1.as_secs_f64(), LEASE.as_secs()),
        "lease + 3 s".to_owned(),
    ));
    let mut table = "| what | figure | goal |\n|---|---|---|\n".to_owned();
    for (what, figure, goal) in rows {
        table.push_str(&format!("| {what} | {figure} | {goal} |\n"));
    }
    Ok(table)
}

fn shown(cost: Cost) -> String {
    format!(
        "{} runs/s, {} of the database's processor",
        grouped(cost.per_second),
        time(cost.database)
    )
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

struct Bench<'a> {
    server: Server,
    binary: &'a Path,
    folder: &'a Path,
    total: usize,
}

impl Bench<'_> {
    async fn host(&self, database: &str, name: &str) -> Result<Host> {
        let home = self.folder.join(format!("{database}-{name}"));
        std::fs::create_dir(&home)?;
        let address = self.server.address(database);
        let lease = LEASE.as_millis().to_string();
        let variables =
            [("CALLBOARD_DATABASE_URL", address.as_str()), ("CALLBOARD_SEAL_KEY", SEAL_KEY)];
        Host::start_with(self.binary, &home, &["--api-key", KEY, "--lease", &lease], &variables)
            .await
    }

    fn make(&self, database: &str, template: &str) -> Result<()> {
        let sql = format!("CREATE DATABASE {database} TEMPLATE {template}");
        self.server.query("postgres", &sql)?;
        Ok(())
    }

    /// A database with one no-op run, whose texts the bare rows have.
    async fn make_model(&self) -> Result<()> {
        self.make("model", "template0")?;
        let host = self.host("model", "host").await?;
        register(host.address).await?;
        load::drive(host.address, &run_of(NOOP), 1, 1).await?;
        host.stop().await?;
        let sql = "CREATE TABLE bench_birth AS SELECT record, definition FROM births ORDER BY run DESC LIMIT 1;
             CREATE TABLE bench_events AS SELECT sequence, kind, node, payload FROM events
                 WHERE run = (SELECT max(id) FROM runs WHERE ended_at IS NOT NULL);
             CREATE TABLE bench_snapshot AS SELECT body FROM snapshots ORDER BY run DESC LIMIT 1";
        self.server.query("model", sql)?;
        let events = self.server.query("model", "SELECT count(*) FROM bench_events")?;
        ensure!(events == "4", "a no-op run of {events} events; adapt the bare script");
        Ok(())
    }

    fn bare(&self, database: &str, scale: Scale) -> Result<Cost> {
        self.make(database, "model")?;
        let (began, before) = (Instant::now(), self.server.processor_time()?);
        let time = Duration::from_secs(if scale.quick { 3 } else { 20 });
        let rate = self.server.repeat(database, &bare_script(), time)?;
        let spent = self.server.processor_time()? - before;
        let runs = rate * BATCH as f64 * began.elapsed().as_secs_f64();
        Ok(Cost { per_second: rate * BATCH as f64, database: spent.div_f64(runs) })
    }

    async fn hosts(&self, database: &str, count: usize) -> Result<Cost> {
        self.make(database, "template0")?;
        let mut hosts = Vec::new();
        for number in 0..count {
            hosts.push(self.host(database, &number.to_string()).await?);
        }
        register(hosts[0].address).await?;
        for host in &hosts {
            load::drive(host.address, &run_of(NOOP), 8, 64).await?;
        }
        let before = self.server.processor_time()?;
        let started = Instant::now();
        let mut loads = JoinSet::new();
        for host in &hosts {
            let (address, share) = (host.address, self.total / count);
            loads.spawn(async move {
                load::drive(address, &run_of(NOOP), CALLERS / count, share).await
            });
        }
        let mut runs = 0;
        for sample in loads.join_all().await {
            runs += sample?.ends.len();
        }
        let per_second = runs as f64 / started.elapsed().as_secs_f64();
        let spent = self.server.processor_time()? - before;
        for host in hosts {
            host.stop().await?;
        }
        Ok(Cost { per_second, database: spent / u32::try_from(runs)? })
    }

    async fn embedded(&self, name: &str) -> Result<Cost> {
        let home = self.folder.join(name);
        std::fs::create_dir(&home)?;
        let host = Host::start(self.binary, &home, &["--api-key", KEY]).await?;
        register(host.address).await?;
        load::drive(host.address, &run_of(NOOP), 8, 64).await?;
        let sample = load::drive(host.address, &run_of(NOOP), CALLERS, self.total).await?;
        host.stop().await?;
        Ok(Cost { per_second: sample.per_second(), database: Duration::ZERO })
    }

    /// How many runs a killed host held, and after what time the last of them had another holder.
    async fn takeover(&self, runs: usize) -> Result<(u64, Duration)> {
        self.make("takeover", "template0")?;
        let (one, other) =
            (self.host("takeover", "one").await?, self.host("takeover", "other").await?);
        let node = json!({ "id": "only", "typeId": "core.delay", "name": "Only",
            "position": { "x": 0, "y": 0 }, "config": { "durationMs": 30_000 }, "inputs": {} });
        let workflow = json!({ "id": TAKEN, "name": TAKEN, "version": "1.0", "nodes": [node],
            "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {} });
        put(one.address, &workflow).await?;
        for _ in 0..runs {
            super::watch::create(one.address, TAKEN).await?;
        }
        let holder = "SELECT holder FROM runs WHERE holder IS NOT NULL
             GROUP BY holder ORDER BY count(*) DESC LIMIT 1";
        let holder = self.server.query("takeover", holder)?;
        let held = format!("SELECT count(*) FROM runs WHERE holder = '{holder}'");
        let count: u64 = self.server.query("takeover", &held)?.parse()?;
        ensure!(count > 0, "the runs rest, nobody holds them");
        drop(one);
        let killed = Instant::now();
        while self.server.query("takeover", &held)? != "0" {
            ensure!(killed.elapsed() < Duration::from_secs(60), "nobody takes them over");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let after = killed.elapsed();
        drop(other);
        Ok((count, after))
    }
}

/// One batch: runs are created, then each ends.
fn bare_script() -> String {
    format!(
        "WITH born AS (
    INSERT INTO runs (run_id, tenant, test, workflow_id, prefix_length, is_replay, engine_version, stamped_version,
        created_at, updated_at, status, version, wake_at, holder, epoch, lease_until)
    SELECT 'run_' || replace(gen_random_uuid()::text, '-', ''), 'default', false, 'bench-noop', 0, false, 1, 1,
        1763251200000, 1763251200000, 'pending', 0, 1763251230000, 'host', 1, 1763251230000
    FROM generate_series(1, {BATCH}) RETURNING id),
  begun AS (INSERT INTO births (run, record, definition) SELECT id, record, definition FROM born, bench_birth)
SELECT array_agg(id)::text AS ids FROM born \\gset
WITH moved AS (
    UPDATE runs SET status = 'completed', version = 4, updated_at = 1763251200001, ended_at = 1763251200001,
        ended_as = 'completed', wake_at = NULL, holder = NULL, lease_until = NULL
    WHERE id = ANY(CAST(:ids AS bigint[])) AND version = 0 AND epoch = 1 AND holder = 'host' RETURNING id),
  logged AS (INSERT INTO events (run, sequence, at, kind, node, payload)
    SELECT id, sequence, 1763251200001, kind, node, payload FROM moved, bench_events),
  kept AS (INSERT INTO snapshots (run, version, body) SELECT id, 4, body FROM moved, bench_snapshot)
INSERT INTO log_pending (run, first, count, tenant, test) SELECT id, 0, 4, 'default', false FROM moved;
"
    )
}
