//! One pack as it was read, with everything that its agents refer to.

mod prompts;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use callboard_engine::Digest;
use callboard_protocol::{
    AgentId, AgentManifest, PROMPT_PACK, PROTOCOL_VERSIONS, PackManifest, PackName, PackVersion,
    RuntimeLanguage, RuntimeNeed, ShapeError,
};

use crate::archive::{self, Files, Limits, MANIFEST};
use crate::error::PackError;
use crate::signature::Sri;
use reference::Resolver;

pub use callboard_core::Schema;
pub(crate) use prompts::check_dependencies;

/// A pack with nothing left to look up.
#[derive(Clone)]
pub struct Pack {
    pub manifest: PackManifest,
    pub agents: Vec<Arc<Agent>>,
    /// SHA-256 of every file, so that a stored pack can be checked file by file when it is loaded again.
    pub digests: BTreeMap<String, Digest>,
    /// Of the archive, which is not kept: it may be large, and nothing of it is needed any more.
    pub integrity: Sri,
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({} {})", self.name(), self.version())
    }
}

/// An agent whose prompt and schemas are at hand.
#[derive(Debug, Clone)]
pub struct Agent {
    pub manifest: AgentManifest,
    pub prompt: Arc<str>,
    pub task: Option<Schema>,
    pub result: Option<Schema>,
    /// The evaluation suite as its author wrote it.
    pub evaluations: Option<serde_json::Value>,
}

impl Agent {
    pub fn id(&self) -> &AgentId {
        &self.manifest.agent_id
    }

    /// The tools that it may call; none when it names none.
    pub fn tools(&self) -> &[String] {
        self.manifest.tool_allowlist.as_deref().unwrap_or_default()
    }
}

impl Pack {
    /// Reads an archive: safe names, a valid manifest, and agents whose every reference leads to something usable.
    pub fn read(archive: Arc<[u8]>, limits: &Limits) -> Result<Self, PackError> {
        let contents = Contents::read(archive, limits)?;
        let manifest = contents.manifest()?;
        contents.into_pack(manifest)
    }

    pub fn name(&self) -> &PackName {
        &self.manifest.name
    }

    pub fn version(&self) -> &PackVersion {
        &self.manifest.version
    }
}

/// An archive whose names and sizes were found harmless.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) archive: Arc<[u8]>,
    pub(crate) files: Files,
}

impl Contents {
    pub(crate) fn read(archive: Arc<[u8]>, limits: &Limits) -> Result<Self, PackError> {
        let files = archive::unpack(&archive, limits)?;
        Ok(Self { archive, files })
    }

    /// The exact bytes of `pack.json`: the ones that are signed.
    pub(crate) fn manifest_bytes(&self) -> Result<&[u8], PackError> {
        self.files.get(MANIFEST).map(AsRef::as_ref).ok_or(PackError::ManifestMissing)
    }

    /// Reads the manifest and refuses what this host could never run.
    pub(crate) fn manifest(&self) -> Result<PackManifest, PackError> {
        let bytes = self.manifest_bytes()?;
        let value: serde_json::Value = serde_json::from_slice(bytes)
            .map_err(|error| PackError::ManifestNotJson { why: error.to_string() })?;
        match value.get("kind").and_then(|kind| kind.as_str()) {
            None | Some("node") => {}
            Some(PROMPT_PACK) => {
                let manifest = prompts::read(bytes)?;
                check_protocol(&manifest)?;
                return Ok(manifest);
            }
            Some(kind) => return Err(PackError::Kind { kind: kind.to_owned() }),
        }
        let manifest = PackManifest::parse(bytes).map_err(PackError::Manifest)?;
        check_protocol(&manifest)?;
        check_agents(&manifest)?;
        check_runtime(&manifest)?;
        Ok(manifest)
    }

    /// Resolves every reference of every agent.
    pub(crate) fn into_pack(self, manifest: PackManifest) -> Result<Pack, PackError> {
        let mut agents = Vec::with_capacity(manifest.agents.len());
        for agent in &manifest.agents {
            agents.push(Arc::new(Resolver { files: &self.files, agent }.resolve()?));
        }
        let digest = |bytes: &Arc<[u8]>| Digest::from(Sha256::digest(bytes));
        Ok(Pack {
            digests: self.files.iter().map(|(path, bytes)| (path.clone(), digest(bytes))).collect(),
            integrity: Sri::of(&self.archive),
            manifest,
            agents,
        })
    }
}

/// A pack that was made for other versions of the protocol may mean something else by the same words.
fn check_protocol(manifest: &PackManifest) -> Result<(), PackError> {
    let range = manifest.protocol_range().map_err(|error| {
        let (path, message) = ("engines.openwop".to_owned(), error.to_string());
        PackError::Manifest(ShapeError { path, message })
    })?;
    if PROTOCOL_VERSIONS.iter().any(|spoken| range.includes(spoken)) {
        return Ok(());
    }
    let wanted = manifest.engines.get("openwop").and_then(|text| text.as_str());
    Err(PackError::Protocol { wanted: wanted.unwrap_or_default().to_owned() })
}

/// Agents' ids begin with the name of their pack, so that no one can publish under another's name.
fn check_agents(manifest: &PackManifest) -> Result<(), PackError> {
    let mut seen = BTreeSet::new();
    for agent in &manifest.agents {
        let id = &agent.agent_id;
        let below = id.as_str().strip_prefix(manifest.name.as_str());
        if !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            let (agent, pack) = (id.clone(), manifest.name.clone());
            return Err(PackError::ForeignAgent { agent, pack });
        }
        if !seen.insert(id) {
            return Err(PackError::DuplicateAgent { agent: id.clone() });
        }
    }
    Ok(())
}

fn check_runtime(manifest: &PackManifest) -> Result<(), PackError> {
    if manifest.runtime.language != RuntimeLanguage::Remote {
        return Err(PackError::Runtime { what: format!("{:?}", manifest.runtime.language) });
    }
    if !manifest.nodes.is_empty() {
        return Err(PackError::Runtime { what: "nodes".to_owned() });
    }
    // Nothing of a pack is executed here, so nothing is granted to one.
    match unmet_needs(&manifest.runtime.requires, &[]).first() {
        Some(need) => Err(PackError::RuntimeNeed { need: need.as_str() }),
        None => Ok(()),
    }
}

/// What a pack's runtime asks for and is not granted.
pub fn unmet_needs(asked: &[RuntimeNeed], granted: &[RuntimeNeed]) -> Vec<RuntimeNeed> {
    asked.iter().copied().filter(|need| !granted.contains(need)).collect()
}
