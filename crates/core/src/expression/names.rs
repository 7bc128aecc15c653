//! What the names in an expression stand for. Nothing is copied before it is read.

use std::collections::BTreeMap;
use std::rc::Rc;

use minijinja::value::Value;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use callboard_protocol::Object;

use crate::bounds::{weight, weight_of};

/// Something that an expression can name.
#[derive(Debug, Clone)]
pub(crate) enum Place<'a> {
    Value(&'a Json),
    Fields(&'a Object),
    Named(Rc<Names<'a>>),
}

/// Names with what they stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names<'a>(BTreeMap<&'a str, Place<'a>>);

impl<'a> Names<'a> {
    pub(crate) fn insert(&mut self, name: &'a str, place: Place<'a>) {
        self.0.insert(name, place);
    }

    /// Names the fields of an object, over whatever had their names before.
    pub(crate) fn extend(&mut self, fields: &'a Object) {
        self.0.extend(fields.iter().map(|(name, value)| (name.as_str(), Place::Value(value))));
    }

    pub(super) fn get(&self, name: &str) -> Option<Place<'a>> {
        self.0.get(name).cloned()
    }
}

/// What is found below a place.
pub(super) enum Below<'a> {
    Place(Place<'a>),
    Nothing,
    /// It takes the value itself to say.
    Unclear,
}

impl<'a> Place<'a> {
    pub(super) fn field(&self, name: &str) -> Below<'a> {
        let found = match self {
            Self::Value(Json::Object(fields)) => fields.get(name).map(Place::Value),
            Self::Fields(fields) => fields.get(name).map(Place::Value),
            Self::Named(names) => names.get(name),
            Self::Value(_) => return Below::Unclear,
        };
        found.map_or(Below::Nothing, Below::Place)
    }

    pub(super) fn item(&self, key: &Value) -> Below<'a> {
        match (self, key.as_str(), key.is_integer().then(|| key.as_i64()).flatten()) {
            (_, Some(name), _) => self.field(name),
            (Self::Value(Json::Array(items)), _, Some(index)) => {
                let index = match usize::try_from(index) {
                    Ok(index) => Some(index),
                    Err(_) => usize::try_from(index.unsigned_abs())
                        .ok()
                        .and_then(|back| items.len().checked_sub(back)),
                };
                let found = index.and_then(|index| items.get(index));
                found.map_or(Below::Nothing, |item| Below::Place(Place::Value(item)))
            }
            _ => Below::Unclear,
        }
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Value(value) => weight(value),
            Self::Fields(fields) => weight_of(fields),
            Self::Named(names) => {
                names.0.iter().map(|(name, place)| name.len() + place.weight()).sum()
            }
        }
    }

    /// Distinguishes places.
    pub(super) fn address(&self) -> usize {
        match self {
            Self::Value(value) => std::ptr::from_ref(*value).addr(),
            Self::Fields(fields) => std::ptr::from_ref(*fields).addr(),
            Self::Named(names) => Rc::as_ptr(names).addr(),
        }
    }
}

impl Serialize for Place<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Fields(fields) => fields.serialize(serializer),
            Self::Named(names) => serializer.collect_map(&names.0),
        }
    }
}
