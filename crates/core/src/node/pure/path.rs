//! Dotted paths into a value, such as `customer.addresses.0.city`. An empty path is the value itself.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::invalid;

/// Longer paths lead nowhere: no value of a run is as deep.
const MOST_STEPS: usize = crate::bounds::DEEPEST;

pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').take(MOST_STEPS + 1).try_fold(value, step)
}

pub(super) fn find_field<'a>(fields: &'a Object, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    find(fields.get(first)?, rest)
}

fn step<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Puts a value where a path leads, with the objects on the way where there are none.
pub(super) fn set(fields: &mut Object, path: &str, value: Value) -> Result<(), Failure> {
    if path.is_empty() || path.split('.').count() > MOST_STEPS {
        return Err(invalid(format!("config.path must have 1 to {MOST_STEPS} steps")));
    }
    let (way, last) = path.rsplit_once('.').map_or((None, path), |(way, last)| (Some(way), last));
    let Some(way) = way else {
        fields.insert(last.to_owned(), value);
        return Ok(());
    };
    let (first, rest) =
        way.split_once('.').map_or((way, None), |(first, rest)| (first, Some(rest)));
    let mut place = fields.entry(first.to_owned()).or_insert(Value::Null);
    for step in rest.into_iter().flat_map(|rest| rest.split('.')) {
        place = enter(place, step)?;
    }
    *enter(place, last)? = value;
    Ok(())
}

fn enter<'a>(place: &'a mut Value, step: &str) -> Result<&'a mut Value, Failure> {
    if place.is_null() {
        *place = Value::Object(Object::new());
    }
    match place {
        Value::Object(fields) => Ok(fields.entry(step.to_owned()).or_insert(Value::Null)),
        Value::Array(items) => {
            let length = items.len();
            let index = step.parse::<usize>().ok().filter(|index| *index <= length);
            let index = index.ok_or_else(|| {
                invalid(format!("config.path leads to no place in a list of {length} items"))
            })?;
            if index == length {
                items.push(Value::Null);
            }
            Ok(&mut items[index])
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(invalid("config.path leads through a value that is no object and no list"))
        }
    }
}
