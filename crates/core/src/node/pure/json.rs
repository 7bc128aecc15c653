//! `core.openwop.data.json-*`.

use callboard_protocol::{Failure, Object};
use serde::Serialize;
use serde_json::{Serializer, Value, json};

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::outputs;
use crate::bounds::weight;
use crate::schema::Compiler;

/// Units of work for compiling a schema, and for each byte of it.
const COMPILING: u64 = 1 << 17;
const COMPILING_BYTE: u64 = 1 << 8;
/// The widest indentation: more than is readable.
const WIDEST_INDENT: usize = 10;

pub(super) fn parse(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let must_parse = given.configured_flag("failOnError", true)?;
    let text = given.text("text")?;
    // Each value stands before one of these, but for the first.
    let values = text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b':')).count();
    meter.make(2 * text.len() + (values + 1) * EACH)?;
    match serde_json::from_str::<Value>(text) {
        Ok(value) => Ok(outputs([("value", value), ("error", Value::Null)])),
        Err(error) if must_parse => {
            Err(Failure::new("JSON_PARSE_FAILED", format!("the input text is no JSON: {error}")))
        }
        Err(error) => Ok(outputs([("value", Value::Null), ("error", error.to_string().into())])),
    }
}

pub(super) fn stringify(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let indent = given.configured_whole("indent", 0)?.unwrap_or(0).min(WIDEST_INDENT);
    let value = given.input("value")?;
    // A sign may be written with six, and each value stands in a line of its own.
    let lines = if indent == 0 { 0 } else { weight(value) / EACH * indent * depth(value) };
    meter.look(6 * weight(value) as u64 + lines as u64)?;
    let text = if indent == 0 {
        value.to_string()
    } else {
        let indent = " ".repeat(indent);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
        let mut written = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut written, formatter);
        value.serialize(&mut serializer).map_err(|error| invalid(error.to_string()))?;
        String::from_utf8_lossy(&written).into_owned()
    };
    meter.make(EACH + text.len())?;
    Ok(outputs([("text", text.into())]))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

pub(super) fn validate(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let value = given.input("value")?;
    let source = given.object("schema")?;
    let bytes = crate::bounds::weight_of(source) as u64;
    meter.look(COMPILING + COMPILING_BYTE.saturating_mul(bytes))?;
    let schema = Compiler::default().compile_object(source);
    let schema = schema.map_err(|why| invalid(format!("the input schema {why}")))?;
    meter.look(schema.work(value))?;
    let errors: Vec<Value> = schema
        .all_violations(value)
        .into_iter()
        .map(|violation| json!({ "path": violation.place, "message": violation.message }))
        .collect();
    Ok(outputs([("valid", errors.is_empty().into()), ("errors", errors.into())]))
}
