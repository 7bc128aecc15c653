//! `core.openwop.data.object-*`.

use std::collections::BTreeSet;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, wrong_kind};
use super::meter::Meter;
use super::{outputs, path};
use crate::bounds::weight_of;

pub(super) fn merge(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let (base, over) = (given.object("base")?, given.object("override")?);
    meter.make(weight_of(base) + weight_of(over))?;
    let mut merged = base.clone();
    merged.extend(over.clone());
    Ok(outputs([("merged", merged.into())]))
}

pub(super) fn pick(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let source = given.object("object")?;
    let mut picked = Object::new();
    for key in keys(given, meter)? {
        if let Some(value) = source.get(key)
            && !picked.contains_key(key)
        {
            meter.make(key.len())?;
            picked.insert(key.to_owned(), meter.copy(value)?);
        }
    }
    Ok(outputs([("object", picked.into())]))
}

pub(super) fn omit(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let keys: BTreeSet<&str> = keys(given, meter)?.into_iter().collect();
    let mut kept = Object::new();
    for (key, value) in given.object("object")? {
        if !keys.contains(key.as_str()) {
            meter.make(key.len())?;
            kept.insert(key.clone(), meter.copy(value)?);
        }
    }
    Ok(outputs([("object", kept.into())]))
}

pub(super) fn rename(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let names = given.required_object("map")?;
    let mut renamed = Object::new();
    for (key, value) in given.object("object")? {
        let name = match names.get(key) {
            None => key,
            Some(Value::String(name)) => name,
            Some(other) => return Err(wrong_kind("each of config.map", "a text", other)),
        };
        meter.make(name.len())?;
        renamed.insert(name.clone(), meter.copy(value)?);
    }
    Ok(outputs([("object", renamed.into())]))
}

pub(super) fn get_path(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.required_text("path")?;
    let object = given.object("object")?;
    let found =
        if place.is_empty() { given.inputs.get("object") } else { path::find_field(object, place) };
    let value = found.map(|found| meter.copy(found)).transpose()?;
    Ok(outputs([("present", value.is_some().into()), ("value", value.unwrap_or(Value::Null))]))
}

pub(super) fn set_path(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.required_text("path")?;
    let object = given.object("object")?;
    meter.make(weight_of(object) + 2 * place.len())?;
    let mut changed = object.clone();
    let value = meter.copy(given.input("value")?)?;
    path::set(&mut changed, place, value)?;
    Ok(outputs([("object", changed.into())]))
}

fn keys<'a>(given: &Given<'a>, meter: &mut Meter<'_>) -> Result<Vec<&'a str>, Failure> {
    let keys = given.required_list("keys")?;
    meter.look(keys.iter().map(|key| crate::bounds::weight(key) as u64).sum())?;
    let text = |key: &'a Value| {
        key.as_str().ok_or_else(|| wrong_kind("each of config.keys", "a text", key))
    };
    keys.iter().map(text).collect()
}
