//! Errors of the file as an operator reads them: file, line, key, what is wrong, and what to do.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::CommandError;

/// Something in the file, with its place.
type Value<'v> = Spanned<DeValue<'v>>;

/// At most so many letters differ in a slip of the finger; anything farther is another word.
const SIMILAR: usize = 3;

/// What is wrong with a part of the file. Our own messages go on after the name of the key ("needs a kind"), or name a
/// key of the section in backticks first; a hint may follow on a second line.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        Self { span: error.span().unwrap_or_default(), message: error.message().to_owned() }
    }
}

/// A key (`field`) or a word (`variant`) that is not among those that are known, as serde says it.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    format!("unknown {what} `{name}`, expected one of `{}`", known.join("`, `"))
}

/// The text of a file, for errors that point into it.
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    pub(super) fn explain(&self, fault: &Fault) -> CommandError {
        let (message, hint) = fault.message.split_once('\n').unwrap_or((&fault.message, ""));
        let table = DeTable::parse(self.text).ok();
        let found = table.as_ref().and_then(|table| find(table.get_ref(), &fault.span, ""));
        let Some(found) = found else {
            return self.error(fault.span.start, message, hint);
        };
        let mut quoted = message.split('`').skip(1).step_by(2);
        let name = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let Found { path, offset, value } = found.below(name).unwrap_or(found);
        // How toml hands over dates, which are no sections.
        let is_date = name.starts_with('$');
        let (what, usual_hint) = match message.rsplit_once(", expected ") {
            Some((_, _)) if is_date => self.mismatch("", "struct", &path, value),
            Some((start, _)) if start.starts_with("unknown field") => {
                (format!("unknown key {path}"), suggestion(name, &known))
            }
            // What is no word of the list may be a secret at the wrong place, and is not repeated.
            Some((start, _)) if start.starts_with("unknown variant") => {
                (format!("{path} is unknown"), suggestion(name, &known))
            }
            Some((start, wanted)) => self.mismatch(start, wanted, &path, value),
            None if message == "wanted string or table" => {
                self.mismatch("", "a string", &path, value)
            }
            None if message.ends_with("overflowed") => {
                (format!("{path} is too large"), String::new())
            }
            None => {
                let quoted = format!("`{name}` ");
                let message = message.strip_prefix(&quoted).unwrap_or(message);
                (format!("{path} {message}"), String::new())
            }
        };
        self.error(offset, &what, if hint.is_empty() { &usual_hint } else { hint })
    }

    /// Something else is needed here: what, and how to write it where that is not plain.
    fn mismatch(
        &self,
        start: &str,
        wanted: &str,
        path: &str,
        value: &Value<'_>,
    ) -> (String, String) {
        let wanted = match wanted {
            "i128" => "a whole number",
            "f64" => "a number",
            "a boolean" => "true or false",
            "a string" => "text",
            "a sequence" => "a list",
            other if other == "a map" || other.starts_with("struct") => "a section",
            other => other,
        };
        let hint = match wanted {
            "a list" => "write it in brackets: [ … ]".to_owned(),
            "a section" => format!("write it as a line [{path}] with keys below it"),
            _ => String::new(),
        };
        let is_number = value.get_ref().is_integer() || value.get_ref().is_float();
        let not = match value.get_ref().type_str() {
            _ if is_number && start.starts_with("invalid value") => {
                self.text.get(value.span()).unwrap_or_default().to_owned()
            }
            name @ ("integer" | "array") => format!("an {name}"),
            name => format!("a {name}"),
        };
        (format!("{path} must be {wanted}, not {not}"), hint)
    }

    fn error(&self, offset: usize, what: &str, hint: &str) -> CommandError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let error = CommandError::usage(format!("{}:{line}: {what}", self.file));
        if hint.is_empty() { error } else { error.hint(hint) }
    }
}

/// What an error is about.
struct Found<'v, 'd> {
    path: String,
    offset: usize,
    value: &'v Value<'d>,
}

impl<'v, 'd> Found<'v, 'd> {
    fn below(&self, name: &str) -> Option<Self> {
        let (key, value) = self.value.get_ref().as_table()?.get_key_value(name)?;
        Some(Found { path: join(&self.path, name), offset: key.span().start, value })
    }
}

/// The key, or its value, at this position in the file.
fn find<'v, 'd>(table: &'v DeTable<'d>, span: &Range<usize>, path: &str) -> Option<Found<'v, 'd>> {
    table.iter().find_map(|(key, value)| {
        let path = join(path, key.get_ref());
        if key.span() == *span {
            return Some(Found { path, offset: span.start, value });
        }
        find_in(value, span, &path)
    })
}

fn find_in<'v, 'd>(value: &'v Value<'d>, span: &Range<usize>, path: &str) -> Option<Found<'v, 'd>> {
    if value.span() == *span {
        return Some(Found { path: path.to_owned(), offset: span.start, value });
    }
    match value.get_ref() {
        DeValue::Table(table) => find(table, span, path),
        DeValue::Array(items) => items.iter().find_map(|item| find_in(item, span, path)),
        _ => None,
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = if key.chars().all(is_bare) { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        _ if name == "api_key" => {
            "keys do not belong in this file; name the variable that holds it: api_key_env = \"ACME_API_KEY\""
                .to_owned()
        }
        Some(near) => format!("did you mean {near}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let ranked = known.iter().map(|candidate| (distance(name, candidate), *candidate));
    ranked.min().filter(|(distance, _)| *distance <= SIMILAR).map(|(_, candidate)| candidate)
}

/// Levenshtein: how many letters must change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let swap = row[j] + usize::from(left != *right);
            next.push(swap.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}
