//! The schemas of the published types that run here, as their packs have them: what a definition says of such a node
//! is checked against them before any run begins.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use callboard_protocol::{TypeId, WorkflowDefinition, WorkflowNode};
use serde::Deserialize;
use serde_json::Value;

use crate::plan::PlanError;
use crate::schema::{Compiler, Schema};

/// What a pack promises of a node type.
#[derive(Debug, Deserialize)]
pub struct PublishedType {
    pub config: Value,
    pub inputs: Value,
    pub outputs: Value,
    #[serde(skip)]
    compiled: OnceLock<Option<Schema>>,
}

/// `cargo xtask nodes` writes the file from the packs; a test compares the two. One that is no JSON would be caught there.
static PUBLISHED: LazyLock<BTreeMap<String, PublishedType>> =
    LazyLock::new(|| serde_json::from_str(include_str!("packs.json")).unwrap_or_default());

/// Types whose configuration is this host's own, though a pack has one of the same name.
pub const OWN_CONFIG: [&str; 5] =
    ["core.ai.structuredOutput", "core.conditional", "core.delay", "core.loop", "core.parallel"];

/// The schemas of a published type that runs here.
pub fn published_type(type_id: &str) -> Option<&'static PublishedType> {
    PUBLISHED.get(type_id)
}

impl PublishedType {
    fn config_schema(&self) -> Option<&Schema> {
        let compile = || Compiler::default().compile_object(self.config.as_object()?).ok();
        self.compiled.get_or_init(compile).as_ref()
    }
}

/// What is wrong with the configuration of a published node, of the first that has something wrong.
pub(crate) fn unfit_config(definition: &WorkflowDefinition) -> Option<PlanError> {
    definition.nodes.iter().find_map(unfit)
}

fn unfit(node: &WorkflowNode) -> Option<PlanError> {
    // Whatever its type, an agent does the work.
    if node.agent.is_some() {
        return None;
    }
    unfit_config_of(&node.type_id, &node.config).map(|(place, message)| PlanError {
        path: format!("nodes.{}.config{place}", node.id),
        message,
    })
}

/// The place in a configuration, and what is wrong there.
pub(crate) fn unfit_config_of(
    type_id: &TypeId,
    config: &callboard_protocol::Object,
) -> Option<(String, String)> {
    let schema = published_type(type_id.as_str())?.config_schema()?;
    let violation = schema.violation(&Value::Object(config.clone()))?;
    Some((violation.place.replace('/', "."), violation.message))
}
