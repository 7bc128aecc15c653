//! What readers are shown of packs.

use std::collections::BTreeMap;

use serde::Serialize;

use callboard_engine::PackOwner;
use callboard_protocol::{AgentId, ModelClass, PackName, PackVersion, Tenant, Timestamp};

use super::{Installed, Snapshot};
use crate::pack::Pack;
use crate::signature::Signature;

/// `GET /v1/packs`: each pack once, with its latest version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PackCatalog {
    pub packs: Vec<LatestPack>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatestPack {
    pub name: PackName,
    pub latest: PackVersion,
    pub agents: Vec<AgentLine>,
}

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
    /// The key that signed it; absent if nobody known did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    pub scope: &'static str,
    pub agents: Vec<AgentLine>,
    pub installed_at: Timestamp,
}

impl Installed {
    pub fn line(&self) -> PackLine {
        PackLine {
            name: self.pack.name().clone(),
            version: self.pack.version().clone(),
            integrity: self.pack.integrity.to_string(),
            signed_by: match &self.signature {
                Signature::Good { key } => Some(key.clone()),
                Signature::Missing | Signature::UnknownKey { .. } => None,
            },
            scope: match self.owner {
                PackOwner::Host => "host",
                PackOwner::Tenant(_) => "tenant",
            },
            agents: lines(&self.pack),
            installed_at: self.installed_at,
        }
    }
}

pub(super) fn lines(pack: &Pack) -> Vec<AgentLine> {
    let line = |agent: &std::sync::Arc<crate::pack::Agent>| AgentLine {
        agent_id: agent.id().clone(),
        model_class: agent.manifest.model_class,
    };
    pack.agents.iter().map(line).collect()
}

impl Snapshot {
    /// Each pack that a tenant may see in its latest version.
    pub(super) fn latest(&self, tenant: &Tenant) -> BTreeMap<&PackName, &Pack> {
        let mut latest: BTreeMap<&PackName, &Pack> = BTreeMap::new();
        for installed in self.packs(tenant) {
            let pack = &installed.pack;
            let newest = latest.entry(pack.name()).or_insert(pack);
            if pack.version() > newest.version() {
                *newest = pack;
            }
        }
        latest
    }

    pub fn catalog(&self, tenant: &Tenant) -> PackCatalog {
        let packs = self.latest(tenant).into_iter().map(|(name, pack)| LatestPack {
            name: name.clone(),
            latest: pack.version().clone(),
            agents: lines(pack),
        });
        PackCatalog { packs: packs.collect() }
    }

    pub fn export(&self, tenant: &Tenant) -> PackExport {
        let manifests = self.list(tenant).into_iter().map(|entry| ExportedManifest {
            source_manifest_id: entry.agent_id.clone(),
            agent_id: entry.agent_id,
            model_class: entry.model_class,
        });
        PackExport { manifests: manifests.collect() }
    }

    pub fn lines(&self, tenant: &Tenant) -> PackList {
        PackList { packs: self.packs(tenant).map(|installed| installed.line()).collect() }
    }
}
