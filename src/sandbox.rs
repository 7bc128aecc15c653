//! What a child process of the host can reach: folders by Landlock, and the user that it runs as.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, RestrictionStatus, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chownat, openat};
use rustix::process::{Gid, Uid};

/// The newest rules that are asked for; an older kernel gives what it has.
const RULES: ABI = ABI::V6;
/// What programs need of the system, to read and to execute. Processes of others are in `/proc`, too; what of them is
/// secret a child that is locked in cannot open there.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// Private files of the machine and its users, hidden from children in every mode. The second list is
/// below the user's home.
const PRIVATE: [&str; 4] = ["/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/sudoers.d"];
const PRIVATE_AT_HOME: [&str; 8] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".config/gcloud"];

/// What a child may reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    pub(crate) sight: Sight,
    /// What it may read beside the system's own folders, where it sees only what it is given.
    pub(crate) read: Vec<PathBuf>,
    /// What it may change as well.
    pub(crate) write: Vec<PathBuf>,
    /// The child's own, wherever that lies.
    pub(crate) own: Vec<PathBuf>,
    /// Reached by no child.
    pub(crate) hidden: Vec<PathBuf>,
}

/// How far a child sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Whatever its user may see, but for what is hidden.
    #[default]
    Open,
    /// The system's folders and what it is given.
    Given,
}

/// What the kernel does for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walls {
    /// Children see what they are given and can neither look into nor signal other processes.
    Whole,
    /// An older kernel: files and memory are safe, signals and devices are not.
    Partial,
    None,
}

/// Locks this thread in, for good, with everything that it becomes.
pub(crate) fn enter(folders: &Folders) -> io::Result<Walls> {
    let home = std::env::home_dir().unwrap_or_default();
    let private = PRIVATE.iter().map(PathBuf::from);
    let private = private.chain(PRIVATE_AT_HOME.iter().map(|path| home.join(path)));
    let hidden = private.chain(folders.hidden.iter().cloned());
    let hidden: Vec<PathBuf> = hidden.filter_map(|path| path.canonicalize().ok()).collect();
    let around = |paths: &mut dyn Iterator<Item = &Path>| -> Vec<PathBuf> {
        paths.flat_map(|path| without(path, &hidden)).collect()
    };
    let given = |paths: &[PathBuf]| around(&mut paths.iter().map(PathBuf::as_path));
    let (mut read, mut write) = (given(&folders.read), given(&folders.write));
    match folders.sight {
        Sight::Open => write.extend(around(&mut [Path::new("/")].into_iter())),
        Sight::Given => {
            read.extend(around(&mut SYSTEM.iter().map(Path::new)));
            write.extend(DEVICES.iter().map(PathBuf::from));
        }
    }
    write.extend(folders.own.iter().cloned());
    restrict(read, write)
        .map(|status| match status.ruleset {
            RulesetStatus::FullyEnforced => Walls::Whole,
            RulesetStatus::PartiallyEnforced => Walls::Partial,
            RulesetStatus::NotEnforced => Walls::None,
        })
        .map_err(io::Error::other)
}

fn restrict(read: Vec<PathBuf>, write: Vec<PathBuf>) -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RULES))?
        .scope(Scope::from_all(RULES))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(RULES)))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(RULES)))?
        .restrict_self()
}

/// What this kernel gives, found out by a thread that gives up everything and ends.
pub(crate) fn look() -> Walls {
    let tried = std::thread::spawn(|| enter(&Folders::default())).join();
    tried.ok().and_then(Result::ok).unwrap_or(Walls::None)
}

/// A path as it truly is; where something hidden lies below it, what lies around that.
fn without(path: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    if hidden.iter().any(|hidden| path.starts_with(hidden)) {
        return Vec::new();
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(&path)) {
        return vec![path];
    }
    let inside = fs::read_dir(&path).into_iter().flatten().flatten();
    inside.flat_map(|entry| without(&entry.path(), hidden)).collect()
}

/// Whom a child runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once(':')
            .and_then(|(uid, gid)| Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
        parts.ok_or_else(|| "write it as UID:GID".to_owned())
    }
}

impl User {
    /// A user that this machine knows by name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::in_list(&fs::read_to_string("/etc/passwd").ok()?, name)
    }

    fn in_list(list: &str, name: &str) -> Option<Self> {
        let mut lines = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = lines.find(|fields| fields.first() == Some(&name))?;
        Some(Self { uid: found.get(2)?.parse().ok()?, gid: found.get(3)?.parse().ok()? })
    }

    /// Changes the owner of a folder and its content to this user. No link is followed, even with concurrent writers.
    pub(crate) fn take_over(self, folder: &Path) -> io::Result<()> {
        let top = openat(rustix::fs::CWD, folder, FOLDER, Mode::empty())?;
        self.take_over_all(&top)
    }

    fn take_over_all(self, folder: &rustix::fd::OwnedFd) -> io::Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        rustix::fs::fchown(folder, uid, gid)?;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                self.take_over_all(&openat(folder, name, FOLDER, Mode::empty())?)?;
            } else {
                chownat(folder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }
}

/// A folder and nothing that only leads to one.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_left_out_and_what_lies_around_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["a/b/data/x", "a/b/other", "a/c", "d"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let hidden = [top.join("a/b/data")];
        let mut seen = without(&top, &hidden);
        seen.sort();
        assert_eq!(seen, [top.join("a/b/other"), top.join("a/c"), top.join("d")]);
        assert_eq!(without(&top.join("a/c"), &hidden), [top.join("a/c")]);
        assert_eq!(without(&top.join("a/b/data/x"), &hidden), [""; 0].map(PathBuf::from));
        std::os::unix::fs::symlink(top.join("a/b/data"), top.join("d/way")).unwrap();
        assert_eq!(without(&top.join("d/way"), &hidden), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_thread_that_is_locked_in_does_not_see_what_is_hidden() {
        [Sight::Open, Sight::Given].into_iter().for_each(is_locked_in);
    }

    fn is_locked_in(sight: Sight) {
        let folder = tempfile::tempdir().unwrap();
        let (given, kept) = (folder.path().join("given"), folder.path().join("kept"));
        for folder in [&given, &kept] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let tried = std::thread::spawn(move || {
            let own = vec![given.clone()];
            let folders = Folders { sight, own, hidden: vec![kept.clone()], ..Folders::default() };
            let walls = enter(&folders).unwrap();
            let read = |folder: &Path| fs::read_to_string(folder.join("file")).is_ok();
            (walls, read(&given), read(&kept), fs::write(kept.join("new"), "").is_ok())
        });
        let (walls, given, kept, written) = tried.join().unwrap();
        assert!(given);
        if walls == Walls::None {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"skipped: this kernel has no Landlock\n",
            );
        } else {
            assert!(!kept && !written);
        }
    }

    #[test]
    fn users_are_read_from_the_machines_list() {
        let list = "root:x:0:0:root:/root:/bin/sh\nagents:x:990:991::/:/bin/false\n";
        assert_eq!(User::in_list(list, "agents"), Some(User { uid: 990, gid: 991 }));
        assert_eq!(User::in_list(list, "nobody"), None);
        assert_eq!("990:991".parse(), Ok(User { uid: 990, gid: 991 }));
        assert!("agents".parse::<User>().is_err());
    }
}
