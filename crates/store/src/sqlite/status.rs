//! Counting a database of a data folder, also beside a host that serves from it.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Row};

use super::open::{DATABASE, open_reader};
use super::{OpenError, SqliteStore, migrate};
use crate::status::{self, Status, TABLES};

impl SqliteStore {
    /// Looks into a folder without taking it: nothing is migrated, and a host may go on with it.
    pub fn status(folder: &Path) -> Result<Status, OpenError> {
        let path = folder.join(DATABASE);
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let mut status = Status {
            database: path.display().to_string(),
            schema: None,
            known_schema: migrate::newest(&migrate::runner()),
            bytes: size(&path) + size(&path.with_extension("db-wal")),
            tables: Vec::new(),
            runs: Vec::new(),
            records: Vec::new(),
        };
        if size(&path) > 0 {
            let of_sqlite = |error| OpenError::of_sqlite(&path, &error);
            let db = open_reader(&path).map_err(of_sqlite)?;
            count(&db, &mut status).map_err(of_sqlite)?;
        }
        Ok(status)
    }
}

/// A newer schema may lack what is counted here; then only its number is said.
fn count(db: &Connection, status: &mut Status) -> Result<(), rusqlite::Error> {
    let _one_moment = db.unchecked_transaction()?;
    status.schema = migrate::schema(db)?.filter(|schema| *schema > 0);
    if status.schema.is_none_or(|schema| schema > status.known_schema) {
        return Ok(());
    }
    for table in TABLES {
        let rows = db.query_row(&status::count(table), [], |row| row.get(0))?;
        status.tables.push((table, status::unsigned(rows)));
    }
    let grouped = |sql: &str| -> Result<Vec<(String, u64)>, rusqlite::Error> {
        let pair = |row: &Row<'_>| Ok((row.get(0)?, status::unsigned(row.get(1)?)));
        db.prepare(sql)?.query_map([], pair)?.collect()
    };
    status.runs = grouped(status::RUNS)?;
    status.records = grouped(status::RECORDS)?;
    Ok(())
}
