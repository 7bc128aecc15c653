//! Archives as plain maps from path to bytes, read from untrusted bytes within limits.
//!
//! Nothing is ever unpacked to a disk, though names are checked as if it were.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use flate2::read::GzDecoder;
use tar::{Archive, EntryType, Header};

use crate::error::PackError;

/// The files of a pack by path.
pub type Files = BTreeMap<String, Arc<[u8]>>;

/// The name of the manifest, at the root.
pub(crate) const MANIFEST: &str = "pack.json";

/// How much of an untrusted archive is read. The protocol's defaults where it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub archive: usize,
    pub unpacked: usize,
    pub entry: usize,
    pub manifest: usize,
    /// Published packs have up to twenty.
    pub entries: usize,
    /// How many bytes may come out of one; text gets to ten, a bomb to a thousand.
    pub ratio: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            archive: 50 << 20,
            unpacked: 50 << 20,
            entry: 5 << 20,
            manifest: 256 << 10,
            entries: 1_000,
            ratio: 100,
        }
    }
}

/// Below this the ratio says nothing: small archives are mostly padding.
const NO_BOMB: usize = 1 << 20;
/// The longest name of a USTAR header.
const LONGEST_NAME: usize = 100;
const BLOCK: usize = 512;
/// Build output.
const LEFTOVERS: [&str; 7] = [
    ".git",
    ".DS_Store",
    "node_modules",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
];

/// Reads a `.tgz`. Only plain files and folders with plain names get through.
pub(crate) fn unpack(archive: &[u8], limits: &Limits) -> Result<Files, PackError> {
    if archive.len() > limits.archive {
        return Err(PackError::ArchiveTooLarge { limit: limits.archive });
    }
    let tar = gunzip(archive, limits)?;
    let mut files = Files::new();
    let mut reader = Archive::new(tar.as_slice());
    let entries = reader.entries().map_err(|error| not_tar(&error))?;
    // Raw, so that extension headers arrive as entries and are refused instead of obeyed.
    for (seen, entry) in entries.raw(true).enumerate() {
        if seen == limits.entries {
            return Err(PackError::TooManyEntries { limit: limits.entries });
        }
        let mut entry = entry.map_err(|error| not_tar(&error))?;
        let Some(path) = plain_file(entry.header())? else { continue };
        let size = entry.header().entry_size().map_err(|error| not_tar(&error))?;
        let is_manifest = path == MANIFEST;
        let limit = if is_manifest { limits.manifest } else { limits.entry };
        match usize::try_from(size) {
            Ok(size) if size <= limit => {}
            _ if is_manifest => return Err(PackError::ManifestTooLarge { limit }),
            _ => return Err(PackError::EntryTooLarge { path, limit }),
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| not_tar(&error))?;
        if bytes.len() as u64 != size {
            return Err(PackError::NotTar { why: format!("{path} ends too early") });
        }
        if files.insert(path.clone(), bytes.into()).is_some() {
            return Err(PackError::NotTar { why: format!("{path} is in it twice") });
        }
    }
    Ok(files)
}

fn gunzip(archive: &[u8], limits: &Limits) -> Result<Vec<u8>, PackError> {
    let by_ratio = archive.len().saturating_mul(limits.ratio).max(NO_BOMB);
    let limit = limits.unpacked.min(by_ratio);
    let mut tar = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(archive)
        .take(most)
        .read_to_end(&mut tar)
        .map_err(|error| PackError::NotGzip { why: error.to_string() })?;
    if tar.len() > limit {
        return Err(PackError::UnpackedTooLarge { limit });
    }
    if tar.len() < BLOCK {
        return Err(PackError::NotTar { why: "it holds nothing".to_owned() });
    }
    Ok(tar)
}

fn not_tar(error: &io::Error) -> PackError {
    PackError::NotTar { why: error.to_string() }
}

/// The path of a plain file; none for a folder.
fn plain_file(header: &Header) -> Result<Option<String>, PackError> {
    let name = header.as_old().name;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(LONGEST_NAME);
    let shown = String::from_utf8_lossy(&name[..length]).into_owned();
    let special = |kind| PackError::SpecialEntry { path: shown.clone(), kind };
    let link = |kind| PackError::Link { path: shown.clone(), kind };
    match header.entry_type() {
        EntryType::Regular | EntryType::Directory => {}
        EntryType::Symlink => return Err(link("a symbolic link")),
        EntryType::Link => return Err(link("a hard link")),
        EntryType::Char | EntryType::Block => return Err(special("a device")),
        EntryType::Fifo => return Err(special("a pipe")),
        EntryType::GNULongName
        | EntryType::GNULongLink
        | EntryType::XHeader
        | EntryType::XGlobalHeader => return Err(special("an extension header")),
        _ => return Err(special("of an unknown kind")),
    }
    if header.as_ustar().is_some_and(|ustar| ustar.prefix.iter().any(|byte| *byte != 0)) {
        return Err(PackError::NotTar {
            why: format!("the name of {shown} is longer than {LONGEST_NAME} bytes"),
        });
    }
    let is_folder = header.entry_type() == EntryType::Directory;
    let text = std::str::from_utf8(&name[..length])
        .map_err(|_| PackError::NotTar { why: format!("the name {shown:?} is not UTF-8") })?;
    let text = if is_folder { text.trim_end_matches('/') } else { text };
    let text = text.strip_prefix("./").unwrap_or(text);
    if is_folder && matches!(text, "" | ".") {
        return Ok(None);
    }
    check_name(text)?;
    Ok((!is_folder).then(|| text.to_owned()))
}

/// Refuses a name that means something else on any disk, or that has no business in a pack.
pub(crate) fn check_name(name: &str) -> Result<(), PackError> {
    if !is_inside(name) {
        return Err(PackError::PathTraversal { path: name.to_owned() });
    }
    if name.len() > LONGEST_NAME {
        return Err(PackError::NotTar {
            why: format!("the name of {name} is longer than {LONGEST_NAME} bytes"),
        });
    }
    if name.split('/').any(is_leftover) {
        return Err(PackError::Leftover { path: name.to_owned() });
    }
    Ok(())
}

pub(crate) fn is_leftover(part: &str) -> bool {
    LEFTOVERS.contains(&part)
}

/// Whether the path is relative and stays below the root on every system: no backslash, no drive, no
/// scheme, no empty part, no dots.
pub(crate) fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.chars().any(|c| c.is_control() || matches!(c, '\\' | ':'))
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
