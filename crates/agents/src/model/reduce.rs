//! The part of a JSON Schema that providers hold a model to while it writes.

use callboard_protocol::Object;
use serde_json::{Map, Value, json};

/// Deeper schemas are refused by providers.
const DEEPEST: usize = 10;

/// Keywords that every provider's strict mode knows; others are checked by us afterwards.
const KEPT: [&str; 4] = ["description", "enum", "const", "type"];
/// Keywords that narrow in ways which a reduced copy cannot leave out without changing its shape.
const TELLING: [&str; 6] =
    ["allOf", "not", "if", "patternProperties", "dependentSchemas", "$dynamicRef"];

/// A copy that strict modes accept: closed objects, every property required, an optional one nullable. Whatever
/// satisfies the copy has the shape of the original, which is still what answers are checked against. None where no
/// such copy exists (a root that is no object, an object with free keys): the schema then goes into the prompt.
pub fn reduce(schema: &Value) -> Option<Value> {
    let root = schema.as_object()?;
    if root.get("type")?.as_str()? != "object" {
        return None;
    }
    let mut reduced = object_of(schema, 0)?;
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(name).and_then(Value::as_object) {
            let reducible = definitions
                .iter()
                .map(|(key, definition)| Some((key.clone(), object_of(definition, 1)?.into())));
            reduced.insert(name.to_owned(), Value::Object(reducible.collect::<Option<_>>()?));
        }
    }
    Some(Value::Object(reduced))
}

fn object_of(schema: &Value, depth: usize) -> Option<Object> {
    let source = schema.as_object()?;
    if depth > DEEPEST || TELLING.iter().any(|keyword| source.contains_key(*keyword)) {
        return None;
    }
    if let Some(place) = source.get("$ref") {
        return Some(Map::from_iter([("$ref".to_owned(), place.clone())]));
    }
    let mut reduced = Object::new();
    for keyword in KEPT {
        if let Some(value) = source.get(keyword) {
            reduced.insert(keyword.to_owned(), value.clone());
        }
    }
    if let Some(branches) = source.get("anyOf").or_else(|| source.get("oneOf")) {
        let branches = branches.as_array()?.iter();
        let branches = branches.map(|branch| object_of(branch, depth + 1).map(Value::Object));
        reduced.insert("anyOf".to_owned(), Value::Array(branches.collect::<Option<_>>()?));
    }
    if is_of(source, "object") {
        reduced.extend(closed(source, depth)?);
    }
    if is_of(source, "array") {
        let items =
            source.get("items").map_or_else(|| None, |items| object_of(items, depth + 1))?;
        reduced.insert("items".to_owned(), items.into());
    }
    let says_something =
        ["type", "enum", "const", "anyOf"].iter().any(|it| reduced.contains_key(*it));
    says_something.then_some(reduced)
}

fn is_of(schema: &Object, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    }
}

/// An object's properties, all of them required. An object with free keys cannot be closed.
fn closed(source: &Object, depth: usize) -> Option<Object> {
    let properties = source.get("properties")?.as_object()?;
    let mut reduced = Object::new();
    for (name, property) in properties {
        let inner = Value::Object(object_of(property, depth + 1)?);
        let inner = if is_required(source, name) || takes_null(property) {
            inner
        } else {
            json!({ "anyOf": [inner, { "type": "null" }] })
        };
        reduced.insert(name.clone(), inner);
    }
    let mut names: Vec<&String> = properties.keys().collect();
    names.sort();
    Some(Map::from_iter([
        ("required".to_owned(), json!(names)),
        ("properties".to_owned(), Value::Object(reduced)),
        ("additionalProperties".to_owned(), false.into()),
    ]))
}

fn is_required(schema: &Object, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

fn takes_null(schema: &Value) -> bool {
    schema.as_object().is_some_and(|schema| is_of(schema, "null"))
        || schema["enum"].as_array().is_some_and(|values| values.contains(&Value::Null))
}

/// Takes out of an answer the nulls that stand for "left out" in the reduced copy.
pub fn restore(schema: &Value, answer: &mut Value) {
    restore_at(schema, schema, answer, 0);
}

fn restore_at(root: &Value, schema: &Value, answer: &mut Value, depth: usize) {
    let schema = followed(root, schema);
    let Some(source) = schema.as_object().filter(|_| depth <= DEEPEST) else { return };
    match answer {
        Value::Object(fields) => {
            let Some(properties) = source.get("properties").and_then(Value::as_object) else {
                return;
            };
            fields.retain(|name, value| {
                !value.is_null()
                    || is_required(source, name)
                    || properties.get(name).is_none_or(|it| takes_null(followed(root, it)))
            });
            for (name, value) in fields {
                if let Some(property) = properties.get(name) {
                    restore_at(root, property, value, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = source.get("items") else { return };
            items.iter_mut().for_each(|item| restore_at(root, inner, item, depth + 1));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn followed<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.and_then(|place| root.pointer(place)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_properties_become_nullable_and_limits_are_left_to_us() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["title"],
            "properties": {
                "title": { "type": "string", "minLength": 1, "description": "short" },
                "score": { "type": "number", "minimum": 0 },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "maxItems": 3 },
                "note": { "type": ["string", "null"] }
            },
            "$defs": { "tag": { "oneOf": [{ "const": "a" }, { "enum": ["b", "c"] }] } }
        });
        let nullable = |inner: Value| json!({ "anyOf": [inner, { "type": "null" }] });
        assert_eq!(
            reduce(&schema),
            Some(json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["note", "score", "tags", "title"],
                "properties": {
                    "title": { "type": "string", "description": "short" },
                    "score": nullable(json!({ "type": "number" })),
                    "tags": nullable(json!({ "type": "array", "items": { "$ref": "#/$defs/tag" } })),
                    "note": { "type": ["string", "null"] }
                },
                "$defs": { "tag": { "anyOf": [{ "const": "a" }, { "enum": ["b", "c"] }] } }
            }))
        );
    }

    #[test]
    fn what_strict_modes_cannot_hold_is_not_sent_to_them() {
        for schema in [
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "any": true } }),
            json!({ "type": "object", "properties": { "any": {} } }),
            json!({ "type": "object", "properties": { "list": { "type": "array" } } }),
            json!({ "type": "object", "properties": { "map": { "type": "object" } } }),
            json!({ "type": "object", "properties": {}, "allOf": [] }),
            json!(true),
        ] {
            assert_eq!(reduce(&schema), None, "{schema}");
        }
    }

    #[test]
    fn a_null_that_stands_for_nothing_is_taken_out() {
        let schema = json!({
            "type": "object", "required": ["must"],
            "properties": {
                "must": { "type": "string" },
                "may": { "type": "string" },
                "null": { "type": ["string", "null"] },
                "list": { "type": "array", "items": { "$ref": "#/$defs/item" } }
            },
            "$defs": { "item": { "type": "object", "properties": { "x": { "type": "string" } } } }
        });
        let mut answer =
            json!({ "must": null, "may": null, "null": null, "list": [{ "x": null }] });
        restore(&schema, &mut answer);
        assert_eq!(answer, json!({ "must": null, "null": null, "list": [{}] }));
    }
}
