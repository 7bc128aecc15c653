//! The agents that tenants can dispatch, with one rule for their visibility.

mod install;
mod pages;
mod registry;

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::AgentPin;
use callboard_engine::{PackId, PackOwner, Realm, StoredPack};
use callboard_protocol::{AgentId, AgentInventoryEntry, PackVersion, PromptTemplate, Timestamp};

use crate::admission::Vetted;
use crate::degrade::Degradation;
use crate::pack::{Agent, Pack};
use crate::proof::Proof;
use crate::signature::{Signature, Sri};

pub use install::{AgentRegistry, InstallError, Left};
pub use pages::{PackCatalog, PackExport, PackList};
pub use registry::{PackPage, PackSearch};

/// A pack that is installed for a tenant or for all.
#[derive(Debug, Clone)]
pub struct Installed {
    pub owner: PackOwner,
    pub pack: Pack,
    pub signature: Signature,
    pub proof: Option<Proof>,
    pub degradation: BTreeMap<AgentId, Degradation>,
    pub installed_at: Timestamp,
    /// Whether it is there only for runs that keep it.
    pub is_removed: bool,
}

impl Installed {
    pub fn new(owner: PackOwner, vetted: Vetted, installed_at: Timestamp) -> Self {
        let Vetted { pack, signature, proof, degradation } = vetted;
        Self { owner, pack, signature, proof, degradation, installed_at, is_removed: false }
    }

    pub fn id(&self) -> PackId {
        let (name, version) = (self.pack.name().clone(), self.pack.version().clone());
        PackId { owner: self.owner.clone(), name, version }
    }

    /// The signer of all of it: none, where a signature does not cover its files.
    pub fn signed_by(&self) -> Option<&str> {
        match (&self.signature, self.proof) {
            (Signature::Good { key }, Some(_)) => Some(key),
            (Signature::Good { .. } | Signature::Missing | Signature::UnknownKey { .. }, _) => None,
        }
    }

    fn place(&self) -> Place {
        (self.id(), self.pack.integrity.clone())
    }

    /// Whether the owner of that pack can see this one.
    fn can_build_on(&self, other: &Self) -> bool {
        let is_seen = match &other.owner {
            PackOwner::Host => self.owner == PackOwner::Host,
            PackOwner::Realm(realm) => self.is_visible_to(realm),
        };
        is_seen && !self.is_removed
    }

    /// Whether this is what the store keeps there.
    fn is_stored_as(&self, stored: &StoredPack) -> bool {
        self.id() == stored.id && self.pack.digests == stored.files
    }

    /// The rule of visibility, for lists, reads and dispatch alike.
    pub fn is_visible_to(&self, realm: &Realm) -> bool {
        match &self.owner {
            PackOwner::Host => true,
            PackOwner::Realm(owner) => owner == realm,
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

/// A version by its contents: one that was removed may have come again with other ones.
type Place = (PackId, Sri);

/// Every installed pack at one moment. A run that began with one keeps its agents whatever comes after.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    packs: BTreeMap<Place, Arc<Installed>>,
    /// The highest version first; of one version the host's own, so that no tenant replaces it; of one owner's
    /// the one that was there first.
    agents: BTreeMap<AgentId, Vec<InstalledAgent>>,
}

impl Snapshot {
    pub fn new(packs: impl IntoIterator<Item = Installed>) -> Self {
        let packs = packs.into_iter().map(|pack| (pack.place(), Arc::new(pack)));
        Self::of(packs.collect())
    }

    fn of(packs: BTreeMap<Place, Arc<Installed>>) -> Self {
        let mut agents: BTreeMap<AgentId, Vec<InstalledAgent>> = BTreeMap::new();
        for source in packs.values() {
            for agent in &source.pack.agents {
                let installed = InstalledAgent { agent: agent.clone(), source: source.clone() };
                agents.entry(agent.id().clone()).or_default().push(installed);
            }
        }
        for versions in agents.values_mut() {
            versions.sort_by(|a, b| {
                let newer = b.version().cmp(a.version());
                let owner = || a.source.owner.cmp(&b.source.owner);
                // Only the last of them is offered, so a removed one came before it, also within a millisecond.
                let age = |pack: &Installed| (pack.installed_at, !pack.is_removed);
                let first = || age(&a.source).cmp(&age(&b.source));
                newer.then_with(owner).then_with(first)
            });
        }
        Self { packs, agents }
    }

    fn with(&self, pack: Arc<Installed>) -> Self {
        let mut packs = self.packs.clone();
        packs.insert(pack.place(), pack);
        Self::of(packs)
    }

    fn without(&self, id: &PackId) -> Self {
        let mut packs = self.packs.clone();
        for there in packs.values_mut().filter(|there| there.id() == *id && !there.is_removed) {
            *there = Arc::new(Installed { is_removed: true, ..Installed::clone(there) });
        }
        Self::of(packs)
    }

    /// What is offered under exactly this name.
    fn offered(&self, id: &PackId) -> Option<&Arc<Installed>> {
        self.packs.values().find(|there| !there.is_removed && there.id() == *id)
    }

    /// The packs that a tenant can see, by owner, name and version.
    pub fn packs(&self, realm: &Realm) -> impl Iterator<Item = &Arc<Installed>> {
        self.packs.values().filter(move |pack| pack.is_visible_to(realm) && !pack.is_removed)
    }

    /// The templates of those packs, the newest pack of a name first.
    pub fn prompts(&self, realm: &Realm) -> Vec<&PromptTemplate> {
        let mut packs: Vec<_> = self.packs(realm).map(|installed| &installed.pack).collect();
        packs.sort_by(|a, b| a.name().cmp(b.name()).then_with(|| b.version().cmp(a.version())));
        packs.into_iter().flat_map(|pack| &pack.manifest.prompts).collect()
    }

    /// The highest version of an agent, or exactly the one asked for.
    pub fn find(
        &self,
        realm: &Realm,
        id: &AgentId,
        version: Option<&PackVersion>,
    ) -> Option<&InstalledAgent> {
        self.agents.get(id)?.iter().find(|agent| {
            agent.source.is_visible_to(realm)
                && !agent.source.is_removed
                && version.is_none_or(|version| agent.version() == version)
        })
    }

    /// The version of an agent that a run keeps, also when new runs cannot use it any more, and never with
    /// contents that were installed later. Packs of the host are its operator's to change, and are packed
    /// anew at every start. A run that does not name its contents started with the first.
    pub fn find_kept(&self, realm: &Realm, pin: &AgentPin) -> Option<&InstalledAgent> {
        let version: PackVersion = pin.version.parse().ok()?;
        let agents = self.agents.get(&AgentId::from(pin.agent_id.as_str()))?;
        let mut kept = agents
            .iter()
            .filter(|agent| agent.source.is_visible_to(realm) && *agent.version() == version);
        let Some(pinned) = pin.integrity.as_deref() else { return kept.next() };
        let exact = kept.clone().find(|agent| agent.source.pack.integrity.as_str() == pinned);
        exact.or_else(|| kept.find(|agent| agent.source.owner == PackOwner::Host))
    }

    /// The installed versions of an agent, the highest first.
    pub fn versions(&self, realm: &Realm, id: &AgentId) -> impl Iterator<Item = &PackVersion> {
        let agents = self.agents.get(id).into_iter().flatten();
        let offered =
            |agent: &&InstalledAgent| agent.source.is_visible_to(realm) && !agent.source.is_removed;
        agents.filter(offered).map(InstalledAgent::version)
    }

    /// The agents that a tenant can dispatch, by id, each in its highest version.
    pub fn list(&self, realm: &Realm) -> Vec<AgentInventoryEntry> {
        let ids = self.agents.keys();
        ids.filter_map(|id| self.find(realm, id, None)).map(InstalledAgent::entry).collect()
    }
}
