//! What a schema consists of: its values within limits, those that may be schemas, its anchors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Published schemas have twenty references.
const MOST_VALUES: usize = 10_000;
const MOST_REFERENCES: usize = 256;
/// Each may take ten milliseconds to compile.
pub(super) const MOST_PATTERNS: usize = 100;
const DEEPEST: usize = 64;

/// What the fields of an object are called by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fields {
    Keywords,
    /// Names that the author chose: a property may be called like a keyword.
    Names,
}

impl Fields {
    /// How the fields below one of these are called; none where they are data.
    pub(super) fn below(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Keywords, "const" | "enum" | "default" | "examples") => None,
            (
                Self::Keywords,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
            ) => Some(Self::Names),
            _ => Some(Self::Keywords),
        }
    }
}

/// Everything in a schema that is not data.
#[derive(Debug, Default)]
pub(super) struct Survey<'s> {
    /// Where the values are in memory.
    places: BTreeSet<usize>,
    /// A name may stand at several places: which of them is meant is the validator's choice.
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
    references: usize,
    /// The regular expressions in it.
    pub(super) patterns: BTreeSet<&'s str>,
}

pub(super) fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

impl<'s> Survey<'s> {
    /// Refuses what is too large or leads out of the file.
    pub(super) fn of(schema: &'s Value) -> Result<Self, String> {
        let mut survey = Self::default();
        survey.visit(schema, Fields::Keywords, 0)?;
        Ok(survey)
    }

    /// The schemas that a reference may mean. What was not surveyed is none of them.
    pub(super) fn targets(
        &self,
        root: &'s Value,
        reference: &str,
    ) -> Result<Vec<&'s Value>, String> {
        let fragment = reference.trim_start_matches('#');
        let targets = if fragment.is_empty() || fragment.starts_with('/') {
            let found = root.pointer(fragment);
            found.filter(|it| self.places.contains(&address(it))).into_iter().collect()
        } else {
            self.anchors.get(fragment).cloned().unwrap_or_default()
        };
        match targets.is_empty() {
            true => Err(format!("{reference:?} leads nowhere")),
            false => Ok(targets),
        }
    }

    fn visit(&mut self, value: &'s Value, fields: Fields, depth: usize) -> Result<(), String> {
        self.places.insert(address(value));
        if self.places.len() > MOST_VALUES {
            return Err(format!("a schema has at most {MOST_VALUES} values"));
        }
        if depth > DEEPEST {
            return Err(format!("a schema is at most {DEEPEST} levels deep"));
        }
        match value {
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.visit(item, fields, depth + 1))
            }
            Value::Object(inner) => inner.iter().try_for_each(|(name, field)| {
                if let Some(text) = field.as_str() {
                    self.check_keyword(value, name, text, depth)?;
                }
                if let ("patternProperties", Some(all)) = (name.as_str(), field.as_object()) {
                    self.patterns.extend(all.keys().map(String::as_str));
                }
                match fields.below(name) {
                    Some(fields) => self.visit(field, fields, depth + 1),
                    None => Ok(()),
                }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn check_keyword(
        &mut self,
        schema: &'s Value,
        name: &str,
        text: &'s str,
        depth: usize,
    ) -> Result<(), String> {
        match name {
            "$schema" if text.trim_end_matches('#') != DIALECT => {
                Err(format!("{text:?} is not the dialect 2020-12"))
            }
            "pattern" => {
                self.patterns.insert(text);
                Ok(())
            }
            "$id" if depth > 0 => Err("an $id inside a schema is not supported".to_owned()),
            "$anchor" | "$dynamicAnchor" => {
                self.anchors.entry(text).or_default().push(schema);
                Ok(())
            }
            "$ref" | "$dynamicRef" => {
                self.references += 1;
                if self.references > MOST_REFERENCES {
                    return Err(format!("a schema has at most {MOST_REFERENCES} references"));
                }
                if !text.starts_with('#') || text.contains('%') {
                    return Err(format!("{text:?} must refer to a place in the same file"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
