//! Session files of coding agents, kept so that a session can go on where its home was lost.

use std::fs::{self, DirBuilder, FileType, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use callboard_agents::CodingTask;
use callboard_engine::CodingSessions;

use super::{CliAgents, kinds};
use crate::folders::on_disk;

/// A long session has a few megabytes; what is larger stays on its host.
const MOST_BYTES: u64 = 4 << 20;
/// Agents write one file for a session, or one for each turn.
const MOST_FILES: usize = 512;
/// An agent writes its home as it likes; of more than this nothing is looked at.
const MOST_SEEN: usize = 4 * MOST_FILES;
/// Sessions lie a few folders deep.
const DEEPEST: usize = 16;
/// Old readers refuse another version, which is like having nothing; a new reader keeps the branch of every older one.
const TEXT_ONLY: u64 = 1;
/// Written where a file is no text, so that older hosts still read the others.
const WITH_BYTES: u64 = 2;

/// The home of one task, where it is one that this host made.
struct Home<'a> {
    store: &'a CodingSessions,
    path: PathBuf,
    name: String,
    /// Where sessions lie below it: files, or folders of them. `*` stands for any name.
    places: Vec<PathBuf>,
}

impl CliAgents {
    /// Restores a session's files where they are missing. A session that is still missing causes its own error.
    pub(super) async fn restore(&self, task: &CodingTask<'_>) {
        let Some(home) = self.kept_home(task) else { return };
        let Home { store, path, name, places } = home;
        let folder = path.clone();
        let is_there = on_disk(move || {
            let is_at = |place: &PathBuf| at(&folder, place).is_ok_and(|found| !found.is_empty());
            Ok(places.iter().any(is_at))
        });
        if is_there.await.unwrap_or(false) {
            return;
        }
        let restored = match store.kept_session(task.tenant, task.run, &name).await {
            Ok(None) => return,
            Ok(Some(text)) => {
                let restored = on_disk(move || unpack(&path, &text)).await;
                restored.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = restored {
            tracing::warn!(%error, run = %task.run, "a coding agent's session was not restored");
        }
    }

    /// Keeps a session's files as they are now. The session goes on here even if that fails.
    pub(super) async fn keep(&self, task: &CodingTask<'_>) {
        let Some(home) = self.kept_home(task) else { return };
        let Home { store, path, name, places } = home;
        let kept = match on_disk(move || pack(&path, &places)).await {
            Ok(None) => return,
            Ok(Some(text)) => {
                let kept = store.keep_session(task.tenant, task.claim, &name, text);
                kept.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, run = %task.run, "a coding agent's session was not kept");
        }
    }

    fn kept_home(&self, task: &CodingTask<'_>) -> Option<Home<'_>> {
        let store = self.sessions.as_ref().filter(|_| self.settings.home.is_none())?;
        let places: Vec<PathBuf> = match kinds::find(task.kind) {
            Some(kind) => kind.sessions.iter().map(PathBuf::from).collect(),
            None => self.settings.agents.get(task.kind)?.sessions.clone(),
        };
        let path = self.folders.prepare(task.tenant, task.run).ok()?;
        let path = path.home(task.node, task.visit);
        let name = path.file_name()?.to_string_lossy().into_owned();
        (!places.is_empty()).then_some(Home { store, path, name, places })
    }
}

/// A file below the home.
struct Found {
    path: PathBuf,
    /// Whether it is one of the places itself, and not just somewhere below.
    is_named: bool,
}

/// The files at the places as one text; none where there are none.
fn pack(home: &Path, places: &[PathBuf]) -> io::Result<Option<String>> {
    let mut walk = Walk { home, seen: 0, found: Vec::new() };
    for place in places {
        for (path, kind) in at(home, place)? {
            if kind.is_dir() {
                walk.collect(&path, 0)?;
            } else {
                walk.found.push(Found { path, is_named: true });
            }
        }
    }
    let (mut files, mut version, mut bytes) = (Vec::new(), TEXT_ONLY, 0);
    for Found { path, is_named } in walk.found {
        bytes += fs::symlink_metadata(home.join(&path))?.len();
        if bytes > MOST_BYTES || files.len() == MOST_FILES {
            return Err(too_large());
        }
        let name = path.to_string_lossy();
        match String::from_utf8(fs::read(home.join(&path))?) {
            Ok(text) => files.push(json!({ "path": name, "text": text })),
            Err(error) if is_named => {
                version = WITH_BYTES;
                files.push(json!({ "path": name, "base64": STANDARD.encode(error.as_bytes()) }));
            }
            // A file that is not text is not a session, unless the operator says so.
            Err(_) => {}
        }
    }
    let text = json!({ "version": version, "files": files }).to_string();
    Ok((!files.is_empty()).then_some(text))
}

/// What lies at a place. Follows no link: an agent could have put one there.
fn at(home: &Path, place: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let mut reached = vec![PathBuf::new()];
    let mut found = Vec::new();
    for part in place {
        found.clear();
        for above in reached {
            if part != "*" {
                let path = above.join(part);
                found.extend(kind_of(&home.join(&path))?.map(|kind| (path, kind)));
                continue;
            }
            for entry in fs::read_dir(home.join(&above))? {
                let entry = entry?;
                if found.len() == MOST_SEEN {
                    return Err(too_large());
                }
                found.push((above.join(entry.file_name()), entry.file_type()?));
            }
        }
        let folders = found.iter().filter(|(_, kind)| kind.is_dir());
        reached = folders.map(|(path, _)| path.clone()).collect();
    }
    found.retain(|(_, kind)| kind.is_dir() || kind.is_file());
    Ok(found)
}

/// None where there is nothing.
fn kind_of(path: &Path) -> io::Result<Option<FileType>> {
    match fs::symlink_metadata(path) {
        Ok(met) => Ok(Some(met.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A walk through a home directory, within limits.
struct Walk<'a> {
    home: &'a Path,
    seen: usize,
    found: Vec<Found>,
}

impl Walk<'_> {
    fn collect(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(self.home.join(folder))? {
            let entry = entry?;
            self.seen += 1;
            if self.seen > MOST_SEEN || depth > DEEPEST {
                return Err(too_large());
            }
            let (kind, path) = (entry.file_type()?, folder.join(entry.file_name()));
            if kind.is_dir() {
                self.collect(&path, depth + 1)?;
            } else if kind.is_file() {
                self.found.push(Found { path, is_named: false });
            }
        }
        Ok(())
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "it is too large to be kept")
}

/// Writes what is not there yet, for this user alone.
fn unpack(home: &Path, text: &str) -> io::Result<()> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "what was kept cannot be read");
    let kept: Value = serde_json::from_str(text)?;
    if kept["version"] != TEXT_ONLY && kept["version"] != WITH_BYTES {
        return Err(broken());
    }
    for file in kept["files"].as_array().ok_or_else(broken)? {
        let path = Path::new(file["path"].as_str().ok_or_else(broken)?);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(broken());
        }
        let content = match (&file["text"], &file["base64"]) {
            (Value::String(text), _) => text.clone().into_bytes(),
            (_, Value::String(text)) => STANDARD.decode(text).map_err(|_| broken())?,
            _ => return Err(broken()),
        };
        let path = home.join(path);
        let folder = path.parent().unwrap_or(home);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file_there =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file_there.write_all(&content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn places() -> Vec<PathBuf> {
        vec![".agent/sessions".into()]
    }

    fn with(files: &[(&str, impl AsRef<[u8]>)]) -> tempfile::TempDir {
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
        let kept = pack(home.path(), &places()).unwrap().unwrap();
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
        assert_eq!(pack(home.path(), &places()).unwrap(), None);
        symlink(outside.path(), home.path().join(".agent")).unwrap();
        assert_eq!(pack(home.path(), &places()).unwrap(), None);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let most = usize::try_from(MOST_BYTES).unwrap();
        let home = with(&[(".agent/sessions/s", &"x".repeat(most + 1))]);
        assert!(pack(home.path(), &places()).is_err());
    }

    #[test]
    fn a_home_without_end_is_not_walked_to_its_end() {
        let home = tempfile::tempdir().unwrap();
        let sessions = home.path().join(".agent/sessions");
        fs::create_dir_all(sessions.join("d/".repeat(DEEPEST + 2))).unwrap();
        assert!(pack(home.path(), &places()).is_err(), "too deep");
        fs::remove_dir_all(&sessions).unwrap();
        for name in 0..=MOST_SEEN {
            fs::create_dir_all(sessions.join(name.to_string())).unwrap();
        }
        assert!(pack(home.path(), &places()).is_err(), "too many");
        assert!(at(home.path(), Path::new(".agent/sessions/*")).is_err(), "too many");
    }

    #[test]
    fn a_path_that_leaves_the_home_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for path in ["../x", "/tmp/x", "a/../../x"] {
            let kept = json!({ "version": 1, "files": [{ "path": path, "text": "" }] });
            assert!(unpack(home.path(), &kept.to_string()).is_err(), "{path}");
        }
        assert!(unpack(home.path(), r#"{"version":3,"files":[]}"#).is_err());
    }

    #[test]
    fn a_file_that_is_named_is_kept_whatever_it_holds() {
        let bytes: &[u8] = &[0xff, 0, 7];
        let home = with(&[(".agent/a.db", bytes), (".agent/sessions/b.db", bytes)]);
        let places = [".agent/a.db", ".agent/a.db-wal", ".agent/a.db/x"].map(PathBuf::from);
        let kept = pack(home.path(), &[&places[..], &self::places()].concat()).unwrap().unwrap();
        let other = tempfile::tempdir().unwrap();
        unpack(other.path(), &kept).unwrap();
        assert_eq!(fs::read(other.path().join(".agent/a.db")).unwrap(), bytes);
        assert!(!other.path().join(".agent/sessions").exists(), "what is no text is no session");
        assert!(kept.contains("\"version\":2"), "{kept}");
    }

    #[test]
    fn a_star_stands_for_any_name() {
        let home = with(&[("tmp/one/chats/s", "1"), ("tmp/two/chats/s", "2"), ("tmp/three", "3")]);
        symlink(home.path().join("tmp/one"), home.path().join("tmp/link")).unwrap();
        let place = PathBuf::from("tmp/*/chats");
        let kept = pack(home.path(), std::slice::from_ref(&place)).unwrap().unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let mut names: Vec<&str> =
            kept["files"].as_array().unwrap().iter().filter_map(|it| it["path"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["tmp/one/chats/s", "tmp/two/chats/s"]);
        assert_eq!(kept["version"], 1);
        assert!(at(tempfile::tempdir().unwrap().path(), &place).unwrap().is_empty());
    }
}
