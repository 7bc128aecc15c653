//! Which runs may be removed, and everything that is removed with them.

use std::collections::BTreeSet;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use callboard_engine::{EndedRuns, LogPosition, Removable, RemovableCount};
use callboard_protocol::RunId;

use super::fault::Fault;
use super::rows::{execute, signed};

/// Ended runs that nothing needs, the oldest first. A birth record in its short form has no parent. The run with the
/// newest event of all stays: positions are handed out from there on, and readers of all logs must not meet one twice.
const REMOVABLE: &str = "(runs.status = 'completed' OR runs.status = 'failed' OR runs.status = 'cancelled')
         AND runs.updated_at < ?
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.prefix_of = runs.id)
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.forked_from = runs.id)
         AND NOT EXISTS (
             SELECT 1 FROM runs AS above
             WHERE above.run_id = CASE WHEN substr(births.record, 1, 1) = '{' THEN births.record ->> '$.parent.runId' END
                 AND above.status NOT IN ('completed', 'failed', 'cancelled'))
         AND NOT EXISTS (
             SELECT 1 FROM events JOIN runs AS below ON below.run_id = events.payload ->> '$.childRunId'
             WHERE events.run = runs.id AND events.kind = 'node.dispatched'
                 AND below.status NOT IN ('completed', 'failed', 'cancelled'))
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.run = runs.id AND events.position > ?)
         AND NOT EXISTS (SELECT 1 FROM records WHERE records.run = runs.run_id AND records.retains)
         AND runs.id IS NOT (SELECT run FROM events ORDER BY position DESC LIMIT 1)";

/// A definition goes with the last run that was born with it.
pub(super) const UNUSED: &str = "DELETE FROM definitions WHERE id = ?1
     AND NOT EXISTS (SELECT 1 FROM births WHERE births.definition = ?1)";

/// A megabyte each time, because writers wait for it. The rest is done by the next pass.
const VACUUM: &str = "PRAGMA incremental_vacuum(256)";

/// The runs that may go in SQL, with what is wanted of each, and the values.
pub(super) fn statement(
    wanted: &str,
    removable: &Removable,
    read_until: Option<LogPosition>,
) -> (String, Vec<Value>) {
    let read_until = read_until.map_or(i64::MAX, |read| signed(read.0));
    let mut values = vec![removable.before.as_millis().into(), read_until.into()];
    let mut sql =
        format!("SELECT {wanted} FROM runs JOIN births ON births.run = runs.id WHERE {REMOVABLE}");
    let (fits, of) = condition(&removable.of);
    sql.push_str(&format!(" AND {fits}"));
    values.extend(of);
    for except in &removable.except {
        let (fits, of) = condition(except);
        sql.push_str(&format!(" AND NOT ({fits})"));
        values.extend(of);
    }
    (sql, values)
}

fn condition(of: &EndedRuns) -> (String, Vec<Value>) {
    let EndedRuns { tenant, workflow, agent, status } = of;
    let asked = [
        ("runs.tenant = ?", tenant.as_ref().map(ToString::to_string)),
        ("runs.workflow_id = ?", workflow.as_ref().map(ToString::to_string)),
        (
            "EXISTS (SELECT 1 FROM run_agents AS asked WHERE asked.run = runs.id AND asked.agent = ?)",
            agent.clone(),
        ),
        ("runs.status = ?", status.map(|status| status.as_str().to_owned())),
    ];
    let (mut conditions, mut values) = (vec!["TRUE"], Vec::new());
    for (condition, value) in asked {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value.into());
        }
    }
    (conditions.join(" AND "), values)
}

/// How many may go, and the text of their logs and births.
pub(super) fn count(db: &Connection, removable: &Removable) -> Result<RemovableCount, Fault> {
    let wanted = "count(*), coalesce(sum(length(births.record)
         + (SELECT coalesce(sum(length(events.payload)), 0) FROM events WHERE events.run = runs.id)), 0)";
    let (sql, values) = statement(wanted, removable, None);
    let mut select = db.prepare(&sql)?;
    let count = |row: &Row<'_>| {
        Ok(RemovableCount {
            runs: row.get::<_, i64>(0)?.unsigned_abs(),
            bytes: row.get::<_, i64>(1)?.unsigned_abs(),
        })
    };
    Ok(select.query_row(params_from_iter(values), count)?)
}

/// What belongs to a run goes with its row.
pub(super) fn remove(
    db: &Connection,
    removable: &Removable,
    read_until: Option<LogPosition>,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let (mut sql, mut values) =
        statement("runs.id, runs.run_id, births.definition", removable, read_until);
    sql.push_str(" ORDER BY runs.updated_at LIMIT ?");
    values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
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
