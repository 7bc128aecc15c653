//! `core.flow.merge`: several lists become one.

use std::collections::BTreeMap;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid, wrong_kind};
use super::meter::{EACH, Meter};
use super::{canonical, outputs, path};
use crate::bounds::weight_of;

pub(super) fn merge(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let modes = [
        "append",
        "combine-by-key",
        "combine-by-position",
        "multiplex",
        "choose-branch",
        "sql-query",
    ];
    let mode = given.choice("mode", modes, None)?;
    let lists = given.list("inputs")?.iter().map(|list| {
        let items = list.as_array().map(Vec::as_slice);
        items.ok_or_else(|| wrong_kind("each of the input inputs", "a list", list))
    });
    let lists = lists.collect::<Result<Vec<&[Value]>, Failure>>()?;
    let merged = match mode {
        "append" => meter.copy_concat(&lists)?,
        "combine-by-key" => by_key(&lists, given.required_text("keyPath")?, meter)?,
        "combine-by-position" => by_position(&lists, meter)?,
        "multiplex" => product(&lists, meter)?,
        "choose-branch" => {
            meter.copy_all(lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default())?
        }
        _ => {
            let why = "config.mode sql-query needs host.sql, which this host does not have";
            return Err(Failure::new("capability_not_provided", why));
        }
    };
    Ok(outputs([("merged", merged.into())]))
}

impl Meter<'_> {
    fn copy_concat(&mut self, lists: &[&[Value]]) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        for list in lists {
            all.extend(self.copy_all(list)?);
        }
        Ok(all)
    }
}

/// Items with the same key become one object, in the order in which the keys came first.
fn by_key(lists: &[&[Value]], place: &str, meter: &mut Meter<'_>) -> Result<Vec<Value>, Failure> {
    let mut places: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut rows: Vec<Object> = Vec::new();
    for item in lists.iter().copied().flatten() {
        let fields = object(item)?;
        let key = path::find(item, place).map(|found| canonical(found, meter)).transpose()?;
        meter.look(32 * EACH as u64)?;
        meter.make(weight_of(fields))?;
        let row = *places.entry(key).or_insert(rows.len());
        if row == rows.len() {
            rows.push(fields.clone());
        } else {
            rows[row].extend(fields.clone());
        }
    }
    Ok(rows.into_iter().map(Value::Object).collect())
}

fn by_position(lists: &[&[Value]], meter: &mut Meter<'_>) -> Result<Vec<Value>, Failure> {
    let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
    let mut rows = Vec::new();
    for place in 0..longest {
        let mut row = Object::new();
        meter.make(EACH)?;
        meter.look((EACH * lists.len()) as u64)?;
        for item in lists.iter().filter_map(|list| list.get(place)) {
            let fields = object(item)?;
            meter.make(weight_of(fields))?;
            row.extend(fields.clone());
        }
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

/// Every choice of one item from each list.
fn product(lists: &[&[Value]], meter: &mut Meter<'_>) -> Result<Vec<Value>, Failure> {
    let mut rows: Vec<Vec<&Value>> = vec![Vec::new()];
    for list in lists {
        let length = rows.first().map_or(0, Vec::len) + 1;
        let next = rows.len().saturating_mul(list.len());
        meter.make(next.saturating_mul(EACH * length))?;
        rows = rows
            .iter()
            .flat_map(|row| list.iter().map(|item| row.iter().copied().chain([item]).collect()))
            .collect();
    }
    let copy = |row: Vec<&Value>| {
        let items = row.into_iter().map(|item| meter.copy(item));
        items.collect::<Result<Vec<Value>, Failure>>().map(Value::Array)
    };
    rows.into_iter().map(copy).collect()
}

fn object(item: &Value) -> Result<&Object, Failure> {
    item.as_object().ok_or_else(|| invalid("items that are combined must be objects"))
}
