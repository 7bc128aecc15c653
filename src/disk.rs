//! Free space on the disk.

use std::path::Path;

/// Below this a host cannot start, or will soon refuse to write.
pub(crate) const LEAST_SPACE: u64 = 64 * 1024 * 1024;

/// The room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// What this user may still fill.
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// The room on the disk that holds a path, or would hold it, where it is one: some file systems have no room at all.
pub(crate) fn room(path: &Path) -> Option<Room> {
    let existing = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let found = rustix::fs::statvfs(existing).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let room = Room { free: bytes(found.f_bavail), total: bytes(found.f_blocks) };
    (room.total > 0).then_some(room)
}

pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    room(path).map(|room| room.free)
}
