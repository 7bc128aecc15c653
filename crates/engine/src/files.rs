//! The files of workspaces: what agents and people hold to be true, in versions that nobody overwrites. An owner is
//! exact: a caller that belongs to no workspace has files of its own, and sees no others.

mod access;
mod change;
mod draft;
mod store;

use callboard_core::{Entry, Redactor};
use callboard_protocol::{Event, FileVersion, Timestamp, WorkspaceFile};

pub use access::FileAccess;
pub use change::FileChange;
pub use draft::{Condition, FileDraft, FileError, MAX_FILE_BYTES, check_path};
pub use store::Files;

/// How many files a workspace holds: what one begins every run with is read by agents, not searched.
pub const MAX_FILES: usize = 200;

/// One version of a file, as it is written. [`crate::StoreError::Moved`] where the file is not at the version that this was
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
