//! Counters: sums that grow with a commit, by key and name.

use rusqlite::{Connection, params};

use callboard_engine::{CounterChange, Key};

use super::fault::Fault;
use super::rows::{execute, signed};

pub(super) fn add(db: &Connection, changes: &[CounterChange]) -> Result<(), Fault> {
    for CounterChange { key, name, add } in changes {
        let sql = "INSERT INTO counters (key, name, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (key, name) DO UPDATE SET value = value + excluded.value";
        execute(db, sql, params![key.as_str(), name, add])?;
    }
    Ok(())
}

pub(super) fn read(db: &Connection, key: &Key) -> Result<Vec<(String, f64)>, Fault> {
    let mut select =
        db.prepare_cached("SELECT name, value FROM counters WHERE key = ?1 ORDER BY name")?;
    let named = select.query_map([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(named.collect::<Result<_, _>>()?)
}

/// A range of the primary key, cut at `most`.
pub(super) fn read_below(
    db: &Connection,
    below: &Key,
    most: usize,
) -> Result<Vec<(Key, String, f64)>, Fault> {
    let (first, last) = below.bounds_below();
    let mut select = db.prepare_cached(
        "SELECT key, name, value FROM counters WHERE key >= ?1 AND key < ?2 ORDER BY key, name LIMIT ?3",
    )?;
    let named = select.query_map(params![first, last, signed(most as u64)], |row| {
        Ok((Key::stored(row.get(0)?), row.get(1)?, row.get(2)?))
    })?;
    Ok(named.collect::<Result<_, _>>()?)
}
