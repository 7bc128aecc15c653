//! Commitments whose time has come, of every tenant.

use rusqlite::{Connection, params};

use callboard_engine::{Commitment, KeyMode, Scope};
use callboard_protocol::Timestamp;

use crate::sqlite::fault::Fault;
use crate::sqlite::rows::{optional_time, signed, time, unsigned};

/// The index gives the order, so that no more are read than are asked for.
pub(in crate::sqlite) const DUE: &str =
    "SELECT memory.tenant, memory.workspace, memory.test, memory.entry_id, memory.version,
         memory.memory_ref, commitments.due_at, memory.expires_at, memory.position
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
        });
    }
    Ok(found)
}
