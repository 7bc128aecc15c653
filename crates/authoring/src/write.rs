//! Canonical definitions as text: the keys that people look for come first.

use serde_json::{Map, Value};

/// What stands first in a map, in this order; other keys follow by name.
const FIRST: [&str; 12] = [
    "id",
    "name",
    "version",
    "description",
    "typeId",
    "type",
    "sourceNodeId",
    "targetNodeId",
    "nodes",
    "edges",
    "triggers",
    "variables",
];

/// JSON with two spaces for each level; what is short stays on one line.
pub fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text.push('\n');
    text
}

/// A line of up to this many characters is read at one glance.
const SHORT: usize = 100;

fn write(value: &Value, level: usize, text: &mut String) {
    let is_flat = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    let short = match value {
        Value::Array(items) => items.iter().all(is_flat),
        Value::Object(fields) => level > 0 && fields.values().all(is_flat),
        _ => true,
    };
    let line = value.to_string();
    if short && line.len() + 2 * level <= SHORT || is_flat(value) {
        return write_line(value, text);
    }
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    text.push(open);
    let indent = "  ".repeat(level + 1);
    let mut separator = "\n";
    let mut part = |key: Option<&str>, value: &Value| {
        text.push_str(separator);
        separator = ",\n";
        text.push_str(&indent);
        if let Some(key) = key {
            text.push_str(&Value::from(key).to_string());
            text.push_str(": ");
        }
        write(value, level + 1, text);
    };
    match value {
        Value::Array(items) => items.iter().for_each(|item| part(None, item)),
        Value::Object(fields) => {
            ordered(fields).for_each(|(key, value)| part(Some(key), value));
        }
        _ => {}
    }
    text.push('\n');
    text.push_str(&"  ".repeat(level));
    text.push(close);
}

fn write_line(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let parts = ordered(fields).map(|(key, value)| {
                let mut part = format!("{}: ", Value::from(key));
                write_line(value, &mut part);
                part
            });
            text.push_str(&format!("{{ {} }}", parts.collect::<Vec<_>>().join(", ")));
        }
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(Value::to_string).collect();
            text.push_str(&format!("[{}]", parts.join(", ")));
        }
        value => text.push_str(&value.to_string()),
    }
}

fn ordered(fields: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let place = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut keys: Vec<(&str, &Value)> =
        fields.iter().map(|(key, value)| (key.as_str(), value)).collect();
    keys.sort_by_key(|(key, _)| (place(key), *key));
    keys.into_iter()
}
