//! `core.openwop.data.csv-*`, as RFC 4180 describes them: commas, quotes that are doubled, lines within quotes.

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, wrong_kind};
use super::meter::{EACH, Meter};
use super::outputs;
use super::template::push_value;

pub(super) fn parse(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let has_header = given.configured_flag("hasHeader", true)?;
    let mut lines = read(given.text("text")?, meter)?.into_iter();
    let headers = if has_header { lines.next().unwrap_or_default() } else { Vec::new() };
    let mut rows = Vec::new();
    for line in lines {
        if !has_header {
            rows.push(Value::Array(line.into_iter().map(Value::String).collect()));
            continue;
        }
        let mut cells = line.into_iter().map(Value::String);
        let mut row = Object::new();
        for header in &headers {
            meter.make(EACH + header.len())?;
            row.insert(header.clone(), cells.next().unwrap_or(Value::Null));
        }
        rows.push(Value::Object(row));
    }
    Ok(outputs([("rows", rows.into()), ("headers", headers.into())]))
}

/// The cells of every line that has any.
fn read(text: &str, meter: &mut Meter<'_>) -> Result<Vec<Vec<String>>, Failure> {
    let mut lines = Vec::new();
    let mut line: Vec<String> = Vec::new();
    let mut cell = String::new();
    let mut signs = text.chars().peekable();
    let (mut is_quoted, mut is_empty) = (false, true);
    meter.make(text.len())?;
    while let Some(sign) = signs.next() {
        let ends_line = !is_quoted && (sign == '\n' || sign == '\r');
        if ends_line {
            if sign == '\r' {
                signs.next_if_eq(&'\n');
            }
            if !is_empty {
                meter.make(2 * EACH)?;
                line.push(std::mem::take(&mut cell));
                lines.push(std::mem::take(&mut line));
                is_empty = true;
            }
            continue;
        }
        is_empty = false;
        match sign {
            '"' if is_quoted && signs.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                meter.make(EACH)?;
                line.push(std::mem::take(&mut cell));
            }
            sign => cell.push(sign),
        }
    }
    if !is_empty {
        meter.make(2 * EACH)?;
        line.push(cell);
        lines.push(line);
    }
    Ok(lines)
}

pub(super) fn stringify(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let rows = given.list("rows")?;
    let headers = headers(given, rows)?;
    let mut text = String::new();
    if let Some(headers) = &headers
        && given.configured_flag("emitHeader", true)?
    {
        let cells: Vec<Value> = headers.iter().map(|header| Value::from(*header)).collect();
        write(&mut text, cells.iter().map(Some), meter)?;
    }
    for row in rows {
        match row {
            Value::Array(cells) => write(&mut text, cells.iter().map(Some), meter)?,
            Value::Object(fields) => {
                let headers = headers.iter().flatten();
                write(&mut text, headers.map(|header| fields.get(*header)), meter)?;
            }
            other => {
                return Err(wrong_kind("each of the input rows", "an object or a list", other));
            }
        }
    }
    Ok(outputs([("text", text.into())]))
}

/// What is configured, else the names of the first row that has any.
fn headers<'a>(given: &Given<'a>, rows: &'a [Value]) -> Result<Option<Vec<&'a str>>, Failure> {
    if let Some(configured) = given.configured_list("headers")? {
        let text = |header: &'a Value| {
            header.as_str().ok_or_else(|| wrong_kind("each of config.headers", "a text", header))
        };
        return configured.iter().map(text).collect::<Result<_, _>>().map(Some);
    }
    let first = rows.iter().find_map(Value::as_object);
    Ok(first.map(|fields| fields.keys().map(String::as_str).collect()))
}

fn write<'a>(
    text: &mut String,
    cells: impl Iterator<Item = Option<&'a Value>>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    for (place, value) in cells.enumerate() {
        if place > 0 {
            meter.push(text, ",")?;
        }
        let start = text.len();
        push_value(text, value, meter)?;
        let cell = &text[start..];
        if cell.contains(['"', ',', '\n', '\r']) {
            let quoted = format!("\"{}\"", cell.replace('"', "\"\""));
            meter.make(quoted.len() - cell.len())?;
            text.replace_range(start.., &quoted);
        }
    }
    meter.push(text, "\n")
}
