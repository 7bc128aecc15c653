//! `[nodes."acme.greet"]`: node types of a team's own, each a workflow with a schema.

use serde::Deserialize;
use serde_json::Value;

use callboard_backends::DeclaredNode;
use callboard_core::{NODE_TYPES, Schema};

use super::values::Named;

/// What begins the types of the protocol and of this host.
const RESERVED: [&str; 3] = ["core.", "callboard.", "conformance."];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    workflow: String,
    description: String,
    inputs: Option<Value>,
    outputs: Option<Value>,
}

impl Named for DeclaredNode {
    type Section = Section;

    fn new(name: &str, section: Section) -> Result<Self, String> {
        let accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_type = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= 128
            && name.contains('.')
            && name.chars().all(accepted);
        let is_taken = RESERVED.iter().any(|beginning| name.starts_with(beginning))
            || NODE_TYPES.iter().any(|known| known.type_id == name);
        if !is_type || is_taken {
            return Err("is not a node type of your own\nsomething like acme.greet, which does not begin with core, \
                        callboard or conformance"
                .to_owned());
        }
        let Section { workflow, description, inputs, outputs } = section;
        if workflow.is_empty() {
            return Err("needs the id of a workflow".to_owned());
        }
        let schema = |what: &str, source: Option<Value>| {
            let compile = |source: Value| Schema::compile(source.to_string().as_bytes());
            source
                .map(compile)
                .transpose()
                .map_err(|why| format!("has {what} that are no JSON Schema: {why}"))
        };
        Ok(Self {
            type_id: name.to_owned(),
            description,
            workflow: workflow.as_str().into(),
            inputs: schema("inputs", inputs)?,
            outputs: schema("outputs", outputs)?,
        })
    }
}
