//! Folders of runs on this disk: the owner of each, so that it survives a crash and is removed in time.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use callboard_agents::run_folder;
use callboard_protocol::{NodeId, RunId, Tenant, hex};

/// The file beside a folder that says whose it is: tenant and run, each on a line. No folder's name has a dot. Folders of
/// older hosts have none: their names say it, unless one is a digest; such a folder stays.
const OWNER: &str = "owner";

/// The folders of all runs, below one that only this user can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolders {
    root: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    pub tenant: Tenant,
    pub run: RunId,
    path: PathBuf,
}

impl RunFolders {
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
        write_owner(&path, tenant, run)?;
        private(&path)?;
        let folder = RunFolder { tenant: tenant.clone(), run: run.clone(), path };
        within(&folder.work())?;
        Ok(folder)
    }

    /// The folders that are there, of whatever runs, and those that were not removed to the last file.
    pub fn list(&self) -> io::Result<Vec<RunFolder>> {
        let mut found = Vec::new();
        for tenant in read(&self.root)? {
            let there: BTreeSet<PathBuf> =
                read(&tenant)?.into_iter().map(|path| path.with_extension("")).collect();
            found.extend(there.into_iter().filter_map(|path| self.owned(path)));
        }
        Ok(found)
    }

    /// None where the owning run is unknown.
    fn owned(&self, path: PathBuf) -> Option<RunFolder> {
        let written = fs::read_to_string(path.with_extension(OWNER)).unwrap_or_default();
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let (tenant, run) = match written.trim_end().split_once('\n') {
            Some((tenant, run)) => (tenant.into(), run.into()),
            None => (name(path.parent()?)?.into(), name(&path)?.into()),
        };
        let is_theirs = run_folder(&self.root, &tenant, &run) == path;
        is_theirs.then_some(RunFolder { tenant, run, path })
    }
}

/// Comes before the folder and goes after it, and lies where those who work in the folder do not write.
pub(crate) fn write_owner(folder: &Path, tenant: &Tenant, run: &RunId) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    fs::write(folder.with_extension(OWNER), format!("{tenant}\n{run}\n"))
}

/// Disks block; the threads of runs must not.
pub(crate) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
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

    /// Blocks until all of it is gone. Who is stopped on the way finds it listed again.
    pub fn remove(&self) -> io::Result<()> {
        let gone = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        gone(fs::remove_dir_all(&self.path))?;
        gone(fs::remove_file(self.path.with_extension(OWNER)))
    }
}

fn read(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
        entries => Ok(entries?.filter_map(Result::ok).map(|entry| entry.path()).collect()),
    }
}

/// A folder of this user only. One that another user created, or can read, is not used.
pub fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        // Traversal is not reading: the user that child processes run as may need it.
        && found.mode() & 0o066 == 0;
    if is_ours {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is not this user's alone"))
}

/// A folder in a private one. It may belong to another user by now, the one that its child runs as.
pub(crate) fn within(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if fs::symlink_metadata(path)?.is_dir() => Ok(()),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_run_finds_its_folder_again_until_it_is_over() {
        let root = tempfile::tempdir().unwrap();
        let folders = RunFolders::at(root.path().join("cli"));
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
    fn a_removal_that_was_cut_short_is_taken_up_again() {
        let root = tempfile::tempdir().unwrap();
        let folders = RunFolders::at(root.path().join("cli"));
        let made = folders.prepare(&"Acme & Sons".into(), &"run_1".into()).unwrap();
        fs::remove_dir_all(&made.path).unwrap();
        assert_eq!(folders.list().unwrap(), std::slice::from_ref(&made));
        made.remove().unwrap();
        assert_eq!(folders.list().unwrap(), []);
        made.remove().unwrap();
    }

    #[test]
    fn a_folder_is_whose_its_place_says() {
        let root = tempfile::tempdir().unwrap();
        let folders = RunFolders::at(root.path());
        let place = root.path().join("acme/run_1");
        fs::create_dir_all(&place).unwrap();
        fs::create_dir_all(root.path().join("f".repeat(64)).join("run_2")).unwrap();
        let owners = || {
            folders.list().unwrap().into_iter().map(|it| (it.tenant, it.run)).collect::<Vec<_>>()
        };
        assert_eq!(owners(), [("acme".into(), "run_1".into())], "names say it, digests do not");
        write_owner(&place, &"rival".into(), &"run_1".into()).unwrap();
        assert_eq!(owners(), [], "nobody has somebody else's folder removed");
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
            let refused = RunFolders::at(root.path().join(name)).prepare(&"t".into(), &"r".into());
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{name}");
        }
    }
}
