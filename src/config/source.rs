//! The text of the file, read piece by piece, with errors that name file, line and key.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::CommandError;

/// Something in the file, with its place.
pub(super) type Value<'v> = Spanned<DeValue<'v>>;

/// At most so many letters differ in a slip of the finger; anything farther is another word.
const SIMILAR: usize = 3;

/// The text of a file, for errors that point into it.
pub(super) struct Source<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
}

impl Source<'_> {
    pub(super) fn section<'v, 'd>(
        &self,
        value: &'v Value<'d>,
        path: &str,
    ) -> Result<&'v DeTable<'d>, CommandError> {
        value.get_ref().as_table().ok_or_else(|| {
            self.wrong(value, path, "a section")
                .hint(format!("write it as a line [{path}] with keys below it"))
        })
    }

    pub(super) fn texts(&self, value: &Value<'_>, path: &str) -> Result<Vec<String>, CommandError> {
        match value.get_ref().as_array() {
            Some(items) => items.iter().map(|item| self.text(item, path)).collect(),
            None => Err(self.wrong(value, path, "a list of texts")),
        }
    }

    pub(super) fn text(&self, value: &Value<'_>, path: &str) -> Result<String, CommandError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong(value, path, "text"))
    }

    pub(super) fn switch(&self, value: &Value<'_>, path: &str) -> Result<bool, CommandError> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value, path, "true or false"))
    }

    /// A whole number that makes sense for its key.
    pub(super) fn whole(
        &self,
        value: &Value<'_>,
        path: &str,
        admitted: RangeInclusive<u64>,
    ) -> Result<u64, CommandError> {
        let Some(number) = value.get_ref().as_integer() else {
            return Err(self.wrong(value, path, "a whole number"));
        };
        // Separators are TOML's; the parser has checked where they stand.
        let read = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        read.filter(|read| admitted.contains(read)).ok_or_else(|| {
            let place = self.place(value.span().start);
            let wanted = match admitted.into_inner() {
                (least, u64::MAX) => format!("at least {least}"),
                (least, most) => format!("{least} to {most}"),
            };
            CommandError::usage(format!(
                "{place}: {path} must be {wanted}, not {}",
                number.as_str()
            ))
        })
    }

    /// A number that makes sense for its key, which `wanted` describes.
    pub(super) fn number<T>(
        &self,
        value: &Value<'_>,
        path: &str,
        wanted: &str,
        admit: impl FnOnce(f64) -> Option<T>,
    ) -> Result<T, CommandError> {
        let text = match value.get_ref() {
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(number) => number.as_str(),
            _ => return Err(self.wrong(value, path, "a number")),
        };
        text.replace('_', "").parse().ok().and_then(admit).ok_or_else(|| {
            let place = self.place(value.span().start);
            CommandError::usage(format!("{place}: {path} must be {wanted}, not {text}"))
        })
    }

    /// An amount of money, or a price.
    pub(super) fn dollars(&self, value: &Value<'_>, path: &str) -> Result<f64, CommandError> {
        let is_amount = |number: &f64| number.is_finite() && *number >= 0.0;
        self.number(value, path, "at least 0", |number| Some(number).filter(is_amount))
    }

    pub(super) fn wrong(&self, value: &Value<'_>, path: &str, wanted: &str) -> CommandError {
        let place = self.place(value.span().start);
        CommandError::usage(format!("{place}: {path} must be {wanted}, not {}", kind(value)))
    }

    pub(super) fn unknown(
        &self,
        offset: usize,
        path: &str,
        name: &str,
        known: &[&str],
    ) -> CommandError {
        let error = CommandError::usage(format!("{}: unknown key {path}", self.place(offset)));
        match nearest(name, known) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("known here: {}", known.join(", "))),
        }
    }

    pub(super) fn place(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        format!("{}:{}", self.file, before.matches('\n').count() + 1)
    }
}

/// Whether this can be the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_fine)
}

fn kind(value: &Value<'_>) -> String {
    match value.get_ref().type_str() {
        name @ ("integer" | "array") => format!("an {name}"),
        name => format!("a {name}"),
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
