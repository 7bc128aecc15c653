//! The port to the files of workspaces: what agents and people hold to be true, in versions that nobody overwrites.

mod access;
mod change;
mod draft;

use std::fmt;

use async_trait::async_trait;

use callboard_core::{Entry, Redactor};
use callboard_protocol::{Event, FileVersion, RunId, Timestamp, WorkspaceFile};

use crate::store::{NewRun, Scope, StoreError};

pub use access::FileAccess;
pub use change::FileChange;
pub use draft::{Condition, FileDraft, FileError, MAX_FILE_BYTES, check_path};

/// How many files a workspace holds: what one begins every run with is read by agents, not searched.
pub const MAX_FILES: usize = 200;

/// Files, by owner. An owner is exact: whoever belongs to no workspace has a workspace of their own, and sees no
/// other. Runs write through [`crate::Append`] alone, so that a row and the event that tells of it are committed
/// together.
#[async_trait]
pub trait Files: fmt::Debug + Send + Sync {
    /// The files that stand there now and whose path begins so, by path, without what stands in them.
    async fn list_files(&self, owner: &Scope, prefix: &str) -> Result<Vec<FileRecord>, StoreError>;

    /// One version of a file; the newest where none is named, also if that one says that the file was removed.
    async fn find_file(
        &self,
        owner: &Scope,
        path: &str,
        version: Option<u64>,
    ) -> Result<Option<FileRecord>, StoreError>;

    /// What a run's write of this name came to.
    async fn file_of_write(
        &self,
        run: &RunId,
        name: &str,
    ) -> Result<Option<FileVersion>, StoreError>;

    /// Writes a version for somebody outside of runs, with the run that tells of it, or neither.
    /// [`StoreError::Moved`] as for an append.
    async fn put_file(&self, row: FileRow, run: NewRun) -> Result<(), StoreError>;
}

/// One version of a file, as it is written. [`StoreError::Moved`] where the file is not at the version that this was
/// decided on, or where it is new and there is no room for it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    pub path: String,
    /// The version that this was decided on; zero for a path that never was a file's.
    pub expected: u64,
    /// None removes the file.
    pub content: Option<String>,
    pub content_type: String,
    pub at: Timestamp,
    /// Which of its run's writes this is, so that a write that is made again is the same.
    pub write: String,
}

impl FileRow {
    pub fn version(&self) -> FileVersion {
        FileVersion { path: self.path.clone(), version: self.expected + 1 }
    }

    /// Cleans everything that is kept of it.
    pub(crate) fn redact(&mut self, known: &Redactor) {
        known.redact_text(&mut self.path);
        known.redact_text(&mut self.content_type);
        if let Some(content) = &mut self.content {
            known.redact_text(content);
        }
    }
}

/// One version of a file, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRecord {
    pub path: String,
    pub version: u64,
    pub content_type: String,
    pub written_at: Timestamp,
    /// Whether this version says that the file is gone.
    pub is_removed: bool,
    /// None where it was not asked for, or where nothing stands there.
    pub content: Option<String>,
}

impl FileRecord {
    /// The file as the protocol knows it.
    pub fn shown(self) -> WorkspaceFile {
        WorkspaceFile {
            etag: etag(self.version),
            path: self.path,
            content: self.content,
            content_type: self.content_type,
            version: self.version,
            updated_at: self.written_at,
        }
    }
}

/// The entity tag of a version.
pub fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

/// The rows that belong to what was just decided.
pub(crate) fn file_rows_of(entries: &[Entry], drafts: &[FileRow]) -> Vec<FileRow> {
    let row = |entry: &Entry| {
        let Event::WorkspaceUpdated(updated) = &entry.event else { return None };
        let draft = drafts.iter().find(|draft| draft.version() == updated.file())?;
        Some(FileRow { at: entry.at, ..draft.clone() })
    };
    entries.iter().filter_map(row).collect()
}
