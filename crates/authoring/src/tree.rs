//! A document as it was written: every value with the line and column where it stands.

use serde::Serialize;
use serde_json::{Map, Number, Value};

/// A place in a text; both count from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Spot {
    pub line: u32,
    pub column: u32,
}

impl Spot {
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    pub spot: Spot,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    Null,
    Bool(bool),
    /// With the text that it was written as: a version of `1.10` is not `1.1`.
    Number(Number, String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub spot: Spot,
    pub value: Tree,
}

impl Tree {
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Tree] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(..) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    pub fn value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Number(number, _) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(Tree::value).collect()),
            Data::Map(entries) => {
                let fields = entries.iter().map(|entry| (entry.key.clone(), entry.value.value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}
