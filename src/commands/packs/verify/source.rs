//! Sources of packs to check: a registry on a host or in a folder.

use std::path::Path;

use callboard_agents::{Fetch, FolderRegistry, PackError, Policy, Registry, verify};
use callboard_protocol::{PackName, PackVersion};

use super::{Checked, not_fetched};
use crate::commands::packs::download::Download;
use crate::exit::{CommandError, Exit};

pub(super) enum Source {
    Folder(FolderRegistry),
    Host { address: String, download: Download },
}

impl Source {
    pub(super) fn open(text: &str) -> Result<Self, CommandError> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Host { address: text.to_owned(), download: Download::new()? });
        }
        if !Path::new(text).is_dir() {
            let what = format!("{text} is neither a folder nor an address");
            return Err(CommandError::new(Exit::NotFound, what)
                .hint("write an address with http:// or https://"));
        }
        Ok(Self::Folder(FolderRegistry::new(text)))
    }

    async fn registry(&self) -> Result<Registry<'_>, CommandError> {
        let (fetch, base): (&dyn Fetch, &str) = match self {
            Self::Folder(folder) => (folder, ""),
            Self::Host { address, download } => (download, address),
        };
        Registry::open(fetch, base).await.map_err(|error| not_fetched(&error))
    }

    pub(super) async fn check(&self, pack: &str, policy: &Policy) -> Result<Checked, CommandError> {
        let wrong = |error: PackError| {
            CommandError::usage(error.to_string()).hint("write NAME, or NAME@VERSION")
        };
        let (name, version) = match pack.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (pack, None),
        };
        let name: PackName = name.parse().map_err(|error| wrong(PackError::Name(error)))?;
        let registry = self.registry().await?;
        let version = match version {
            Some(text) => text.parse().map_err(|error| wrong(PackError::Version(error)))?,
            None => registry.latest(&name).await.map_err(|error| not_fetched(&error))?,
        };
        check_version(&registry, &name, &version, policy).await
    }

    pub(super) async fn check_all(&self, policy: &Policy) -> Result<Vec<Checked>, CommandError> {
        let registry = self.registry().await?;
        let names = match registry.names().await.map_err(|error| not_fetched(&error))? {
            Some(names) => names,
            None => self.names_of_folder()?,
        };
        let mut checked = Vec::new();
        for name in names {
            let version = registry.latest(&name).await.map_err(|error| not_fetched(&error))?;
            checked.push(check_version(&registry, &name, &version, policy).await?);
        }
        Ok(checked)
    }

    fn names_of_folder(&self) -> Result<Vec<PackName>, CommandError> {
        match self {
            Self::Folder(folder) => folder.names().map_err(|error| {
                CommandError::failed(format!("the registry's packs cannot be listed: {error}"))
            }),
            Self::Host { address, .. } => {
                Err(CommandError::failed(format!("{address} has no list of its packs"))
                    .hint("check packs one by one, by their names"))
            }
        }
    }
}

async fn check_version(
    registry: &Registry<'_>,
    name: &PackName,
    version: &PackVersion,
    policy: &Policy,
) -> Result<Checked, CommandError> {
    let offer = registry.download(name, version).await;
    // A pack that does not exist is a mistake of the caller; anything else is a finding about the pack.
    if let Err(error @ (PackError::VersionNotFound { .. } | PackError::Fetch { .. })) = &offer {
        return Err(not_fetched(error));
    }
    Ok(Checked { what: format!("{name} {version}"), verification: verify(offer, policy) })
}
