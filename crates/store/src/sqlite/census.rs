//! Counting what operators watch, beside a host that serves.

use std::fs;

use rusqlite::{Connection, Row, params};

use callboard_core::BUDGET_QUESTION;
use callboard_engine::{Census, Queue, QueuePlace, RunGroup, StoreError, WATCHED, Wakes};
use callboard_protocol::{InterruptKind, Tenant, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::open::DATABASE;
use super::rows::{status, time, unsigned};

/// A column of the queue, for runs that could go on.
macro_rules! queued {
    ($column:literal) => {
        concat!(
            "CASE WHEN wake_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?2) THEN ",
            $column,
            " END"
        )
    };
}

/// Runs that have not ended are found in the index of those that are not completed, which is small.
pub(super) const RUNS: &str = concat!(
    "SELECT status, lease_until IS NOT NULL AND lease_until > ?2,
         status LIKE 'waiting-%' AND EXISTS (SELECT 1 FROM interrupts AS asked
             WHERE asked.run = runs.id AND asked.data ->> 'artifactType' = ?3),
         CASE WHEN wake_at IS NULL THEN 2 WHEN wake_at <= ?1 THEN 0 ELSE 1 END,
         count(*), min(updated_at), ",
    queued!("tenant"), ", ", queued!("workflow_id"), ", ", queued!("agents"), ", ", queued!("priority"),
    " FROM runs INDEXED BY runs_by_status
     WHERE status <> 'completed' AND status NOT IN ('failed', 'cancelled') GROUP BY 1, 2, 3, 4, 7, 8, 9, 10"
);

pub(super) const QUESTIONS: &str =
    "SELECT kind, count(*), min(requested_at) FROM interrupts GROUP BY kind";

pub(super) const RECORDS: &str = "SELECT count(*) FROM records WHERE kind = ?1";

impl SqliteStore {
    /// Everything of one moment. Leases are judged by the clock that only counts.
    pub async fn census(&self, now: Timestamp, counted: Timestamp) -> Result<Census, StoreError> {
        let path = self.folder.join(DATABASE);
        let size = |path| fs::metadata(path).map_or(0, |file| file.len());
        let bytes = size(path.clone()) + size(path.with_extension("db-wal"));
        let census = self.readers.read(move |db| count(db, now, counted)).await?;
        Ok(Census { bytes, ..census })
    }
}

pub(super) const STORED: &str = "SELECT tenant, count(*) FROM runs GROUP BY tenant";

impl SqliteStore {
    /// How many runs of each tenant there are.
    pub async fn stored_runs(&self) -> Result<Vec<(Tenant, u64)>, StoreError> {
        self.readers.read(stored).await
    }
}

fn stored(db: &Connection) -> Result<Vec<(Tenant, u64)>, Fault> {
    let mut select = db.prepare_cached(STORED)?;
    let mut rows = select.query([])?;
    let mut stored = Vec::new();
    while let Some(row) = rows.next()? {
        stored.push((row.get::<_, String>(0)?.into(), unsigned(row, 1)?));
    }
    Ok(stored)
}

fn place(row: &Row<'_>, first: usize) -> Result<Option<QueuePlace>, Fault> {
    let Some(tenant) = row.get::<_, Option<String>>(first)? else { return Ok(None) };
    let queue = Queue {
        tenant: tenant.into(),
        workflow: row.get::<_, String>(first + 1)?.into(),
        agents: row.get(first + 2)?,
    };
    Ok(Some(QueuePlace { queue, rank: row.get(first + 3)? }))
}

fn count(db: &Connection, now: Timestamp, counted: Timestamp) -> Result<Census, Fault> {
    let mut census = Census::default();
    let mut select = db.prepare_cached(RUNS)?;
    let moment = params![now.as_millis(), counted.as_millis(), BUDGET_QUESTION];
    let mut rows = select.query(moment)?;
    while let Some(row) = rows.next()? {
        census.runs.push(RunGroup {
            status: status(row, 0)?,
            is_held: row.get(1)?,
            is_about_budget: row.get(2)?,
            wakes: Wakes::from_number(row.get(3)?),
            runs: unsigned(row, 4)?,
            since: time(row, 5)?,
            place: place(row, 6)?,
        });
    }
    let mut select = db.prepare_cached(QUESTIONS)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let kind = InterruptKind::from_name(&kind)
            .ok_or_else(|| Fault::unreadable("an interrupt", format!("unknown kind {kind}")))?;
        census.questions.push((kind, unsigned(row, 1)?, time(row, 2)?));
    }
    for kind in WATCHED {
        let count: i64 =
            db.prepare_cached(RECORDS)?.query_row([kind.as_str()], |row| row.get(0))?;
        census.records.push((kind, count.unsigned_abs()));
    }
    Ok(census)
}
