//! Where the files of a run are.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use callboard_protocol::{RunId, Tenant, hex};

/// The folder of a run's files below `root`. A name that could mean something to a disk is replaced by its digest.
pub fn run_folder(root: &Path, tenant: &Tenant, run: &RunId) -> PathBuf {
    root.join(part(tenant.as_str())).join(part(run.as_str()))
}

fn part(name: &str) -> String {
    // Longer names and names with dots may be taken for something else; a digest never is one of the others.
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if (1..=63).contains(&name.len()) && name.chars().all(is_plain) {
        return name.to_owned();
    }
    hex(Sha256::digest(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_folder_of_its_own_below_the_root() {
        let folder =
            |tenant: &str, run: &str| run_folder(Path::new("/d"), &tenant.into(), &run.into());
        assert_eq!(folder("acme", "run_1"), Path::new("/d/acme/run_1"));
        let names = ["..", ".", "", "/etc", "a/b", "a", "A", "ä", &"x".repeat(300), "con."];
        for one in names {
            let place = folder(one, "r");
            assert_eq!(place.parent().and_then(Path::parent), Some(Path::new("/d")), "{one:?}");
            for other in names.iter().filter(|other| **other != one) {
                assert_ne!(place, folder(other, "r"), "{one:?} and {other:?}");
            }
        }
    }
}
