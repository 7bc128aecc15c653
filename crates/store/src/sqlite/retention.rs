//! Which runs may be removed, and everything that is removed with them.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use callboard_engine::LogPosition;
use callboard_protocol::{RunId, Timestamp};

use super::fault::Fault;
use super::rows::{execute, signed};

/// Ended runs that nothing needs, the oldest first. The run with the newest event of all stays: positions are handed
/// out from there on, and readers of all logs must not meet one twice.
pub(super) const REMOVABLE: &str = "SELECT runs.id, runs.run_id, births.definition FROM runs
     JOIN births ON births.run = runs.id
     WHERE (runs.status = 'completed' OR runs.status = 'failed' OR runs.status = 'cancelled')
         AND runs.updated_at < ?1
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.prefix_of = runs.id)
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.forked_from = runs.id)
         AND NOT EXISTS (
             SELECT 1 FROM runs AS above WHERE above.run_id = births.record ->> '$.parent.runId'
                 AND above.status NOT IN ('completed', 'failed', 'cancelled'))
         AND NOT EXISTS (
             SELECT 1 FROM events JOIN runs AS below ON below.run_id = events.payload ->> '$.childRunId'
             WHERE events.run = runs.id AND events.kind = 'node.dispatched'
                 AND below.status NOT IN ('completed', 'failed', 'cancelled'))
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.run = runs.id AND events.position > ?3)
         AND NOT EXISTS (SELECT 1 FROM records WHERE records.run = runs.run_id AND records.retains)
         AND runs.id IS NOT (SELECT run FROM events ORDER BY position DESC LIMIT 1)
     ORDER BY runs.updated_at LIMIT ?2";

/// A definition goes with the last run that was born with it.
pub(super) const UNUSED: &str = "DELETE FROM definitions WHERE id = ?1
     AND NOT EXISTS (SELECT 1 FROM births WHERE births.definition = ?1)";

/// A megabyte each time, because writers wait for it. The rest is done by the next pass.
const VACUUM: &str = "PRAGMA incremental_vacuum(256)";

/// What belongs to a run goes with its row.
pub(super) fn remove(
    db: &Connection,
    before: Timestamp,
    read_until: Option<LogPosition>,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let read_until = read_until.map_or(i64::MAX, |read| signed(read.0));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = db.prepare_cached(REMOVABLE)?;
    let mut rows = select.query(params![before.as_millis(), limit, read_until])?;
    let mut found: Vec<(i64, String)> = Vec::new();
    let mut definitions: BTreeSet<i64> = BTreeSet::new();
    while let Some(row) = rows.next()? {
        found.push((row.get(0)?, row.get(1)?));
        definitions.insert(row.get(2)?);
    }
    for (id, run) in &found {
        execute(db, "DELETE FROM runs WHERE id = ?1", params![id])?;
        execute(db, "DELETE FROM records WHERE run = ?1", params![run])?;
    }
    for definition in definitions {
        execute(db, UNUSED, params![definition])?;
    }
    give_back(db)?;
    Ok(found.into_iter().map(|(_, run)| run.into()).collect())
}

/// Gives pages that have become free back to the file system.
fn give_back(db: &Connection) -> Result<(), Fault> {
    let mut vacuum = db.prepare_cached(VACUUM)?;
    let mut steps = vacuum.raw_query();
    // One page a step.
    while steps.next()?.is_some() {}
    Ok(())
}
