//! Counters: sums that grow with a commit, by key and name.

use rusqlite::{Connection, params};

use callboard_engine::{CounterChange, CounterQuery, Key};

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

/// One key, or a range of the primary key.
pub(super) fn read(db: &Connection, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, Fault> {
    let ((first, last), most, end) = match of {
        CounterQuery::Of(key) => ((key.to_string(), key.to_string()), -1, "<="),
        CounterQuery::Below { key, most } => (key.bounds_below(), signed(*most as u64), "<"),
    };
    let mut select = db.prepare_cached(&format!(
        "SELECT key, name, value FROM counters WHERE key >= ?1 AND key {end} ?2 ORDER BY key, name LIMIT ?3",
    ))?;
    let named = select.query_map(params![first, last, most], |row| {
        Ok((Key::stored(row.get(0)?), row.get(1)?, row.get(2)?))
    })?;
    Ok(named.collect::<Result<_, _>>()?)
}
