//! A pack of prompts as its author describes it: the closed `pack.json` of kind `prompt`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{PackManifest, PackName, PackRuntime, PackVersion, RuntimeLanguage, Signing};
use crate::closed::ensure;
use crate::{Object, PromptTemplate, ShapeError};

/// What such packs say of their kind.
pub const PROMPT_PACK: &str = "prompt";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptPackManifest {
    name: PackName,
    version: PackVersion,
    kind: String,
    engines: Object,
    description: Option<String>,
    author: Option<String>,
    license: Option<String>,
    homepage: Option<String>,
    repository: Option<String>,
    keywords: Option<Vec<String>>,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
    /// Templates as they were written; each is judged alone.
    pub prompts: Vec<Value>,
    signing: Option<Signing>,
}

impl PromptPackManifest {
    /// Reads `pack.json`, all but its templates.
    pub fn parse(bytes: &[u8]) -> Result<Self, ShapeError> {
        let fields: Object = crate::parse(bytes)?;
        for (name, value) in &fields {
            ensure(!value.is_null(), name, || "holds null".into())?;
        }
        let manifest: Self = crate::parse(bytes)?;
        ensure(manifest.kind == PROMPT_PACK, "kind", || "must be \"prompt\"".into())?;
        ensure(!manifest.prompts.is_empty(), "prompts", || "a pack needs a prompt".into())?;
        Ok(manifest)
    }

    /// The same with its templates, as every pack is known here.
    pub fn with(self, prompts: Vec<PromptTemplate>) -> Result<PackManifest, ShapeError> {
        // It has no code, and says nothing of what would run it.
        let runtime = PackRuntime {
            language: RuntimeLanguage::Remote,
            entry: "pack.json".to_owned(),
            format: None,
            min_runtime_version: None,
            requires: Vec::new(),
        };
        let manifest = PackManifest {
            name: self.name,
            version: self.version,
            engines: self.engines,
            runtime,
            kind: Some(self.kind),
            description: self.description,
            author: self.author,
            license: self.license,
            homepage: self.homepage,
            repository: self.repository,
            keywords: self.keywords,
            dependencies: self.dependencies,
            peer_dependencies: BTreeMap::new(),
            peer_dependencies_meta: BTreeMap::new(),
            nodes: Vec::new(),
            agents: Vec::new(),
            prompts,
            signing: self.signing,
            connector: None,
        };
        manifest.check_words()?;
        Ok(manifest)
    }
}
