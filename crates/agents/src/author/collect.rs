//! A folder as an archive: the same bytes on every machine, at any time.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::archive::{Files, Limits, check_name, is_leftover};
use crate::error::PackError;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum AuthorError {
    #[error("{path}: {error}", path = .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{path} is a link or no plain file; a pack holds only plain files", path = .0.display())]
    NotPlain(PathBuf),
    #[error("{path} has no UTF-8 name", path = .0.display())]
    Name(PathBuf),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("the archive cannot be written: {0}")]
    Unwritable(io::Error),
}

/// Packs a folder. Hidden files and build output are left out; links are never followed.
pub fn collect(folder: &Path) -> Result<Vec<u8>, AuthorError> {
    let mut files = Files::new();
    walk(folder, "", &mut files)?;
    bundle(&files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), AuthorError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| AuthorError::Unreadable { path, error }
    };
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| AuthorError::Name(path.clone()))?;
        if name.starts_with('.') || is_leftover(name) {
            continue;
        }
        let inside = format!("{prefix}{name}");
        // Of the entry itself, not of what a link leads to.
        let kind = entry.file_type().map_err(unreadable(&path))?;
        if kind.is_dir() {
            walk(&path, &format!("{inside}/"), files)?;
        } else if kind.is_file() {
            check_name(&inside)?;
            refuse_more(files)?;
            let limit = Limits::default().entry;
            let length = entry.metadata().map_err(unreadable(&path))?.len();
            if usize::try_from(length).is_ok_and(|length| length > limit) {
                return Err(PackError::EntryTooLarge { path: inside, limit }.into());
            }
            files.insert(inside, Arc::from(fs::read(&path).map_err(unreadable(&path))?));
        } else {
            return Err(AuthorError::NotPlain(path));
        }
    }
    Ok(())
}

/// A folder that is no pack may hold a whole disk.
fn refuse_more(files: &Files) -> Result<(), PackError> {
    let limits = Limits::default();
    if files.len() >= limits.entries {
        return Err(PackError::TooManyEntries { limit: limits.entries });
    }
    if files.values().map(|bytes| bytes.len()).sum::<usize>() > limits.unpacked {
        return Err(PackError::UnpackedTooLarge { limit: limits.unpacked });
    }
    Ok(())
}

/// Writes files in the order of their names, with nothing in the headers that depends on when or where.
pub fn bundle(files: &Files) -> Result<Vec<u8>, AuthorError> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut tar = Builder::new(gzip);
    for (path, bytes) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        header.set_path(path).map_err(AuthorError::Unwritable)?;
        header.set_cksum();
        tar.append(&header, bytes.as_ref()).map_err(AuthorError::Unwritable)?;
    }
    let mut gzip = tar.into_inner().map_err(AuthorError::Unwritable)?;
    gzip.flush().map_err(AuthorError::Unwritable)?;
    gzip.finish().map_err(AuthorError::Unwritable)
}
