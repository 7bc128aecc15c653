//! `core.openwop.data.string-regex-*`: regular expressions of the linear kind, so without look-around and
//! back-references.

use callboard_protocol::{Failure, Object};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::outputs;
use crate::expression::regex_work;
use crate::pattern;

/// A pattern with its flags, and what a search costs.
struct Pattern {
    regex: Regex,
    is_global: bool,
    /// Units for each byte of one search.
    per_byte: u64,
}

impl Pattern {
    fn read(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Self, Failure> {
        let source = given.required_text("pattern")?;
        let flags = given.configured_text("flags")?.unwrap_or_default();
        let mut ours = String::new();
        for flag in flags.chars() {
            match flag {
                'i' | 'm' | 's' => ours.push(flag),
                // Every match is asked for by the type; texts are Unicode.
                'g' | 'u' => {}
                _ => return Err(invalid("config.flags may have the letters i, m, s, g and u")),
            }
        }
        meter.look(regex_work(source, 0))?;
        let whole = if ours.is_empty() { source.to_owned() } else { format!("(?{ours}){source}") };
        let regex = pattern::compile(&whole).map_err(|why| {
            invalid(format!("config.pattern is no regular expression that runs here: {why}"))
        })?;
        let is_global = flags.contains('g');
        Ok(Self { regex, is_global, per_byte: pattern::units_per_byte(source) })
    }

    /// Counts one search of a whole text.
    fn first(&self, text: &str, meter: &mut Meter<'_>) -> Result<(), Failure> {
        meter.look(self.per_byte.saturating_mul(text.len() as u64))
    }

    /// Counts one more search in what is left of it, which may look as far as the end each time. Only a wide pattern
    /// takes more than a step for each byte then.
    fn next(&self, left: usize, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let width = (self.per_byte / 16).max(1);
        meter.look(64 + width.saturating_mul(left as u64 / 4))
    }
}

pub(super) fn find(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let pattern = Pattern::read(given, meter)?;
    let text = given.text("text")?;
    pattern.first(text, meter)?;
    Ok(match pattern.regex.captures(text) {
        None => outputs([
            ("matched", false.into()),
            ("match", Value::Null),
            ("groups", json!([])),
            ("named", json!({})),
        ]),
        Some(found) => outputs([
            ("matched", true.into()),
            ("match", found[0].into()),
            ("groups", groups(&found, meter)?),
            ("named", named(&pattern.regex, &found, meter)?),
        ]),
    })
}

pub(super) fn extract(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let pattern = Pattern::read(given, meter)?;
    let text = given.text("text")?;
    pattern.first(text, meter)?;
    let mut matches = Vec::new();
    let mut signs = Signs::default();
    for found in pattern.regex.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        pattern.next(text.len() - whole.start(), meter)?;
        meter.make(6 * EACH + whole.len())?;
        matches.push(json!({
            "match": whole.as_str(),
            "groups": groups(&found, meter)?,
            "named": named(&pattern.regex, &found, meter)?,
            "index": signs.before(text, whole.start()),
        }));
    }
    let count = matches.len();
    Ok(outputs([("matches", matches.into()), ("count", count.into())]))
}

/// The first match, or with the flag `g` every one.
pub(super) fn replace(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let pattern = Pattern::read(given, meter)?;
    let replacement = given.configured_text("replacement")?.unwrap_or_default();
    let text = given.text("text")?;
    pattern.first(text, meter)?;
    let mut replaced = String::new();
    let mut rest = 0;
    for found in pattern.regex.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        pattern.next(text.len() - whole.start(), meter)?;
        meter.push(&mut replaced, &text[rest..whole.start()])?;
        put(&mut replaced, replacement, &found, meter)?;
        rest = whole.end();
        if !pattern.is_global {
            break;
        }
    }
    meter.push(&mut replaced, &text[rest..])?;
    Ok(outputs([("text", replaced.into())]))
}

/// Writes a replacement: `$1`, `$&`, `$<name>` are what was found, `$$` is a dollar.
fn put(
    text: &mut String,
    replacement: &str,
    found: &Captures<'_>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let group = |found: Option<regex::Match<'_>>| found.map_or("", |it| it.as_str()).to_owned();
    let mut rest = replacement;
    while let Some(dollar) = rest.find('$') {
        meter.push(text, &rest[..dollar])?;
        let behind = &rest[dollar + 1..];
        let digits = behind.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let place = behind[..digits].parse::<usize>().ok().filter(|place| *place > 0);
        let name = behind.strip_prefix('<').and_then(|name| name.split_once('>'));
        rest = match (behind.as_bytes().first(), place, name) {
            (Some(b'$'), ..) => {
                meter.push(text, "$")?;
                &behind[1..]
            }
            (Some(b'&'), ..) => {
                meter.push(text, &found[0])?;
                &behind[1..]
            }
            (_, Some(place), _) => {
                meter.push(text, &group(found.get(place)))?;
                &behind[digits..]
            }
            (_, _, Some((name, rest))) => {
                meter.push(text, &group(found.name(name)))?;
                rest
            }
            _ => {
                meter.push(text, "$")?;
                behind
            }
        };
    }
    meter.push(text, rest)
}

fn groups(found: &Captures<'_>, meter: &mut Meter<'_>) -> Result<Value, Failure> {
    let group = |group: Option<regex::Match<'_>>| text_of(group, meter);
    found.iter().skip(1).map(group).collect::<Result<Vec<Value>, Failure>>().map(Value::Array)
}

fn named(regex: &Regex, found: &Captures<'_>, meter: &mut Meter<'_>) -> Result<Value, Failure> {
    let mut named = Object::new();
    for name in regex.capture_names().flatten() {
        meter.make(EACH + name.len())?;
        named.insert(name.to_owned(), text_of(found.name(name), meter)?);
    }
    Ok(Value::Object(named))
}

fn text_of(group: Option<regex::Match<'_>>, meter: &mut Meter<'_>) -> Result<Value, Failure> {
    meter.make(EACH + group.map_or(0, |group| group.len()))?;
    Ok(group.map_or(Value::Null, |group| group.as_str().into()))
}

/// Counts the signs before a place, each once: an index counts signs, not bytes.
#[derive(Default)]
struct Signs {
    counted: usize,
    bytes: usize,
}

impl Signs {
    fn before(&mut self, text: &str, place: usize) -> usize {
        self.counted += text[self.bytes..place].chars().count();
        self.bytes = place;
        self.counted
    }
}
