//! JSON Schemas of strangers, compiled only if checking against them is sure to end soon.

mod cost;
mod survey;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use survey::Survey;

/// Published schemas have up to four kilobytes.
const MOST_BYTES: usize = 256 << 10;
/// A compiled pattern takes at most this many bytes.
const PATTERN_SIZE: usize = 1 << 20;
/// More than this many complaints help nobody.
const MOST_VIOLATIONS: usize = 10;

/// A schema that tasks or results must match.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The schema as its author wrote it.
    pub source: Arc<Value>,
    validator: Arc<Validator>,
    /// How deep a value may be for checking it to end soon; none is any depth.
    deepest: Option<usize>,
}

impl Schema {
    /// Compiles the bytes of a schema file; the error says what is wrong with it.
    pub fn compile(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("a schema has at most {MOST_BYTES} bytes"));
        }
        let source: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if !(source.is_object() || source.is_boolean()) {
            return Err("a schema is an object".to_owned());
        }
        let deepest = cost::deepest(&source, &Survey::of(&source)?)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            // The linear engine: a pattern of a stranger must not be able to backtrack for ever.
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_SIZE))
            .build(&source)
            .map_err(|error| format!("{} at {}", error, error.instance_path()))?;
        Ok(Self { source: Arc::new(source), validator: Arc::new(validator), deepest })
    }

    /// The first property that must be there and is a text.
    pub fn first_text(&self) -> Option<&str> {
        let required = self.source.get("required")?.as_array()?.iter().filter_map(Value::as_str);
        let properties = self.source.get("properties")?;
        let is_text = |name: &&str| properties[*name]["type"] == "string";
        required.into_iter().find(is_text)
    }

    /// What a value lacks, each with its place; empty when it matches.
    pub fn violations(&self, value: &Value) -> Vec<String> {
        if let Some(deepest) = self.deepest.filter(|deepest| depth(value) > *deepest) {
            return vec![format!("nested deeper than the {deepest} levels that can be checked")];
        }
        let errors = self.validator.iter_errors(value).take(MOST_VIOLATIONS);
        errors
            .map(|error| match error.instance_path().as_str() {
                // The complaint names the place and the rule, never the value: that may be secret.
                "" => error.masked().to_string(),
                place => format!("{place}: {}", error.masked()),
            })
            .collect()
    }

    /// The places in the schema that a value breaks; empty when it matches. Nothing of the value is in them, not even
    /// its names.
    pub(crate) fn broken_rules(&self, value: &Value) -> Vec<String> {
        if let Some(deepest) = self.deepest.filter(|deepest| depth(value) > *deepest) {
            return vec![format!("nested deeper than the {deepest} levels that can be checked")];
        }
        let errors = self.validator.iter_errors(value).take(MOST_VIOLATIONS);
        let mut rules: Vec<String> = errors.map(|error| error.schema_path().to_string()).collect();
        rules.dedup();
        rules
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(depth).max().map_or(0, |inner| inner + 1),
        Value::Object(fields) => fields.values().map(depth).max().map_or(0, |inner| inner + 1),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
