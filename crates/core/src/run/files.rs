//! What a run sees of its workspace's files: those that stood there when it began. What it writes itself, and what
//! children leave that completed, is for the next turn of a supervisor. Nothing that others write meanwhile.

use std::collections::BTreeMap;

use callboard_protocol::{Event, FileVersion, WorkspaceUpdated};

use super::Run;
use crate::graph::NodeIndex;
use crate::node::NodeKind;

/// The newest version of each file that the run or its children have written.
#[derive(Debug, Clone, Default)]
pub(super) struct Files {
    /// Before the current turn.
    before: BTreeMap<String, u64>,
    /// In the current turn, where nobody sees it yet.
    now: BTreeMap<String, u64>,
}

impl Files {
    fn write(&mut self, file: FileVersion) {
        let newest = self.now.entry(file.path).or_default();
        *newest = file.version.max(*newest);
    }

    /// A turn begins: from here on it is seen what the turns before it wrote.
    pub(super) fn turn(&mut self) {
        for (path, version) in std::mem::take(&mut self.now) {
            let newest = self.before.entry(path).or_default();
            *newest = version.max(*newest);
        }
    }

    fn newest(&self, path: &str) -> u64 {
        let newest = |files: &BTreeMap<String, u64>| files.get(path).copied().unwrap_or_default();
        newest(&self.before).max(newest(&self.now))
    }
}

impl Run {
    /// The files that a read sees now, by path.
    pub fn files_seen(&self) -> Vec<FileVersion> {
        let born = self.birth.files.iter().map(|file| (file.path.clone(), file.version));
        let mut seen: BTreeMap<String, u64> = born.collect();
        seen.extend(self.files.before.clone());
        versions(seen)
    }

    /// What a parent takes over from this run when it completes.
    pub fn files_left(&self) -> Vec<FileVersion> {
        let mut left = self.files.clone();
        left.turn();
        versions(left.before)
    }

    /// A write is known by its path and version, so that reporting it again adds no event.
    pub(super) fn file_fact(&self, index: NodeIndex, file: &FileVersion) -> Option<Event> {
        let is_known = self.files.newest(&file.path) >= file.version;
        let FileVersion { path, version } = file.clone();
        let node_id = Some(self.node_id(index));
        (!is_known).then_some(Event::WorkspaceUpdated(WorkspaceUpdated { node_id, path, version }))
    }

    pub(super) fn fold_file(&mut self, updated: &WorkspaceUpdated) {
        let index = updated.node_id.as_ref().and_then(|node| self.plan.index(node));
        if index.is_some_and(|index| self.plan.node(index).kind == NodeKind::Statement) {
            // A run that only records what a person did writes nothing itself.
            self.count_fact(updated.node_id.as_ref());
            return;
        }
        self.files.write(updated.file());
    }

    pub(super) fn fold_files(&mut self, written: impl IntoIterator<Item = FileVersion>) {
        written.into_iter().for_each(|file| self.files.write(file));
    }
}

fn versions(files: BTreeMap<String, u64>) -> Vec<FileVersion> {
    files.into_iter().map(|(path, version)| FileVersion { path, version }).collect()
}
