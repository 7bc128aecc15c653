//! Where coding agents work, and what they see as their home: folders that outlive a crash and end with the run.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use callboard_agents::run_folder;
use callboard_protocol::{NodeId, RunId, Tenant, hex};

/// Says whose folder it is: tenant and run, each on a line.
const OWNER: &str = "run";

/// The folders of all runs, below one that nobody else can look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliFolders {
    root: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    pub tenant: Tenant,
    pub run: RunId,
    path: PathBuf,
}

impl CliFolders {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes a run's folder, or finds it.
    pub fn prepare(&self, tenant: &Tenant, run: &RunId) -> io::Result<RunFolder> {
        private(&self.root)?;
        let path = run_folder(&self.root, tenant, run);
        if let Some(above) = path.parent() {
            private(above)?;
        }
        private(&path)?;
        let folder = RunFolder { tenant: tenant.clone(), run: run.clone(), path };
        private(&folder.work())?;
        fs::write(folder.path.join(OWNER), format!("{tenant}\n{run}\n"))?;
        Ok(folder)
    }

    /// The folders that are there, of whatever runs.
    pub fn list(&self) -> io::Result<Vec<RunFolder>> {
        let mut found = Vec::new();
        for tenant in read(&self.root)? {
            for path in read(&tenant)? {
                let Ok(owner) = fs::read_to_string(path.join(OWNER)) else { continue };
                if let Some((tenant, run)) = owner.trim_end().split_once('\n') {
                    found.push(RunFolder { tenant: tenant.into(), run: run.into(), path });
                }
            }
        }
        Ok(found)
    }
}

impl RunFolder {
    /// Where the agents of the run work.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// What an agent sees as its home in one visit of a node. Sessions live there.
    pub fn home(&self, node: &NodeId, visit: u32) -> PathBuf {
        let digest = Sha256::digest(node.as_str());
        let digest = hex(&digest[..8]);
        self.path.join(format!("home-{digest}-{visit}"))
    }

    /// Ends with the run.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

fn read(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries?.filter_map(Result::ok);
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
            Ok(folders.map(|entry| entry.path()).collect())
        }
    }
}

/// A folder of this user alone. One that somebody else has put there, or could look into, is not used.
fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o077 == 0;
    if is_ours {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is not this user's alone"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_run_finds_its_folder_again_until_it_is_over() {
        let root = tempfile::tempdir().unwrap();
        let folders = CliFolders::at(root.path().join("cli"));
        assert_eq!(folders.list().unwrap(), []);
        let made = folders.prepare(&"acme".into(), &"run/1".into()).unwrap();
        assert_eq!(folders.prepare(&"acme".into(), &"run/1".into()).unwrap(), made);
        fs::write(made.work().join("file"), "x").unwrap();
        assert_eq!(folders.list().unwrap(), std::slice::from_ref(&made));
        assert_ne!(made.home(&"a".into(), 0), made.home(&"a".into(), 1));
        assert_ne!(made.home(&"a".into(), 0), made.home(&"b".into(), 0));
        made.remove().unwrap();
        assert_eq!(folders.list().unwrap(), []);
    }

    #[test]
    fn a_folder_that_others_made_or_can_see_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), root.path().join("link")).unwrap();
        fs::create_dir(root.path().join("open")).unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.path().join("open"), open).unwrap();
        for name in ["link", "open"] {
            let refused = CliFolders::at(root.path().join(name)).prepare(&"t".into(), &"r".into());
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{name}");
        }
    }
}
