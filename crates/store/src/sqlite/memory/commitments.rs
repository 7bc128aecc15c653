//! Commitments whose time has come, of every tenant.

use rusqlite::{Connection, params};

use callboard_engine::{Commitment, Due, KeyMode, Scope};
use callboard_protocol::{HeartbeatId, Timestamp};

use crate::sqlite::fault::Fault;
use crate::sqlite::rows::{execute, optional_time, signed, time, unsigned};

/// The index gives the order, so that no more are read than are asked for.
pub(in crate::sqlite) const DUE: &str =
    "SELECT memory.tenant, memory.workspace, memory.test, memory.entry_id, memory.version,
         memory.memory_ref, commitments.due_at, memory.expires_at, memory.position,
         commitments.due_on
     FROM commitments CROSS JOIN memory ON memory.position = commitments.position
     WHERE commitments.due_at <= ?1 ORDER BY commitments.due_at, commitments.position LIMIT ?2";

pub(super) fn due(db: &Connection, at: Timestamp, limit: usize) -> Result<Vec<Commitment>, Fault> {
    let mut select = db.prepare_cached(DUE)?;
    let mut rows = select.query(params![at.as_millis(), signed(limit as u64)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (tenant, workspace): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let mode = KeyMode::of(row.get(2)?);
        let id: String = row.get(3)?;
        found.push(Commitment {
            owner: Scope { tenant: tenant.into(), workspace: workspace.map(Into::into), mode },
            id: id.into(),
            version: unsigned(row, 4)?,
            memory_ref: row.get(5)?,
            due_at: time(row, 6)?,
            expires_at: optional_time(row, 7)?,
            position: unsigned(row, 8)?,
            due_on: row.get::<_, Option<String>>(9)?.map(Into::into),
        });
    }
    Ok(found)
}

/// Beyond any time, until what it waits for happens.
const NOT_YET: i64 = i64::MAX;

pub(super) fn insert(db: &Connection, position: i64, due: &Due) -> Result<(), Fault> {
    let (due_at, due_on) = match due {
        Due::At(at) => (at.as_millis(), None),
        Due::On(heartbeat) => (NOT_YET, Some(heartbeat.as_str())),
    };
    let sql = "INSERT INTO commitments (position, due_at, due_on) VALUES (?1, ?2, ?3)";
    execute(db, sql, params![position, due_at, due_on])?;
    Ok(())
}

pub(super) fn come_due(
    db: &Connection,
    owner: &Scope,
    heartbeat: &HeartbeatId,
    at: Timestamp,
) -> Result<(), Fault> {
    let sql = "UPDATE commitments SET due_at = ?1
         WHERE due_on = ?2 AND due_at = ?3 AND position IN (
             SELECT position FROM memory WHERE tenant = ?4 AND test = ?5 AND workspace IS ?6)";
    let (tenant, workspace) = (owner.tenant.as_str(), owner.workspace.as_ref());
    let workspace = workspace.map(|workspace| workspace.as_str());
    let test = owner.mode == KeyMode::Test;
    execute(
        db,
        sql,
        params![at.as_millis(), heartbeat.as_str(), NOT_YET, tenant, test, workspace],
    )?;
    Ok(())
}
