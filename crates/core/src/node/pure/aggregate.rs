//! `core.flow.aggregate-*`: many items become one value.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::number::number;
use super::template::{Template, push_value};
use super::{outputs, path};

pub(super) fn array(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    Ok(outputs([("array", meter.copy_all(given.list("items")?)?.into())]))
}

pub(super) fn numeric(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let op = given.choice("op", ["sum", "count", "avg", "min", "max"], None)?;
    let place = given.required_text("path")?;
    let items = given.list("items")?;
    meter.look((items.len() * (EACH + place.len())) as u64)?;
    let values = items.iter().filter_map(|item| path::find(item, place)?.as_f64());
    let values: Vec<f64> = values.collect();
    let result = summary(op, &values)?;
    Ok(outputs([("result", result), ("count", values.len().into())]))
}

/// Null of nothing.
pub(super) fn summary(op: &str, values: &[f64]) -> Result<Value, Failure> {
    if values.is_empty() {
        return Ok(Value::Null);
    }
    #[expect(clippy::cast_precision_loss, reason = "what fits into a run is far below 2^53")]
    let count = values.len() as f64;
    let sum = || values.iter().sum::<f64>();
    number(match op {
        "sum" => sum(),
        "avg" => sum() / count,
        "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
        "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        _ => count,
    })
}

pub(super) fn text(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let separator = given.configured_text("separator")?.unwrap_or_default();
    let place = given.configured_text("path")?.unwrap_or_default();
    let template = given.configured_text("template")?.filter(|template| !template.is_empty());
    let template = template.map(|template| Template::read(template, meter)).transpose()?;
    let items = given.list("items")?;
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            meter.push(&mut text, separator)?;
        }
        meter.look((EACH + place.len()) as u64)?;
        match &template {
            Some(template) => template.fill(&mut text, |place| path::find(item, place), meter)?,
            None => push_value(&mut text, path::find(item, place), meter)?,
        }
    }
    Ok(outputs([("text", text.into()), ("count", items.len().into())]))
}

pub(super) fn table(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let columns = given.required_list("columns")?;
    let text =
        |column: &'_ Value, key: &str| column.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut paths = Vec::new();
    let mut labels: Vec<Value> = Vec::new();
    for column in columns {
        let path = text(column, "path");
        let path = path.ok_or_else(|| invalid("each of config.columns must have a path"))?;
        let label = text(column, "label").filter(|label| !label.is_empty());
        labels.push(label.unwrap_or_else(|| path.clone()).into());
        paths.push(path);
    }
    let mut rows: Vec<Value> = Vec::new();
    for item in given.list("items")? {
        meter.make(EACH)?;
        let mut row = Vec::with_capacity(paths.len());
        for place in &paths {
            meter.look((EACH + place.len()) as u64)?;
            row.push(meter.copy(path::find(item, place).unwrap_or(&Value::Null))?);
        }
        rows.push(row.into());
    }
    let count = rows.len();
    Ok(outputs([("columns", labels.into()), ("rows", rows.into()), ("rowCount", count.into())]))
}
