//! Installed packs as a registry shows them: search by words, manifests by version.

use std::collections::BTreeMap;

use serde::Serialize;

use callboard_engine::Realm;
use callboard_protocol::{Object, PackName, PackVersion};

use super::pages::{AgentLine, lines};
use super::{Installed, Snapshot};
use crate::pack::Pack;

/// `GET /v1/packs/-/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct PackSearch {
    pub results: Vec<FoundPack>,
    pub total: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundPack {
    pub name: PackName,
    pub version: PackVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
}

/// A version's manifest, without what only the host may read: prompts and schemas.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackPage {
    pub name: PackName,
    pub version: PackVersion,
    pub engines: Object,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
    pub agents: Vec<AgentLine>,
    pub integrity: String,
}

impl Installed {
    pub fn page(&self) -> PackPage {
        let manifest = &self.pack.manifest;
        PackPage {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            engines: manifest.engines.clone(),
            kind: manifest.kind.clone(),
            description: manifest.description.clone(),
            author: manifest.author.clone(),
            license: manifest.license.clone(),
            homepage: manifest.homepage.clone(),
            repository: manifest.repository.clone(),
            keywords: manifest.keywords.clone().unwrap_or_default(),
            dependencies: manifest.dependencies.clone(),
            peer_dependencies: manifest.peer_dependencies.clone(),
            agents: lines(&self.pack),
            integrity: self.pack.integrity.to_string(),
        }
    }
}

impl Snapshot {
    /// The packs whose name, description or keywords hold the words, each in its latest version.
    pub fn search(&self, realm: &Realm, words: &str) -> PackSearch {
        let words = words.trim().to_lowercase();
        let latest = self.latest(realm).into_values().map(|installed| &installed.pack);
        let found = latest.filter(|pack| holds(pack, &words));
        let results: Vec<FoundPack> = found
            .map(|pack| FoundPack {
                name: pack.name().clone(),
                version: pack.version().clone(),
                description: pack.manifest.description.clone(),
                keywords: pack.manifest.keywords.clone().unwrap_or_default(),
            })
            .collect();
        PackSearch { total: results.len(), results }
    }
}

fn holds(pack: &Pack, words: &str) -> bool {
    let manifest = &pack.manifest;
    let texts = manifest.description.iter().chain(manifest.keywords.iter().flatten());
    pack.name().as_str().contains(words)
        || texts.map(|text| text.to_lowercase()).any(|text| text.contains(words))
}
