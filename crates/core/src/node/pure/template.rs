//! Templates with `{{path}}` in them, as the published data nodes have: what is missing is empty, what is no text is
//! JSON, and whatever is no placeholder stays as it stands.

use callboard_protocol::Failure;
use serde_json::Value;

use super::meter::Meter;
use crate::bounds::weight;

#[derive(Debug)]
pub(super) struct Template<'a>(Vec<Part<'a>>);

#[derive(Debug)]
enum Part<'a> {
    Text(&'a str),
    Path(&'a str),
}

impl<'a> Template<'a> {
    pub(super) fn read(source: &'a str, meter: &mut Meter<'_>) -> Result<Self, Failure> {
        meter.look(2 * source.len() as u64)?;
        let mut parts = Vec::new();
        let (mut rest, mut searched) = (source, 0);
        while let Some(found) = rest[searched..].find("{{") {
            let open = searched + found;
            match placeholder(&rest[open + 2..]) {
                Some((path, length)) => {
                    parts.push(Part::Text(&rest[..open]));
                    parts.push(Part::Path(path));
                    rest = &rest[open + 2 + length..];
                    searched = 0;
                }
                None => searched = open + 1,
            }
        }
        parts.push(Part::Text(rest));
        Ok(Self(parts))
    }

    /// The text for one value.
    pub(super) fn fill<'v>(
        &self,
        text: &mut String,
        find: impl Fn(&str) -> Option<&'v Value>,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        for part in &self.0 {
            match part {
                Part::Text(part) => meter.push(text, part)?,
                Part::Path(path) => {
                    meter.look(16 + path.len() as u64)?;
                    push_value(text, find(path), meter)?;
                }
            }
        }
        Ok(())
    }
}

/// The path of a placeholder and the length of all that belongs to it, behind its opening braces.
fn placeholder(source: &str) -> Option<(&str, usize)> {
    let path = source.trim_start();
    let is_path = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '.');
    let end = path.find(|sign| !is_path(sign))?;
    if !path.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_') {
        return None;
    }
    let close = path[end..].trim_start().strip_prefix("}}")?;
    Some((&path[..end], source.len() - close.len()))
}

/// A value as text: nothing for null and for what is missing.
pub(super) fn push_value(
    text: &mut String,
    value: Option<&Value>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(part)) => meter.push(text, part),
        Some(value) => {
            meter.look(weight(value) as u64)?;
            meter.push(text, &value.to_string())
        }
    }
}
