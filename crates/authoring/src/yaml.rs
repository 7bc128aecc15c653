//! YAML to a tree, within limits: a stranger's anchors may not explode, and no key may stand twice.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Location, Spanned, from_str_with_options};

use crate::problem::{Problem, ProblemKind};
use crate::tree::{Data, Entry, Spot, Tree};

/// Levels of maps and lists. Definitions have eight or so; schemas in them a few more.
pub(crate) const DEEPEST: usize = 64;
/// Values of one document, those that aliases repeat included.
const MOST_NODES: usize = 200_000;
/// What aliases may repeat, all of them together.
const MOST_REPEATED: usize = 20_000;

pub(crate) fn read(text: &str) -> Result<Tree, Problem> {
    let mut budget = serde_saphyr::budget::Budget::default();
    budget.max_depth = DEEPEST;
    budget.max_nodes = MOST_NODES;
    budget.max_events = 4 * MOST_NODES;
    budget.max_aliases = 1_000;
    budget.max_anchors = 1_000;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = MOST_REPEATED;
    options.with_snippet = false;
    options.strict_booleans = true;
    let read: Spanned<Raw> =
        from_str_with_options(text, options).map_err(|error| syntax(text, &error))?;
    Ok(tree(text, read))
}

/// A value before its place is known.
enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Raw, E> {
        let number = Number::from_f64(number);
        number.map(Raw::Number).ok_or_else(|| E::custom("this number has no place in JSON"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}

fn tree(text: &str, Spanned { value, referenced, .. }: Spanned<Raw>) -> Tree {
    let data = match value {
        Raw::Null => Data::Null,
        Raw::Bool(flag) => Data::Bool(flag),
        Raw::Number(number) => {
            let written = written(text, referenced).unwrap_or_else(|| number.to_string());
            Data::Number(number, written)
        }
        Raw::Text(text) => Data::Text(text),
        Raw::List(items) => Data::List(items.into_iter().map(|item| tree(text, item)).collect()),
        Raw::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<Raw>)| Entry {
                spot: spot(key.referenced),
                key: key.value,
                value: tree(text, value),
            };
            Data::Map(entries.into_iter().map(entry).collect())
        }
    };
    Tree { spot: spot(referenced), data }
}

/// A number as it stands in the text; none where it is an alias.
fn written(text: &str, place: Location) -> Option<String> {
    let span = place.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let written = text.get(start..start.checked_add(length)?)?.trim();
    written.starts_with(|c: char| c.is_ascii_digit() || c == '-').then(|| written.to_owned())
}

fn spot(place: Location) -> Spot {
    let at_least_one = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    Spot { line: at_least_one(place.line()), column: at_least_one(place.column()) }
}

fn syntax(text: &str, error: &serde_saphyr::Error) -> Problem {
    let place = error.location().map_or(Spot::START, spot);
    let message = error.to_string();
    // Its own words end with the place, which stands before them here.
    let message = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
    let message = match message.strip_prefix("duplicate mapping key: ") {
        Some(key) => {
            let key = key.split(',').next().unwrap_or_default();
            format!("the key {key:?} stands here twice")
        }
        None if message.starts_with("multiple YAML documents") => {
            "another document begins here; a file holds one".to_owned()
        }
        None => message.to_owned(),
    };
    let problem = Problem::new(ProblemKind::Syntax, place, "", message);
    let line = text.lines().nth(place.line as usize - 1).unwrap_or_default();
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    if indent.contains('\t') {
        problem.hint("YAML is indented with spaces; this line begins with a tab")
    } else {
        problem
    }
}
