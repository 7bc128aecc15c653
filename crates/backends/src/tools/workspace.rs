//! The folder of a run's files, which no path leads out of.
//!
//! Every part of a path is opened beneath the one before it and never through a link, so that a link that
//! appears between a check and its use changes nothing.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use callboard_agents::ToolFault;

/// Enough for any source file, small enough to be shown to a model.
pub(super) const MOST_FILE: usize = 4 << 20;
/// A run that fills the disk stops every other run.
const MOST_BYTES: u64 = 256 << 20;
const MOST_FILES: usize = 10_000;
const DEEPEST: usize = 16;
const LONGEST_PATH: usize = 1_024;
/// What a file is called until it is whole. A crash may leave one, which the next file of its folder takes away.
const DRAFT: &str = ".callboard-draft";

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(SAFE);
/// Links are not followed, children do not inherit, and opening a pipe without a writer does not block.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    Overwrite,
    CreateOnly,
    Append,
}

/// A file that was found by walking the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: String,
    pub(super) size: u64,
}

/// An open workspace.
#[derive(Debug)]
pub(super) struct Workspace(OwnedFd);

impl Workspace {
    /// None when the run has written nothing yet.
    pub(super) fn open(folder: &Path) -> Result<Option<Self>, ToolFault> {
        // The host chose this path, so the links in it are the operator's own.
        match rustix::fs::openat(
            CWD,
            folder,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(unusable(errno)),
        }
    }

    pub(super) fn open_or_make(folder: &Path) -> Result<Self, ToolFault> {
        use std::os::unix::fs::DirBuilderExt as _;

        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|_| ToolFault::Unavailable("the workspace cannot be made".to_owned()))?;
        Self::open(folder)?.ok_or_else(|| unusable(Errno::NOENT))
    }

    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, ToolFault> {
        let parts = parts(path)?;
        let (name, folders) = parts.split_last().ok_or_else(no_name)?;
        let folder = self.descend(folders, Missing::IsRefused)?;
        let file = rustix::fs::openat(&folder, *name, OFlags::RDONLY | SAFE, Mode::empty())
            .map_err(|errno| refuse(errno, path))?;
        let mut content = Vec::new();
        let most = u64::try_from(MOST_FILE).unwrap_or(u64::MAX);
        let read = regular(file, path)?.take(most + 1).read_to_end(&mut content);
        read.map_err(|error| failed(&error))?;
        if content.len() > MOST_FILE {
            return Err(ToolFault::Refused(format!("{path} is larger than {MOST_FILE} bytes")));
        }
        Ok(content)
    }

    /// Writes a file as a whole: a concurrent reader sees the old one or the new one.
    pub(super) fn write(
        &self,
        path: &str,
        content: &[u8],
        mode: WriteMode,
    ) -> Result<(), ToolFault> {
        if content.len() > MOST_FILE {
            return Err(ToolFault::Refused(format!("a file has at most {MOST_FILE} bytes")));
        }
        let parts = parts(path)?;
        let (name, folders) = parts.split_last().ok_or_else(no_name)?;
        let _others_wait = self.lock()?;
        self.make_room(content.len())?;
        let folder = self.descend(folders, Missing::IsMade)?;
        let content = match (kind_of(&folder, name, path)?, mode) {
            (Some(FileType::RegularFile), WriteMode::CreateOnly) => {
                return Err(ToolFault::Refused(format!("{path} is already there")));
            }
            (Some(FileType::RegularFile), WriteMode::Append) => {
                let mut whole = self.read(path)?;
                whole.extend_from_slice(content);
                if whole.len() > MOST_FILE {
                    return Err(ToolFault::Refused(format!(
                        "a file has at most {MOST_FILE} bytes"
                    )));
                }
                whole
            }
            (Some(FileType::RegularFile), WriteMode::Overwrite) | (None, _) => content.to_vec(),
            (Some(_), _) => return Err(ToolFault::Refused(format!("{path} is not a file"))),
        };
        replace(&folder, name, &content, path)
    }

    /// Every file below the folder, links and their targets left out, in the order of their paths.
    pub(super) fn files(&self) -> Result<Vec<Found>, ToolFault> {
        let mut found = Vec::new();
        let root = self.0.try_clone().map_err(|error| failed(&error))?;
        walk(root, "", 0, &mut found)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Nodes of one run work side by side: each writes when the one before is done.
    fn lock(&self) -> Result<OwnedFd, ToolFault> {
        // Opened anew, because locks belong to what was opened: a copy would let itself in.
        let lock = rustix::fs::openat(&self.0, ".", FOLDER, Mode::empty()).map_err(unusable)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(unusable)?;
        Ok(lock)
    }

    fn make_room(&self, more: usize) -> Result<(), ToolFault> {
        let files = self.files()?;
        let used: u64 = files.iter().map(|file| file.size).sum();
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        if files.len() >= MOST_FILES || used.saturating_add(more) > MOST_BYTES {
            return Err(ToolFault::refused("the workspace is full"));
        }
        Ok(())
    }

    fn descend(&self, folders: &[&str], missing: Missing) -> Result<OwnedFd, ToolFault> {
        let mut at = self.0.try_clone().map_err(|error| failed(&error))?;
        for name in folders {
            if missing == Missing::IsMade {
                match rustix::fs::mkdirat(&at, *name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(refuse(errno, name)),
                }
            }
            at = rustix::fs::openat(&at, *name, FOLDER, Mode::empty())
                .map_err(|errno| refuse(errno, name))?;
        }
        Ok(at)
    }
}

/// What a folder on the way that is not there means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsRefused,
    IsMade,
}

/// The names that a path consists of, if all of them lead downwards.
fn parts(path: &str) -> Result<Vec<&str>, ToolFault> {
    if path.len() > LONGEST_PATH || path.contains(['\0', '\\']) {
        return Err(ToolFault::refused("the path is not one that this host takes"));
    }
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => parts.extend(name.to_str()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(ToolFault::refused(
                    "a path stays within the workspace: no .. and no leading /",
                ));
            }
        }
    }
    if parts.contains(&DRAFT) {
        return Err(ToolFault::Refused(format!("{DRAFT} is a name of this host's own")));
    }
    if parts.len() > DEEPEST {
        return Err(ToolFault::Refused(format!("a path has at most {DEEPEST} parts")));
    }
    Ok(parts)
}

fn kind_of(folder: &OwnedFd, name: &str, path: &str) -> Result<Option<FileType>, ToolFault> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refuse(errno, path)),
    }
}

/// A pipe or a device is no file, whatever it can be opened as.
fn regular(file: OwnedFd, path: &str) -> Result<File, ToolFault> {
    let file = File::from(file);
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if metadata.is_file() {
        Ok(file)
    } else {
        Err(ToolFault::Refused(format!("{path} is not a file")))
    }
}

fn replace(folder: &OwnedFd, name: &str, content: &[u8], path: &str) -> Result<(), ToolFault> {
    match rustix::fs::unlinkat(folder, DRAFT, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(refuse(errno, path)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | SAFE;
    let draft = rustix::fs::openat(folder, DRAFT, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| refuse(errno, path))?;
    let mut draft = File::from(draft);
    let written = draft.write_all(content).and_then(|()| draft.sync_all());
    let written = written.map_err(|error| failed(&error)).and_then(|()| {
        rustix::fs::renameat(folder, DRAFT, folder, name).map_err(|errno| refuse(errno, path))
    });
    if written.is_err() {
        // On a full disk half a file is worse than none.
        let _ = rustix::fs::unlinkat(folder, DRAFT, AtFlags::empty());
    }
    written
}

fn walk(
    folder: OwnedFd,
    prefix: &str,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<(), ToolFault> {
    let entries = Dir::read_from(&folder).map_err(unusable)?;
    for entry in entries {
        let entry = entry.map_err(unusable)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | ".." | DRAFT) || found.len() >= MOST_FILES {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let path = format!("{prefix}{name}");
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                found.push(Found { path, size: u64::try_from(stat.st_size).unwrap_or(0) });
            }
            FileType::Directory if depth < DEEPEST => {
                if let Ok(inner) = rustix::fs::openat(&folder, name, FOLDER, Mode::empty()) {
                    walk(inner, &format!("{path}/"), depth + 1, found)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn no_name() -> ToolFault {
    ToolFault::refused("the path names no file")
}

/// As a path in the workspace: its place on this machine is not shown.
fn refuse(errno: Errno, path: &str) -> ToolFault {
    match errno {
        Errno::NOENT => ToolFault::Refused(format!("there is no {path}")),
        Errno::LOOP | Errno::MLINK => {
            ToolFault::Refused(format!("{path} is a link, and links are not followed"))
        }
        Errno::NOTDIR => ToolFault::Refused(format!("{path} leads through a file or a link")),
        Errno::ISDIR => ToolFault::Refused(format!("{path} is a folder")),
        Errno::NOSPC | Errno::DQUOT => ToolFault::Unavailable("the disk is full".to_owned()),
        _ => ToolFault::Refused(format!("{path} cannot be used")),
    }
}

fn unusable(_: Errno) -> ToolFault {
    ToolFault::Unavailable("the workspace cannot be used".to_owned())
}

pub(super) fn failed(error: &std::io::Error) -> ToolFault {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            ToolFault::Unavailable("the disk is full".to_owned())
        }
        _ => ToolFault::Unavailable("the workspace cannot be used".to_owned()),
    }
}

#[cfg(test)]
#[path = "workspace/tests.rs"]
mod tests;
