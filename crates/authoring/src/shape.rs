//! What a written value may look like: one description that both checks it and becomes a JSON Schema for editors.

use serde_json::{Map, Value, json};

use crate::known::nearest;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::tree::{Data, Tree};

/// The form of a value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Any,
    Text,
    Bool,
    Number,
    /// A whole number of at least this.
    Whole(u64),
    /// A map of anything.
    Object,
    OneOf(&'static [&'static str]),
    List(&'static Shape),
    Map(&'static Shape),
    Record(&'static [Field]),
    /// A map with some known keys among others.
    Open(&'static [Field]),
    /// The first that is of the value's kind.
    Either(&'static [Shape]),
}

/// A key of a map, and what stands there.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    pub about: &'static str,
}

impl Field {
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, required: false, about }
    }

    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub(crate) const fn optional(self) -> Self {
        Self { required: false, ..self }
    }
}

impl Shape {
    /// Adds what is wrong with the tree to the problems.
    pub(crate) fn check(self, tree: &Tree, path: &str, problems: &mut Problems) {
        if !self.is_of_kind(tree) {
            let message = format!("must be {}, not {}", self.words(), tree.kind());
            problems.push(Problem::new(ProblemKind::Shape, tree.spot, path, message));
            return;
        }
        match self {
            Self::OneOf(known) => {
                let text = tree.text().unwrap_or_default();
                if !known.contains(&text) && !problems.count_only() {
                    let message = format!("{text:?} is not one of {}", known.join(", "));
                    let problem = Problem::new(ProblemKind::Shape, tree.spot, path, message);
                    problems.push(problem.meant(nearest(text, known.iter().copied())));
                }
            }
            Self::Whole(least) => {
                if tree.value().as_u64().is_none_or(|number| number < least) {
                    let message = format!("must be a whole number of at least {least}");
                    problems.push(Problem::new(ProblemKind::Shape, tree.spot, path, message));
                }
            }
            Self::List(item) => {
                for (index, part) in tree.items().iter().enumerate() {
                    item.check(part, &format!("{path}[{index}]"), problems);
                }
            }
            Self::Map(value) => {
                for entry in tree.entries() {
                    value.check(&entry.value, &join(path, &entry.key), problems);
                }
            }
            Self::Record(fields) => check_fields(fields, Unknown::Refused, tree, path, problems),
            Self::Open(fields) => check_fields(fields, Unknown::Kept, tree, path, problems),
            Self::Either(shapes) => {
                if let Some(shape) = shapes.iter().find(|shape| shape.is_of_kind(tree)) {
                    shape.check(tree, path, problems);
                }
            }
            Self::Any | Self::Text | Self::Bool | Self::Number | Self::Object => {}
        }
    }

    /// As a closed map of these fields, which need not be static.
    pub(crate) fn check_record(fields: &[Field], tree: &Tree, path: &str, problems: &mut Problems) {
        check_fields(fields, Unknown::Refused, tree, path, problems);
    }

    /// The same, among other keys.
    pub(crate) fn check_open(fields: &[Field], tree: &Tree, path: &str, problems: &mut Problems) {
        check_fields(fields, Unknown::Kept, tree, path, problems);
    }

    fn is_of_kind(self, tree: &Tree) -> bool {
        match self {
            Self::Any => true,
            Self::Text | Self::OneOf(_) => matches!(tree.data, Data::Text(_)),
            Self::Bool => matches!(tree.data, Data::Bool(_)),
            Self::Number | Self::Whole(_) => matches!(tree.data, Data::Number(..)),
            Self::List(_) => matches!(tree.data, Data::List(_)),
            Self::Object | Self::Map(_) | Self::Record(_) | Self::Open(_) => {
                matches!(tree.data, Data::Map(_))
            }
            Self::Either(shapes) => shapes.iter().any(|shape| shape.is_of_kind(tree)),
        }
    }

    /// What it is, for people.
    pub fn words(self) -> String {
        match self {
            Self::Any => "any value".into(),
            Self::Text => "a text".into(),
            Self::Bool => "true or false".into(),
            Self::Number => "a number".into(),
            Self::Whole(_) => "a whole number".into(),
            Self::OneOf(known) => format!("one of {}", known.join(", ")),
            Self::List(item) => format!("a list ({} each)", item.words()),
            Self::Object | Self::Map(_) | Self::Record(_) | Self::Open(_) => "a map".into(),
            Self::Either(shapes) => {
                let words: Vec<String> = shapes.iter().map(|shape| shape.words()).collect();
                words.join(" or ")
            }
        }
    }

    pub(crate) fn schema(self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({ "type": "string" }),
            Self::Bool => json!({ "type": "boolean" }),
            Self::Number => json!({ "type": "number" }),
            Self::Whole(least) => json!({ "type": "integer", "minimum": least }),
            Self::Object => json!({ "type": "object" }),
            Self::OneOf(known) => json!({ "enum": known }),
            Self::List(item) => json!({ "type": "array", "items": item.schema() }),
            Self::Map(value) => json!({ "type": "object", "additionalProperties": value.schema() }),
            Self::Record(fields) => fields_schema(fields, Unknown::Refused),
            Self::Open(fields) => fields_schema(fields, Unknown::Kept),
            Self::Either(shapes) => {
                let any: Vec<Value> = shapes.iter().map(|shape| shape.schema()).collect();
                json!({ "anyOf": any })
            }
        }
    }
}

/// What becomes of keys that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Refused,
    Kept,
}

fn check_fields(
    fields: &[Field],
    unknown: Unknown,
    tree: &Tree,
    path: &str,
    problems: &mut Problems,
) {
    for entry in tree.entries() {
        let place = join(path, &entry.key);
        match fields.iter().find(|field| field.name == entry.key) {
            Some(field) => field.shape.check(&entry.value, &place, problems),
            None if unknown == Unknown::Kept || problems.count_only() => {}
            None => {
                let message = format!("unknown key {:?}", entry.key);
                let problem = Problem::new(ProblemKind::Shape, entry.spot, &place, message);
                let near = nearest(&entry.key, fields.iter().map(|field| field.name));
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                problems.push(match near {
                    Some(near) => problem.meant(Some(near)),
                    None => problem.hint(format!("there are {}", names.join(", "))),
                });
            }
        }
    }
    for field in fields.iter().filter(|field| field.required) {
        if tree.get(field.name).is_none() {
            let message = format!("needs `{}`", field.name);
            let problem = Problem::new(ProblemKind::Shape, tree.spot, path, message);
            problems.push(problem.hint(format!("{}: {}", field.name, field.about)));
        }
    }
}

fn fields_schema(fields: &[Field], unknown: Unknown) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.shape.schema();
        schema["description"] = field.about.into();
        properties.insert(field.name.into(), schema);
    }
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if unknown == Unknown::Refused {
        schema["additionalProperties"] = false.into();
    }
    schema
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
