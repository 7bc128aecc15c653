//! Changes that people make to files, each with a run that states it, and what a run saw at a place of its log.

use std::sync::Arc;

use callboard_core::Run;
use callboard_protocol::{FileVersion, Owner, RunId, WorkspaceFile};

use super::{Condition, FileDraft, FileError, FileRecord, FileRow, Files, check_path};
use crate::audit::AuditRun;
use crate::engine::{Done, Engine, EngineError, Remember};
use crate::store::{KeyMode, NewRun, Scope, StoreError};

/// What such runs are listed under.
const WORKFLOW: &str = "callboard-files";
/// The only write of such a run.
const WRITE: &str = "put";

/// A change that may be made, if nobody else makes one first.
#[derive(Debug, Clone)]
pub struct FileChange {
    owner: Owner,
    mode: KeyMode,
    row: FileRow,
}

impl FileChange {
    /// The file as it will be.
    pub fn shown(&self) -> WorkspaceFile {
        let FileRow { path, expected, content, content_type, at, .. } = self.row.clone();
        let is_removed = content.is_none();
        let (version, written_at) = (expected + 1, at);
        FileRecord { path, version, content_type, written_at, is_removed, content }.shown()
    }

    fn audit(&self) -> AuditRun {
        let audit = AuditRun::new(WORKFLOW, self.owner.clone(), self.mode);
        audit.stating("change", "workspace.updated", &self.row.version())
    }
}

impl Engine {
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// A file to be written.
    pub async fn prepare_file(
        &self,
        (owner, mode): (Owner, KeyMode),
        draft: FileDraft,
        condition: &Condition,
    ) -> Result<FileChange, FileError> {
        let FileDraft { path, content, content_type } = draft.checked()?;
        let scope = scope_of(&owner, mode);
        let expected = condition.judge(&self.inner.files, &scope, &path).await?;
        let (content, at) = (Some(content), self.inner.clock.now());
        let row = FileRow { path, expected, content, content_type, at, write: WRITE.to_owned() };
        Ok(FileChange { owner, mode, row })
    }

    /// A file to be removed.
    pub async fn prepare_removal(
        &self,
        (owner, mode): (Owner, KeyMode),
        path: &str,
        condition: &Condition,
    ) -> Result<FileChange, FileError> {
        check_path(path)?;
        let newest = self.inner.files.find_file(&scope_of(&owner, mode), path, None).await?;
        let standing = newest.filter(|newest| !newest.is_removed).ok_or(FileError::Missing)?;
        if let Condition::At(versions) = condition
            && !versions.contains(&standing.version)
        {
            return Err(FileError::Conflict { current: standing.version });
        }
        let row = FileRow {
            path: standing.path,
            expected: standing.version,
            content: None,
            content_type: standing.content_type,
            at: self.inner.clock.now(),
            write: WRITE.to_owned(),
        };
        Ok(FileChange { owner, mode, row })
    }

    /// Makes a change. Once this returns, it is on disk, and so is the run that states it.
    pub async fn change_file(
        &self,
        change: FileChange,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let prepared = self.prepare_audit(change.audit(), change.row.at)?;
        let (files, row) = (self.inner.files.clone(), change.row);
        let write = move |record: Box<NewRun>| async move { files.put_file(row, *record).await };
        Ok(self.persist_and_drive(prepared, remember, write).await?)
    }

    /// The files that a run of this owner begins with now.
    pub(crate) async fn files_of(
        &self,
        owner: &Owner,
        mode: KeyMode,
    ) -> Result<Vec<FileVersion>, StoreError> {
        let standing = self.inner.files.list_files(&scope_of(owner, mode), "").await?;
        let version = |file: FileRecord| FileVersion { path: file.path, version: file.version };
        Ok(standing.into_iter().map(version).collect())
    }

    /// What a run saw of its workspace when its log held so many events.
    pub async fn files_seen(
        &self,
        scope: &Scope,
        run: &RunId,
        version: u64,
    ) -> Result<Vec<FileVersion>, EngineError> {
        let unknown = || EngineError::UnknownRun(run.clone());
        let opened = self.inner.store.open(run).await?;
        let opened = opened.filter(|opened| scope.sees(&opened.birth)).ok_or_else(unknown)?;
        let plan = self.inner.catalog.plan(&opened.birth.definition, &opened.definition).await;
        let plan = plan.map_err(StoreError::from)?;
        let until = usize::try_from(version).unwrap_or(usize::MAX).min(opened.entries.len());
        let then = Run::replay(Arc::new(opened.birth), plan, &opened.entries[..until]);
        Ok(then.files_seen())
    }
}

fn scope_of(owner: &Owner, mode: KeyMode) -> Scope {
    Scope { tenant: owner.tenant.clone(), workspace: owner.workspace.clone(), mode }
}
