//! How large and how deep the values may be that a run keeps.

use serde_json::Value;

use callboard_protocol::{Failure, Object};

/// The heaviest value of one node: more than a request of the default size can bring.
pub(crate) const HEAVIEST: usize = 16 << 20;
/// What all values of a run may weigh together, because a run is held in memory whole.
pub(crate) const FULLEST: usize = 64 << 20;
/// The deepest value. Readers of JSON stop at 128 levels, and events, snapshots and bundles put some around a value.
pub const DEEPEST: usize = 64;
/// What a value costs beside its text. A list of digits is many times as large in memory as on paper.
const EACH: usize = 16;

/// Whether a value is nested deeper than a run can keep.
pub fn is_too_deep(value: &Value) -> bool {
    is_deeper(value, DEEPEST)
}

/// What a value weighs, unless no run can keep it.
pub(crate) fn weigh(value: &Value) -> Result<usize, Failure> {
    judge(weight(value), is_too_deep(value))
}

/// As `weigh`, for the fields of an object.
pub(crate) fn weigh_fields(fields: &Object) -> Result<usize, Failure> {
    judge(weight_of(fields), fields.values().any(|value| is_deeper(value, DEEPEST - 1)))
}

fn judge(weight: usize, is_too_deep: bool) -> Result<usize, Failure> {
    if is_too_deep {
        return Err(too_large(format!("a value is nested deeper than {DEEPEST} levels")));
    }
    if weight > HEAVIEST {
        return Err(too_heavy());
    }
    Ok(weight)
}

/// Cuts off what is nested too deeply to be recorded.
pub(crate) fn flatten(value: &mut Value) {
    fn cut(value: &mut Value, levels: usize) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(_) | Value::Object(_) if levels == 0 => {
                *value = Value::from("[nested too deeply]");
            }
            Value::Array(items) => items.iter_mut().for_each(|item| cut(item, levels - 1)),
            Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, levels - 1)),
        }
    }
    cut(value, DEEPEST);
}

pub(crate) fn too_heavy() -> Failure {
    too_large(format!("a node's values are larger than {HEAVIEST} bytes"))
}

pub(crate) fn too_full() -> Failure {
    too_large(format!("the run would hold values of more than {FULLEST} bytes"))
}

pub(crate) fn weight_of(fields: &Object) -> usize {
    EACH + fields.iter().map(|(key, value)| EACH + key.len() + weight(value)).sum::<usize>()
}

pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => EACH,
        Value::String(text) => EACH + text.len(),
        Value::Array(items) => EACH + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => weight_of(fields),
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, levels - 1)),
    }
}

fn too_large(message: String) -> Failure {
    Failure::new("value_too_large", message)
}
