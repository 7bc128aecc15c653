//! JSON to a tree. Where a value stands is known from where its text lies in the whole.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;

use crate::problem::{Problem, ProblemKind};
use crate::tree::{Data, Entry, Spot, Tree};
use crate::yaml::DEEPEST;

pub(crate) fn read(text: &str) -> Result<Tree, Problem> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
        let clip = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let place = Spot { line: clip(error.line()), column: clip(error.column()) };
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Problem::new(ProblemKind::Syntax, place, "", message)
    })?;
    let lines = text.match_indices('\n').map(|(at, _)| at + 1);
    let text = Text { text, lines: std::iter::once(0).chain(lines).collect() };
    text.tree(raw.get(), 0)
}

/// The whole text and where its lines begin.
struct Text<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

/// The entries of an object in their order, with the text of each value.
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Text<'a> {
    fn tree(&self, raw: &'a str, level: usize) -> Result<Tree, Problem> {
        let spot = self.spot(raw);
        let wrong = |message: String| Problem::new(ProblemKind::Syntax, spot, "", message);
        if level > DEEPEST {
            return Err(wrong(format!("more than {DEEPEST} levels deep")));
        }
        let unread = |error: serde_json::Error| wrong(error.to_string());
        let data = match raw.as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(raw).map_err(unread)?;
                Data::Map(self.entries(entries, level)?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(unread)?;
                let items = items.into_iter().map(|item| self.tree(item.get(), level + 1));
                Data::List(items.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Data::Text(serde_json::from_str(raw).map_err(unread)?),
            Some(b't' | b'f') => Data::Bool(raw == "true"),
            Some(b'n') => Data::Null,
            _ => {
                let number: Number = serde_json::from_str(raw).map_err(unread)?;
                Data::Number(number, raw.to_owned())
            }
        };
        Ok(Tree { spot, data })
    }

    fn entries(
        &self,
        entries: Vec<(Cow<'a, str>, &'a RawValue)>,
        level: usize,
    ) -> Result<Vec<Entry>, Problem> {
        let mut seen = BTreeSet::new();
        let mut read = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let value = self.tree(value.get(), level + 1)?;
            // A key with escapes was copied, and stands just before its value.
            let spot = match &key {
                Cow::Borrowed(key) => self.spot(key),
                Cow::Owned(_) => value.spot,
            };
            let key = key.into_owned();
            if !seen.insert(key.clone()) {
                let message = format!("the key {key:?} stands here twice");
                return Err(Problem::new(ProblemKind::Syntax, spot, "", message));
            }
            read.push(Entry { key, spot, value });
        }
        Ok(read)
    }

    fn spot(&self, part: &str) -> Spot {
        let at = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let line = self.lines.partition_point(|begin| *begin <= at).max(1) - 1;
        let begin = self.lines.get(line).copied().unwrap_or_default();
        let column = self.text.get(begin..at).map_or(0, |before| before.chars().count());
        let clip = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
        Spot { line: clip(line), column: clip(column) }
    }
}
