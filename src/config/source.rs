//! The text of the file, read piece by piece, with errors that name file, line and key.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::CommandError;

/// Something in the file, with its place.
pub(super) type Value<'v> = Spanned<DeValue<'v>>;

/// A closer name than this is a slip of the finger; anything farther is another word.
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
            let (least, most) = admitted.into_inner();
            let what =
                format!("{place}: {path} must be {least} to {most}, not {}", number.as_str());
            CommandError::usage(what)
        })
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
