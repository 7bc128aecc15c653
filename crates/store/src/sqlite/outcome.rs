//! Outcomes of idempotent requests: kept once per key, forgotten after they expire.

use rusqlite::{Connection, params};

use callboard_engine::{Digest, Outcome, StoreError};
use callboard_protocol::Timestamp;

use super::fault::Fault;
use super::rows::{execute, time};

pub(super) fn find(db: &Connection, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT request, status, body, expires_at FROM outcomes WHERE key = ?1 AND expires_at > ?2",
    )?;
    let mut rows = select.query(params![key.as_slice(), at.as_millis()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Outcome {
        key: *key,
        request: row.get(0)?,
        status: row.get(1)?,
        body: row.get(2)?,
        expires_at: time(row, 3)?,
    }))
}

pub(super) fn refuse_known(db: &Connection, outcome: &Outcome, at: Timestamp) -> Result<(), Fault> {
    match find(db, &outcome.key, at)? {
        Some(done) => Err(StoreError::AlreadyDone(Box::new(done)).into()),
        None => Ok(()),
    }
}

/// Refuses when the key has an outcome that is still good; replaces one that has expired.
pub(super) fn keep(db: &Connection, outcome: &Outcome, at: Timestamp) -> Result<(), Fault> {
    refuse_known(db, outcome, at)?;
    execute(
        db,
        "INSERT INTO outcomes (key, request, status, body, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (key) DO UPDATE
         SET request = excluded.request, status = excluded.status, body = excluded.body, expires_at = excluded.expires_at",
        params![
            outcome.key.as_slice(),
            outcome.request.as_slice(),
            outcome.status,
            outcome.body,
            outcome.expires_at.as_millis(),
        ],
    )?;
    forget_some(db, at)
}

/// Every new outcome takes two expired ones away, so the table shrinks to what is still good without a sweeper.
fn forget_some(db: &Connection, at: Timestamp) -> Result<(), Fault> {
    let sql =
        "DELETE FROM outcomes WHERE id IN (SELECT id FROM outcomes WHERE expires_at <= ?1 LIMIT 2)";
    execute(db, sql, params![at.as_millis()])?;
    Ok(())
}
