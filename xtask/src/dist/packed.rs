//! Archives whose bytes depend on their contents alone: tar with one owner and time, gzip without a name, and the `ar`
//! around them that makes a Debian package.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// One file of an archive.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Without a slash at its beginning.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    mode: u32,
}

impl Item {
    pub(super) fn file(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, mode: 0o644 }
    }

    pub(super) fn program(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, mode: 0o755 }
    }

    pub(super) fn below(&self, folder: &str) -> Self {
        Self { path: format!("{folder}/{}", self.path), ..self.clone() }
    }
}

pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Folders first, as a package needs them.
pub(super) fn tarball(items: &[Item], epoch: u64) -> Result<Vec<u8>> {
    let folders: BTreeSet<&Path> = items
        .iter()
        .flat_map(|item| Path::new(&item.path).ancestors().skip(1))
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    let mut archive = Builder::new(Vec::new());
    let mut append = |path: String, kind: EntryType, mode: u32, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_size(bytes.len() as u64);
        header.set_username("root")?;
        header.set_groupname("root")?;
        archive.append_data(&mut header, path, bytes)
    };
    for folder in folders {
        append(format!("./{}/", folder.display()), EntryType::Directory, 0o755, &[])?;
    }
    for item in items {
        append(format!("./{}", item.path), EntryType::Regular, item.mode, &item.bytes)?;
    }
    Ok(archive.into_inner()?)
}

/// A Debian package in its second format.
pub(super) fn deb(
    control: &str,
    scripts: Vec<Item>,
    files: &[Item],
    epoch: u64,
) -> Result<Vec<u8>> {
    let configuration = files.iter().filter(|item| item.path.starts_with("etc/"));
    let conffiles: String = configuration.map(|item| format!("/{}\n", item.path)).collect();
    let mut about = vec![
        Item::file("control", control.as_bytes().to_vec()),
        Item::file("conffiles", conffiles.into_bytes()),
    ];
    about.extend(scripts);
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tarball(&about, epoch)?)?),
        ("data.tar.gz", gzip(&tarball(files, epoch)?)?),
    ];
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let length = bytes.len();
        writeln!(package, "{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{length:<10}`", 0, 0, "100644")?;
        package.extend(&bytes);
        if length % 2 == 1 {
            package.push(b'\n');
        }
    }
    Ok(package)
}
