//! The machine's raw limits: plain flushes, and the same rows through bare SQLite with group commit.
//!
//! The schema and the texts of one real no-op run are copied from a database that the host wrote, so
//! that the bare store writes what the host writes. The statements are the host's own, without its
//! checks: a create (the definition looked up, a head and a birth record written), then an append (the
//! head looked up and rewritten, four events and a snapshot written).

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// How often a page can be written and flushed in a second.
pub(crate) fn flushes_per_second(folder: &Path, time: Duration) -> Result<f64> {
    let mut file = File::create(folder.join("flushes"))?;
    let page = [7_u8; 4096];
    let (started, mut count) = (Instant::now(), 0_u32);
    while started.elapsed() < time {
        // Round and round in 4 MB, as a log does that is reused after each checkpoint.
        file.seek(SeekFrom::Start(u64::from(count % 1024) * 4096))?;
        file.write_all(&page)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// One no-op run as rows, and the schema around them.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    schema: Vec<String>,
    definition: (String, String),
    birth: String,
    events: Vec<(String, Option<String>, String)>,
    snapshot: String,
}

impl Model {
    /// Copies the newest run of a database that the host has left.
    pub(crate) fn copy(database: &Path) -> Result<Self> {
        let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let texts = |sql: &str| -> Result<Vec<String>> {
            let mut statement = db.prepare(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        let schema = texts(
            // A full-text table makes its shadow tables itself.
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
             AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')",
        )?;
        let run: i64 =
            db.query_row("SELECT max(id) FROM runs WHERE status = 'completed'", [], |row| {
                row.get(0)
            })?;
        let birth =
            db.query_row("SELECT record FROM births WHERE run = ?1", [run], |row| row.get(0))?;
        let definition = db.query_row(
            "SELECT d.digest, d.source FROM definitions d JOIN births b ON b.definition = d.id WHERE b.run = ?1",
            [run],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut statement =
            db.prepare("SELECT kind, node, payload FROM events WHERE run = ?1 ORDER BY sequence")?;
        let rows = statement.query_map([run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let events = rows.collect::<Result<Vec<_>, _>>()?;
        let snapshot =
            db.query_row("SELECT body FROM snapshots WHERE run = ?1", [run], |row| row.get(0))?;
        ensure!(
            events.len() == 4,
            "a no-op run of {} events; adapt xtask/src/bench/raw.rs",
            events.len()
        );
        Ok(Self { schema, definition, birth, events, snapshot })
    }

    /// A database with the same schema and the same settings.
    fn open(&self, path: &Path) -> Result<Connection> {
        let db = Connection::open(path)?;
        db.execute_batch(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 67108864;",
        )?;
        for statement in &self.schema {
            db.execute_batch(statement)?;
        }
        let (digest, source) = &self.definition;
        db.execute("INSERT INTO definitions (digest, source) VALUES (?1, ?2)", [digest, source])?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(db)
    }

    fn create(&self, db: &Connection, run: &str, number: i64) -> Result<(), rusqlite::Error> {
        let definition: i64 = db
            .prepare_cached("SELECT id FROM definitions WHERE digest = ?1")?
            .query_row([&self.definition.0], |row| row.get(0))?;
        db.prepare_cached(
            "INSERT INTO runs (run_id, tenant, workspace, test, workflow_id, scope_id, engine_version, stamped_version,
                 created_at, updated_at, status, version, wake_at, holder, epoch, lease_until)
             VALUES (?1, 'default', NULL, 0, 'bench-noop', NULL, 1, 1, ?2, ?2, 'pending', 0, ?2, 'host', 1, ?2)",
        )?
        .execute(params![run, number])?;
        db.prepare_cached(
            "INSERT INTO births (run, record, sealed_inputs, definition) VALUES (?1, ?2, NULL, ?3)",
        )?
        .execute(params![db.last_insert_rowid(), self.birth, definition])?;
        Ok(())
    }

    fn append(&self, db: &Connection, run: &str, number: i64) -> Result<(), rusqlite::Error> {
        let id: i64 = db
            .prepare_cached("SELECT id, version, holder, epoch, lease_until, wake_at FROM runs WHERE run_id = ?1")?
            .query_row([run], |row| row.get(0))?;
        let mut insert = db.prepare_cached(
            "INSERT INTO events (run, sequence, at, kind, node, payload, sealed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL)",
        )?;
        for (sequence, (kind, node, payload)) in (0_i64..).zip(&self.events) {
            insert.execute(params![id, sequence, number, kind, node, payload])?;
        }
        db.prepare_cached(
            "UPDATE runs SET status = 'completed', version = 4, updated_at = ?2, wake_at = NULL, holder = NULL,
                 lease_until = NULL WHERE id = ?1",
        )?
        .execute(params![id, number])?;
        db.prepare_cached(
            "INSERT OR REPLACE INTO snapshots (run, version, body) VALUES (?1, 4, ?2)",
        )?
        .execute(params![id, self.snapshot])?;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Append,
}

struct Job {
    step: Step,
    run: String,
    done: oneshot::Sender<()>,
}

/// No more callers than this ever wait.
const QUEUE: usize = 256;

/// No-op runs per second through one writing thread that commits whatever waits.
pub(crate) async fn runs_per_second(
    model: &Model,
    path: &Path,
    callers: usize,
    total: usize,
) -> Result<f64> {
    let (jobs, queue) = mpsc::channel(QUEUE);
    let (db, rows) = (model.open(path)?, model.clone());
    let writer = thread::spawn(move || write(&db, &rows, queue));
    let left = Arc::new(AtomicUsize::new(total));
    let numbers = Arc::new(AtomicI64::new(0));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        tasks.spawn(caller(jobs.clone(), Arc::clone(&left), Arc::clone(&numbers)));
    }
    drop(jobs);
    let outcomes: Vec<Result<()>> = tasks.join_all().await;
    let elapsed = started.elapsed();
    writer.join().map_err(|_| anyhow::anyhow!("the writer broke"))??;
    outcomes.into_iter().collect::<Result<()>>()?;
    Ok(total as f64 / elapsed.as_secs_f64())
}

async fn caller(
    jobs: mpsc::Sender<Job>,
    left: Arc<AtomicUsize>,
    numbers: Arc<AtomicI64>,
) -> Result<()> {
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        // As long as a real id, and like one in ascending order.
        let run = format!("run_{:032x}", numbers.fetch_add(1, Ordering::Relaxed));
        for step in [Step::Create, Step::Append] {
            let (done, committed) = oneshot::channel();
            jobs.send(Job { step, run: run.clone(), done })
                .await
                .ok()
                .context("the writer is gone")?;
            committed.await?;
        }
    }
    Ok(())
}

fn write(db: &Connection, model: &Model, mut queue: mpsc::Receiver<Job>) -> Result<()> {
    let mut batch = Vec::with_capacity(QUEUE);
    let mut number = 1_763_251_200_000;
    while queue.blocking_recv_many(&mut batch, QUEUE) > 0 {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for job in &batch {
            number += 1;
            match job.step {
                Step::Create => model.create(db, &job.run, number)?,
                Step::Append => model.append(db, &job.run, number)?,
            }
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        for job in batch.drain(..) {
            // A caller that went away needs no answer.
            let _unheard = job.done.send(());
        }
    }
    Ok(())
}
