//! The last position of the log that was acknowledged, beside the database.
//!
//! SQLite takes a truncated write-ahead log for a shorter one: its last commits are lost without an error. The
//! mark shows it: it is written after each commit and before any answer, so a database that ends before it has lost
//! events. It is not flushed, since an outdated mark only detects less. Writes without an event, such as a key, are not
//! counted, and neither is a database that was lost together with its mark.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::Connection;

const MARK: &str = "callboard.mark";
/// Stays until an operator who has read it removes it.
const LOST: &str = "callboard.lost";
/// As wide as the largest position, so that a smaller one overwrites all of a larger one.
const WIDTH: usize = 20;

#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    written: u64,
}

impl Mark {
    /// Compares the mark with the database, and leaves a note where events are missing.
    pub(super) fn open(folder: &Path, db: &Connection) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(folder.join(MARK))?;
        let mut bytes = [0; WIDTH];
        let acknowledged: u64 = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
            // A new one.
            Err(_) => 0,
        };
        let there = last(db).map_err(io::Error::other)?;
        if there < acknowledged {
            let note = format!(
                "events {} to {acknowledged} of the log are missing, with their runs\n",
                there + 1
            );
            fs::write(folder.join(LOST), note)?;
        }
        let mut mark = Self { file, written: acknowledged };
        mark.write(there);
        if let Ok(note) = fs::read_to_string(folder.join(LOST)) {
            let note = note.trim_end();
            tracing::error!(
                note,
                "the database has lost acknowledged events, or was replaced by an older copy: restore it from a backup, or remove callboard.lost to continue without them"
            );
        }
        Ok(mark)
    }

    /// After a commit.
    pub(super) fn keep(&mut self, db: &Connection) {
        // What cannot be read now is read after the next commit.
        if let Ok(position) = last(db) {
            self.write(position);
        }
    }

    fn write(&mut self, position: u64) {
        let text = format!("{position:0WIDTH$}");
        // On a full disk the old mark stays, which says less and nothing wrong.
        if position != self.written && self.file.write_all_at(text.as_bytes(), 0).is_ok() {
            self.written = position;
        }
    }
}

fn last(db: &Connection) -> Result<u64, rusqlite::Error> {
    let sql = "SELECT coalesce(max(position), 0) FROM events";
    let position: i64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(position.unsigned_abs())
}
