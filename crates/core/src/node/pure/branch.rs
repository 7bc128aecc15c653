//! `core.flow.*` that say which way to go: edges behind them ask for `branch`, `label`, `branches` or `passed`.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid, wrong_kind};
use super::meter::{EACH, Meter};
use super::predicate::holds;
use super::{canonical, outputs};

pub(super) fn two_ways(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let value = given.input("value")?;
    let matched = holds(given.required_object("predicate")?, value, meter)?;
    Ok(outputs([
        ("branch", if matched { "then" } else { "else" }.into()),
        ("matched", matched.into()),
        ("value", meter.copy(value)?),
    ]))
}

pub(super) fn filter(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let value = given.input("value")?;
    let passed = holds(given.required_object("predicate")?, value, meter)?;
    let value = if passed { meter.copy(value)? } else { Value::Null };
    Ok(outputs([("passed", passed.into()), ("value", value)]))
}

/// A case is a value's JSON, or its text.
pub(super) fn switch(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let value = given.input("value")?;
    let cases = given.required_object("cases")?;
    let exact = cases.get(&canonical(value, meter)?);
    let found = exact.or_else(|| cases.get(value.as_str()?));
    let label = match found {
        Some(Value::String(label)) => Some(label.as_str()),
        Some(other) => return Err(wrong_kind("each of config.cases", "a text", other)),
        None => given.configured_text("default")?,
    };
    Ok(outputs([
        ("label", label.into()),
        ("matched", label.is_some().into()),
        ("value", meter.copy(value)?),
    ]))
}

pub(super) fn router(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let mode = given.choice("mode", ["first-match", "all-match"], Some("first-match"))?;
    let value = given.input("value")?;
    let mut branches: Vec<Value> = Vec::new();
    for route in given.required_list("routes")? {
        let label = route.get("label").and_then(Value::as_str);
        let label = label.ok_or_else(|| invalid("each of config.routes must have a label"))?;
        let is_taken = match route.get("predicate") {
            None => true,
            Some(Value::Object(predicate)) => holds(predicate, value, meter)?,
            Some(other) => return Err(wrong_kind("a route's predicate", "an object", other)),
        };
        if is_taken {
            meter.make(EACH + label.len())?;
            branches.push(label.into());
            if mode == "first-match" {
                break;
            }
        }
    }
    if branches.is_empty() {
        branches.extend(given.configured_text("defaultLabel")?.map(Value::from));
    }
    Ok(outputs([("branches", branches.into()), ("value", meter.copy(value)?)]))
}

pub(super) fn pass(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    match given.inputs.get("value") {
        Some(value) => Ok(outputs([("value", meter.copy(value)?)])),
        None => Ok(Object::new()),
    }
}
