//! The checks of this machine: file, folder, database, disk.

use std::fs::{File, Metadata, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callboard_store::{PostgresStore, SqliteStore};

use super::{Check, State};
use crate::config::Config;
use crate::disk::{LEAST_SPACE, free_bytes};
use crate::exit::CommandError;
use crate::wire::database::unconnected;

/// A database above this size is not copied just to look at it; the host checks it when it starts.
const LARGEST_COPY: u64 = 256 * 1024 * 1024;
/// Below this the operator should free space.
const LITTLE_SPACE: u64 = 1024 * 1024 * 1024;
/// More than a machine whose clock is kept right is ever off.
const LARGEST_SKEW_MS: u64 = 1_000;
/// What makes up a store: the database, its write-ahead log, and the key that sealed it.
const STORE_FILES: [&str; 5] =
    ["callboard.db", "callboard.db-wal", "callboard.mark", "callboard.lost", "host.key"];

pub(super) fn configuration(config: &Result<Config, CommandError>) -> Check {
    let name = "configuration";
    match config {
        Ok(Config { path: Some(path), .. }) => {
            Check::new(name, State::Ok, path.display().to_string())
        }
        Ok(_) => Check::new(name, State::Ok, "no file; defaults apply"),
        Err(error) => Check::of(name, error),
    }
}

pub(super) fn data_folder(folder: &Path) -> Check {
    let name = "data folder";
    let shown = folder.display();
    let metadata = match std::fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::new(
                name,
                State::Skipped,
                format!("{shown} does not exist; `callboard serve` creates it"),
            );
        }
        Err(error) => return unusable(folder, &error.to_string()),
    };
    if !metadata.is_dir() {
        return unusable(folder, "it is not a folder");
    }
    if let Err(error) = tempfile::tempfile_in(folder) {
        return unusable(folder, &error.to_string());
    }
    match mode(&metadata) {
        0o700 => Check::new(name, State::Ok, shown.to_string()),
        mode => Check::new(
            name,
            State::Warning,
            format!("{shown} has the mode {mode:04o}, so others may look into it"),
        )
        .hint(format!("chmod 700 {shown}")),
    }
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o777
}

fn unusable(folder: &Path, why: &str) -> Check {
    Check::new("data folder", State::Failed, format!("{} cannot be used: {why}", folder.display()))
        .hint("let this user write there, or choose another folder with --data or CALLBOARD_DATA")
}

/// Opens a copy, so that looking neither migrates the database nor takes a run away from a host.
pub(super) fn database(folder: &Path) -> Check {
    let name = "database";
    let Ok(metadata) = std::fs::metadata(folder.join("callboard.db")) else {
        return Check::new(name, State::Skipped, "none yet; `callboard serve` creates it");
    };
    if is_locked(folder) {
        return lost(folder)
            .unwrap_or_else(|| Check::new(name, State::Ok, "in use by a running host"));
    }
    if metadata.len() > LARGEST_COPY {
        return Check::new(
            name,
            State::Skipped,
            "too large to look into without a host; the host checks it when it starts",
        );
    }
    let copy = match copy_store(folder) {
        Ok(copy) => copy,
        Err(error) => {
            return Check::new(name, State::Failed, format!("cannot be read: {error}"))
                .hint("let this user read the files of the data folder");
        }
    };
    match SqliteStore::open(copy.path()) {
        Ok(_) => lost(copy.path()).unwrap_or_else(|| {
            Check::new(name, State::Ok, format!("whole, {} KiB", metadata.len() / 1024))
        }),
        Err(error) => {
            let found = error
                .to_string()
                .replace(&copy.path().display().to_string(), &folder.display().to_string());
            Check::new(name, State::Failed, found).hint(error.hint())
        }
    }
}

/// Looks without migrating and without the key: what a start would do is for the start.
pub(super) async fn shared_database(url: &str) -> Check {
    let name = "database";
    match PostgresStore::look(url).await {
        Ok(look) => {
            let skew = look.ahead_ms.unsigned_abs();
            let found = format!(
                "PostgreSQL {} at {}, schema {}, its clock {} ms {} this machine's",
                look.server,
                look.address,
                look.schema.map_or_else(|| "not made yet".to_owned(), |schema| schema.to_string()),
                skew,
                if look.ahead_ms < 0 { "behind" } else { "ahead of" }
            );
            let state = if skew > LARGEST_SKEW_MS { State::Warning } else { State::Ok };
            let check = Check::new(name, state, found);
            if state == State::Ok {
                return check;
            }
            check.hint("hosts go by the database's clock; set this machine's clock, so that its logs can be compared")
        }
        Err(error) => Check::of(name, &unconnected(&error)),
    }
}

fn is_locked(folder: &Path) -> bool {
    [folder.to_owned(), folder.join("callboard.lock")].iter().any(|path| {
        let lock = File::open(path);
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    })
}

/// What a start has noted of events that were there and are not any more.
fn lost(folder: &Path) -> Option<Check> {
    let note = std::fs::read_to_string(folder.join("callboard.lost")).ok()?;
    let check = Check::new("database", State::Failed, note.trim_end());
    Some(check.hint("restore the data folder from a backup, or remove callboard.lost to continue without the lost events"))
}

/// Whoever can read the key and a copy of the database can read everything that is sealed in it.
pub(super) fn host_key(folder: &Path) -> Option<Check> {
    let path = folder.join("host.key");
    let mode = mode(&std::fs::metadata(&path).ok()?);
    (mode & 0o077 != 0).then(|| {
        let found = format!("{} has the mode {mode:04o}, so others may read it", path.display());
        Check::new("host key", State::Warning, found).hint(format!("chmod 600 {}", path.display()))
    })
}

fn copy_store(folder: &Path) -> std::io::Result<tempfile::TempDir> {
    let copy = tempfile::tempdir()?;
    for file in STORE_FILES {
        match std::fs::copy(folder.join(file), copy.path().join(file)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(copy)
}

pub(super) fn disk_space(folder: &Path) -> Check {
    let name = "disk space";
    let Some(free) = free_bytes(folder) else {
        return Check::new(name, State::Skipped, "`df` is not installed");
    };
    let found = format!("{:.1} GiB free", free as f64 / (1 << 30) as f64);
    let hint = "make room, or move the data folder: a host without space refuses to write";
    match free {
        ..LEAST_SPACE => Check::new(name, State::Failed, found).hint(hint),
        LEAST_SPACE..LITTLE_SPACE => Check::new(name, State::Warning, found).hint(hint),
        _ => Check::new(name, State::Ok, found),
    }
}
