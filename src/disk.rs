//! Free space on the disk.

use std::path::Path;
use std::process::Command;

/// Below this a host cannot start, or will soon refuse to write.
pub(crate) const LEAST_SPACE: u64 = 64 * 1024 * 1024;

/// The free bytes of the disk that holds a path, or would hold it, where it is one: some file systems have no room at
/// all. The standard library cannot ask; `df` in its portable form can.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let answer = Command::new("df").arg("-Pk").arg(existing).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let mut columns = text.lines().nth(1)?.split_whitespace().skip(1);
    let all: u64 = columns.next()?.parse().ok()?;
    let kibibytes: u64 = columns.nth(1)?.parse().ok()?;
    (all > 0).then_some(kibibytes.saturating_mul(1024))
}
