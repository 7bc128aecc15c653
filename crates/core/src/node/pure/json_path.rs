//! `core.openwop.data.jsonpath-query`: names, places, `*` and `..` of JSONPath, without filters and slices.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::outputs;
use crate::bounds::weight;

/// The longest query: more than people write.
const MOST_STEPS: usize = 64;

#[derive(Debug, PartialEq)]
enum Step<'a> {
    Name(&'a str),
    Place(i64),
    All,
    /// The value itself and all below it.
    Below,
}

pub(super) fn query(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let steps = read(given.required_text("path")?)?;
    let mut found = vec![given.input("value")?];
    for step in &steps {
        let mut next = Vec::new();
        for value in found {
            meter.look(EACH as u64)?;
            take(step, value, &mut next, meter)?;
        }
        found = next;
    }
    let results = found.into_iter().map(|value| meter.copy(value));
    let results = results.collect::<Result<Vec<Value>, Failure>>()?;
    let count = results.len();
    Ok(outputs([("results", results.into()), ("count", count.into())]))
}

fn take<'a>(
    step: &Step<'_>,
    value: &'a Value,
    next: &mut Vec<&'a Value>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    match (step, value) {
        (Step::Name(name), Value::Object(fields)) => next.extend(fields.get(*name)),
        (Step::Place(place), Value::Array(items)) => {
            let from_end = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
            let place = match usize::try_from(*place) {
                Ok(place) => Some(place),
                Err(_) => items.len().checked_sub(from_end),
            };
            next.extend(place.and_then(|place| items.get(place)));
        }
        (Step::All, Value::Array(items)) => {
            meter.make(items.len() * size_of::<&Value>())?;
            next.extend(items);
        }
        (Step::All, Value::Object(fields)) => {
            meter.make(fields.len() * size_of::<&Value>())?;
            next.extend(fields.values());
        }
        (Step::Below, value) => {
            // Each value is listed once, and weighs at least twice its place in the list.
            meter.make(weight(value) / 2)?;
            below(value, next);
        }
        (Step::Name(_) | Step::Place(_) | Step::All, _) => {}
    }
    Ok(())
}

fn below<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| below(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| below(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn read(path: &str) -> Result<Vec<Step<'_>>, Failure> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut is_first = true;
    while !rest.is_empty() {
        if steps.len() >= MOST_STEPS {
            return Err(invalid(format!("config.path has more than {MOST_STEPS} steps")));
        }
        rest = if let Some(inner) = rest.strip_prefix('[') {
            bracket(inner, &mut steps)?
        } else if let Some(behind) = rest.strip_prefix("..") {
            steps.push(Step::Below);
            if behind.starts_with('[') { behind } else { name(behind, &mut steps)? }
        } else if let Some(behind) = rest.strip_prefix('.') {
            name(behind, &mut steps)?
        } else if is_first {
            // `customer.name` without its root.
            name(rest, &mut steps)?
        } else {
            return Err(unreadable());
        };
        is_first = false;
    }
    Ok(steps)
}

fn name<'a>(source: &'a str, steps: &mut Vec<Step<'a>>) -> Result<&'a str, Failure> {
    let end = source.find(['.', '[']).unwrap_or(source.len());
    let (name, rest) = source.split_at(end);
    steps.push(match name {
        "" => return Err(unreadable()),
        "*" => Step::All,
        name => Step::Name(name),
    });
    Ok(rest)
}

fn bracket<'a>(source: &'a str, steps: &mut Vec<Step<'a>>) -> Result<&'a str, Failure> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = source.strip_prefix(quote) {
            let (name, rest) = quoted.split_once(quote).ok_or_else(unreadable)?;
            steps.push(Step::Name(name));
            return rest.strip_prefix(']').ok_or_else(unreadable);
        }
    }
    let (inner, rest) = source.split_once(']').ok_or_else(unreadable)?;
    steps.push(match inner.trim() {
        "*" => Step::All,
        place => Step::Place(place.parse().map_err(|_| unreadable())?),
    });
    Ok(rest)
}

fn unreadable() -> Failure {
    invalid(
        "config.path may have names, places, * and .., such as $.items[*].price; filters and slices do not run here",
    )
}
