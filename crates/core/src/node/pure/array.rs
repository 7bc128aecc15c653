//! `core.openwop.data.array-*` that keep the order of what they are given.

use callboard_protocol::{Failure, Object};
use serde_json::{Value, json};

use super::given::{Given, invalid, wrong_kind};
use super::meter::{EACH, Meter};
use super::number::{number, to_number};
use super::template::{Template, push_value};
use super::{canonical, outputs, path};

pub(super) fn filter(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.required_text("path")?;
    let wanted = given.config.get("equals").ok_or_else(|| invalid("config.equals is missing"))?;
    let wanted = canonical(wanted, meter)?;
    let items = given.list("array")?;
    let mut matched = Vec::new();
    for item in items {
        let Some(found) = path::find(item, place) else { continue };
        if canonical(found, meter)? == wanted {
            matched.push(meter.copy(item)?);
        }
    }
    let count = matched.len();
    Ok(outputs([
        ("array", matched.into()),
        ("matched", count.into()),
        ("total", items.len().into()),
    ]))
}

pub(super) fn map(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let template = Template::read(given.required_text("template")?, meter)?;
    let mut mapped: Vec<Value> = Vec::new();
    for item in given.list("array")? {
        let mut text = String::new();
        meter.make(EACH)?;
        template.fill(&mut text, |place| path::find(item, place), meter)?;
        mapped.push(text.into());
    }
    Ok(outputs([("array", mapped.into())]))
}

pub(super) fn flatten(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    fn add(
        flat: &mut Vec<Value>,
        items: &[Value],
        depth: usize,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        for item in items {
            match item {
                Value::Array(inner) if depth > 0 => add(flat, inner, depth - 1, meter)?,
                item => flat.push(meter.copy(item)?),
            }
        }
        Ok(())
    }
    let depth = given.configured_whole("depth", 1)?.unwrap_or(1);
    let mut flat = Vec::new();
    add(&mut flat, given.list("array")?, depth, meter)?;
    Ok(outputs([("array", flat.into())]))
}

pub(super) fn chunk(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let size = given.required_whole("size", 1)?;
    let chunks = given.list("array")?.chunks(size);
    let chunks = chunks.map(|chunk| meter.copy_all(chunk).map(Value::Array));
    let chunks = chunks.collect::<Result<Vec<Value>, Failure>>()?;
    let count = chunks.len();
    Ok(outputs([("chunks", chunks.into()), ("chunkCount", count.into())]))
}

/// As long as the longest; where a list has ended, null.
pub(super) fn zip(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let lists = given.list("arrays")?.iter().map(|list| {
        let items = list.as_array().map(Vec::as_slice);
        items.ok_or_else(|| wrong_kind("each of the input arrays", "a list", list))
    });
    let lists = lists.collect::<Result<Vec<&[Value]>, Failure>>()?;
    let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
    let mut zipped = Vec::new();
    for place in 0..longest {
        meter.make(EACH)?;
        let row = lists.iter().map(|list| meter.copy(list.get(place).unwrap_or(&Value::Null)));
        zipped.push(Value::Array(row.collect::<Result<_, _>>()?));
    }
    Ok(outputs([("array", zipped.into())]))
}

pub(super) fn reduce(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let op = given.choice("op", ["sum", "product", "concat", "count"], None)?;
    let place = given.configured_text("path")?.unwrap_or_default();
    let initial = given.config.get("initial");
    let items = given.list("array")?;
    meter.look((items.len() * (EACH + place.len())) as u64)?;
    let values = items.iter().map(|item| path::find(item, place));
    let start = |usual: f64| match initial {
        None | Some(Value::Null) => Ok(usual),
        Some(initial) => {
            initial.as_f64().ok_or_else(|| wrong_kind("config.initial", "a number", initial))
        }
    };
    let result = match op {
        "sum" => number(start(0.0)? + values.map(|it| as_number(it, 0.0)).sum::<f64>())?,
        "product" => number(start(1.0)? * values.map(|it| as_number(it, 1.0)).product::<f64>())?,
        "count" => {
            let counted = values.filter(|it| it.is_some_and(|it| !it.is_null())).count();
            number(start(0.0)? + to_number(&json!(counted)).unwrap_or_default())?
        }
        _ => {
            let mut text = String::new();
            push_value(&mut text, initial, meter)?;
            for value in values {
                push_value(&mut text, value, meter)?;
            }
            text.into()
        }
    };
    Ok(outputs([("result", result)]))
}

/// What is no number changes nothing.
fn as_number(value: Option<&Value>, neutral: f64) -> f64 {
    value.and_then(to_number).filter(|number| *number != 0.0).unwrap_or(neutral)
}
