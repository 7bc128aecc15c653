//! The agents that tenants can dispatch, under one rule for who sees which.

mod install;
mod pages;
mod registry;

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_engine::{PackId, PackOwner};
use callboard_protocol::{
    AgentId, AgentInventoryEntry, PackVersion, PromptTemplate, Tenant, Timestamp,
};

use crate::admission::Vetted;
use crate::degrade::Degradation;
use crate::pack::{Agent, Pack};
use crate::signature::Signature;

pub use install::{AgentRegistry, InstallError, Left};
pub use pages::{PackCatalog, PackExport, PackList};
pub use registry::{PackPage, PackSearch};

/// A pack that was let in for somebody.
#[derive(Debug, Clone)]
pub struct Installed {
    pub owner: PackOwner,
    pub pack: Pack,
    pub signature: Signature,
    pub degradation: BTreeMap<AgentId, Degradation>,
    pub installed_at: Timestamp,
    /// Whether it is there only for runs that keep it.
    pub is_removed: bool,
}

impl Installed {
    pub fn new(owner: PackOwner, vetted: Vetted, installed_at: Timestamp) -> Self {
        let Vetted { pack, signature, degradation } = vetted;
        Self { owner, pack, signature, degradation, installed_at, is_removed: false }
    }

    pub fn id(&self) -> PackId {
        let (name, version) = (self.pack.name().clone(), self.pack.version().clone());
        PackId { owner: self.owner.clone(), name, version }
    }

    /// Whether whoever installs that pack can see this one.
    fn can_build_on(&self, other: &Self) -> bool {
        let is_seen = match &other.owner {
            PackOwner::Host => self.owner == PackOwner::Host,
            PackOwner::Tenant(tenant) => self.is_visible_to(tenant),
        };
        is_seen && !self.is_removed
    }

    /// The rule of visibility, for lists, reads and dispatch alike.
    pub fn is_visible_to(&self, tenant: &Tenant) -> bool {
        match &self.owner {
            PackOwner::Host => true,
            PackOwner::Tenant(owner) => owner == tenant,
        }
    }
}

/// An agent with the pack that it came in.
#[derive(Debug, Clone)]
pub struct InstalledAgent {
    pub agent: Arc<Agent>,
    pub source: Arc<Installed>,
}

impl InstalledAgent {
    pub fn version(&self) -> &PackVersion {
        self.source.pack.version()
    }

    /// The agent as the inventory shows it.
    pub fn entry(&self) -> AgentInventoryEntry {
        let manifest = &self.agent.manifest;
        let without = self.source.degradation.get(&manifest.agent_id).cloned().unwrap_or_default();
        AgentInventoryEntry {
            agent_id: manifest.agent_id.clone(),
            persona: manifest.persona.clone(),
            label: manifest.label.clone().unwrap_or_else(|| manifest.persona.clone()),
            model_class: manifest.model_class,
            pack_name: self.source.pack.name().clone(),
            pack_version: self.version().clone(),
            tool_allowlist: self.agent.tools().to_vec(),
            has_handoff_schemas: self.agent.task.is_some() || self.agent.result.is_some(),
            description: manifest.description.clone(),
            memory_shape: manifest.memory_shape,
            confidence_threshold: manifest.confidence.and_then(|it| it.default_threshold),
            degraded: without.capabilities,
            memory_degraded: (!without.memory.is_empty()).then_some(true),
            degraded_memory_dimensions: without.memory,
            roster: Vec::new(),
        }
    }
}

/// Every installed pack at one moment. A run that began with one keeps its agents whatever comes after.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    packs: BTreeMap<PackId, Arc<Installed>>,
    /// The highest version first; of one version the host's own, so that no tenant replaces it.
    agents: BTreeMap<AgentId, Vec<InstalledAgent>>,
}

impl Snapshot {
    pub fn new(packs: impl IntoIterator<Item = Installed>) -> Self {
        let packs = packs.into_iter().map(|pack| (pack.id(), Arc::new(pack)));
        Self::of(packs.collect())
    }

    fn of(packs: BTreeMap<PackId, Arc<Installed>>) -> Self {
        let mut agents: BTreeMap<AgentId, Vec<InstalledAgent>> = BTreeMap::new();
        for source in packs.values() {
            for agent in &source.pack.agents {
                let installed = InstalledAgent { agent: agent.clone(), source: source.clone() };
                agents.entry(agent.id().clone()).or_default().push(installed);
            }
        }
        for versions in agents.values_mut() {
            versions.sort_by(|a, b| {
                b.version().cmp(a.version()).then_with(|| a.source.owner.cmp(&b.source.owner))
            });
        }
        Self { packs, agents }
    }

    fn with(&self, pack: Arc<Installed>) -> Self {
        let mut packs = self.packs.clone();
        packs.insert(pack.id(), pack);
        Self::of(packs)
    }

    fn without(&self, id: &PackId) -> Self {
        let mut packs = self.packs.clone();
        if let Some(there) = packs.remove(id) {
            let removed = Installed { is_removed: true, ..Installed::clone(&there) };
            packs.insert(id.clone(), Arc::new(removed));
        }
        Self::of(packs)
    }

    /// The packs that a tenant can see, by owner, name and version.
    pub fn packs(&self, tenant: &Tenant) -> impl Iterator<Item = &Arc<Installed>> {
        self.packs.values().filter(move |pack| pack.is_visible_to(tenant) && !pack.is_removed)
    }

    /// The templates of those packs, the newest pack of a name first.
    pub fn prompts(&self, tenant: &Tenant) -> Vec<&PromptTemplate> {
        let mut packs: Vec<_> = self.packs(tenant).map(|installed| &installed.pack).collect();
        packs.sort_by(|a, b| a.name().cmp(b.name()).then_with(|| b.version().cmp(a.version())));
        packs.into_iter().flat_map(|pack| &pack.manifest.prompts).collect()
    }

    /// The highest version of an agent, or exactly the one asked for.
    pub fn find(
        &self,
        tenant: &Tenant,
        id: &AgentId,
        version: Option<&PackVersion>,
    ) -> Option<&InstalledAgent> {
        self.agents.get(id)?.iter().find(|agent| {
            agent.source.is_visible_to(tenant)
                && !agent.source.is_removed
                && version.is_none_or(|version| agent.version() == version)
        })
    }

    /// The version of an agent that a run keeps, also when nobody can begin with it any more.
    pub(crate) fn find_kept(
        &self,
        tenant: &Tenant,
        id: &AgentId,
        version: &PackVersion,
    ) -> Option<&InstalledAgent> {
        let kept = |agent: &&InstalledAgent| {
            agent.source.is_visible_to(tenant) && agent.version() == version
        };
        self.agents.get(id)?.iter().find(kept)
    }

    /// The installed versions of an agent, the highest first.
    pub fn versions(&self, tenant: &Tenant, id: &AgentId) -> impl Iterator<Item = &PackVersion> {
        let agents = self.agents.get(id).into_iter().flatten();
        let offered = |agent: &&InstalledAgent| {
            agent.source.is_visible_to(tenant) && !agent.source.is_removed
        };
        agents.filter(offered).map(InstalledAgent::version)
    }

    /// The agents that a tenant can dispatch, by id, each in its highest version.
    pub fn list(&self, tenant: &Tenant) -> Vec<AgentInventoryEntry> {
        let ids = self.agents.keys();
        ids.filter_map(|id| self.find(tenant, id, None)).map(InstalledAgent::entry).collect()
    }
}
