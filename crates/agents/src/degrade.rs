//! How a pack is treated that declares more than its host offers (RFC 0070 §D).

use std::collections::{BTreeMap, BTreeSet};

use callboard_protocol::{AgentId, AgentManifest, MemoryDimension, ModelClass, PackManifest};

use crate::error::PackError;
use crate::pack::Pack;

/// The swarm runtime. A host that has it also runs single agents.
const AGENT_RUNTIME: &str = "host.agentRuntime";
const MANIFEST_RUNTIME: &str = "agents.manifestRuntime";
const MEMORY_BACKENDS: &str = "agents.memoryBackends";
const MEMORY: &str = "memory";
const WORKSPACE: &str = "host.workspace";
/// What the names of tools begin with that no build has or lacks.
const NOT_BUILT_IN: [&str; 3] = ["openwop:workflow.", "mcp:", "cli:"];
/// How some packs spell capabilities of the discovery document.
const FOREIGN_PREFIX: &str = "openwop.";

/// What a host truly has, and what its operator lets packs go without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub capabilities: BTreeSet<String>,
    /// Unmet capabilities that do not keep a pack out; they are inert and shown as such.
    pub degrade: BTreeSet<String>,
    /// Tools by the names that allowlists use.
    pub tools: BTreeSet<String>,
    /// None is every class.
    pub model_classes: Option<BTreeSet<ModelClass>>,
}

impl Default for Host {
    /// The floor: agents of packs on some model, that remember. Most published packs ask for the swarm
    /// runtime without using it, so that alone may be missing.
    fn default() -> Self {
        let has =
            ["aiProviders", MANIFEST_RUNTIME, MEMORY, MEMORY_BACKENDS, WORKSPACE, "workspace"];
        Self {
            capabilities: has.map(str::to_owned).into(),
            degrade: BTreeSet::from([AGENT_RUNTIME.to_owned()]),
            tools: BTreeSet::new(),
            model_classes: None,
        }
    }
}

/// What one agent goes without here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Degradation {
    /// Capabilities as the pack spells them.
    pub capabilities: Vec<String>,
    pub memory: Vec<MemoryDimension>,
}

impl Host {
    /// Says for each agent what it goes without, or refuses the pack for the first thing it cannot go without.
    pub fn admit(
        &self,
        manifest: &PackManifest,
    ) -> Result<BTreeMap<AgentId, Degradation>, PackError> {
        let mut inert = Vec::new();
        for (capability, wanted) in &manifest.peer_dependencies {
            if self.offers(capability, wanted) {
                continue;
            }
            if !is_optional(manifest, capability) && !self.lets_go(capability) {
                return Err(PackError::PeerDependency { capability: capability.clone() });
            }
            inert.push(capability.clone());
        }
        let agents = manifest.agents.iter();
        agents
            .map(|agent| {
                let mut capabilities = inert.clone();
                let needs = agent.requires_capabilities.iter().flatten();
                capabilities.extend(needs.filter(|need| !self.offers(need, "supported")).cloned());
                capabilities.sort();
                capabilities.dedup();
                self.check_model(agent)?;
                let memory = self.missing_memory(manifest, agent)?;
                Ok((agent.agent_id.clone(), Degradation { capabilities, memory }))
            })
            .collect()
    }

    /// Tools that agents of the pack may call and that this host does not have. Workflows, MCP servers and grants of
    /// coding agents are not built in: the operator decides about them.
    pub fn missing_tools(&self, pack: &Pack) -> BTreeSet<String> {
        let wanted = pack.agents.iter().flat_map(|agent| agent.tools());
        let is_built_in = |tool: &str| !NOT_BUILT_IN.iter().any(|prefix| tool.starts_with(prefix));
        wanted.filter(|tool| is_built_in(tool) && !self.tools.contains(*tool)).cloned().collect()
    }

    fn offers(&self, capability: &str, wanted: &str) -> bool {
        let capability = canonical(capability);
        let has = |name: &str| self.capabilities.contains(name);
        let offered = has(capability) || (capability == MANIFEST_RUNTIME && has(AGENT_RUNTIME));
        // A level that we cannot judge is not met: pretending would be worse.
        let judged = match capability {
            MEMORY_BACKENDS => matches!(wanted, "supported" | "long-term" | ">=longTerm"),
            _ => wanted == "supported",
        };
        offered && judged
    }

    fn lets_go(&self, capability: &str) -> bool {
        self.degrade.iter().any(|named| canonical(named) == canonical(capability))
    }

    fn check_model(&self, agent: &AgentManifest) -> Result<(), PackError> {
        match &self.model_classes {
            Some(classes) if !classes.contains(&agent.model_class) => Err(PackError::ModelClass {
                agent: agent.agent_id.clone(),
                class: agent.model_class.as_str(),
            }),
            _ => Ok(()),
        }
    }

    fn missing_memory(
        &self,
        manifest: &PackManifest,
        agent: &AgentManifest,
    ) -> Result<Vec<MemoryDimension>, PackError> {
        let mut declared = manifest.peer_dependencies.iter();
        let declared = declared.find(|(key, _)| canonical(key) == MEMORY_BACKENDS);
        let level = declared.map_or("supported", |(_, level)| level);
        if !agent.wants_long_term_memory() || self.offers(MEMORY_BACKENDS, level) {
            return Ok(Vec::new());
        }
        let optional = declared.is_some_and(|(key, _)| is_optional(manifest, key));
        if !optional && !self.lets_go(MEMORY_BACKENDS) {
            return Err(PackError::Capability {
                agent: agent.agent_id.clone(),
                capability: MEMORY_BACKENDS.to_owned(),
            });
        }
        if self.capabilities.contains(MEMORY) || self.offers(MEMORY_BACKENDS, "supported") {
            return Ok(vec![MemoryDimension::LongTermDurability]);
        }
        use MemoryDimension::{LongTermDurability, Read, Write};
        Ok(vec![Read, Write, LongTermDurability])
    }
}

fn canonical(capability: &str) -> &str {
    capability.strip_prefix(FOREIGN_PREFIX).unwrap_or(capability)
}

fn is_optional(manifest: &PackManifest, capability: &str) -> bool {
    manifest.peer_dependencies_meta.get(capability).is_some_and(|meta| meta.optional)
}
