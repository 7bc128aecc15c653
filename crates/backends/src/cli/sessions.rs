//! Session files of coding agents, kept so that a session can go on where its home was lost.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use callboard_agents::Errand;
use callboard_engine::CodingSessions;

use super::{CliAgents, kinds};

/// A long session has a few megabytes; what is larger stays on its host.
const MOST_BYTES: u64 = 4 << 20;
/// Agents write one file for a session, or one for each turn.
const MOST_FILES: usize = 512;
/// Old readers refuse another version, which is like having nothing; a new reader keeps the branch of every older one.
const VERSION: u64 = 1;

/// The home of one errand, where it is one that this host made.
struct Home<'a> {
    store: &'a dyn CodingSessions,
    path: PathBuf,
    name: String,
    /// Where sessions lie below it.
    folders: Vec<PathBuf>,
}

impl CliAgents {
    /// Puts a session's files back where they are gone. A session that is still missing says so itself.
    pub(super) async fn restore(&self, errand: &Errand<'_>) {
        let Some(home) = self.kept_home(errand) else { return };
        if home.folders.iter().any(|folder| home.path.join(folder).exists()) {
            return;
        }
        let kept = home.store.kept_session(errand.tenant, errand.run, &home.name).await;
        let restored = match kept {
            Ok(None) => return,
            Ok(Some(text)) => unpack(&home.path, &text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = restored {
            tracing::warn!(%error, run = %errand.run, "a coding agent's session was not restored");
        }
    }

    /// Keeps a session's files as they are now. The session goes on here even if that fails.
    pub(super) async fn keep(&self, errand: &Errand<'_>) {
        let Some(home) = self.kept_home(errand) else { return };
        let kept = match pack(&home.path, &home.folders) {
            Ok(None) => return,
            Ok(Some(text)) => {
                let kept = home.store.keep_session(errand.tenant, errand.run, &home.name, text);
                kept.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, run = %errand.run, "a coding agent's session was not kept");
        }
    }

    fn kept_home(&self, errand: &Errand<'_>) -> Option<Home<'_>> {
        let store = self.sessions.as_deref().filter(|_| self.settings.home.is_none())?;
        let folders: Vec<PathBuf> = match kinds::find(errand.kind) {
            Some(kind) => kind.sessions.iter().map(PathBuf::from).collect(),
            None => self.settings.agents.get(errand.kind)?.sessions.clone(),
        };
        let path = self.folders.prepare(errand.tenant, errand.run).ok()?;
        let path = path.home(errand.node, errand.visit);
        let name = path.file_name()?.to_string_lossy().into_owned();
        (!folders.is_empty()).then_some(Home { store, path, name, folders })
    }
}

/// The files below the folders as one text; none where there are none.
fn pack(home: &Path, folders: &[PathBuf]) -> io::Result<Option<String>> {
    let mut found = Vec::new();
    for folder in folders {
        collect(home, folder, &mut found)?;
    }
    let mut files = Vec::new();
    let mut bytes = 0;
    for path in found {
        bytes += fs::symlink_metadata(home.join(&path))?.len();
        if bytes > MOST_BYTES || files.len() == MOST_FILES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large to be kept"));
        }
        // What is no text is no session.
        if let Ok(text) = fs::read_to_string(home.join(&path)) {
            files.push(json!({ "path": path.to_string_lossy(), "text": text }));
        }
    }
    let text = json!({ "version": VERSION, "files": files }).to_string();
    Ok((!files.is_empty()).then_some(text))
}

/// Follows no link: an agent could have put one there.
fn collect(home: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut above = home.to_path_buf();
    for part in folder {
        above.push(part);
        match fs::symlink_metadata(&above) {
            Ok(met) if met.is_dir() => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    for entry in fs::read_dir(&above)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, folder.join(entry.file_name()));
        if kind.is_dir() {
            collect(home, &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// Writes what is not there yet, for this user alone.
fn unpack(home: &Path, text: &str) -> io::Result<()> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "what was kept cannot be read");
    let kept: Value = serde_json::from_str(text)?;
    if kept["version"] != VERSION {
        return Err(broken());
    }
    for file in kept["files"].as_array().ok_or_else(broken)? {
        let path = Path::new(file["path"].as_str().ok_or_else(broken)?);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(broken());
        }
        let path = home.join(path);
        let folder = path.parent().unwrap_or(home);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file_there =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file_there.write_all(file["text"].as_str().ok_or_else(broken)?.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folders() -> Vec<PathBuf> {
        vec![".agent/sessions".into()]
    }

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        home
    }

    #[test]
    fn sessions_move_to_another_home_and_nothing_else_does() {
        let home = with(&[(".agent/sessions/a/s.jsonl", "{}\n"), (".agent/login", "secret")]);
        symlink("/etc/hostname", home.path().join(".agent/sessions/link")).unwrap();
        let kept = pack(home.path(), &folders()).unwrap().unwrap();
        assert!(!kept.contains("secret") && !kept.contains("link"), "{kept}");
        let other = tempfile::tempdir().unwrap();
        unpack(other.path(), &kept).unwrap();
        let moved = fs::read_to_string(other.path().join(".agent/sessions/a/s.jsonl"));
        assert_eq!(moved.unwrap(), "{}\n");
        assert!(unpack(other.path(), &kept).is_err(), "what is there stays as it is");
    }

    #[test]
    fn no_link_is_followed_and_nothing_is_nothing() {
        let outside = with(&[("sessions/s", "not ours")]);
        let home = tempfile::tempdir().unwrap();
        assert_eq!(pack(home.path(), &folders()).unwrap(), None);
        symlink(outside.path(), home.path().join(".agent")).unwrap();
        assert_eq!(pack(home.path(), &folders()).unwrap(), None);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let most = usize::try_from(MOST_BYTES).unwrap();
        let home = with(&[(".agent/sessions/s", &"x".repeat(most + 1))]);
        assert!(pack(home.path(), &folders()).is_err());
    }

    #[test]
    fn a_path_that_leaves_the_home_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for path in ["../x", "/tmp/x", "a/../../x"] {
            let kept = json!({ "version": 1, "files": [{ "path": path, "text": "" }] });
            assert!(unpack(home.path(), &kept.to_string()).is_err(), "{path}");
        }
        assert!(unpack(home.path(), r#"{"version":2,"files":[]}"#).is_err());
    }
}
