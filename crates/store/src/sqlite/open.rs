//! Opening the folder: lock, inspection, key, migration and connections, and everything that forbids a start.
//!
//! Nothing is written to an existing database before it is known to be ours, whole, of a schema
//! that this build knows, and sealed with the key at hand.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use refinery::Runner;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use callboard_engine::Changes;

use super::fault::is_damage;
use super::mark::Mark;
use super::readers::{READERS, Readers};
use super::recent::Recent;
use super::writer::Writer;
use super::{SqliteStore, claim, memory, migrate, read, records};
use crate::lock::FolderLock;
use crate::seal::{self, Seal};

pub(super) const DATABASE: &str = "callboard.db";
pub(super) const KEY: &str = "host.key";

/// A database up to this size is read through before it is used: that takes some tens of milliseconds.
/// A larger one would keep the host from starting, and is checked where it is read.
const CHECKED_WHOLE_BELOW: u64 = 16 * 1024 * 1024;

/// More than the statements that a connection knows, so that none is prepared twice.
const STATEMENTS: usize = 256;

/// Only a person with a database tool can be in the way, since the folder is locked; five seconds outlast most looks.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How the writing connection behaves. The order matters: the vacuum mode is fixed with the first
/// page that is written. No memory mapping: a disk error shall be an answer, not a signal.
/// A checkpoint every 1,000 pages: measured from 500 to 4,000, the throughput is the same, and the
/// slowest commits get slower with the number.
const WRITER: &str = "
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA foreign_keys = ON;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -8192;
    PRAGMA wal_autocheckpoint = 1000;
    PRAGMA journal_size_limit = 67108864;
";

const READER: &str = "
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -2048;
";

/// Why a store did not open. The message says what is the matter, the hint what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data folder {} cannot be used: {why}", path.display())]
    Folder { path: PathBuf, why: io::Error },
    #[error("another process is using the data folder {}", path.display())]
    InUse { path: PathBuf },
    #[error("the database {} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "the database {} was written by a newer version: its schema is {found}, this one knows schemas up to {known}",
        path.display()
    )]
    Newer { path: PathBuf, found: i32, known: i32 },
    #[error("the key {} cannot be used: {why}", path.display())]
    Key { path: PathBuf, why: io::Error },
    #[error("the key {} is missing, but the database beside it was sealed with one", path.display())]
    KeyMissing { path: PathBuf },
    #[error("the key {} is not the one that the database beside it was sealed with", path.display())]
    WrongKey { path: PathBuf },
    #[error("the database {} cannot be copied before its migration: {why}", path.display())]
    Backup { path: PathBuf, why: String },
    #[error("the database {} cannot be copied: {why}", path.display())]
    Copy { path: PathBuf, why: String },
    #[error("the database {} cannot be brought to schema {to}: {why}", path.display())]
    Migration { path: PathBuf, to: i32, why: String },
    #[error("the database {} cannot be opened: {why}", path.display())]
    Database { path: PathBuf, why: String },
}

impl OpenError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Folder { .. } => {
                "Choose a folder that exists or can be made, and that this user may write to."
            }
            Self::InUse { .. } => {
                "Stop the other process, or choose another data folder for this one."
            }
            Self::Damaged { .. } => {
                "Nothing was changed. Restore the folder from a backup, or move it away to start with an empty one."
            }
            Self::Newer { .. } => {
                "Nothing was changed. Start the newer version again, or restore the backup that it made before it migrated."
            }
            Self::Key { .. } => {
                "Let this user read and write the key file, or restore it from a backup."
            }
            Self::KeyMissing { .. } | Self::WrongKey { .. } => {
                "Restore the key that belongs to this database from a backup. Without it, sealed values cannot be read."
            }
            Self::Copy { .. } => {
                "Nothing was changed. Make room for the copy, or name another place."
            }
            Self::Backup { .. } => {
                "Nothing was changed. Make room in the data folder, or copy the folder away yourself."
            }
            Self::Migration { .. } => {
                "The migration was undone. Start the version that you had before, and report this."
            }
            Self::Database { .. } => "Check the disk and the permissions of the data folder.",
        }
    }

    pub(super) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, why) = (path.to_owned(), error.to_string());
        if error.sqlite_error_code().is_some_and(is_damage) {
            return Self::Damaged { path, why };
        }
        Self::Database { path, why }
    }
}

pub(super) fn open(folder: &Path, runner: &Runner) -> Result<SqliteStore, OpenError> {
    let lock = FolderLock::take(folder)?;
    let path = folder.join(DATABASE);
    let known = migrate::newest(runner);
    let existing = inspect(&path, known)?;
    let key_path = folder.join(KEY);
    let seal = obtain_key(&key_path, &path, existing.as_ref())?;
    warn_of_readers(&key_path);
    let unusable = |why| OpenError::Key { path: key_path.clone(), why };
    let key_check = seal.make_check().map_err(|error| unusable(io::Error::other(error)))?;
    if let Some(existing) = existing.filter(|existing| (1..known).contains(&existing.schema)) {
        migrate::back_up(&existing.db, &path, existing.schema)?;
    }
    let mut db = prepare_writer(&path)?;
    migrate::run(&mut db, &path, runner)?;
    settle(&db, &key_check).map_err(|error| OpenError::of_sqlite(&path, &error))?;
    // Not before there is a database that was encrypted with it: a key without a database means a lost database.
    if !key_path.exists() {
        seal::keep_key(&key_path).map_err(unusable)?;
    }
    let readers = (0..READERS).map(|_| open_reader(&path)).collect::<Result<_, _>>();
    let readers = readers.map_err(|error| OpenError::of_sqlite(&path, &error))?;
    let memory =
        memory::Position::read(&db).map_err(|error| OpenError::of_sqlite(&path, &error))?;
    let kinds = records::Kinds::read(&db).map_err(|error| OpenError::of_sqlite(&path, &error))?;
    let mark = Mark::open(folder, &db);
    let writer = mark
        .and_then(|mark| Writer::start(db, mark))
        .map_err(|why| OpenError::Database { path, why: why.to_string() })?;
    Ok(SqliteStore {
        folder: folder.to_owned(),
        seal: Arc::new(seal),
        changes: Arc::new(Changes::default()),
        recent: Arc::new(Recent::default()),
        ended: Arc::default(),
        records: Arc::default(),
        memory,
        kinds: Arc::new(kinds),
        readers: Readers::new(readers),
        writer,
        _lock: lock,
    })
}

/// A database of ours that was there before this start, opened for reading.
struct Existing {
    db: Connection,
    schema: i32,
    /// Missing if the first start died before it was written; then nothing has been sealed yet.
    key_check: Option<Vec<u8>>,
}

/// Looks at what is there without writing to it; none if there is no database yet.
fn inspect(path: &Path, known: i32) -> Result<Option<Existing>, OpenError> {
    let size = match fs::metadata(path) {
        Ok(file) => file.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => {
            return Err(OpenError::Database { path: path.to_owned(), why: error.to_string() });
        }
    };
    let damaged = |why: &str| OpenError::Damaged { path: path.to_owned(), why: why.to_owned() };
    if size == 0 {
        // SQLite would take an empty file for a new database and throw the log away.
        let log = fs::metadata(path.with_extension("db-wal"));
        let is_lost = log.is_ok_and(|log| log.len() > 0);
        return if is_lost {
            Err(damaged("it is empty or missing, but its write-ahead log is not"))
        } else {
            Ok(None)
        };
    }
    let of_sqlite = |error| OpenError::of_sqlite(path, &error);
    // A first start that died before it had switched to the write-ahead log may have left a journal,
    // and only a connection that may write can undo what it says.
    let is_half_made = path.with_extension("db-journal").exists();
    let db = if is_half_made { open_writer(path) } else { open_reader(path) };
    let db = db.map_err(of_sqlite)?;
    if size < CHECKED_WHOLE_BELOW
        && let Some(first) = read::check(&db).map_err(of_sqlite)?.first()
    {
        return Err(damaged(first));
    }
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(of_sqlite)?;
    if tables == 0 {
        return Ok(None);
    }
    let Some(schema) = migrate::schema(&db).map_err(of_sqlite)? else {
        return Err(damaged("it is an SQLite database, but not one of ours"));
    };
    if schema > known {
        return Err(OpenError::Newer { path: path.to_owned(), found: schema, known });
    }
    let key_check = if schema > 0 { read_key_check(&db).map_err(of_sqlite)? } else { None };
    Ok(Some(Existing { db, schema, key_check }))
}

pub(super) fn read_key_check(db: &Connection) -> Result<Option<Vec<u8>>, rusqlite::Error> {
    db.query_row("SELECT value FROM meta WHERE name = 'key_check'", [], |row| row.get(0)).optional()
}

fn obtain_key(
    path: &Path,
    database: &Path,
    existing: Option<&Existing>,
) -> Result<Seal, OpenError> {
    let unusable = |why| OpenError::Key { path: path.to_owned(), why };
    let key_check = existing.and_then(|existing| existing.key_check.as_ref());
    match (seal::read_key(path).map_err(unusable)?, key_check) {
        (Some(seal), Some(check)) if !seal.passes(check) => {
            Err(OpenError::WrongKey { path: path.to_owned() })
        }
        (Some(_), None) if existing.is_none() => {
            let why = "it is empty or missing, but its key is not".to_owned();
            Err(OpenError::Damaged { path: database.to_owned(), why })
        }
        (Some(seal), _) => Ok(seal),
        (None, Some(check)) => seal::read_unkept_key(path)
            .filter(|seal| seal.passes(check))
            .ok_or_else(|| OpenError::KeyMissing { path: path.to_owned() }),
        (None, None) => seal::create_key(path).map_err(unusable),
    }
}

/// Whoever can read the key and a copy of the database can read everything that is sealed in it.
fn warn_of_readers(key: &Path) {
    let mode = fs::metadata(key).map_or(0, |found| found.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let (key, mode) = (key.display(), format!("{mode:04o}"));
        tracing::warn!(%key, mode, "others may read the host's key: chmod 600 it, and consider it known");
    }
}

pub(super) fn prepare_writer(path: &Path) -> Result<Connection, OpenError> {
    // Made here rather than by SQLite, so that the file and its companions are readable by their owner alone.
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map_err(|error| OpenError::Database { path: path.to_owned(), why: error.to_string() })?;
    let of_sqlite = |error| OpenError::of_sqlite(path, &error);
    let db = open_writer(path).map_err(of_sqlite)?;
    let mode: String =
        db.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(of_sqlite)?;
    if mode != "wal" {
        let why =
            format!("its file system allows the journal mode {mode:?} only, not a write-ahead log");
        return Err(OpenError::Database { path: path.to_owned(), why });
    }
    Ok(db)
}

fn open_writer(path: &Path) -> Result<Connection, rusqlite::Error> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, WRITER)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READER)
}

fn connect(path: &Path, flags: OpenFlags, settings: &str) -> Result<Connection, rusqlite::Error> {
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it SQLite plans a statement anew for each value of a limit, which costs more than most reads.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.execute_batch(settings)?;
    Ok(db)
}

/// Puts a migrated database into the state that a start begins with.
fn settle(db: &Connection, key_check: &[u8]) -> Result<(), rusqlite::Error> {
    let transaction = db.unchecked_transaction()?;
    if read_key_check(db)?.is_none() {
        let sql = "INSERT INTO meta (name, value) VALUES ('key_check', ?1), ('created_by', ?2)";
        db.execute(sql, params![key_check, env!("CARGO_PKG_VERSION").as_bytes()])?;
    }
    let voided = claim::void_leases(db)?;
    transaction.commit()?;
    if voided > 0 {
        tracing::info!(runs = voided, "leases of the last process are void");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use callboard_engine::{Batch, Key, KeyMode, Kind, RecordChange, Scope, Store};
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_it_is_given() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("any.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let db = connect(&path, flags, READER)?;
        db.execute_batch("CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('a')")?;
        let mut select = db.prepare("SELECT name FROM things LIMIT ?1")?;
        for most in 1..4 {
            assert!(select.exists([most])?);
        }
        assert_eq!(select.get_status(StatementStatus::RePrepare), 0);
        Ok(())
    }

    #[tokio::test]
    async fn a_later_version_copies_the_database_and_goes_on_with_it() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let key = Key::of(["greet"]);
        let store = open(folder.path(), &migrate::runner())?;
        let place = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
        let kept = RecordChange::put(Kind::Prompt, key.clone(), place, &"text")?;
        store.commit(Batch::of_records([kept])).await?;
        drop(store);

        let today = migrate::newest(&migrate::runner());
        let copy = folder.path().join(format!("callboard.v{today}.backup.db"));
        drop(open(folder.path(), &migrate::runner())?);
        assert!(!copy.exists(), "the same schema needs no copy");
        let later = migrate::later_runner("CREATE TABLE later (id INTEGER PRIMARY KEY);")?;
        let store = open(folder.path(), &later)?;
        assert!(store.get(Kind::Prompt, &key).await?.is_some());
        assert!(copy.exists());
        drop(store);

        let refused = open(folder.path(), &migrate::runner());
        let is_newer = |error: &OpenError| matches!(error, OpenError::Newer { found, known, .. } if *found == today + 1 && *known == today);
        assert!(refused.as_ref().is_err_and(is_newer), "{refused:?}");
        // What the hint of that refusal says to do.
        fs::rename(copy, folder.path().join(DATABASE))?;
        let store = open(folder.path(), &migrate::runner())?;
        assert!(store.get(Kind::Prompt, &key).await?.is_some());
        Ok(())
    }
}
