//! A registry of packs in the static layout, where a version comes with what proves it.
//!
//! Who fetches is a port: this crate opens no connections.

mod folder;
mod layout;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use callboard_protocol::{PackName, PackVersion};

use crate::admission::Offer;
use crate::error::PackError;
use crate::proof::Announced;
use layout::{Discovery, Index, PackIndex, VersionManifest};

pub use folder::FolderRegistry;

/// Downloads. Implementations enforce limits of size and time, and refuse private addresses.
#[async_trait]
pub trait Fetch: fmt::Debug + Send + Sync {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError>;
}

/// Why there are no bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server answered that there is no such thing.
    #[error("it is not there")]
    NotFound,
    /// The address may not be asked, or the answer is too large: asking again changes nothing.
    #[error("refused: {0}")]
    Refused(String),
    /// Try again later.
    #[error("{0}")]
    Unreachable(String),
}

/// One registry.
#[derive(Debug)]
pub struct Registry<'f> {
    fetch: &'f dyn Fetch,
    /// The address without its last slash.
    base: String,
    layout: Discovery,
}

impl<'f> Registry<'f> {
    /// Reads where the registry keeps what. One that does not say keeps it in the usual places.
    pub async fn open(fetch: &'f dyn Fetch, base: &str) -> Result<Self, PackError> {
        let base = base.trim_end_matches('/').to_owned();
        let mut registry = Self { fetch, base, layout: Discovery::default() };
        if let Some(layout) = registry.find("/.well-known/openwop-registry.json").await? {
            registry.layout = layout;
        }
        Ok(registry)
    }

    /// The names of all packs, if the registry has a list of them.
    pub async fn names(&self) -> Result<Option<Vec<PackName>>, PackError> {
        let index: Option<Index> = self.find(&self.layout.endpoints.registry_index()).await?;
        Ok(index.map(|index| index.packs.into_iter().map(|pack| pack.name).collect()))
    }

    /// The highest version that was not withdrawn; prereleases only where there is nothing else.
    pub async fn latest(&self, name: &PackName) -> Result<PackVersion, PackError> {
        let index = self.index(name).await?;
        let good = index.versions.into_iter().filter(|listed| !listed.yanked);
        let newest = good.map(|listed| listed.version).max_by_key(|version| {
            let is_release = !version.is_prerelease();
            (is_release, version.clone())
        });
        newest.ok_or_else(|| PackError::VersionNotFound {
            name: name.clone(),
            wanted: "all of them were withdrawn".to_owned(),
        })
    }

    /// Every version that the registry lists, withdrawn ones included.
    pub async fn versions(&self, name: &PackName) -> Result<Vec<PackVersion>, PackError> {
        let index = self.index(name).await?;
        Ok(index.versions.into_iter().map(|listed| listed.version).collect())
    }

    /// Fetches one version with its digest and its signature. A withdrawn one is not even fetched.
    pub async fn download(
        &self,
        name: &PackName,
        version: &PackVersion,
    ) -> Result<Offer, PackError> {
        let endpoints = &self.layout.endpoints;
        let manifest: Option<VersionManifest> =
            self.find(&endpoints.version_manifest(name, version)).await?;
        let manifest = manifest.ok_or_else(|| PackError::VersionNotFound {
            name: name.clone(),
            wanted: version.to_string(),
        })?;
        manifest.check(name, version)?;
        let tarball = endpoints.version_tarball(name, version);
        let archive = self.get(&tarball).await?.ok_or_else(|| PackError::Fetch {
            url: format!("{}{tarball}", self.base),
            why: FetchError::NotFound,
        })?;
        Ok(Offer {
            archive: Arc::from(archive),
            expected: Some((name.clone(), version.clone())),
            integrity: Some(Announced::Registry(manifest.integrity)),
            signature: self.get(&endpoints.version_signature(name, version)).await?,
        })
    }

    async fn index(&self, name: &PackName) -> Result<PackIndex, PackError> {
        let index = self.find(&self.layout.endpoints.pack_metadata(name)).await?;
        index.ok_or_else(|| PackError::Unknown { name: name.clone() })
    }

    async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, PackError> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        let answer = serde_json::from_slice(&bytes).map_err(|error| PackError::RegistryAnswer {
            what: path.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Some(answer))
    }

    async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, PackError> {
        let url = format!("{}{path}", self.base);
        match self.fetch.get(&url).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FetchError::NotFound) => Ok(None),
            Err(why) => Err(PackError::Fetch { url, why }),
        }
    }
}
