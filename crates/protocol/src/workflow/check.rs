//! Rules of the closed schema of a definition beyond the types of its fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    AgentRef, ChannelAccess, ChannelDeclaration, DefinitionError, NodeGroup, PortValue,
    WorkflowDefaults, WorkflowDefinition, WorkflowMetadata, WorkflowNode, WorkflowSettings,
};
use crate::ShapeError;
use crate::closed::ensure;

impl WorkflowDefinition {
    /// Reads a definition and checks everything that the closed schema says beyond field types.
    pub fn parse(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let definition: Self = crate::parse(bytes)?;
        definition.check()?;
        Ok(definition)
    }

    fn check(&self) -> Result<(), ShapeError> {
        let id = self.id.as_str();
        ensure(is_lower_name(id) && id.len() <= 128, "id", || {
            format!("{id:?} must be 1 to 128 of a-z, 0-9, _ and -, and begin with a letter")
        })?;
        let characters = self.name.chars().count();
        ensure((1..=256).contains(&characters), "name", || "must have 1 to 256 characters".into())?;
        ensure(!self.version.is_empty(), "version", || "must not be empty".into())?;
        if let Some(slug) = &self.slug {
            ensure(is_slug_start(slug), "slug", || {
                format!("{slug:?} must be of a-z, 0-9, _ and -")
            })?;
        }
        ensure(!self.nodes.is_empty(), "nodes", || "a workflow needs a node".into())?;
        for (index, node) in self.nodes.iter().enumerate() {
            node.check(&format!("nodes[{index}]"))?;
        }
        for (index, edge) in self.edges.iter().enumerate() {
            is_named(&edge.id, &format!("edges[{index}].id"))?;
        }
        for (index, trigger) in self.triggers.iter().enumerate() {
            is_named(&trigger.id, &format!("triggers[{index}].id"))?;
        }
        for (index, variable) in self.variables.iter().enumerate() {
            is_named(&variable.name, &format!("variables[{index}].name"))?;
        }
        for (index, group) in self.groups.iter().flatten().enumerate() {
            group.check(&format!("groups[{index}]"))?;
        }
        for (name, channel) in self.channels.iter().flatten() {
            channel.check(&format!("channels.{name}"))?;
        }
        if let Some(defaults) = &self.defaults {
            defaults.check()?;
        }
        self.metadata.check()?;
        self.settings.check()
    }
}

impl WorkflowNode {
    fn check(&self, path: &str) -> Result<(), ShapeError> {
        is_named(self.id.as_str(), &format!("{path}.id"))?;
        is_named(&self.name, &format!("{path}.name"))?;
        let type_id = self.type_id.as_str();
        ensure(is_type_id(type_id), &format!("{path}.typeId"), || {
            format!(
                "{type_id:?} must begin with a lower-case letter and hold only letters, digits, '.', '_' and '-'"
            )
        })?;
        if let Some(agent) = &self.agent {
            agent.check(&format!("{path}.agent"))?;
        }
        for (port, value) in &self.inputs {
            let path = format!("{path}.inputs.{port}");
            match value {
                PortValue::Static { .. } => {}
                PortValue::Expression { expression } => {
                    is_named(expression, &format!("{path}.expression"))?;
                }
                PortValue::Connection { node_id, output_key, .. } => {
                    is_named(node_id.as_str(), &format!("{path}.nodeId"))?;
                    is_named(output_key, &format!("{path}.outputKey"))?;
                }
                PortValue::Variable { variable_name, .. } => {
                    is_named(variable_name, &format!("{path}.variableName"))?;
                }
            }
        }
        Ok(())
    }
}

impl AgentRef {
    /// The classes of a reference, which are not those of a manifest.
    const MODEL_CLASSES: [&str; 9] = [
        "reasoning",
        "tool-using",
        "chat",
        "code",
        "vision",
        "multimodal",
        "embedding",
        "classification",
        "retrieval",
    ];

    fn check(&self, path: &str) -> Result<(), ShapeError> {
        ensure(self.version.is_none() || self.channel.is_none(), path, || {
            "must not have both a version and a channel".into()
        })?;
        let lengths = [
            ("agentId", Some(&self.agent_id), 3..=256),
            ("name", self.name.as_ref(), 0..=256),
            ("memoryRef", self.memory_ref.as_ref(), 1..=256),
            ("version", self.version.as_ref(), 0..=64),
            ("channel", self.channel.as_ref(), 1..=64),
            ("sourceManifestId", self.source_manifest_id.as_ref(), 0..=256),
        ];
        for (field, text, admitted) in lengths {
            let fits = text.is_none_or(|text| admitted.contains(&text.chars().count()));
            ensure(fits, &format!("{path}.{field}"), || {
                format!("must have {} to {} characters", admitted.start(), admitted.end())
            })?;
        }
        let class = self.model_class.as_deref().into_iter();
        is_one_of(class, &Self::MODEL_CLASSES, &format!("{path}.modelClass"))
    }
}

impl NodeGroup {
    fn check(&self, path: &str) -> Result<(), ShapeError> {
        is_named(&self.id, &format!("{path}.id"))?;
        is_named(&self.name, &format!("{path}.name"))?;
        let has = |side: &str| self.size.get(side).is_some_and(Value::is_number);
        ensure(has("width") && has("height"), &format!("{path}.size"), || {
            "must have a width and a height".into()
        })
    }
}

impl WorkflowDefaults {
    /// The kinds of prompt that a workflow can have defaults for.
    const KINDS: [&str; 4] = ["system", "user", "few-shot", "schema-hint"];

    fn check(&self) -> Result<(), ShapeError> {
        let kinds = self.prompt_refs.iter().flatten().map(|(kind, _)| kind.as_str());
        is_one_of(kinds, &Self::KINDS, "defaults.promptRefs")
    }
}

impl WorkflowSettings {
    fn check(&self) -> Result<(), ShapeError> {
        let level = self.log_level.as_deref().into_iter();
        is_one_of(level, &["debug", "info", "warn", "error"], "settings.logLevel")?;
        ensure(self.max_loopback_iterations != Some(0), "settings.maxLoopbackIterations", || {
            "must be at least 1".into()
        })
    }
}

impl ChannelDeclaration {
    /// One year: the longest time-to-live that the schema admits.
    const MAX_TTL_MS: u64 = 31_536_000_000;

    fn check(&self, path: &str) -> Result<(), ShapeError> {
        ensure(self.reducer.is_well_named(), &format!("{path}.reducer"), || {
            format!("unknown reducer {:?}", String::from(self.reducer.clone()))
        })?;
        ensure(self.max_size != Some(0), &format!("{path}.maxSize"), || {
            "must be at least 1".into()
        })?;
        ensure(
            self.ttl_ms.is_none_or(|ttl| (1..=Self::MAX_TTL_MS).contains(&ttl)),
            &format!("{path}.ttlMs"),
            || "must be 1 to 31536000000".into(),
        )?;
        ensure(self.schema_version != Some(0), &format!("{path}.schemaVersion"), || {
            "must be at least 1".into()
        })?;
        let older = self.compatible_with.as_deref().unwrap_or_default();
        ensure(!older.contains(&0) && is_set(older), &format!("{path}.compatibleWith"), || {
            "must be versions of at least 1, each once".into()
        })?;
        match &self.access {
            Some(ChannelAccess::Lists { readers, writers }) => {
                check_access_list(readers.as_deref(), &format!("{path}.access.readers"))?;
                check_access_list(writers.as_deref(), &format!("{path}.access.writers"))
            }
            Some(ChannelAccess::Public | ChannelAccess::Private) | None => Ok(()),
        }
    }
}

/// Who may touch a channel: node ids, node types, and beginnings of types that end in a star.
fn check_access_list(list: Option<&[String]>, path: &str) -> Result<(), ShapeError> {
    let entries = list.unwrap_or_default();
    let is_pattern = |entry: &String| {
        let name = entry.strip_suffix('*').unwrap_or(entry);
        entry == "*" || (is_type_id(name) && entry.len() <= 256)
    };
    ensure(entries.len() <= 256 && is_set(entries) && entries.iter().all(is_pattern), path, || {
        "must be at most 256 node ids or types, each once, the last character perhaps a star".into()
    })
}

impl WorkflowMetadata {
    fn check(&self) -> Result<(), ShapeError> {
        let tags = self.tags.as_deref().unwrap_or_default();
        let fits =
            tags.len() <= 100 && tags.iter().all(|tag| (1..=256).contains(&tag.chars().count()));
        ensure(fits, "metadata.tags", || "at most 100 tags of 1 to 256 characters".into())?;
        let classes = ["public", "pii", "phi", "pci", "regulated"];
        let class = self.compliance_class.as_deref().into_iter();
        is_one_of(class, &classes, "metadata.complianceClass")?;
        let mode = self.compliance_config.as_ref().and_then(|config| config.get("maskingMode"));
        let mode = mode.map(|mode| mode.as_str().unwrap_or_default()).into_iter();
        let modes = ["mask", "omit", "hash", "passthrough"];
        is_one_of(mode, &modes, "metadata.complianceConfig.maskingMode")
    }
}

fn is_named(text: &str, path: &str) -> Result<(), ShapeError> {
    ensure(!text.is_empty(), path, || "must not be empty".into())
}

fn is_one_of<'a>(
    mut found: impl Iterator<Item = &'a str>,
    known: &[&str],
    path: &str,
) -> Result<(), ShapeError> {
    match found.find(|text| !known.contains(text)) {
        Some(text) => {
            ensure(false, path, || format!("{text:?} must be one of {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

fn is_set<T: Ord>(items: &[T]) -> bool {
    items.iter().collect::<BTreeSet<_>>().len() == items.len()
}

fn is_lower_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && is_slug_tail(text)
}

pub(super) fn is_slug(text: &str) -> bool {
    is_lower_name(text)
}

fn is_slug_start(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) && is_slug_tail(text)
}

fn is_slug_tail(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

fn is_type_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
