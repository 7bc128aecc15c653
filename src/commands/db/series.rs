//! A folder of archives that are named by their time: which one is next, which one a time means, which ones go.

use std::fs;
use std::path::{Path, PathBuf};

use callboard_protocol::Timestamp;

use crate::exit::{CommandError, Exit};

const BEFORE: &str = "callboard-";
const AFTER: &str = ".tar";

/// The folder, made where it is not there.
pub(super) fn made(folder: &Path) -> Result<&Path, CommandError> {
    fs::create_dir_all(folder).map_err(|error| unread(folder, &error))?;
    Ok(folder)
}

/// The archive that holds nothing from after a time.
pub(super) fn name_in(folder: &Path, at: Timestamp) -> PathBuf {
    folder.join(name(at))
}

/// As times are written, without what some file systems do not take: names are in the order of their times.
fn name(at: Timestamp) -> String {
    format!("{BEFORE}{}{AFTER}", at.to_string().replace(':', "-"))
}

/// The newest archive that is not later than a time.
pub(super) fn at(folder: &Path, time: &str) -> Result<PathBuf, CommandError> {
    let wanted: Timestamp = time.parse().map_err(|_| {
        CommandError::usage(format!("--to {time:?} is no time"))
            .hint("write it as 2026-01-31T12:00:00Z")
    })?;
    let wanted = name(wanted);
    let all = archives(folder)?;
    let found = all.iter().rev().find(|archive| **archive <= wanted);
    found.map(|archive| folder.join(archive)).ok_or_else(|| {
        let oldest = all.first().map(|first| format!("the oldest is {first}"));
        CommandError::new(
            Exit::NotFound,
            format!("{} has no archive of {time} or before", folder.display()),
        )
        .hint(oldest.unwrap_or_else(|| "`callboard db backup --into DIR` makes them".to_owned()))
    })
}

/// Removes all but the newest.
pub(super) fn forget(folder: &Path, keep: usize) -> Result<(), CommandError> {
    let all = archives(folder)?;
    for archive in all.iter().rev().skip(keep) {
        fs::remove_file(folder.join(archive)).map_err(|error| unread(folder, &error))?;
    }
    Ok(())
}

/// The archives of a folder, the oldest first. What is called otherwise is not ours.
fn archives(folder: &Path) -> Result<Vec<String>, CommandError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unread(folder, &error))? {
        let entry = entry.map_err(|error| unread(folder, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let time = name.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
        if time.is_some_and(|time| time.len() == LENGTH && time.ends_with('Z')) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// `2026-01-31T12-00-00.000Z`.
const LENGTH: usize = 24;

fn unread(folder: &Path, error: &std::io::Error) -> CommandError {
    CommandError::failed(format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_means_the_newest_archive_that_is_not_later() {
        let folder = tempfile::tempdir().unwrap();
        let at_minute = |minute: i64| Timestamp::from_millis(1_800_000_000_000 + minute * 60_000);
        for minute in [0, 10, 20, 30] {
            fs::write(name_in(folder.path(), at_minute(minute)), "").unwrap();
        }
        fs::write(folder.path().join("callboard-nightly.tar"), "").unwrap();
        let found = |minute: i64| at(folder.path(), &at_minute(minute).to_string());
        for (wanted, minute) in [(30, 30), (29, 20), (500, 30), (0, 0)] {
            assert_eq!(found(wanted).unwrap(), folder.path().join(name(at_minute(minute))));
        }
        let early = found(-1).unwrap_err();
        assert!(early.what.contains("no archive"), "{}", early.what);
        assert!(at(folder.path(), "yesterday").is_err());
        forget(folder.path(), 2).unwrap();
        assert_eq!(archives(folder.path()).unwrap(), [name(at_minute(20)), name(at_minute(30))]);
        assert!(folder.path().join("callboard-nightly.tar").exists());
    }
}
