//! An attempt's way to the files of its workspace: it reads what its run sees, and writes through the run's log.

use std::sync::Arc;

use callboard_core::{Attempt, Fact, Run};
use callboard_protocol::{FileVersion, RunId};

use super::{Condition, FileDraft, FileError, FileRecord, FileRow, Files};
use crate::activity::{FactSender, Kept, Unrecorded};
use crate::store::{Scope, StoreError};

/// How often a write is decided anew because another writer was faster. Files have few writers.
const TRIES: usize = 8;

/// Reads and writes the files of a workspace for one attempt.
#[derive(Debug, Clone)]
pub struct FileAccess {
    files: Files,
    fact_sender: FactSender,
    owner: Scope,
    /// What the run saw when the attempt began. It does not change while the attempt lasts.
    seen: Arc<[FileVersion]>,
    run: RunId,
    /// The runs whose histories this one continues, and what was written there by the log.
    forebears: Vec<RunId>,
    written: Arc<[FileVersion]>,
    attempt: Attempt,
}

impl FileAccess {
    pub(crate) fn new(run: &Run, attempt: Attempt, files: Files, fact_sender: FactSender) -> Self {
        let birth = run.birth();
        Self {
            files,
            fact_sender,
            owner: Scope::of(birth),
            seen: run.files_seen().into(),
            run: birth.run_id.clone(),
            forebears: birth.forebears(),
            written: run.files_left().into(),
            attempt,
        }
    }

    /// The files that the run sees and whose path begins so, by path.
    pub fn list(&self, prefix: &str) -> Vec<FileVersion> {
        let named = |file: &&FileVersion| file.path.starts_with(prefix);
        self.seen.iter().filter(named).cloned().collect()
    }

    /// One file, in the version that the run sees.
    pub async fn get(&self, path: &str) -> Result<Option<FileRecord>, StoreError> {
        let Some(seen) = self.seen.iter().find(|file| file.path == path) else { return Ok(None) };
        self.files.find_file(&self.owner, path, Some(seen.version)).await
    }

    /// What a write of this name came to, in this run or in the history that it goes on with.
    async fn written_before(&self, write: &str) -> Result<Option<FileVersion>, StoreError> {
        if let Some(written) = self.files.file_of_write(&self.run, write).await? {
            return Ok(Some(written));
        }
        for run in &self.forebears {
            let found = self.files.file_of_write(run, write).await?;
            let is_told = |found: &FileVersion| {
                let mut written = self.written.iter();
                written.any(|own| own.path == found.path && own.version >= found.version)
            };
            if let Some(written) = found.filter(is_told) {
                return Ok(Some(written));
            }
        }
        Ok(None)
    }

    /// Writes a file, once: the `ordinal`-th write of a visit is the same write when the attempt is made again. It is
    /// for later runs and for the next turn, not for this one.
    pub async fn put(
        &self,
        ordinal: u32,
        draft: FileDraft,
        condition: &Condition,
    ) -> Result<FileVersion, FileError> {
        let write = format!("{}/{ordinal}/{}", self.attempt.visit, self.attempt.node);
        if let Some(written) = self.written_before(&write).await? {
            return Ok(written);
        }
        let FileDraft { path, content, content_type } = draft.checked()?;
        let row = FileRow {
            path,
            expected: 0,
            content: Some(content),
            content_type,
            at: Default::default(),
            write,
        };
        self.write(row, condition).await
    }

    /// Removes a file, once, as [`Self::put`] writes one.
    pub async fn remove(&self, ordinal: u32, file: &FileRecord) -> Result<FileVersion, FileError> {
        let write = format!("{}/{ordinal}/{}", self.attempt.visit, self.attempt.node);
        if let Some(written) = self.written_before(&write).await? {
            return Ok(written);
        }
        let row = FileRow {
            path: file.path.clone(),
            expected: 0,
            content: None,
            content_type: file.content_type.clone(),
            at: Default::default(),
            write,
        };
        self.write(row, &Condition::At(vec![file.version])).await
    }

    async fn write(
        &self,
        mut row: FileRow,
        condition: &Condition,
    ) -> Result<FileVersion, FileError> {
        for _ in 0..TRIES {
            row.expected = condition.judge(&self.files, &self.owner, &row.path).await?;
            let (file, kept) = (row.version(), Kept::file(row.clone()));
            let facts = vec![Fact::File(file.clone())];
            match self.fact_sender.send(self.attempt.clone(), facts, kept).await {
                Ok(()) => return Ok(file),
                Err(Unrecorded::Superseded(superseded)) => return Err(superseded.into()),
                Err(Unrecorded::Moved) => {}
            }
        }
        Err(FileError::Conflict { current: row.expected })
    }
}
