//! A copy of a folder's database for a backup, made beside a host that serves from it, and whether a copy can be used.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::open::{DATABASE, open_reader, read_key_check};
use super::{OpenError, SqliteStore, migrate};
use crate::seal;

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub schema: i32,
    pub runs: u64,
    /// The last position of the log of all runs.
    pub position: u64,
}

impl SqliteStore {
    /// Copies the database of a folder to a file that is not there yet. The copy is one moment: every write that was
    /// acknowledged before the call is in it. It is looked through before it is reported.
    pub fn back_up(folder: &Path, target: &Path) -> Result<Copied, OpenError> {
        let path = folder.join(DATABASE);
        let failed = |why: String| OpenError::Copy { path: path.clone(), why };
        let of_sqlite = |error: rusqlite::Error| failed(error.to_string());
        if !path.exists() {
            return Err(failed("there is no database".to_owned()));
        }
        let from = open_reader(&path).map_err(|error| OpenError::of_sqlite(&path, &error))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
        drop(file.map_err(|error| failed(error.to_string()))?);
        let mut to = Connection::open(target).map_err(of_sqlite)?;
        copy_pages(&from, &mut to).map_err(of_sqlite)?;
        // So that the copy is one file, without a log beside it.
        to.pragma_update(None, "journal_mode", "DELETE").map_err(of_sqlite)?;
        drop(to);
        let synced = File::open(target).and_then(|file| file.sync_all());
        synced.map_err(|error| failed(error.to_string()))?;
        Self::look_through(target, None)
    }

    /// Whether a database that nobody uses is whole, of a schema that this build knows, and sealed with this key.
    pub fn look_through(database: &Path, key: Option<&Path>) -> Result<Copied, OpenError> {
        let of_sqlite = |error: rusqlite::Error| OpenError::of_sqlite(database, &error);
        let damaged =
            |why: &str| OpenError::Damaged { path: database.to_owned(), why: why.to_owned() };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(database, flags).map_err(of_sqlite)?;
        if let Some(first) = whole(&db).map_err(of_sqlite)?.first() {
            return Err(damaged(first));
        }
        let known = migrate::newest(&migrate::runner());
        let schema = migrate::schema(&db).map_err(of_sqlite)?;
        let schema = schema.ok_or_else(|| damaged("it is no database of ours"))?;
        if schema > known {
            return Err(OpenError::Newer { path: database.to_owned(), found: schema, known });
        }
        if let Some(key) = key {
            check_key(&db, key).map_err(of_sqlite)??;
        }
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        let runs = number("SELECT count(*) FROM runs").map_err(of_sqlite)?;
        let position =
            number("SELECT coalesce(max(position), 0) FROM events").map_err(of_sqlite)?;
        Ok(Copied { schema, runs: runs.unsigned_abs(), position: position.unsigned_abs() })
    }
}

/// All pages in one step: in several, a host that goes on writing would make it begin again each time.
fn copy_pages(from: &Connection, to: &mut Connection) -> Result<(), rusqlite::Error> {
    match Backup::new(from, to)?.step(-1)? {
        StepResult::Done => Ok(()),
        // It was waited for as long as for any other lock.
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("it is busy".to_owned()),
        )),
    }
}

/// The long check, which reads every index too: a backup that cannot be used is worse than none.
fn whole(db: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let mut check = db.prepare("PRAGMA integrity_check")?;
    let lines =
        check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

fn check_key(db: &Connection, key: &Path) -> Result<Result<(), OpenError>, rusqlite::Error> {
    let path = key.to_owned();
    let Some(check) = read_key_check(db)? else { return Ok(Ok(())) };
    Ok(match seal::read_key(key) {
        Err(why) => Err(OpenError::Key { path, why }),
        Ok(None) => Err(OpenError::KeyMissing { path }),
        Ok(Some(seal)) if seal.passes(&check) => Ok(()),
        Ok(Some(_)) => Err(OpenError::WrongKey { path }),
    })
}

#[cfg(test)]
mod tests {
    use callboard_engine::{Batch, Key, KeyMode, Kind, RecordChange, Scope, Store};

    use super::*;

    #[tokio::test]
    async fn a_copy_made_beside_its_host_opens_with_the_key_and_no_other() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let store = SqliteStore::open(folder.path())?;
        let place = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
        let put = RecordChange::put(Kind::Prompt, Key::of(["greet"]), place, &"text")?;
        store.commit(Batch::of_records([put])).await?;

        let elsewhere = tempfile::tempdir()?;
        let copy = elsewhere.path().join(DATABASE);
        let copied = SqliteStore::back_up(folder.path(), &copy)?;
        assert_eq!(copied.schema, migrate::newest(&migrate::runner()));
        assert!(SqliteStore::back_up(folder.path(), &copy).is_err(), "nothing is overwritten");
        let key = elsewhere.path().join("host.key");
        let missing = SqliteStore::look_through(&copy, Some(&key));
        assert!(matches!(missing, Err(OpenError::KeyMissing { .. })), "{missing:?}");
        std::fs::write(&key, format!("{}\n", "00".repeat(32)))?;
        let wrong = SqliteStore::look_through(&copy, Some(&key));
        assert!(matches!(wrong, Err(OpenError::WrongKey { .. })), "{wrong:?}");
        std::fs::copy(folder.path().join("host.key"), &key)?;
        SqliteStore::look_through(&copy, Some(&key))?;
        let restored = SqliteStore::open(elsewhere.path())?;
        assert!(restored.get(Kind::Prompt, &Key::of(["greet"])).await?.is_some());
        Ok(())
    }

    #[test]
    fn a_copy_of_a_later_schema_or_with_a_changed_page_is_refused() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(DATABASE);
        let later = migrate::later_runner("CREATE TABLE later (id INTEGER PRIMARY KEY);")?;
        let mut db = Connection::open(&path)?;
        migrate::run(&mut db, &path, &later)?;
        drop(db);
        let newer = SqliteStore::look_through(&path, None);
        assert!(matches!(newer, Err(OpenError::Newer { .. })), "{newer:?}");
        let mut bytes = std::fs::read(&path)?;
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4096].fill(0xa5);
        std::fs::write(&path, bytes)?;
        assert!(SqliteStore::look_through(&path, None).is_err());
        Ok(())
    }
}
