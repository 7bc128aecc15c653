//! Variables: a map of name to type, or the protocol's list.

use serde_json::{Value, json};

use super::places::Places;
use crate::shape::join;
use crate::tree::{Entry, Tree};

pub(super) fn expand(tree: &Tree, places: &mut Places) -> Vec<Value> {
    let Some(written) = tree.get("variables") else { return Vec::new() };
    let named = written.entries().iter().map(|entry| {
        let mut variable = match entry.value.text() {
            Some(kind) => json!({ "type": kind }),
            None => full(&entry.value),
        };
        variable["name"] = entry.key.as_str().into();
        (entry.spot, join("variables", &entry.key), variable)
    });
    let listed = written.items().iter().enumerate();
    let listed = listed.map(|(index, item)| (item.spot, format!("variables[{index}]"), full(item)));
    let mut variables = Vec::new();
    for (spot, path, variable) in named.chain(listed) {
        places.add(&format!("variables[{}]", variables.len()), spot, &path);
        variables.push(variable);
    }
    variables
}

fn full(written: &Tree) -> Value {
    let mut variable = json!({});
    for Entry { key, value, .. } in written.entries() {
        let name = if key == "default" { "defaultValue" } else { key };
        variable[name] = value.value();
    }
    if variable.get("type").is_none() {
        // What it holds at first says what it is; a text, where that does not.
        let kind = match variable.get("defaultValue") {
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(_)) => "number",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
            Some(Value::String(_) | Value::Null) | None => "string",
        };
        variable["type"] = kind.into();
    }
    variable
}
