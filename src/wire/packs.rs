//! Packs from paths, for every tenant; those that cannot be read are reported and skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_agents::{Installed, Offer, PackError, Policy, Report, Unsigned, Vetted, vet};
use callboard_engine::PackOwner;
use callboard_protocol::Timestamp;

use crate::exit::CommandError;

/// The packs at the given paths: an archive, a pack's folder, or what a folder holds of either. A path that
/// is not there is a mistake.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut packs = Vec::new();
    for path in paths {
        let unreadable = |error| {
            CommandError::usage(format!("the packs at {} cannot be read: {error}", path.display()))
                .hint("name an archive or a folder with --packs or CALLBOARD_PACKS")
        };
        if !fs::metadata(path).map_err(unreadable)?.is_dir() || is_pack(path) {
            packs.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            // Of the entry itself: a link may lead anywhere.
            let kind = entry.file_type().map_err(unreadable)?;
            let path = entry.path();
            let is_archive = path.extension().is_some_and(|ending| ending == "tgz");
            if (kind.is_file() && is_archive) || (kind.is_dir() && is_pack(&path)) {
                inside.push(path);
            }
        }
        inside.sort();
        packs.extend(inside);
    }
    Ok(packs)
}

fn is_pack(folder: &Path) -> bool {
    folder.join("pack.json").is_file()
}

/// Loads valid packs. A folder is the operator's own and need not be signed; an archive must be, but a signature over
/// `pack.json` is enough, because the operator named it.
pub(super) fn load(paths: &[PathBuf], policy: &Policy, at: Timestamp) -> Vec<Installed> {
    let mut loaded = Vec::new();
    for path in paths {
        match read(path, policy) {
            Ok(vetted) => {
                let (name, version) = (vetted.pack.name(), vetted.pack.version());
                let verified = vetted.proof.is_some();
                tracing::info!(pack = %name, %version, verified, path = %path.display(), "pack loaded");
                loaded.push(Installed::new(PackOwner::Host, vetted, at));
            }
            Err(why) => {
                tracing::warn!(path = %path.display(), error = why, "pack skipped");
            }
        }
    }
    loaded
}

/// What is wrong with the packs, each with its path.
pub(super) fn faults(paths: &[PathBuf], policy: &Policy) -> Vec<String> {
    let fault =
        |path: &PathBuf| read(path, policy).err().map(|why| format!("{}: {why}", path.display()));
    paths.iter().filter_map(fault).collect()
}

fn read(path: &Path, policy: &Policy) -> Result<Vetted, String> {
    let told = |error: PackError| format!("{error} ({})", error.code());
    let (archive, unsigned) = if path.is_dir() {
        let archive = callboard_agents::collect(path).map_err(|error| error.to_string())?;
        (archive, Unsigned::Allowed)
    } else {
        (fs::read(path).map_err(|error| error.to_string())?, Unsigned::OnlyContents)
    };
    let policy = Policy { unsigned, ..policy.clone() };
    vet(Offer::plain(Arc::from(archive)), &policy, &mut Report::default()).map_err(told)
}
