//! Types of published packs: their config, inputs and outputs as the schemas of the pack say.

use callboard_core::{PublishedType, published_type};
use serde_json::Value;

use super::{Field, NodeType, Outputs};
use crate::shape::Shape;

/// The heading of types that a published pack describes.
pub const PUBLISHED: &str = "Published node packs";
/// A description is cut after its first sentence, or here.
const LONGEST: usize = 160;

/// The row of a type. What it holds is made once, with the table, which lives as long as the process.
pub(super) fn row(node: &callboard_core::NodeType) -> NodeType {
    let published = published_type(node.type_id);
    let fields =
        |pick: fn(&PublishedType) -> &Value| published.map_or(&[][..], |it| fields(pick(it)));
    let is_closed = |it: &&PublishedType| it.outputs["additionalProperties"] == Value::Bool(false);
    let outputs = match published.filter(is_closed) {
        Some(it) => Outputs::Fixed(self::fields(&it.outputs)),
        None => Outputs::Open("what the schemas of its pack say"),
    };
    NodeType {
        type_id: node.type_id,
        group: PUBLISHED,
        summary: node.does.trim_end_matches('.'),
        config: fields(|it| &it.config),
        inputs: fields(|it| &it.inputs),
        outputs,
        example: example(node.type_id, published).leak(),
    }
}

/// A node with what it must have, and nothing else.
fn example(type_id: &str, published: Option<&PublishedType>) -> String {
    let mut text = format!("step:\n  type: {type_id}\n");
    for (key, schema) in
        published.iter().flat_map(|it| [("config", &it.config), ("inputs", &it.inputs)])
    {
        let sample = sample(schema);
        if sample.as_object().is_some_and(|fields| !fields.is_empty()) {
            text.push_str(&format!("  {key}: {sample}\n"));
        }
    }
    text
}

/// A value that a schema allows, as short as it may be.
fn sample(schema: &Value) -> Value {
    let first = |key: &str| schema[key].as_array().and_then(|all| all.first());
    if let Some(value) = schema.get("const").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(other) =
        first("oneOf").or_else(|| first("anyOf").filter(|it| it["type"].is_string()))
    {
        return sample(other);
    }
    let format = schema["format"].as_str();
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("string") => match format {
            Some("email") => "ann@example.org".into(),
            Some("uri") => "https://example.org/".into(),
            _ => "text".into(),
        },
        Some("boolean") => false.into(),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("array") => match schema["minItems"].as_u64() {
            Some(1..) => vec![sample(&schema["items"])].into(),
            _ => Value::Array(Vec::new()),
        },
        Some("object") => {
            let also = first("anyOf").and_then(|any| any["required"].as_array());
            let required = schema["required"].as_array().into_iter().chain(also).flatten();
            let mut names: Vec<&str> = required.filter_map(Value::as_str).collect();
            names.sort_unstable();
            names
                .into_iter()
                .map(|name| {
                    let is_address = name == "url";
                    let sample = || sample(&schema["properties"][name]);
                    let value = if is_address { "https://example.org/".into() } else { sample() };
                    (name.to_owned(), value)
                })
                .collect()
        }
        _ => "text".into(),
    }
}

/// The properties of a schema, those that must be there first, by name: what a map's own order is depends on how the
/// whole program is built.
fn fields(schema: &'static Value) -> &'static [Field] {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<Field> = properties
        .map(|(name, property)| Field {
            name,
            shape: shape(property),
            required: required.contains(&name.as_str()),
            about: about(property),
        })
        .collect();
    fields.sort_by_key(|field| (!field.required, field.name));
    fields.leak()
}

fn shape(schema: &'static Value) -> Shape {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<&'static str> = words.iter().filter_map(Value::as_str).collect();
        return Shape::OneOf(words.leak());
    }
    match schema["type"].as_str() {
        Some("string") => Shape::Text,
        Some("boolean") => Shape::Bool,
        Some("number") => Shape::Number,
        // One that may be negative is a number like any other here; the schema itself judges it.
        Some("integer") => match schema["minimum"].as_u64() {
            Some(least) => Shape::Whole(least),
            None => Shape::Number,
        },
        Some("array") => Shape::List(&Shape::Any),
        Some("object") => Shape::Object,
        _ => Shape::Any,
    }
}

/// The first sentence of a description, as one cell of a table.
fn about(schema: &'static Value) -> &'static str {
    let said = schema["description"].as_str().unwrap_or_default();
    let end = said.find(". ").map_or(said.len(), |end| end + 1).min(LONGEST);
    let end = (0..=end).rev().find(|end| said.is_char_boundary(*end)).unwrap_or(0);
    let is_plain = !said[..end].contains(['|', '\n']);
    if is_plain { said[..end].trim_end_matches('.') } else { "" }
}
