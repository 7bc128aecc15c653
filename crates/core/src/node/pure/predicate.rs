//! Predicates `{path, op, value}` of `core.flow.*`.

use std::cmp::Ordering;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{invalid, wrong_kind};
use super::meter::Meter;
use super::number::to_number;
use super::{canonical, path};
use crate::expression::{is_true, regex_work};
use crate::pattern;

const OPS: &str = "eq, neq, lt, lte, gt, gte, in, contains, starts-with, ends-with, regex, exists, not-exists, truthy \
                   or falsy";

/// Whether a value is as a predicate says.
pub(super) fn holds(
    predicate: &Object,
    item: &Value,
    meter: &mut Meter<'_>,
) -> Result<bool, Failure> {
    let text = |key: &str| predicate.get(key).and_then(Value::as_str);
    let place = text("path").ok_or_else(|| invalid("a predicate's path must be a text"))?;
    let op = text("op").ok_or_else(|| invalid(format!("a predicate's op must be {OPS}")))?;
    let found = path::find(item, place);
    let value = found.unwrap_or(&Value::Null);
    let target = predicate.get("value").unwrap_or(&Value::Null);
    let orders = |wanted: &[Ordering]| {
        compare(value, target).is_some_and(|ordering| wanted.contains(&ordering))
    };
    Ok(match op {
        "eq" => same(value, target, meter)?,
        "neq" => !same(value, target, meter)?,
        "lt" => orders(&[Ordering::Less]),
        "lte" => orders(&[Ordering::Less, Ordering::Equal]),
        "gt" => orders(&[Ordering::Greater]),
        "gte" => orders(&[Ordering::Greater, Ordering::Equal]),
        "in" => match target {
            Value::Array(targets) => is_among(value, targets, meter)?,
            other => return Err(wrong_kind("the value of a predicate with in", "a list", other)),
        },
        "contains" => match value {
            Value::String(text) => text.contains(&said(target)),
            Value::Array(items) => is_among(target, items, meter)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        },
        "starts-with" => value.as_str().is_some_and(|text| text.starts_with(&said(target))),
        "ends-with" => value.as_str().is_some_and(|text| text.ends_with(&said(target))),
        "regex" => matches(value, target, meter)?,
        "exists" => !value.is_null(),
        "not-exists" => value.is_null(),
        "truthy" => is_true(value),
        "falsy" => !is_true(value),
        _ => return Err(invalid(format!("a predicate's op must be {OPS}"))),
    })
}

fn same(left: &Value, right: &Value, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    Ok(canonical(left, meter)? == canonical(right, meter)?)
}

fn is_among(value: &Value, items: &[Value], meter: &mut Meter<'_>) -> Result<bool, Failure> {
    let wanted = canonical(value, meter)?;
    for item in items {
        if canonical(item, meter)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Texts by their letters; everything else by the numbers that it stands for.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => to_number(left)?.partial_cmp(&to_number(right)?),
    }
}

fn matches(value: &Value, target: &Value, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    let Value::String(source) = target else {
        return Err(wrong_kind("the value of a predicate with regex", "a text", target));
    };
    let Some(text) = value.as_str() else { return Ok(false) };
    meter.look(regex_work(source, text.len()))?;
    let regex = pattern::compile(source).map_err(|why| {
        invalid(format!("a predicate's regular expression does not run here: {why}"))
    })?;
    Ok(regex.is_match(text))
}

fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
