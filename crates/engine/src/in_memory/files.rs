//! The files of workspaces, in memory.

use async_trait::async_trait;

use callboard_protocol::{FileVersion, RunId};

use super::InMemoryStore;
use crate::files::{FileRecord, FileRow, Files, MAX_FILES};
use crate::store::{NewRun, Scope, StoreError};

/// Every version of every file, in the order of writing.
#[derive(Default)]
pub(super) struct Shelves(Vec<Shelved>);

struct Shelved {
    owner: Scope,
    record: FileRecord,
    run: RunId,
    write: String,
}

impl Shelves {
    fn of<'a>(&'a self, owner: &'a Scope) -> impl Iterator<Item = &'a FileRecord> {
        self.0.iter().filter(move |it| it.owner == *owner).map(|it| &it.record)
    }

    fn newest<'a>(&'a self, owner: &'a Scope, path: &str) -> Option<&'a FileRecord> {
        self.of(owner).filter(|record| record.path == path).last()
    }

    fn standing(&self, owner: &Scope) -> Vec<FileRecord> {
        let is_newest = |record: &&FileRecord| {
            self.newest(owner, &record.path).is_some_and(|newest| newest.version == record.version)
        };
        let mut standing: Vec<FileRecord> =
            self.of(owner).filter(is_newest).filter(|it| !it.is_removed).cloned().collect();
        standing.sort_by(|one, other| one.path.cmp(&other.path));
        standing
    }

    pub(super) fn refuse_moved(&self, owner: &Scope, rows: &[FileRow]) -> Result<(), StoreError> {
        for row in rows {
            let newest = self.newest(owner, &row.path);
            let is_new = newest.is_none_or(|newest| newest.is_removed);
            let has_room =
                !is_new || row.content.is_none() || self.standing(owner).len() < MAX_FILES;
            if newest.map_or(0, |newest| newest.version) != row.expected || !has_room {
                return Err(StoreError::Moved { what: format!("file {}", row.path) });
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, owner: &Scope, run: &RunId, rows: Vec<FileRow>) {
        for row in rows {
            let record = FileRecord {
                path: row.path,
                version: row.expected + 1,
                content_type: row.content_type,
                written_at: row.at,
                is_removed: row.content.is_none(),
                content: row.content,
            };
            let (owner, run) = (owner.clone(), run.clone());
            self.0.push(Shelved { owner, record, run, write: row.write });
        }
    }
}

#[async_trait]
impl Files for InMemoryStore {
    async fn list_files(&self, owner: &Scope, prefix: &str) -> Result<Vec<FileRecord>, StoreError> {
        let mut standing = self.tables().files.standing(owner);
        standing.retain(|record| record.path.starts_with(prefix));
        standing.iter_mut().for_each(|record| record.content = None);
        Ok(standing)
    }

    async fn find_file(
        &self,
        owner: &Scope,
        path: &str,
        version: Option<u64>,
    ) -> Result<Option<FileRecord>, StoreError> {
        let tables = self.tables();
        let wanted = |record: &&FileRecord| {
            record.path == path && version.is_none_or(|version| record.version == version)
        };
        Ok(tables.files.of(owner).filter(wanted).last().cloned())
    }

    async fn file_of_write(
        &self,
        run: &RunId,
        name: &str,
    ) -> Result<Option<FileVersion>, StoreError> {
        let tables = self.tables();
        let written = tables.files.0.iter().find(|it| it.run == *run && it.write == name);
        Ok(written.map(|Shelved { record, .. }| FileVersion {
            path: record.path.clone(),
            version: record.version,
        }))
    }

    async fn put_file(&self, row: FileRow, run: NewRun) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let (owner, id) = (Scope::of(&run.birth), run.birth.run_id.clone());
        tables.refuse_repetition(run.outcome.as_ref(), run.birth.created_at)?;
        tables.files.refuse_moved(&owner, std::slice::from_ref(&row))?;
        tables.create(run)?;
        tables.files.write(&owner, &id, vec![row]);
        Ok(())
    }
}
