//! `core.openwop.data.array-group-by`: one row for each key, with what the items of the group come to.

use std::collections::BTreeMap;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::aggregate::summary;
use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::{canonical, outputs, path};

struct Aggregation<'a> {
    name: &'a str,
    op: &'a str,
    path: &'a str,
}

struct Group<'a> {
    key: &'a Value,
    members: Vec<&'a Value>,
}

pub(super) fn group_by(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.required_text("keyPath")?;
    let aggregations = aggregations(given)?;
    let items = given.list("array")?;
    let rounds = u64::from(items.len().max(1).ilog2()) + 1;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for item in items {
        let key = path::find(item, place).unwrap_or(&Value::Null);
        let text = canonical(key, meter)?;
        meter.look(rounds * (EACH + text.len().min(64)) as u64)?;
        let group = *places.entry(text).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Group { key, members: Vec::new() });
        }
        groups[group].members.push(item);
    }
    let rows = groups.iter().map(|group| row(group, &aggregations, meter));
    let rows = rows.collect::<Result<Vec<Value>, Failure>>()?;
    let count = rows.len();
    Ok(outputs([("groups", rows.into()), ("groupCount", count.into())]))
}

fn row(
    group: &Group<'_>,
    aggregations: &[Aggregation<'_>],
    meter: &mut Meter<'_>,
) -> Result<Value, Failure> {
    meter.make(4 * EACH)?;
    let mut row = outputs([("key", meter.copy(group.key)?), ("count", group.members.len().into())]);
    for Aggregation { name, op, path } in aggregations {
        meter.look((group.members.len() * (EACH + path.len())) as u64)?;
        meter.make(2 * EACH + name.len())?;
        let mut values = group.members.iter().filter_map(|member| path::find(member, path));
        let value = match *op {
            "count" => group.members.len().into(),
            "first" => values.next().map(|value| meter.copy(value)).transpose()?.into(),
            "last" => values.next_back().map(|value| meter.copy(value)).transpose()?.into(),
            "array" => {
                let copies = values.map(|value| meter.copy(value));
                copies.collect::<Result<Vec<Value>, Failure>>()?.into()
            }
            op => summary(op, &values.filter_map(Value::as_f64).collect::<Vec<_>>())?,
        };
        row.insert((*name).to_owned(), value);
    }
    Ok(Value::Object(row))
}

fn aggregations<'a>(given: &Given<'a>) -> Result<Vec<Aggregation<'a>>, Failure> {
    const OPS: [&str; 8] = ["sum", "count", "avg", "min", "max", "first", "last", "array"];
    let read = |it: &'a Value| {
        let text = |key: &str| it.get(key).and_then(Value::as_str);
        let name = text("outputKey").filter(|name| !matches!(*name, "key" | "count"));
        let name = name.ok_or_else(|| {
            invalid("an aggregation's outputKey must be a text, and neither key nor count")
        })?;
        let op = text("op").filter(|op| OPS.contains(op));
        let op = op.ok_or_else(|| {
            invalid(format!("an aggregation's op must be one of {}", OPS.join(", ")))
        })?;
        let path = match text("path") {
            Some(path) => path,
            None if op == "count" => "",
            None => return Err(invalid(format!("the aggregation {name} must have a path"))),
        };
        Ok(Aggregation { name, op, path })
    };
    given.required_list("aggregations")?.iter().map(read).collect()
}
