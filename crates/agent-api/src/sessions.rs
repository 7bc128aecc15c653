//! The last session in a folder, as far as this crate started it.
//!
//! Agents start a new session when they are asked to resume the last one and there is none. So the last one is
//! looked up here and resumed by its id.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kind::AgentKind;
use crate::process::scratch::private_folder;

/// The page of one folder in the book of one kind in one home.
#[derive(Debug, Clone)]
pub(crate) struct SessionBook {
    file: PathBuf,
    working_dir: String,
}

/// Stored in the agent's home. An unknown version counts as no book: the last session is then not found,
/// which is refused, and the next run writes a new one.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    version: u32,
    last: BTreeMap<String, String>,
}

const VERSION: u32 = 1;

impl SessionBook {
    pub(crate) fn new(home: &Path, kind: &AgentKind, working_dir: &Path) -> Self {
        Self {
            file: home.join(".agent-api").join(format!("{kind}.json")),
            working_dir: working_dir.to_string_lossy().into_owned(),
        }
    }

    pub(crate) fn last(&self) -> Option<String> {
        self.read().last.remove(&self.working_dir)
    }

    /// A book that cannot be written costs the word "last", never the run.
    pub(crate) fn remember(&self, id: &str) {
        let mut book = self.read();
        book.version = VERSION;
        book.last.insert(self.working_dir.clone(), id.to_owned());
        let _ = self.write(&book);
    }

    fn read(&self) -> Book {
        let stored = fs::read(&self.file).ok();
        let book = stored.and_then(|bytes| serde_json::from_slice::<Book>(&bytes).ok());
        book.filter(|book| book.version == VERSION).unwrap_or_default()
    }

    fn write(&self, book: &Book) -> std::io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        private_folder(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, &serde_json::to_vec(book)?)?;
        file.persist(&self.file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_session_is_known_by_kind_and_folder() {
        let home = tempfile::tempdir().unwrap();
        let kind = AgentKind::new("codex").unwrap();
        let here = SessionBook::new(home.path(), &kind, Path::new("/a"));
        assert_eq!(here.last(), None);
        here.remember("one");
        here.remember("two");
        assert_eq!(here.last().as_deref(), Some("two"));
        assert_eq!(SessionBook::new(home.path(), &kind, Path::new("/b")).last(), None);
        let other = AgentKind::new("opencode").unwrap();
        assert_eq!(SessionBook::new(home.path(), &other, Path::new("/a")).last(), None);
    }

    #[test]
    fn a_book_that_cannot_be_read_is_no_book() {
        let home = tempfile::tempdir().unwrap();
        let book = SessionBook::new(home.path(), &AgentKind::known("codex"), Path::new("/a"));
        book.remember("one");
        fs::write(&book.file, b"{\"version\":2,\"last\":{\"/a\":\"x\"}}").unwrap();
        assert_eq!(book.last(), None);
        fs::write(&book.file, b"garbage").unwrap();
        assert_eq!(book.last(), None);
        book.remember("three");
        assert_eq!(book.last().as_deref(), Some("three"));
    }
}
