//! A data folder as one side of a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::memory::owner_word;
use super::migrate;
use super::open::{DATABASE, KEY, open_reader, prepare_writer};
use super::short;
use crate::copy::{
    Cell, Chunk, CopiedTable, CopyError, Marks, ROWS_PER_CHUNK, Row, TABLES, Table, columns,
};
use crate::lock::FolderLock;
use crate::seal;

/// Where a copy grows until it is whole.
const UNFINISHED: &str = "callboard.copy.db";

/// The database of a folder that nobody else uses meanwhile.
pub(crate) struct SqliteCopy {
    db: Arc<Mutex<Connection>>,
    folder: PathBuf,
    /// The key to be kept with a copy.
    digits: String,
    _lock: FolderLock,
}

impl SqliteCopy {
    /// Answers the key of the folder as well.
    pub(crate) fn source(folder: &Path) -> Result<(Self, String), CopyError> {
        let path = folder.join(DATABASE);
        if !path.exists() {
            let what = format!("there is no database in {}", folder.display());
            return Err(CopyError::refused(what, "Name the data folder of a host."));
        }
        let lock = FolderLock::take(folder)
            .map_err(|error| CopyError::refused(error.to_string(), error.hint()))?;
        let db = open_reader(&path).map_err(CopyError::broken)?;
        let known = migrate::newest(&migrate::runner());
        let found = migrate::schema(&db).map_err(CopyError::broken)?.unwrap_or(0);
        if found != known {
            let what = format!("the database has the schema {found}, this version's is {known}");
            return Err(CopyError::refused(what, "Bring it there first: callboard db migrate."));
        }
        let digits = fs::read_to_string(folder.join(KEY)).map_err(CopyError::broken)?;
        let digits = digits.trim_end().to_owned();
        let side = Self {
            db: Arc::new(Mutex::new(db)),
            folder: folder.to_owned(),
            digits: digits.clone(),
            _lock: lock,
        };
        Ok((side, digits))
    }

    /// A folder in which there is nothing yet.
    pub(crate) fn target(folder: &Path, digits: &str) -> Result<Self, CopyError> {
        if [DATABASE, KEY].iter().any(|name| folder.join(name).exists()) {
            let what = format!("there is a database in {} already", folder.display());
            return Err(CopyError::refused(
                what,
                "Nothing was changed. Name a folder that is empty or not there.",
            ));
        }
        let lock = FolderLock::take(folder)
            .map_err(|error| CopyError::refused(error.to_string(), error.hint()))?;
        let path = folder.join(UNFINISHED);
        for left in [path.clone(), path.with_extension("db-wal"), path.with_extension("db-shm")] {
            match fs::remove_file(left) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(CopyError::broken(error));
                }
                _ => {}
            }
        }
        let mut db = prepare_writer(&path).map_err(CopyError::broken)?;
        migrate::run(&mut db, &path, &migrate::runner()).map_err(CopyError::broken)?;
        // The last row may be what the first refers to; all of them are looked at in the end.
        db.pragma_update(None, "foreign_keys", false).map_err(CopyError::broken)?;
        let db = Arc::new(Mutex::new(db));
        Ok(Self { db, folder: folder.to_owned(), digits: digits.to_owned(), _lock: lock })
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        lock(&self.db)
    }

    pub(crate) async fn read(
        &self,
        into: mpsc::Sender<Chunk>,
    ) -> Result<Vec<CopiedTable>, CopyError> {
        let db = Arc::clone(&self.db);
        spawn_blocking(move || read(&lock(&db), &into)).await.map_err(CopyError::broken)?
    }

    pub(crate) async fn write(&self, mut from: mpsc::Receiver<Chunk>) -> Result<(), CopyError> {
        let db = Arc::clone(&self.db);
        let write = move || {
            let db = lock(&db);
            let transaction = db.unchecked_transaction().map_err(CopyError::broken)?;
            while let Some((table, rows)) = from.blocking_recv() {
                write(&db, &TABLES[table], &rows).map_err(CopyError::broken)?;
            }
            transaction.commit().map_err(CopyError::broken)
        };
        spawn_blocking(write).await.map_err(CopyError::broken)?
    }

    pub(crate) fn marks(&self) -> Result<Marks, CopyError> {
        let db = self.db();
        let of = |table: &str| {
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
            let mark = db.query_row(sql, [table], |row| row.get(0)).optional();
            mark.map(Option::unwrap_or_default).map_err(CopyError::broken)
        };
        Ok(Marks { memory: of("memory")?, records: of("records")? })
    }

    pub(crate) fn settle(&self, marks: Marks) -> Result<(), CopyError> {
        let db = self.db();
        for (table, mark) in [("memory", marks.memory), ("records", marks.records)] {
            let sql = "DELETE FROM sqlite_sequence WHERE name = ?1";
            db.execute(sql, [table]).map_err(CopyError::broken)?;
            let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
            db.execute(sql, params![table, mark]).map_err(CopyError::broken)?;
        }
        let broken = db.query_row("PRAGMA foreign_key_check", [], |row| row.get::<_, String>(0));
        match broken.optional().map_err(CopyError::broken)? {
            Some(table) => Err(CopyError::Broken(format!("{table} refers to what is not there"))),
            None => Ok(()),
        }
    }

    /// Gives the whole copy its name. The key comes last: a key without a database means a lost database.
    pub(crate) fn keep(self) -> Result<(), CopyError> {
        self.db()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(CopyError::broken)?;
        let Self { db, folder, digits, _lock } = self;
        drop(db);
        fs::rename(folder.join(UNFINISHED), folder.join(DATABASE)).map_err(CopyError::broken)?;
        seal::put_key(&folder.join(KEY), &digits).map_err(CopyError::broken)
    }
}

fn lock(db: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    // A panic while rows were read or written has ended the copy.
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All tables as they are at one moment.
fn read(db: &Connection, into: &mpsc::Sender<Chunk>) -> Result<Vec<CopiedTable>, CopyError> {
    let _one_moment = db.unchecked_transaction().map_err(CopyError::broken)?;
    let mut counted = Vec::new();
    for (place, table) in TABLES.iter().enumerate() {
        let mut copied = CopiedTable::of(table.name);
        let mut send = |rows: Vec<Row>| {
            copied.count(&rows);
            into.blocking_send((place, rows)).map_err(|_| CopyError::broken("nobody takes it"))
        };
        let mut statement = db.prepare(&table.select(table.sqlite)).map_err(CopyError::broken)?;
        let mut rows = statement.query([]).map_err(CopyError::broken)?;
        let mut chunk = Vec::new();
        while let Some(row) = rows.next().map_err(CopyError::broken)? {
            let cells = (0..table.columns.len()).map(|column| {
                let cell = cell(row.get_ref(column).map_err(CopyError::broken)?);
                whole(table, column, cell)
            });
            chunk.push(cells.collect::<Result<Row, CopyError>>()?);
            if chunk.len() == ROWS_PER_CHUNK {
                send(std::mem::take(&mut chunk))?;
            }
        }
        if !chunk.is_empty() {
            send(chunk)?;
        }
        counted.push(copied);
    }
    Ok(counted)
}

/// Short forms are this database's alone.
fn whole(table: &Table, column: usize, cell: Cell) -> Result<Cell, CopyError> {
    const SHORT: [(&str, &str); 3] =
        [("births", "record"), ("events", "payload"), ("snapshots", "body")];
    match cell {
        Cell::Text(text) if SHORT.contains(&(table.name, table.columns[column].0)) => {
            let json = short::whole(&text).map_err(CopyError::broken)?;
            Ok(Cell::Text(json.into_owned()))
        }
        cell => Ok(cell),
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Real(real) => Cell::Real(real),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

fn write(db: &Connection, table: &Table, rows: &[Row]) -> Result<(), rusqlite::Error> {
    // Where it is due is where the queue looks for it.
    let name = |name: &'static str| {
        if table.name == "runs" && name == "due_at" { "wake_at" } else { name }
    };
    let names: Vec<&str> = columns(table).map(|column| name(column.name)).collect();
    let values: Vec<String> = (1..=names.len()).map(|place| format!("?{place}")).collect();
    let sql =
        format!("INSERT INTO {} ({}) VALUES ({})", table.name, names.join(", "), values.join(", "));
    let mut insert = db.prepare_cached(&sql)?;
    for row in rows {
        insert.execute(params_from_iter(row.iter().map(value)))?;
        if table.name == "memory"
            && let [
                Cell::Number(position),
                Cell::Text(tenant),
                Cell::Number(test),
                Cell::Text(content),
                ..,
            ] = row.as_slice()
        {
            let sql = "INSERT INTO memory_text (rowid, owner, content) VALUES (?1, ?2, ?3)";
            db.prepare_cached(sql)?.execute(params![
                position,
                owner_word(tenant, *test != 0),
                content
            ])?;
        }
    }
    Ok(())
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Number(number) => Value::Integer(*number),
        Cell::Real(real) => Value::Real(*real),
        Cell::Text(text) => Value::Text(text.clone()),
        Cell::Bytes(bytes) => Value::Blob(bytes.clone()),
    }
}
