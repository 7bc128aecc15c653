//! The JSON Schema that editors complete and check with, made from the tables that [`crate::read`] uses.

use serde_json::{Value, json};

use crate::form::WORKFLOW;
use crate::nodes::{NodeType, node_types};
use crate::shape::Shape;

/// What people write, with the node types of this host and what each is set to.
pub fn editor_schema() -> Value {
    let mut schema = Shape::Record(WORKFLOW).schema();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "A workflow of Callboard".into();
    let node = &schema["properties"]["nodes"]["anyOf"][0]["additionalProperties"];
    let mut node = node.clone();
    let types: Vec<Value> = node_types().iter().map(described).collect();
    for key in ["type", "typeId"] {
        node["properties"][key]["anyOf"] = json!([{ "oneOf": types }, { "type": "string" }]);
        if let Value::Object(fields) = &mut node["properties"][key] {
            fields.remove("type");
        }
    }
    let rules: Vec<Value> = node_types()
        .iter()
        .flat_map(|known| ["type", "typeId"].map(|key| rule(known, key)))
        .collect();
    node["allOf"] = rules.into();
    schema["$defs"] = json!({ "node": node });
    let named = json!({ "$ref": "#/$defs/node" });
    schema["properties"]["nodes"]["anyOf"] = json!([
        { "type": "object", "additionalProperties": named },
        { "type": "array", "items": named },
    ]);
    schema
}

fn described(known: &NodeType) -> Value {
    json!({ "const": known.type_id, "description": known.summary })
}

/// Of this type, the config is this.
fn rule(known: &NodeType, key: &str) -> Value {
    json!({
        "if": { "required": [key], "properties": { (key): { "const": known.type_id } } },
        "then": { "properties": { "config": Shape::Open(known.config).schema() } },
    })
}
