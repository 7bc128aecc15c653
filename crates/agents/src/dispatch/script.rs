//! What the scripted model answers: the smallest value that its schema admits, the same every time.

use std::cell::Cell;

use serde_json::{Map, Value, json};

/// A schema whose levels each ask for two of the next could ask for more than any host has.
const MOST_VALUES: u32 = 10_000;
/// A text that must be longer is cut off here.
const LONGEST_TEXT: usize = 64 << 10;
/// Deeper schemas refer to themselves; what lies below is left empty.
const DEEPEST: usize = 16;
/// How sure the scripted model says that it is: enough for every published threshold.
const CONFIDENCE: f64 = 0.9;

/// An answer for a result schema. Without one it is a sentence.
pub fn answer(schema: Option<&Value>, persona: &str) -> Value {
    match schema {
        Some(schema) => Script::new(schema, persona).value(schema, "", 0),
        None => json!({ "text": Script::new(&Value::Null, persona).sentence("answer") }),
    }
}

struct Script<'a> {
    root: &'a Value,
    persona: &'a str,
    /// How many values may still be made.
    left: Cell<u32>,
}

impl<'a> Script<'a> {
    fn new(root: &'a Value, persona: &'a str) -> Self {
        Self { root, persona, left: Cell::new(MOST_VALUES) }
    }

    fn value(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let schema = self.resolve(schema, depth);
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if depth > DEEPEST || left == 0 {
            return Value::Null;
        }
        if let Some(value) = schema.get("const").or_else(|| schema.get("default")) {
            return value.clone();
        }
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        for branches in ["oneOf", "anyOf"] {
            if let Some(first) = schema[branches].as_array().and_then(|branches| branches.first()) {
                return self.value(&merged(schema, first, branches), name, depth + 1);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let whole =
                parts.iter().fold(schema.clone(), |whole, part| merged(&whole, part, "allOf"));
            return self.value(&whole, name, depth + 1);
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "string" => self.text(schema, name).into(),
            "integer" => json!(number(schema).ceil() as i64),
            "number" if name == "confidence" || name == "_confidence" => json!(CONFIDENCE),
            "number" => json!(number(schema)),
            "boolean" => false.into(),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let value = |name: &str| {
            let property = &schema["properties"][name];
            (name.to_owned(), self.value(property, name, depth + 1))
        };
        // How sure it is belongs to every answer whose schema has room for it.
        let confidence = schema["properties"].get("confidence").map(|_| "confidence");
        let names = required.chain(confidence).take_while(|_| self.left.get() > 0);
        Value::Object(names.map(value).collect::<Map<String, Value>>())
    }

    fn array(&self, schema: &Value, name: &str, depth: usize) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(0).min(64);
        let items = (0..least).take_while(|_| self.left.get() > 0);
        let items = items.map(|_| self.value(&schema["items"], name, depth + 1));
        Value::Array(items.collect())
    }

    fn text(&self, schema: &Value, name: &str) -> String {
        match schema["format"].as_str() {
            Some("date-time") => return "2026-01-01T00:00:00Z".to_owned(),
            Some("date") => return "2026-01-01".to_owned(),
            Some("email") => return "nobody@example.org".to_owned(),
            Some("uri") => return "https://example.org/".to_owned(),
            _ => {}
        }
        let (least, most) = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
        let length = |bound: Option<u64>| bound.and_then(|bound| usize::try_from(bound).ok());
        let least = least.map(|least| least.min(LONGEST_TEXT as u64));
        let mut text = self.sentence(name);
        if let Some(most) = length(most) {
            text = text.chars().take(most).collect();
        }
        let missing = length(least).unwrap_or(0).saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('.', missing));
        text
    }

    fn sentence(&self, name: &str) -> String {
        let what = if name.is_empty() { "answer" } else { name };
        format!("[scripted] {what} of {}", self.persona)
    }

    /// Follows references within the schema.
    fn resolve<'s>(&'s self, schema: &'s Value, depth: usize) -> &'s Value {
        let mut schema = schema;
        for _ in depth..=DEEPEST {
            let Some(place) = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'))
            else {
                return schema;
            };
            match self.root.pointer(place) {
                Some(found) => schema = found,
                None => return schema,
            }
        }
        schema
    }
}

/// A schema with one of its branches laid over it.
fn merged(schema: &Value, branch: &Value, keyword: &str) -> Value {
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    whole.remove(keyword);
    for (key, value) in branch.as_object().into_iter().flatten() {
        match (whole.get_mut(key), value) {
            (Some(Value::Object(held)), Value::Object(more)) => held.extend(more.clone()),
            (Some(Value::Array(held)), Value::Array(more)) if key == "required" => {
                held.extend(more.clone());
            }
            _ => {
                whole.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(whole)
}

fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or("null"),
        _ if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

fn number(schema: &Value) -> f64 {
    let bound = |name: &str| schema[name].as_f64();
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let wanted = least.unwrap_or(0.0);
    most.map_or(wanted, |most| wanted.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_matches_its_schema_and_is_always_the_same() {
        let schemas = [
            json!({ "type": "object", "required": ["a", "b"], "properties": {
                "a": { "type": "string", "minLength": 60, "maxLength": 80 },
                "b": { "type": "array", "minItems": 2, "items": { "$ref": "#/$defs/item" } },
                "confidence": { "type": "number", "minimum": 0, "maximum": 1 } },
                "additionalProperties": false,
                "$defs": { "item": { "type": "integer", "minimum": 3 } } }),
            json!({ "oneOf": [
                { "type": "object", "required": ["ok"], "properties": { "ok": { "const": true } } },
                { "type": "object", "required": ["error"] } ] }),
            json!({ "type": "string", "enum": ["low", "high"] }),
            json!({ "allOf": [{ "type": "object", "required": ["x"] },
                { "required": ["y"], "properties": { "y": { "type": "boolean" } } }] }),
        ];
        for schema in schemas {
            let given = answer(Some(&schema), "Ann");
            assert!(jsonschema::is_valid(&schema, &given), "{schema}: {given}");
            assert_eq!(given, answer(Some(&schema), "Ann"));
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({ "type": "object", "required": ["next"],
            "properties": { "next": { "$ref": "#" } } });
        assert!(answer(Some(&schema), "Ann").is_object());
    }

    #[test]
    fn a_schema_that_asks_for_more_than_there_is_gets_less() {
        let twice = json!({ "type": "array", "minItems": 64, "items": { "$ref": "#" } });
        assert!(answer(Some(&twice), "Ann").to_string().len() < 100_000);
        let long = json!({ "type": "string", "minLength": u64::MAX });
        assert_eq!(answer(Some(&long), "Ann").as_str().map(str::len), Some(LONGEST_TEXT));
    }
}
