//! `core.flow.sort` and `core.openwop.data.array-sort`: stable, by one or more keys. Numbers come before texts, and
//! what has no key comes last whichever way is asked for.

use std::cmp::Ordering;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::{outputs, path};
use crate::bounds::weight;

struct Order<'a> {
    path: &'a str,
    is_falling: bool,
    is_natural: bool,
}

/// What an item is sorted by.
enum Key {
    Number(f64),
    /// As it is compared first, and as it stands.
    Text(String, String),
    Missing,
}

pub(super) fn sort(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let orders = orders(given)?;
    let items = given.list("array")?;
    let mut rows = Vec::with_capacity(items.len());
    let mut seen: u64 = 0;
    for item in items {
        let mut keys = Vec::with_capacity(orders.len());
        for order in &orders {
            let found = path::find(item, order.path);
            let bytes = found.map_or(EACH, weight);
            meter.look(2 * bytes as u64)?;
            seen += bytes as u64;
            keys.push(Key::of(found));
        }
        rows.push((keys, item));
    }
    let rounds = u64::from(items.len().max(1).ilog2()) + 1;
    meter.look(seen.saturating_mul(rounds))?;
    rows.sort_by(|(left, _), (right, _)| {
        let keys = orders.iter().zip(left.iter().zip(right));
        keys.map(|(order, (left, right))| order.compare(left, right))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    let sorted = rows.into_iter().map(|(_, item)| meter.copy(item));
    Ok(outputs([("array", sorted.collect::<Result<Vec<Value>, Failure>>()?.into())]))
}

fn orders<'a>(given: &Given<'a>) -> Result<Vec<Order<'a>>, Failure> {
    let keys = given.required_list("keys")?;
    if keys.is_empty() || keys.len() > 16 {
        return Err(invalid("config.keys must have 1 to 16 keys"));
    }
    let read = |key: &'a Value| {
        let word = |name: &str, usual: &'static str, other: &'static str| match key.get(name) {
            None => Ok(false),
            Some(said) if said == usual => Ok(false),
            Some(said) if said == other => Ok(true),
            Some(_) => Err(invalid(format!("a key's {name} must be {usual} or {other}"))),
        };
        let path = key.get("path").and_then(Value::as_str);
        Ok(Order {
            path: path.ok_or_else(|| invalid("each of config.keys must have a path"))?,
            is_falling: word("direction", "asc", "desc")?,
            is_natural: word("compare", "default", "natural")?,
        })
    };
    keys.iter().map(read).collect()
}

impl Key {
    fn of(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Missing,
            Some(Value::Number(number)) => number.as_f64().map_or(Self::Missing, Self::Number),
            Some(Value::String(text)) => Self::Text(text.to_lowercase(), text.clone()),
            Some(other) => Self::Text(other.to_string(), String::new()),
        }
    }
}

impl Order<'_> {
    fn compare(&self, left: &Key, right: &Key) -> Ordering {
        let rising = match (left, right) {
            (Key::Missing, Key::Missing) => return Ordering::Equal,
            (Key::Missing, _) => return Ordering::Greater,
            (_, Key::Missing) => return Ordering::Less,
            (Key::Number(left), Key::Number(right)) => left.total_cmp(right),
            (Key::Number(_), Key::Text(..)) => Ordering::Less,
            (Key::Text(..), Key::Number(_)) => Ordering::Greater,
            (Key::Text(left, exact_left), Key::Text(right, exact_right)) => {
                let first = if self.is_natural { natural(left, right) } else { left.cmp(right) };
                // As dictionaries do it: small letters before capitals where nothing else differs.
                first.then_with(|| exact_right.cmp(exact_left))
            }
        };
        if self.is_falling { rising.reverse() } else { rising }
    }
}

/// Digits count as the number that they stand for: `file9` before `file10`.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        let (a, b) = (left.chars().next(), right.chars().next());
        match (a, b) {
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let (first, rest_left) = digits(left);
                let (second, rest_right) = digits(right);
                let ordering = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
                if ordering.is_ne() {
                    return ordering;
                }
                (left, right) = (rest_left, rest_right);
            }
            (Some(a), Some(b)) if a == b => {
                (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
            }
            _ => return a.cmp(&b),
        }
    }
}

/// The digits that a text begins with, without leading zeros, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}
