//! A pack as its author describes it: the closed `pack.json`.

mod name;
mod prompts;
mod range;
mod version;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::closed::ensure;
use crate::{AgentManifest, Object, ShapeError};

pub use name::{NameError, PackName};
pub use prompts::{PROMPT_PACK, PromptPackManifest};
pub use range::{RangeTextError, VersionRange};
pub use version::{PackVersion, VersionTextError};

pub(crate) use name::is_scoped_name;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackManifest {
    pub name: PackName,
    pub version: PackVersion,
    /// Which versions of the protocol the pack was made for; open, but `openwop` must be in it.
    pub engines: Object,
    pub runtime: PackRuntime,
    pub kind: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    pub license: Option<String>,
    pub homepage: Option<String>,
    pub repository: Option<String>,
    pub keywords: Option<Vec<String>>,
    #[serde(default)]
    pub dependencies: BTreeMap<String, String>,
    /// What the host must offer, by capability.
    #[serde(default)]
    pub peer_dependencies: BTreeMap<String, String>,
    #[serde(default)]
    pub peer_dependencies_meta: BTreeMap<String, PeerDependencyMeta>,
    /// Nodes are code of the pack; a host that runs none does not read it.
    #[serde(default)]
    pub nodes: Vec<Object>,
    #[serde(default)]
    pub agents: Vec<AgentManifest>,
    /// Only packs of kind `prompt` have any.
    #[serde(skip)]
    pub prompts: Vec<crate::PromptTemplate>,
    pub signing: Option<Signing>,
    pub connector: Option<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerDependencyMeta {
    #[serde(default)]
    pub optional: bool,
}

/// What runs the pack's code. Packs of agents alone have none and say `remote`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackRuntime {
    pub language: RuntimeLanguage,
    pub entry: String,
    pub format: Option<String>,
    pub min_runtime_version: Option<String>,
    #[serde(default)]
    pub requires: Vec<RuntimeNeed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeLanguage {
    Javascript,
    Python,
    Go,
    Wasm,
    WasmComponent,
    Remote,
}

/// Something of the platform that a pack's code would touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum RuntimeNeed {
    #[serde(rename = "net.dns")]
    NetDns,
    #[serde(rename = "net.outbound")]
    NetOutbound,
    #[serde(rename = "crypto")]
    Crypto,
    #[serde(rename = "subprocess")]
    Subprocess,
    #[serde(rename = "fs.read")]
    FsRead,
    #[serde(rename = "fs.write")]
    FsWrite,
    #[serde(rename = "env.read")]
    EnvRead,
    #[serde(rename = "clock")]
    Clock,
}

impl RuntimeNeed {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NetDns => "net.dns",
            Self::NetOutbound => "net.outbound",
            Self::Crypto => "crypto",
            Self::Subprocess => "subprocess",
            Self::FsRead => "fs.read",
            Self::FsWrite => "fs.write",
            Self::EnvRead => "env.read",
            Self::Clock => "clock",
        }
    }
}

/// How the pack was signed. `ed25519` and `keyId` are what registries write where authors write `manual`
/// and `publicKeyRef`; both are in published packs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signing {
    pub method: Option<SigningMethod>,
    pub public_key_ref: Option<String>,
    pub key_id: Option<String>,
    pub signature_ref: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SigningMethod {
    /// A signature over the bytes of `pack.json`.
    Manual,
    /// A signature over the whole archive.
    Ed25519,
    Sigstore,
}

/// The fields whose contents are not ours to judge.
const OPEN: [&str; 4] = ["engines", "nodes", "connector", "variableOverrides"];
/// The fields that hold lists.
const LISTS: [&str; 6] =
    ["agents", "nodes", "keywords", "requires", "toolAllowlist", "requiresCapabilities"];

/// Whether a value has the form that the schema expects where our types accept more: they read null as
/// absent and a list as an object without names.
fn is_formed(name: &str, value: &Value) -> bool {
    match value {
        _ if OPEN.contains(&name) => true,
        Value::Null => false,
        Value::Array(items) => {
            LISTS.contains(&name) && items.iter().all(|item| is_formed("", item))
        }
        Value::Object(fields) => fields.iter().all(|(name, value)| is_formed(name, value)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

impl PackManifest {
    /// Reads `pack.json` and checks everything that the closed schema says beyond field types.
    pub fn parse(bytes: &[u8]) -> Result<Self, ShapeError> {
        let manifest: Self = crate::parse(bytes)?;
        manifest.check()?;
        let fields: Object = crate::parse(bytes)?;
        for (name, value) in &fields {
            ensure(is_formed(name, value), name, || {
                "holds null, or a list where an object belongs".into()
            })?;
        }
        Ok(manifest)
    }

    /// The versions of the protocol that the pack was made for.
    pub fn protocol_range(&self) -> Result<VersionRange, RangeTextError> {
        self.engines.get("openwop").and_then(Value::as_str).unwrap_or_default().parse()
    }

    /// What every kind of pack must say of itself.
    fn check_words(&self) -> Result<(), ShapeError> {
        let openwop = self.engines.get("openwop");
        ensure(openwop.is_some_and(Value::is_string), "engines.openwop", || {
            "must be a range of protocol versions".into()
        })?;
        let described = self.description.as_ref().map_or(0, |text| text.chars().count());
        ensure(described <= 1024, "description", || "must have at most 1024 characters".into())?;
        let keywords = self.keywords.as_deref().unwrap_or_default();
        let fits = keywords.len() <= 50 && keywords.iter().all(|word| word.chars().count() <= 64);
        ensure(fits, "keywords", || "at most 50 words of at most 64 characters".into())
    }

    fn check(&self) -> Result<(), ShapeError> {
        self.check_words()?;
        ensure(self.kind.as_deref().is_none_or(|kind| kind == "node"), "kind", || {
            "must be absent or \"node\"".into()
        })?;
        let formats = ["esm", "cjs", "wheel", "binary", "shared-library", "wasm", "wasm-component"];
        let format = self.runtime.format.as_deref();
        ensure(format.is_none_or(|format| formats.contains(&format)), "runtime.format", || {
            format!("must be one of {}", formats.join(", "))
        })?;
        let needs = &self.runtime.requires;
        let is_set = (1..needs.len()).all(|at| !needs[..at].contains(&needs[at]));
        ensure(is_set, "runtime.requires", || "must name each primitive once".into())?;
        ensure(!self.nodes.is_empty() || !self.agents.is_empty(), "agents", || {
            "a pack needs an agent or a node".into()
        })?;
        for (index, agent) in self.agents.iter().enumerate() {
            agent.check(&format!("agents[{index}]"))?;
        }
        Ok(())
    }
}
