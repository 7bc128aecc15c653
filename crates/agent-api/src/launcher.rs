//! The command that a host puts before the agent's own, and the search path of programs.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A program of the host's that becomes the agent's, such as one that locks it in first.
///
/// It is started as `command… [folder PATH]… -- program arguments…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// The argument before each folder that is the child's to write in.
    pub folder: String,
    /// The argument for a program that locks in what it starts by itself, and could not within other walls.
    pub own_walls: String,
}

impl Launcher {
    /// The same for a program with walls of its own.
    #[must_use]
    pub fn with_own_walls(mut self) -> Self {
        self.command.push(self.own_walls.clone());
        self
    }

    /// What is started in the place of a program.
    #[must_use]
    pub fn wrap(&self, program: &Path, args: &[String], folders: &[&Path]) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = self.command.clone();
        for folder in folders {
            words.extend([self.folder.clone(), text(folder)]);
        }
        words.extend(["--".to_owned(), text(program)]);
        words.extend_from_slice(args);
        words
    }
}

/// Where the kernel would find a program in this environment: what stands before it hides whether it is there.
pub fn find_program(program: &Path, environment: &BTreeMap<String, String>) -> io::Result<PathBuf> {
    if program.components().count() > 1 {
        return check(std::path::absolute(program)?);
    }
    let path = environment.get("PATH").map(String::as_str).unwrap_or_default();
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        match check(folder.join(program)) {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => failure = error,
            Err(_) => {}
        }
    }
    Err(failure)
}

fn check(path: PathBuf) -> io::Result<PathBuf> {
    let found = path.metadata()?;
    match found.is_file() && found.permissions().mode() & 0o111 != 0 {
        true => Ok(path),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_agents_own_words_come_last_and_are_nobodys_options() {
        let launcher = Launcher {
            command: vec!["lock".into(), "in".into()],
            folder: "--own".into(),
            own_walls: "--walled".into(),
        };
        let wrap = |launcher: &Launcher| {
            launcher.wrap(Path::new("/bin/a"), &["--own".into()], &[Path::new("/work")])
        };
        let rest = ["--own", "/work", "--", "/bin/a", "--own"];
        assert_eq!(wrap(&launcher), [&["lock", "in"][..], &rest].concat());
        let walled = launcher.with_own_walls();
        assert_eq!(wrap(&walled), [&["lock", "in", "--walled"][..], &rest].concat());
    }

    #[test]
    fn a_program_is_found_as_the_kernel_would_find_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let environment =
            BTreeMap::from([("PATH".to_owned(), format!("/nowhere:{}", folder.path().display()))]);
        let find = |name: &str| find_program(Path::new(name), &environment);
        assert_eq!(find("agent").unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(place("agent"), "").unwrap();
        assert_eq!(find("agent").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::set_permissions(place("agent"), PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find("agent").unwrap(), place("agent"));
        assert_eq!(find_program(&place("agent"), &BTreeMap::new()).unwrap(), place("agent"));
        assert_eq!(find("/nowhere/agent").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
