//! The documents of a registry in the static layout. Open objects: registries say more than we read.

use serde::Deserialize;

use callboard_protocol::{PackName, PackVersion};

use crate::error::PackError;

/// `/.well-known/openwop-registry.json`, as far as it says where things are. Its keys are not read:
/// a registry that could name its own keys would be trusting itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Discovery {
    #[serde(default)]
    pub(super) endpoints: Endpoints,
}

/// Path templates; what is missing or leads to another host is replaced by the usual one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Endpoints {
    registry_index: Option<String>,
    pack_metadata: Option<String>,
    version_manifest: Option<String>,
    version_tarball: Option<String>,
    version_signature: Option<String>,
}

impl Endpoints {
    pub(super) fn registry_index(&self) -> String {
        path(self.registry_index.as_deref(), "/v1/index.json")
    }

    pub(super) fn pack_metadata(&self, name: &PackName) -> String {
        path(self.pack_metadata.as_deref(), "/v1/packs/{name}/index.json")
            .replace("{name}", name.as_str())
    }

    pub(super) fn version_manifest(&self, name: &PackName, version: &PackVersion) -> String {
        versioned(self.version_manifest.as_deref(), "json", name, version)
    }

    pub(super) fn version_tarball(&self, name: &PackName, version: &PackVersion) -> String {
        versioned(self.version_tarball.as_deref(), "tgz", name, version)
    }

    pub(super) fn version_signature(&self, name: &PackName, version: &PackVersion) -> String {
        versioned(self.version_signature.as_deref(), "sig", name, version)
    }
}

fn versioned(
    template: Option<&str>,
    ending: &str,
    name: &PackName,
    version: &PackVersion,
) -> String {
    let usual = format!("/v1/packs/{{name}}/-/{{version}}.{ending}");
    path(template, &usual).replace("{name}", name.as_str()).replace("{version}", version.as_str())
}

fn path(template: Option<&str>, usual: &str) -> String {
    let stays = |template: &&str| template.starts_with('/') && !template.starts_with("//");
    template.filter(stays).unwrap_or(usual).to_owned()
}

/// `/v1/index.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) packs: Vec<IndexEntry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IndexEntry {
    pub(super) name: PackName,
}

/// `/v1/packs/{name}/index.json`.
#[derive(Debug, Deserialize)]
pub(super) struct PackIndex {
    pub(super) versions: Vec<ListedVersion>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedVersion {
    pub(super) version: PackVersion,
    #[serde(default)]
    pub(super) yanked: bool,
}

/// `/v1/packs/{name}/-/{version}.json`: what the registry adds to the pack's own manifest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionManifest {
    name: PackName,
    version: PackVersion,
    pub(super) integrity: String,
    #[serde(default)]
    yanked: bool,
    yanked_reason: Option<String>,
}

impl VersionManifest {
    /// Refuses a manifest of something else, and a version that was withdrawn.
    pub(super) fn check(&self, name: &PackName, version: &PackVersion) -> Result<(), PackError> {
        let pairs = [
            ("name", name.as_str(), self.name.as_str()),
            ("version", version.as_str(), self.version.as_str()),
        ];
        for (what, expected, found) in pairs {
            if expected != found {
                let (expected, found) = (expected.to_owned(), found.to_owned());
                return Err(PackError::Mismatch { what, expected, found });
            }
        }
        if self.yanked {
            let reason = self.yanked_reason.as_deref().unwrap_or("no reason was given");
            return Err(PackError::Yanked {
                name: name.clone(),
                version: version.clone(),
                reason: reason.to_owned(),
            });
        }
        Ok(())
    }
}
