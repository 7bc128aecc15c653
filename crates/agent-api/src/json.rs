//! Reading lines of JSON whose fields may have any type.
//!
//! A line is taken apart once, its fields as raw text; only those that matter are read further, and one of an
//! unexpected type counts as absent. So a change in a corner of an agent's output costs that corner.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::transcript::Unreadable;

/// A field as it stands in the line.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// A string that borrows from the line where it has no escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Borrowed<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// An object by the names of its fields.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fields<'a>(#[serde(borrow)] BTreeMap<Borrowed<'a>, &'a RawValue>);

/// A whole line, which is an object.
pub(crate) fn line(line: &str) -> Result<Fields<'_>, Unreadable> {
    serde_json::from_str(line).map_err(|_| Unreadable)
}

pub(crate) fn read<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

impl<'a> Fields<'a> {
    /// What is null is not there.
    pub(crate) fn get(&self, name: &str) -> Raw<'a> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    pub(crate) fn read<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        read(self.get(name))
    }

    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.read::<Borrowed<'_>>(name).map(|text| text.0)
    }

    /// A string, empty where there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        self.string(name).unwrap_or_default().into_owned()
    }

    /// Whether a field is this string.
    pub(crate) fn is(&self, name: &str, text: &str) -> bool {
        self.string(name).as_deref() == Some(text)
    }

    /// Anything, null where there is nothing.
    pub(crate) fn value(&self, name: &str) -> Value {
        self.read(name).unwrap_or_default()
    }

    /// How many bytes a string has, or a value as JSON.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        let length = match self.string(name) {
            Some(text) => text.len(),
            None => self.get(name).map_or(0, |raw| raw.get().len()),
        };
        u64::try_from(length).unwrap_or(u64::MAX)
    }
}

/// Those of the named fields that say something, as JSON text.
pub(crate) fn picked(from: &Value, names: &[&str]) -> Option<String> {
    let fields: Map<String, Value> = names
        .iter()
        .filter(|name| !from[**name].is_null())
        .map(|name| ((*name).to_owned(), from[*name].clone()))
        .collect();
    (!fields.is_empty()).then(|| Value::Object(fields).to_string())
}

/// Longest name of a kind of line that is passed on.
const NAME_BYTES: usize = 64;

/// A name from the agent's vocabulary, or nothing if it could be something else.
pub(crate) fn name(text: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    (!text.is_empty() && text.len() <= NAME_BYTES && text.bytes().all(plain)).then_some(text)
}

/// Words after which agents put the status of an HTTP answer.
const BEFORE_STATUS: [&str; 6] =
    ["\"code\":", "\"status\":", "statusCode\":", "status code ", "status ", "HTTP "];

/// Finds the HTTP status of a failed call in an agent's message, which itself is never passed on.
pub(crate) fn http_status(text: &str) -> Option<u16> {
    BEFORE_STATUS.iter().find_map(|before| {
        text.match_indices(before).find_map(|(at, _)| {
            let rest = text[at + before.len()..].trim_start();
            let digits = rest.get(..3)?;
            let alone = !rest[3..].starts_with(|c: char| c.is_ascii_digit());
            let status = digits.parse().ok().filter(|status| (400..600).contains(status))?;
            alone.then_some(status)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_where_agents_put_it() {
        assert_eq!(http_status(r#"{"error": {"code": 400, "status": "X"}}"#), Some(400));
        assert_eq!(http_status("unexpected status 401 Unauthorized: {}"), Some(401));
        assert_eq!(http_status("exceeded retry limit, last status: none"), None);
        assert_eq!(http_status("HTTP 5031"), None);
        assert_eq!(http_status("status €"), None);
        assert_eq!(http_status("status 2"), None);
    }

    #[test]
    fn a_name_is_a_name() {
        assert_eq!(name("api_retry"), Some("api_retry"));
        assert_eq!(name("sk-ant secret"), None);
        assert_eq!(name(&"a".repeat(65)), None);
    }
}
