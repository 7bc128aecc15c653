//! Where the bytes of a folder's database are, also beside a host that serves from it.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Row};

use callboard_engine::{Removable, RemovableCount, StoreError};

use super::open::{DATABASE, open_reader};
use super::{OpenError, SqliteStore, retention};
use crate::status::unsigned;

/// Bytes on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// The database itself, and its write-ahead log.
    pub database: u64,
    pub log: u64,
    /// Pages that new data will use; the file shrinks by them over time.
    pub free: u64,
    /// Each table with its indexes, the largest first.
    pub tables: Vec<(String, u64)>,
}

impl SqliteStore {
    /// Reads every page once, and changes nothing.
    pub fn sizes(folder: &Path) -> Result<Sizes, OpenError> {
        let path = folder.join(DATABASE);
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let of_sqlite = |error| OpenError::of_sqlite(&path, &error);
        let db = open_reader(&path).map_err(of_sqlite)?;
        let (free, tables) = count(&db).map_err(of_sqlite)?;
        Ok(Sizes { database: size(&path), log: size(&path.with_extension("db-wal")), free, tables })
    }

    /// How many runs would be removed by now, where readers of all logs have read everything.
    pub async fn count_removable(&self, of: &Removable) -> Result<RemovableCount, StoreError> {
        let of = of.clone();
        self.readers.read(move |db| retention::count(db, &of)).await
    }

    /// How many runs each of these would remove, also beside a host that serves. Changes nothing.
    pub fn count_removable_in(
        folder: &Path,
        removable: &[Removable],
    ) -> Result<Vec<RemovableCount>, OpenError> {
        let path = folder.join(DATABASE);
        let db = open_reader(&path).map_err(|error| OpenError::of_sqlite(&path, &error))?;
        let count = |removable| {
            retention::count(&db, removable).map_err(|fault| OpenError::Damaged {
                path: path.clone(),
                why: StoreError::from(fault).to_string(),
            })
        };
        removable.iter().map(count).collect()
    }
}

type Counted = (u64, Vec<(String, u64)>);

fn count(db: &Connection) -> Result<Counted, rusqlite::Error> {
    let _one_moment = db.unchecked_transaction()?;
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let free = pragma("freelist_count")?.saturating_mul(pragma("page_size")?);
    let sql = "SELECT coalesce(schema.tbl_name, stat.name), sum(stat.pgsize) FROM dbstat AS stat
         LEFT JOIN sqlite_schema AS schema ON schema.name = stat.name
         WHERE stat.aggregate = TRUE GROUP BY 1 ORDER BY 2 DESC, 1";
    let pair = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?)));
    let tables = db.prepare(sql)?.query_map([], pair)?.collect::<Result<_, _>>()?;
    Ok((unsigned(free), tables))
}
