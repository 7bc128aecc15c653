//! The node types that this host runs, once: `callboard nodes`, `GET /v1/host/callboard/nodes`, the reference page, the
//! schema for editors and the checks of what people write all read this table.

mod acting;
mod flow;
mod people;
mod published;
mod replies;

use std::sync::LazyLock;

use serde_json::{Value, json};

use callboard_core::NODE_TYPES;

pub use self::published::PUBLISHED;
pub use crate::shape::Field;
use crate::shape::Shape;

/// A kind of step.
#[derive(Debug, Clone, Copy)]
pub struct NodeType {
    pub type_id: &'static str,
    /// The heading that it stands under.
    pub group: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    pub config: &'static [Field],
    pub inputs: &'static [Field],
    pub outputs: Outputs,
    /// A node as somebody would write it, in YAML.
    pub example: &'static str,
}

/// What other nodes can read of a node.
#[derive(Debug, Clone, Copy)]
pub enum Outputs {
    /// These and no others.
    Fixed(&'static [Field]),
    /// Its input ports, under their names.
    Ports,
    /// What comes of it depends on how it is set.
    Open(&'static str),
}

/// Types of the protocol's test suite: hosts that serve its doors run them, so a definition may name them.
const OF_THE_SUITE: [&str; 2] = ["conformance.", "core.conformance."];

static TABLE: LazyLock<Vec<NodeType>> = LazyLock::new(|| {
    let mut all = [flow::TYPES, people::TYPES, acting::TYPES, replies::TYPES].concat();
    let published =
        NODE_TYPES.iter().filter(|node| !all.iter().any(|own| own.type_id == node.type_id));
    all.extend(published.map(published::row).collect::<Vec<_>>());
    all.sort_by_key(|node| node.type_id);
    all
});

/// All of them, by type id.
pub fn node_types() -> &'static [NodeType] {
    &TABLE
}

pub fn node_type(type_id: &str) -> Option<&'static NodeType> {
    TABLE.iter().find(|node| node.type_id == type_id)
}

pub(crate) fn is_of_the_suite(type_id: &str) -> bool {
    OF_THE_SUITE.iter().any(|prefix| type_id.starts_with(prefix))
}

impl NodeType {
    pub fn to_json(&self) -> Value {
        let outputs = match self.outputs {
            Outputs::Fixed(fields) => list(fields),
            Outputs::Ports => json!("its inputs, under their names"),
            Outputs::Open(words) => json!(words),
        };
        json!({
            "typeId": self.type_id,
            "group": self.group,
            "summary": self.summary,
            "config": list(self.config),
            "inputs": list(self.inputs),
            "outputs": outputs,
            "example": self.example,
            "configSchema": Shape::Open(self.config).schema(),
        })
    }
}

fn list(fields: &[Field]) -> Value {
    let field = |field: &Field| {
        json!({
            "name": field.name,
            "kind": field.shape.words(),
            "required": field.required,
            "about": field.about,
        })
    };
    fields.iter().map(field).collect()
}
