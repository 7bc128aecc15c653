//! The files of workspaces: rows for versions, written with the appends that tell of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{FileRecord, FileRow, Files, MAX_FILES, NewRun, Scope, StoreError};
use callboard_protocol::{FileVersion, RunId};

use super::SqliteStore;
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, scope_params, signed, time, unsigned};

/// Whether anybody ever wrote a file. Runs begin with a list of them, and most hosts have none.
#[derive(Debug, Clone, Default)]
pub(super) struct Any(Arc<AtomicBool>);

impl Any {
    pub(super) fn read(db: &Connection) -> Result<Self, rusqlite::Error> {
        let any = Self::default();
        any.learn(db.query_row("SELECT EXISTS (SELECT 1 FROM files)", [], |row| row.get(0))?);
        Ok(any)
    }

    pub(super) fn learn(&self, any: bool) {
        self.0.fetch_or(any, Ordering::AcqRel);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Whose a file is.
pub(super) struct Owner {
    pub(super) tenant: String,
    pub(super) test: bool,
    /// Empty for none.
    pub(super) workspace: String,
}

impl Owner {
    fn of(scope: &Scope) -> Self {
        let (tenant, test, workspace) = scope_params(scope);
        let workspace = workspace.unwrap_or_default().to_owned();
        Self { tenant: tenant.to_owned(), test, workspace }
    }
}

#[async_trait]
impl Files for SqliteStore {
    async fn list_files(&self, owner: &Scope, prefix: &str) -> Result<Vec<FileRecord>, StoreError> {
        if !self.files.get() {
            return Ok(Vec::new());
        }
        let (owner, prefix) = (Owner::of(owner), prefix.to_owned());
        self.readers.read(move |db| list(db, &owner, &prefix)).await
    }

    async fn find_file(
        &self,
        owner: &Scope,
        path: &str,
        version: Option<u64>,
    ) -> Result<Option<FileRecord>, StoreError> {
        let (owner, path) = (Owner::of(owner), path.to_owned());
        self.readers.read(move |db| find(db, &owner, &path, version)).await
    }

    async fn file_of_write(
        &self,
        run: &RunId,
        name: &str,
    ) -> Result<Option<FileVersion>, StoreError> {
        let (run, name) = (run.clone(), name.to_owned());
        self.readers.read(move |db| of_write(db, &run, &name)).await
    }

    async fn put_file(&self, row: FileRow, run: NewRun) -> Result<(), StoreError> {
        let owner = Owner::of(&Scope::of(&run.birth));
        let run = SealedRun::seal(run, &self.seal)?;
        let (changes, any) = (Arc::clone(&self.changes), self.files.clone());
        let announce = move |run: SealedRun, ()| {
            any.learn(true);
            changes.announce(&run.birth.run_id, 0);
        };
        let put = move |db: &Connection, run: &SealedRun| {
            // The run comes first: a repetition of its request must learn what the first came to.
            create::create(db, run)?;
            write(db, &owner, &run.birth.run_id, std::slice::from_ref(&row))
        };
        self.writer.write_then(run, put, announce).await
    }
}

/// Writes versions, or refuses those that were decided on another one than the one that stands there.
pub(super) fn write(
    db: &Connection,
    owner: &Owner,
    run: &RunId,
    rows: &[FileRow],
) -> Result<(), Fault> {
    for row in rows {
        let newest = newest(db, owner, &row.path)?;
        let (version, is_removed) = newest.unwrap_or((0, true));
        let is_new = is_removed && row.content.is_some();
        if version != signed(row.expected) || (is_new && standing(db, owner)? >= MAX_FILES) {
            return Err(StoreError::Moved { what: format!("file {}", row.path) }.into());
        }
        execute(
            db,
            "UPDATE files SET is_newest = 0
             WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND path = ?4 AND version = ?5",
            params![owner.tenant, owner.test, owner.workspace, row.path, version],
        )?;
        execute(
            db,
            "INSERT INTO files (tenant, test, workspace, path, version, is_newest, is_removed,
                 content_type, written_at, run_id, write_name, content)
             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                owner.tenant,
                owner.test,
                owner.workspace,
                row.path,
                version + 1,
                row.content.is_none(),
                row.content_type,
                row.at.as_millis(),
                run.as_str(),
                row.write,
                row.content,
            ],
        )?;
    }
    Ok(())
}

/// The newest version of a file, and whether it says that the file is gone.
fn newest(db: &Connection, owner: &Owner, path: &str) -> Result<Option<(i64, bool)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT version, is_removed FROM files
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND path = ?4
         ORDER BY version DESC LIMIT 1",
    )?;
    let place = params![owner.tenant, owner.test, owner.workspace, path];
    Ok(select.query_row(place, |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn standing(db: &Connection, owner: &Owner) -> Result<usize, Fault> {
    let mut select = db.prepare_cached(
        "SELECT count(*) FROM files
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND is_newest = 1 AND is_removed = 0",
    )?;
    let place = params![owner.tenant, owner.test, owner.workspace];
    let count: i64 = select.query_row(place, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn list(db: &Connection, owner: &Owner, prefix: &str) -> Result<Vec<FileRecord>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT path, version, content_type, written_at, is_removed FROM files
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND is_newest = 1 AND is_removed = 0
             AND substr(path, 1, length(?4)) = ?4
         ORDER BY path",
    )?;
    let mut rows = select.query(params![owner.tenant, owner.test, owner.workspace, prefix])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row, None)?);
    }
    Ok(found)
}

fn find(
    db: &Connection,
    owner: &Owner,
    path: &str,
    version: Option<u64>,
) -> Result<Option<FileRecord>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT path, version, content_type, written_at, is_removed, content FROM files
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND path = ?4
             AND (?5 IS NULL OR version = ?5)
         ORDER BY version DESC LIMIT 1",
    )?;
    let version = version.map(signed);
    let wanted = params![owner.tenant, owner.test, owner.workspace, path, version];
    let mut rows = select.query(wanted)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(record(row, row.get(5)?)?))
}

fn of_write(db: &Connection, run: &RunId, name: &str) -> Result<Option<FileVersion>, Fault> {
    let mut select =
        db.prepare_cached("SELECT path, version FROM files WHERE run_id = ?1 AND write_name = ?2")?;
    let mut rows = select.query([run.as_str(), name])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(FileVersion { path: row.get(0)?, version: unsigned(row, 1)? }))
}

fn record(row: &Row<'_>, content: Option<String>) -> Result<FileRecord, Fault> {
    Ok(FileRecord {
        path: row.get(0)?,
        version: unsigned(row, 1)?,
        content_type: row.get(2)?,
        written_at: time(row, 3)?,
        is_removed: row.get(4)?,
        content,
    })
}
