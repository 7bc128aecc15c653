//! A registry that is a folder: the same layout as files.

use std::fs;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;

use callboard_protocol::PackName;

use super::{Fetch, FetchError};
use crate::archive::is_inside;

/// Fetches from a folder instead of a host. Its addresses are paths below the folder, beginning with a slash.
#[derive(Debug, Clone)]
pub struct FolderRegistry {
    folder: PathBuf,
}

impl FolderRegistry {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The packs whose folders are there, by name. A folder needs no list of them.
    pub fn names(&self) -> io::Result<Vec<PackName>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder.join("v1/packs"))? {
            let name = entry?.file_name();
            names.extend(name.to_str().and_then(|name| name.parse().ok()));
        }
        names.sort();
        Ok(names)
    }
}

#[async_trait]
impl Fetch for FolderRegistry {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let path = url.trim_start_matches('/');
        if !is_inside(path) {
            return Err(FetchError::Refused(format!("{url} leaves the folder")));
        }
        fs::read(self.folder.join(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FetchError::NotFound,
            _ => FetchError::Unreachable(error.to_string()),
        })
    }
}
