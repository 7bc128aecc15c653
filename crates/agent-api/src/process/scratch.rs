//! The private folder of one run, gone when the run is.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Readable by its owner only.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// In the folder that is named, which is made when it is missing, or in the system's temporary one.
    pub(crate) fn new(within: Option<&Path>) -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        builder.prefix("agent-").permissions(private);
        let folder = match within {
            Some(within) => {
                private_folder(within)?;
                builder.tempdir_in(within)?
            }
            None => builder.tempdir()?,
        };
        let scratch = Self { folder };
        for name in ["home", "work", "tmp"] {
            private_folder(&scratch.folder.path().join(name))?;
        }
        Ok(scratch)
    }

    pub(crate) fn top(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        write_new(&self.file(name), content)
    }
}

/// Writes a file for its owner only, unless there is one.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// Makes a folder for its owner only, with what lies above it.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_can_look_into_a_run() {
        let scratch = Scratch::new(None).unwrap();
        scratch.write("prompt", b"secret").unwrap();
        let top = scratch.folder.path().to_path_buf();
        for path in
            [top, scratch.home(), scratch.work(), scratch.temporary(), scratch.file("prompt")]
        {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }
}
