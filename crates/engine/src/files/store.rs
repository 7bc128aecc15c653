//! Where files rest: the newest version of each path, every version by its number, and what a run's writes came to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{FileVersion, RunId, Timestamp};

use super::{FileRecord, FileRow, MAX_FILES};
use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Within};
use crate::store::{Batch, NewRun, Scope, Store, StoreError};

/// The files of workspaces, each in versions. A removed file leaves its versions for those who began with them.
#[derive(Debug, Clone)]
pub struct Files {
    store: Arc<dyn Store>,
}

/// What is stored of a version. The record of a path holds the newest one, without its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredFile {
    path: String,
    version: u64,
    content_type: String,
    written_at: Timestamp,
    #[serde(default)]
    is_removed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// How many files stand in a workspace: a file that comes or goes moves it, so that two never take the last place.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct FileCount {
    files: u64,
}

impl From<StoredFile> for FileRecord {
    fn from(file: StoredFile) -> Self {
        let StoredFile { path, version, content_type, written_at, is_removed, content } = file;
        Self { path, version, content_type, written_at, is_removed, content }
    }
}

fn path_key(owner: &Scope, path: &str) -> Key {
    Key::in_place(owner, [path])
}

fn version_key(owner: &Scope, path: &str, version: u64) -> Key {
    Key::in_place(owner, [path, &format!("{version:010}")])
}

impl Files {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The files that stand in a workspace and whose path begins so, by path, without their contents.
    pub async fn list_files(
        &self,
        owner: &Scope,
        prefix: &str,
    ) -> Result<Vec<FileRecord>, StoreError> {
        let all = RecordQuery::all(Kind::File, Within::Place(owner.clone()));
        let mut standing = Vec::new();
        for record in self.store.scan(&all).await? {
            let file: StoredFile = record.read()?;
            if !file.is_removed && file.path.starts_with(prefix) {
                standing.push(FileRecord::from(file));
            }
        }
        standing.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(standing)
    }

    /// A file in one version, or in its newest one, also where that says that the file is gone.
    pub async fn find_file(
        &self,
        owner: &Scope,
        path: &str,
        version: Option<u64>,
    ) -> Result<Option<FileRecord>, StoreError> {
        let version = match version {
            Some(version) => version,
            None => match self.store.get(Kind::File, &path_key(owner, path)).await? {
                Some(newest) => newest.read::<StoredFile>()?.version,
                None => return Ok(None),
            },
        };
        let found = self.store.get(Kind::FileVersion, &version_key(owner, path, version)).await?;
        found.map(|found| Ok(found.read::<StoredFile>()?.into())).transpose()
    }

    /// What a write of a run came to, by its name.
    pub async fn file_of_write(
        &self,
        run: &RunId,
        name: &str,
    ) -> Result<Option<FileVersion>, StoreError> {
        let found = self.store.get(Kind::FileWrite, &Key::of([run.as_str(), name])).await?;
        found.map(|found| found.read()).transpose()
    }

    /// Writes a version together with the run that records it.
    pub async fn put_file(&self, row: FileRow, run: NewRun) -> Result<(), StoreError> {
        let owner = Scope::of(&run.birth);
        let changes = self.changes(&owner, &run.birth.run_id, vec![row]).await?;
        self.store.commit(Batch::of_records(changes).with_birth(run)).await
    }

    /// What is written with the events of these rows. [`StoreError::Moved`] where a file is not at the version
    /// that its row was decided on, or where it is new and there is no room for it any more.
    pub async fn changes(
        &self,
        owner: &Scope,
        run: &RunId,
        rows: Vec<FileRow>,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let mut changes = Vec::new();
        let mut more = 0_i64;
        for row in rows {
            let moved = || StoreError::Moved { what: format!("file {}", row.path) };
            let key = path_key(owner, &row.path);
            let newest = self.store.get(Kind::File, &key).await?;
            let newest = newest.map(|newest| newest.read::<StoredFile>()).transpose()?;
            if newest.as_ref().map_or(0, |newest| newest.version) != row.expected {
                return Err(moved());
            }
            let was_there = newest.is_some_and(|newest| !newest.is_removed);
            more += i64::from(row.content.is_some()) - i64::from(was_there);
            changes.extend(row_changes(owner, run, key, row)?);
        }
        if more != 0 {
            changes.push(self.count_change(owner, more).await?);
        }
        Ok(changes)
    }

    async fn count_change(&self, owner: &Scope, more: i64) -> Result<RecordChange, StoreError> {
        let key = Key::in_place(owner, []);
        let stored = self.store.get(Kind::FileCount, &key).await?;
        let count: FileCount =
            stored.as_ref().map(|stored| stored.read()).transpose()?.unwrap_or_default();
        let files = count.files.saturating_add_signed(more);
        if more > 0 && files > MAX_FILES as u64 {
            return Err(StoreError::Moved { what: "the room for files".to_owned() });
        }
        let expected = stored.map_or(Expected::Absent, |stored| Expected::Version(stored.version));
        let count = FileCount { files };
        Ok(RecordChange::put(Kind::FileCount, key, owner.clone(), &count)?.expecting(expected))
    }
}

fn row_changes(
    owner: &Scope,
    run: &RunId,
    key: Key,
    row: FileRow,
) -> Result<[RecordChange; 3], StoreError> {
    let written = row.version();
    let file = StoredFile {
        path: row.path,
        version: written.version,
        content_type: row.content_type,
        written_at: row.at,
        is_removed: row.content.is_none(),
        content: row.content,
    };
    let place = owner.clone();
    let version = version_key(owner, &file.path, file.version);
    let version = RecordChange::put(Kind::FileVersion, version, place.clone(), &file)?
        .expecting(Expected::Absent);
    let newest = StoredFile { content: None, ..file };
    let expected = match row.expected {
        0 => Expected::Absent,
        before => Expected::Version(before),
    };
    let newest = RecordChange::put(Kind::File, key, place.clone(), &newest)?.expecting(expected);
    let write = Key::of([run.as_str(), &row.write]);
    let write = RecordChange::put(Kind::FileWrite, write, place, &written)?.of_run(run);
    Ok([version, newest, write])
}
