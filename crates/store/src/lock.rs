//! A data folder belongs to one process at a time, whatever database that process uses.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::sqlite::OpenError;

const LOCK: &str = "callboard.lock";

/// A data folder that no other process takes while this is held.
#[derive(Debug)]
pub struct FolderLock {
    /// The folder itself, which cannot be deleted while the database stays, and a file in it: hosts of older versions
    /// look at nothing else, and not every file system locks folders.
    _locks: [Option<File>; 2],
}

impl FolderLock {
    /// Makes the folder where it is not there.
    pub fn take(folder: &Path) -> Result<Self, OpenError> {
        let unusable = |why| OpenError::Folder { path: folder.to_owned(), why };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
        let itself = File::open(folder).map_err(unusable)?;
        let itself = match itself.try_lock() {
            Ok(()) => Some(itself),
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { path: folder.to_owned() });
            }
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, "the data folder itself cannot be locked: only callboard.lock keeps a second host out");
                None
            }
        };
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(folder.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _locks: [itself, Some(lock)] }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(why)) => Err(unusable(why)),
        }
    }
}
