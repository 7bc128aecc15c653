//! A value that satisfies a schema, the smallest that says something.

use std::cell::Cell;

use callboard_core::Schema;
use callboard_protocol::Object;
use serde_json::{Number, Value, json};

/// A schema may refer to itself; published ones are far shallower.
const DEEPEST: usize = 24;
/// A schema that asks for more is not worth filling.
const MOST_ITEMS: u64 = 100;
/// The same for all values together: each level of a schema may ask for many of the next.
const MOST_VALUES: u32 = 10_000;
/// Texts for patterns, tried in this order.
const CANDIDATES: [&str; 12] = [
    "scripted",
    "SCRIPTED",
    "a",
    "A",
    "0",
    "1.0.0",
    "a-a",
    "a.b.c",
    "2026-01-01",
    "00000000",
    "https://example.com/",
    "sha256:0000000000000000000000000000000000000000000000000000000000000000",
];

/// Walks the schema: constants, first choices and defaults before anything that is made up.
pub(super) fn satisfy(schema: &Value, text: String, confidence: f64) -> Value {
    let filler = Filler { root: schema, text, confidence, left: Cell::new(MOST_VALUES) };
    filler.fill(schema, 0, 0)
}

struct Filler<'s> {
    root: &'s Value,
    text: String,
    confidence: f64,
    /// How many values may still be made.
    left: Cell<u32>,
}

impl Filler<'_> {
    /// `turn` makes the items of one list differ.
    fn fill(&self, schema: &Value, depth: usize, turn: u64) -> Value {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        let Some(source) = schema.as_object().filter(|_| depth < DEEPEST && left > 0) else {
            return Value::Null;
        };
        if let Some(place) = source.get("$ref").and_then(Value::as_str) {
            let found = place.strip_prefix('#').and_then(|place| self.root.pointer(place));
            return found.map_or(Value::Null, |found| self.fill(found, depth + 1, turn));
        }
        if let Some(value) = source.get("const") {
            return value.clone();
        }
        if let Some(values) = source.get("enum").and_then(Value::as_array) {
            let place = usize::try_from(turn).unwrap_or(0).min(values.len().saturating_sub(1));
            return values.get(place).cloned().unwrap_or_default();
        }
        if let Some(value) = source.get("default") {
            return value.clone();
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(first) = source.get(keyword).and_then(|branches| branches.get(0)) {
                let value = self.fill(first, depth + 1, turn);
                return merge(self.typed(source, depth, turn), value);
            }
        }
        let all = source.get("allOf").and_then(Value::as_array);
        let parts = all.into_iter().flatten().map(|part| self.fill(part, depth + 1, turn));
        parts.fold(self.typed(source, depth, turn), merge)
    }

    fn typed(&self, schema: &Object, depth: usize, turn: u64) -> Value {
        match kind(schema) {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.string(schema, turn).into(),
            Some("integer") => number(schema, 1.0, 1.0, turn),
            Some("number") => number(schema, 0.0, 0.5, turn),
            Some("boolean") => true.into(),
            _ => Value::Null,
        }
    }

    /// What is required, how sure it is, and everything where nothing is required.
    fn object(&self, schema: &Object, depth: usize) -> Value {
        let empty = Object::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        let is_wanted = |name: &str| required.is_empty() || required.contains(&name);
        let mut fields = Object::new();
        for (name, property) in properties.iter().take_while(|_| self.left.get() > 0) {
            if is_confidence(name) && depth == 0 && takes_number(property) {
                fields.insert(name.clone(), self.sure(property));
            } else if is_wanted(name) {
                fields.insert(name.clone(), self.fill(property, depth + 1, 0));
            }
        }
        // A name that is required and nowhere described may be anything.
        for name in required.into_iter().take_while(|_| self.left.get() > 0) {
            fields.entry(name).or_insert_with(|| self.text.clone().into());
        }
        fields.into()
    }

    fn sure(&self, property: &Value) -> Value {
        let least = property["minimum"].as_f64().unwrap_or(f64::MIN);
        let most = property["maximum"].as_f64().unwrap_or(f64::MAX);
        json!(self.confidence.max(least).min(most))
    }

    fn array(&self, schema: &Object, depth: usize) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(MOST_ITEMS);
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let anything = json!({ "type": "string" });
        let rest = schema.get("items").unwrap_or(&anything);
        let turns = 0..least.max(first.len() as u64);
        let items = turns.take_while(|_| self.left.get() > 0).map(|turn| {
            let place = usize::try_from(turn).unwrap_or(usize::MAX);
            self.fill(first.get(place).unwrap_or(rest), depth + 1, turn)
        });
        items.collect()
    }

    fn string(&self, schema: &Object, turn: u64) -> String {
        if let Some(text) = schema.get("format").and_then(Value::as_str).and_then(formatted) {
            return text.to_owned();
        }
        let text = if turn == 0 { self.text.clone() } else { format!("{} ({turn})", self.text) };
        let limit = |name: &str| {
            schema
                .get(name)
                .and_then(Value::as_u64)
                .map(|it| usize::try_from(it).unwrap_or(usize::MAX))
        };
        let mut text: String =
            text.chars().take(limit("maxLength").unwrap_or(usize::MAX)).collect();
        let short = limit("minLength").unwrap_or(0).saturating_sub(text.chars().count());
        text.push_str(&"·".repeat(short.min(64 << 10)));
        match schema.get("pattern") {
            Some(pattern) => matching(pattern, &text),
            None => text,
        }
    }
}

/// The first candidate that the pattern lets through, or the text as it is.
fn matching(pattern: &Value, text: &str) -> String {
    let schema = Schema::compile(json!({ "pattern": pattern }).to_string().as_bytes());
    let Ok(schema) = schema else { return text.to_owned() };
    let mut all = std::iter::once(text).chain(CANDIDATES);
    let fits = |candidate: &&str| schema.violations(&json!(candidate)).is_empty();
    all.find(fits).unwrap_or(text).to_owned()
}

fn formatted(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-01T00:00:00Z",
        "date" => "2026-01-01",
        "time" => "00:00:00Z",
        "email" => "scripted@example.com",
        "uri" | "url" | "iri" => "https://example.com/scripted",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        _ => return None,
    })
}

fn kind(schema: &Object) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null")
        }
        _ if schema.contains_key("properties") || schema.contains_key("required") => Some("object"),
        _ if schema.contains_key("items") => Some("array"),
        _ => None,
    }
}

fn is_confidence(name: &str) -> bool {
    matches!(name, "confidence" | "_confidence")
}

fn takes_number(schema: &Value) -> bool {
    schema.as_object().and_then(kind) == Some("number") && schema.get("enum").is_none()
}

/// The smallest number that is allowed; `step` leads off an excluded edge, and from one item to the next.
fn number(schema: &Object, whole: f64, step: f64, turn: u64) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let multiple = bound("multipleOf").filter(|it| *it > 0.0);
    let step = multiple.unwrap_or(step);
    let least = bound("minimum");
    let least = bound("exclusiveMinimum").map(|edge| edge + step).or(least);
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|edge| edge - step));
    let mut found = least.unwrap_or(0.0);
    if let Some(most) = most.filter(|most| found > *most) {
        found = most;
    }
    if let Some(multiple) = multiple {
        found = (found / multiple).ceil() * multiple;
    }
    found += step * turn as f64;
    if whole > 0.0 {
        return Value::from(found.ceil() as i64);
    }
    Number::from_f64(found).map_or(Value::Null, Value::Number)
}

/// Objects are put together; otherwise the later word counts.
fn merge(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            first.extend(second);
            first.into()
        }
        (first, Value::Null) => first,
        (_, second) => second,
    }
}
