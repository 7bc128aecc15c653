//! JSON Schemas of strangers, compiled only if checking against them is sure to end soon. Every schema that comes from
//! outside is compiled here, and every value that must match one is checked here.

mod cost;
mod survey;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use callboard_protocol::Object;

use cost::Costs;
use survey::{MOST_PATTERNS, Survey};

use crate::pattern;
use crate::work::STEP;

/// Published schemas have up to four kilobytes.
const MOST_BYTES: usize = 256 << 10;
/// What the schemas of one definition may have together.
const MOST_BYTES_TOGETHER: usize = 4 * MOST_BYTES;
/// More than this many complaints help nobody.
const MOST_VIOLATIONS: usize = 10;
/// Up to this much work the answer lists what is wrong with a value, since all of it is gathered first.
const MOST_TO_EXPLAIN: u64 = 1 << 22;

/// A schema that values must match.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The schema as its author wrote it.
    pub source: Arc<Value>,
    judge: Arc<Judge>,
}

#[derive(Debug)]
enum Judge {
    Compiled {
        validator: Validator,
        costs: Costs,
    },
    /// Nothing matches it, for this reason.
    Unusable(String),
}

/// What is wrong with a value. It names the place and the rule, never the value: that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// A JSON pointer into the value.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

/// Compiles schemas that come together and therefore share a limit.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    bytes: usize,
    patterns: usize,
}

impl Compiler {
    /// Compiles a schema of a definition. Whatever dialect it names, it is read as the one that runs here.
    pub(crate) fn compile_object(&mut self, source: &Object) -> Result<Schema, String> {
        let mut source = source.clone();
        source.remove("$schema");
        self.compile(Value::Object(source))
    }

    fn compile(&mut self, source: Value) -> Result<Schema, String> {
        let bytes = source.to_string().len();
        self.bytes += bytes;
        if bytes > MOST_BYTES {
            return Err(format!(
                "is too large: it has {bytes} bytes, and at most {MOST_BYTES} may be"
            ));
        }
        if self.bytes > MOST_BYTES_TOGETHER {
            let most = MOST_BYTES_TOGETHER;
            return Err(format!(
                "is too large: the schemas have {} bytes together, and at most {most} may be",
                self.bytes
            ));
        }
        if !(source.is_object() || source.is_boolean()) {
            return Err("a schema is an object".to_owned());
        }
        let survey = Survey::of(&source)?;
        self.patterns += survey.patterns.len();
        if self.patterns > MOST_PATTERNS {
            return Err(format!(
                "is too costly: more than {MOST_PATTERNS} patterns are to be compiled"
            ));
        }
        let costs = Costs::of(&source, &survey)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            // The linear engine: a pattern of a stranger must not be able to backtrack for ever.
            .with_pattern_options(PatternOptions::regex().size_limit(pattern::SIZE))
            .build(&source)
            .map_err(|error| format!("{} at {}", error, error.instance_path()))?;
        Ok(Schema {
            source: Arc::new(source),
            judge: Arc::new(Judge::Compiled { validator, costs }),
        })
    }
}

impl Schema {
    /// Compiles the bytes of a schema file; the error says what is wrong with it.
    pub fn compile(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("a schema has at most {MOST_BYTES} bytes"));
        }
        let source: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Compiler::default().compile(source)
    }

    /// In place of one that cannot be compiled: it lets nothing through, and says why.
    pub(crate) fn unusable(source: &Object, why: &str) -> Self {
        let why = format!("cannot be checked, because its schema {why}");
        let source = Arc::new(Value::Object(source.clone()));
        Self { source, judge: Arc::new(Judge::Unusable(why)) }
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
        self.complaints(value, violation).iter().map(Violation::to_string).collect()
    }

    /// As `violations`, with the places apart.
    pub(crate) fn all_violations(&self, value: &Value) -> Vec<Violation> {
        self.complaints(value, violation)
    }

    /// The first thing that a value lacks.
    pub(crate) fn violation(&self, value: &Value) -> Option<Violation> {
        self.complaints(value, violation).into_iter().next()
    }

    /// The places in the schema that a value breaks; empty when it matches. Nothing of the value is in them, not even
    /// its names.
    pub fn broken_rules(&self, value: &Value) -> Vec<String> {
        let rule = |error: &ValidationError<'_>| Violation {
            place: String::new(),
            message: error.schema_path().to_string(),
        };
        let mut rules: Vec<String> =
            self.complaints(value, rule).into_iter().map(|rule| rule.message).collect();
        rules.dedup();
        rules
    }

    /// Units of work that checking a value is at most.
    pub fn work(&self, value: &Value) -> u64 {
        match &*self.judge {
            Judge::Compiled { costs, .. } => costs.work(value),
            Judge::Unusable(_) => 0,
        }
    }

    fn complaints(
        &self,
        value: &Value,
        tell: impl Fn(&ValidationError<'_>) -> Violation,
    ) -> Vec<Violation> {
        let plain = |message: String| vec![Violation { place: String::new(), message }];
        let (validator, costs) = match &*self.judge {
            Judge::Compiled { validator, costs } => (validator, costs),
            Judge::Unusable(why) => return plain(why.clone()),
        };
        match costs.work(value) {
            work if work > STEP => plain(format!(
                "is too large for its schema: checking it takes {work} units of work, and at most {STEP} may be"
            )),
            _ if validator.is_valid(value) => Vec::new(),
            work if work > MOST_TO_EXPLAIN => {
                plain("does not match its schema, and is too large to say where".to_owned())
            }
            _ => validator.iter_errors(value).take(MOST_VIOLATIONS).map(|it| tell(&it)).collect(),
        }
    }
}

fn violation(error: &ValidationError<'_>) -> Violation {
    Violation { place: error.instance_path().to_string(), message: error.masked().to_string() }
}
