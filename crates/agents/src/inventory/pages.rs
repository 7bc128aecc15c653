//! Packs and agents as readers see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use callboard_engine::{PackOwner, Realm};
use callboard_protocol::{AgentId, AgentManifest, ModelClass, PackName, PackVersion, Timestamp};

use super::{Installed, Snapshot};
use crate::pack::{Agent, Pack};
use crate::proof::Proof;

/// `GET /v1/packs`: each pack once, with its latest version and its agents as their author describes them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackCatalog {
    pub packs: Vec<LatestPack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatestPack {
    pub name: PackName,
    pub version: PackVersion,
    /// The same under the name that clients of registries expect.
    pub latest: PackVersion,
    pub verified: bool,
    pub agents: Vec<AgentManifest>,
}

/// How much of a page manifests may fill, beyond the first: a prompt may stand in one, and there may be many.
const PAGE_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentLine {
    pub agent_id: AgentId,
    pub model_class: ModelClass,
}

/// `GET /v1/packs/export`: the manifests, each with the id that it came under.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PackExport {
    pub manifests: Vec<ExportedManifest>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedManifest {
    pub agent_id: AgentId,
    pub model_class: ModelClass,
    pub source_manifest_id: AgentId,
}

/// The host's own list: every version that is installed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PackList {
    pub packs: Vec<PackLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackLine {
    pub name: PackName,
    pub version: PackVersion,
    pub integrity: String,
    /// Whether all of its files are proven to be its publisher's, and through what.
    pub verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_by: Option<Proof>,
    /// The key that signed it; absent without a trusted signature over all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    pub scope: &'static str,
    pub agents: Vec<AgentLine>,
    pub installed_at: Timestamp,
}

impl Installed {
    fn latest(&self) -> LatestPack {
        LatestPack {
            name: self.pack.name().clone(),
            version: self.pack.version().clone(),
            latest: self.pack.version().clone(),
            verified: self.proof.is_some(),
            agents: self.pack.manifest.agents.clone(),
        }
    }

    pub fn line(&self) -> PackLine {
        PackLine {
            name: self.pack.name().clone(),
            version: self.pack.version().clone(),
            integrity: self.pack.integrity.to_string(),
            verified: self.proof.is_some(),
            verified_by: self.proof,
            signed_by: self.signed_by().map(str::to_owned),
            scope: match self.owner {
                PackOwner::Host => "host",
                PackOwner::Realm(_) => "tenant",
            },
            agents: lines(&self.pack),
            installed_at: self.installed_at,
        }
    }
}

pub(super) fn lines(pack: &Pack) -> Vec<AgentLine> {
    let line = |agent: &Arc<Agent>| AgentLine {
        agent_id: agent.id().clone(),
        model_class: agent.manifest.model_class,
    };
    pack.agents.iter().map(line).collect()
}

impl Snapshot {
    /// Each pack that a tenant may see in its latest version.
    pub(super) fn latest(&self, realm: &Realm) -> BTreeMap<&PackName, &Installed> {
        let mut latest: BTreeMap<&PackName, &Installed> = BTreeMap::new();
        for installed in self.packs(realm) {
            let newest = latest.entry(installed.pack.name()).or_insert(installed);
            if installed.pack.version() > newest.pack.version() {
                *newest = installed;
            }
        }
        latest
    }

    /// A page of them by name, after the one that the page before ended with.
    pub fn catalog(&self, realm: &Realm, after: Option<&str>, most: usize) -> PackCatalog {
        let mut packs: Vec<LatestPack> = Vec::new();
        let mut left = PAGE_BYTES;
        let latest = self.latest(realm).into_iter();
        for (_, installed) in latest.filter(|(name, _)| after.is_none_or(|it| name.as_str() > it)) {
            let entry = installed.latest();
            let weight = serde_json::to_vec(&entry).map_or(0, |bytes| bytes.len());
            if let Some(last) = packs.last().filter(|_| packs.len() == most || weight > left) {
                let next_cursor = Some(last.name.to_string());
                return PackCatalog { packs, next_cursor };
            }
            left = left.saturating_sub(weight);
            packs.push(entry);
        }
        PackCatalog { packs, next_cursor: None }
    }

    pub fn export(&self, realm: &Realm) -> PackExport {
        let manifests = self.list(realm).into_iter().map(|entry| ExportedManifest {
            source_manifest_id: entry.agent_id.clone(),
            agent_id: entry.agent_id,
            model_class: entry.model_class,
        });
        PackExport { manifests: manifests.collect() }
    }

    pub fn lines(&self, realm: &Realm) -> PackList {
        PackList { packs: self.packs(realm).map(|installed| installed.line()).collect() }
    }
}
