//! A backup as one file: a tar archive whose last entries list every other with its size and digest. An archive that
//! is cut has no list, and one that was changed does not match it.
//!
//! An old reader refuses a later format; a new reader reads every earlier one; archives are never written to again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use callboard_protocol::{Timestamp, hex};

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const DIGEST: &str = "manifest.sha256";
/// A list of a million files is about a hundred megabytes; larger ones are not ours.
const LARGEST_MANIFEST: u64 = 256 * 1024 * 1024;

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    format: u32,
    pub(crate) created_at: Timestamp,
    /// The version of the program that wrote it.
    pub(crate) version: String,
    pub(crate) schema: i32,
    pub(crate) runs: u64,
    /// The last position of the log of all runs.
    pub(crate) position: u64,
    pub(crate) files: Vec<Listed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Manifest {
    pub(crate) fn new(created_at: Timestamp, schema: i32, runs: u64, position: u64) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT, created_at, version, schema, runs, position, files: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Why an archive is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("it cannot be read or written: {0}")]
    Io(#[from] io::Error),
    #[error("it is cut off: its list of files is missing")]
    Cut,
    #[error("it was changed: {0}")]
    Changed(String),
    #[error("it has the format {0}, which a newer version wrote")]
    Newer(u32),
    #[error("{0} changed while it was copied")]
    Moving(String),
}

/// Writes files under the given names, then the list of them.
pub(crate) fn write(
    into: &mut File,
    files: &[(String, PathBuf)],
    mut manifest: Manifest,
) -> Result<Manifest, ArchiveError> {
    let mut archive = Builder::new(&mut *into);
    for (name, path) in files {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut reader = Hashing::new(file.take(bytes));
        append(&mut archive, name, bytes, &mut reader)?;
        if reader.bytes != bytes {
            return Err(ArchiveError::Moving(name.clone()));
        }
        let sha256 = reader.digest();
        manifest.files.push(Listed { path: name.clone(), bytes, sha256 });
    }
    let list = serde_json::to_vec(&manifest).map_err(io::Error::other)?;
    let digest = hex(Sha256::digest(&list));
    append(&mut archive, MANIFEST, list.len() as u64, &mut list.as_slice())?;
    append(&mut archive, DIGEST, digest.len() as u64, &mut digest.as_bytes())?;
    archive.finish()?;
    drop(archive);
    into.sync_all()?;
    Ok(manifest)
}

fn append(
    archive: &mut Builder<&mut File>,
    name: &str,
    bytes: u64,
    from: &mut dyn Read,
) -> Result<(), ArchiveError> {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_entry_type(EntryType::Regular);
    archive.append_data(&mut header, name, from)?;
    Ok(())
}

/// Reads an archive through and compares it with its list; its files go into the folder, where one is given.
pub(crate) fn read(archive: &Path, into: Option<&Path>) -> Result<Manifest, ArchiveError> {
    let mut found = Vec::new();
    let (mut list, mut digest) = (None, None);
    let mut opened = Archive::new(File::open(archive)?);
    for entry in opened.entries()? {
        let mut entry = entry?;
        let name = name_of(&entry.path()?)?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(ArchiveError::Changed(format!("{name} is no file")));
        }
        if list.is_none() && name != MANIFEST {
            found.push(take(&mut entry, &name, into)?);
            continue;
        }
        let mut text = Vec::new();
        (&mut entry).take(LARGEST_MANIFEST).read_to_end(&mut text)?;
        match name.as_str() {
            MANIFEST if list.is_none() => list = Some(text),
            DIGEST if digest.is_none() => digest = Some(text),
            _ => return Err(ArchiveError::Changed(format!("{name} stands after the list"))),
        }
    }
    let (Some(list), Some(digest)) = (list, digest) else { return Err(ArchiveError::Cut) };
    if hex(Sha256::digest(&list)).as_bytes() != digest {
        return Err(ArchiveError::Changed("its list of files".to_owned()));
    }
    let format = serde_json::from_slice::<Format>(&list)
        .map_err(|error| ArchiveError::Changed(error.to_string()))?;
    if format.format > FORMAT {
        return Err(ArchiveError::Newer(format.format));
    }
    let manifest: Manifest =
        serde_json::from_slice(&list).map_err(|error| ArchiveError::Changed(error.to_string()))?;
    match manifest.files.iter().zip(&found).find(|(listed, found)| listed != found) {
        Some((listed, _)) => Err(ArchiveError::Changed(listed.path.clone())),
        None if manifest.files.len() != found.len() => {
            Err(ArchiveError::Changed("a file is missing or was added".to_owned()))
        }
        None => Ok(manifest),
    }
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// A path that stays below the folder that it is put into.
fn name_of(path: &Path) -> Result<String, ArchiveError> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    match path.to_str() {
        Some(name) if is_plain && !name.is_empty() => Ok(name.to_owned()),
        _ => Err(ArchiveError::Changed(format!("{} leads elsewhere", path.display()))),
    }
}

fn take(entry: &mut impl Read, name: &str, into: Option<&Path>) -> Result<Listed, ArchiveError> {
    let mut reader = Hashing::new(entry);
    match into {
        None => io::copy(&mut reader, &mut io::sink())?,
        Some(folder) => {
            let target = folder.join(name);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(target)?;
            let copied = io::copy(&mut reader, &mut file)?;
            file.flush()?;
            file.sync_all()?;
            copied
        }
    };
    Ok(Listed { path: name.to_owned(), bytes: reader.bytes, sha256: reader.digest() })
}

/// Reads on, and remembers what was read.
struct Hashing<R> {
    from: R,
    digest: Sha256,
    bytes: u64,
}

impl<R> Hashing<R> {
    fn new(from: R) -> Self {
        Self { from, digest: Sha256::new(), bytes: 0 }
    }

    fn digest(self) -> String {
        hex(self.digest.finalize())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path) -> PathBuf {
        let (one, two) = (folder.join("one"), folder.join("two"));
        fs::write(&one, "first").unwrap();
        fs::write(&two, vec![7; 70_000]).unwrap();
        let path = folder.join("archive");
        let manifest = Manifest::new(Timestamp::from_millis(0), 1, 2, 3);
        let files = [("a".to_owned(), one), ("below/b".to_owned(), two)];
        write(&mut File::create(&path).unwrap(), &files, manifest).unwrap();
        path
    }

    #[test]
    fn what_was_written_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let archive = written(folder.path());
        let out = folder.path().join("out");
        let manifest = read(&archive, Some(&out)).unwrap();
        assert_eq!((manifest.files.len(), manifest.bytes()), (2, 70_005));
        assert_eq!(fs::read(out.join("below/b")).unwrap(), vec![7; 70_000]);
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let archive = written(folder.path());
        let whole = fs::read(&archive).unwrap();
        // The end of a tar archive is two empty blocks, which say nothing.
        let last = whole.len() - 1024;
        for cut in (0..last).step_by(509) {
            fs::write(&archive, &whole[..cut]).unwrap();
            assert!(read(&archive, None).is_err(), "cut at {cut} of {last}");
        }
    }

    #[test]
    fn a_changed_byte_of_any_file_or_of_the_list_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let archive = written(folder.path());
        let whole = fs::read(&archive).unwrap();
        let at = |text: &[u8]| whole.windows(text.len()).position(|it| it == text).unwrap();
        for place in [at(b"first"), at(&[7; 9]), at(b"\"schema\":1") + 9, at(b"below/b")] {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            fs::write(&archive, changed).unwrap();
            assert!(read(&archive, None).is_err(), "changed at {place}");
        }
    }

    #[test]
    fn a_path_cannot_leave_the_folder() {
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(name_of(Path::new(path)).is_err(), "{path}");
        }
    }
}
