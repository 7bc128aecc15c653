//! The published node types that are functions of their configuration and inputs alone. Each looks at a bounded
//! number of values and makes a bounded number of bytes, which it pays for before it makes them.

mod aggregate;
mod array;
mod branch;
mod crypto;
mod csv;
mod datetime;
mod given;
mod group;
mod json;
mod json_path;
mod list;
mod merge;
mod meter;
mod mime;
mod number;
mod object;
mod order;
mod path;
mod predicate;
mod regex_text;
mod stop;
mod template;
mod text;

use callboard_protocol::{Failure, Object};
use serde_json::Value;

pub(crate) use crypto::{sign, verify};
pub(crate) use datetime::read_time;
pub(crate) use given::{Given, wrong_kind};
pub(crate) use list::{MOST_ITEMS, bound_items};
pub(crate) use meter::Meter;

use crate::bounds::weight_of;

type Compute = fn(&Given<'_>, &mut Meter<'_>) -> Result<Object, Failure>;

/// How long computing takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Looks at what it is given a few times, as nodes do that pass it on.
    Short,
    /// Compares, sorts, matches or makes more than it is given.
    Long,
}

/// One of the types below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PureNode(usize);

/// Sorted by type id.
static PURE: &[(&str, Pace, Compute)] = &[
    ("core.crypto.hash", Pace::Long, crypto::hash),
    ("core.crypto.hmac-sign", Pace::Long, crypto::hmac_sign),
    ("core.crypto.hmac-verify", Pace::Long, crypto::hmac_verify),
    ("core.files.detect-mime", Pace::Short, mime::detect),
    ("core.files.from-base64", Pace::Short, text::from_base64),
    ("core.files.to-base64", Pace::Short, text::to_base64),
    ("core.flow.aggregate-array", Pace::Short, aggregate::array),
    ("core.flow.aggregate-numeric", Pace::Short, aggregate::numeric),
    ("core.flow.aggregate-table", Pace::Long, aggregate::table),
    ("core.flow.aggregate-text", Pace::Long, aggregate::text),
    ("core.flow.compare-datasets", Pace::Long, list::compare),
    ("core.flow.distinct", Pace::Long, list::distinct),
    ("core.flow.error-handler-break", Pace::Short, stop::break_off),
    ("core.flow.error-handler-commit", Pace::Short, stop::break_off),
    ("core.flow.error-handler-ignore", Pace::Short, stop::ignore),
    ("core.flow.error-handler-resume", Pace::Short, stop::resume),
    ("core.flow.filter", Pace::Short, branch::filter),
    ("core.flow.if", Pace::Short, branch::two_ways),
    ("core.flow.iterator", Pace::Short, list::iterate),
    ("core.flow.limit", Pace::Short, list::limit),
    ("core.flow.merge", Pace::Long, merge::merge),
    ("core.flow.noop", Pace::Short, branch::pass),
    ("core.flow.repeater", Pace::Long, list::repeat),
    ("core.flow.router", Pace::Short, branch::router),
    ("core.flow.sort", Pace::Long, order::sort),
    ("core.flow.split-in-batches", Pace::Short, list::batch),
    ("core.flow.stop-and-error", Pace::Short, stop::stop),
    ("core.flow.switch", Pace::Short, branch::switch),
    ("core.openwop.data.array-chunk", Pace::Short, array::chunk),
    ("core.openwop.data.array-filter", Pace::Long, array::filter),
    ("core.openwop.data.array-flatten", Pace::Short, array::flatten),
    ("core.openwop.data.array-group-by", Pace::Long, group::group_by),
    ("core.openwop.data.array-map", Pace::Long, array::map),
    ("core.openwop.data.array-reduce", Pace::Long, array::reduce),
    ("core.openwop.data.array-sort", Pace::Long, order::sort),
    ("core.openwop.data.array-unique", Pace::Long, list::distinct),
    ("core.openwop.data.array-zip", Pace::Long, array::zip),
    ("core.openwop.data.csv-parse", Pace::Long, csv::parse),
    ("core.openwop.data.csv-stringify", Pace::Long, csv::stringify),
    ("core.openwop.data.datetime-add", Pace::Short, datetime::add),
    ("core.openwop.data.datetime-diff", Pace::Short, datetime::difference),
    ("core.openwop.data.datetime-format", Pace::Short, datetime::format),
    ("core.openwop.data.datetime-now", Pace::Short, datetime::now),
    ("core.openwop.data.datetime-parse", Pace::Short, datetime::parse),
    ("core.openwop.data.datetime-timezone", Pace::Short, datetime::in_timezone),
    ("core.openwop.data.json-parse", Pace::Long, json::parse),
    ("core.openwop.data.json-schema-validate", Pace::Long, json::validate),
    ("core.openwop.data.json-stringify", Pace::Long, json::stringify),
    ("core.openwop.data.jsonpath-query", Pace::Long, json_path::query),
    ("core.openwop.data.number-clamp", Pace::Short, number::clamp),
    ("core.openwop.data.number-format", Pace::Short, number::format),
    ("core.openwop.data.number-round", Pace::Short, number::round),
    ("core.openwop.data.object-get-path", Pace::Short, object::get_path),
    ("core.openwop.data.object-merge", Pace::Short, object::merge),
    ("core.openwop.data.object-omit", Pace::Long, object::omit),
    ("core.openwop.data.object-pick", Pace::Long, object::pick),
    ("core.openwop.data.object-rename-keys", Pace::Long, object::rename),
    ("core.openwop.data.object-set-path", Pace::Short, object::set_path),
    ("core.openwop.data.string-case", Pace::Short, text::case),
    ("core.openwop.data.string-encode", Pace::Short, text::encode),
    ("core.openwop.data.string-format", Pace::Long, text::format),
    ("core.openwop.data.string-regex-extract", Pace::Long, regex_text::extract),
    ("core.openwop.data.string-regex-match", Pace::Long, regex_text::find),
    ("core.openwop.data.string-regex-replace", Pace::Long, regex_text::replace),
    ("core.openwop.data.string-split", Pace::Long, text::split),
    ("core.openwop.data.uuid", Pace::Short, number::uuid),
];

impl PureNode {
    pub(crate) fn find(type_id: &str) -> Option<Self> {
        PURE.binary_search_by_key(&type_id, |(id, _, _)| id).ok().map(Self)
    }

    /// All type ids, for the checks of the table that people read.
    #[cfg(test)]
    pub(super) fn type_ids() -> impl Iterator<Item = &'static str> {
        PURE.iter().map(|(id, _, _)| *id)
    }

    /// What a node of this type comes to.
    pub(crate) fn compute(
        self,
        given: &Given<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<Object, Failure> {
        let (_, _, compute) = PURE[self.0];
        meter.look(weight_of(given.inputs) as u64)?;
        compute(given, meter)
    }

    /// Whether computing is over as soon as passing its inputs on would be.
    pub(crate) fn is_short(self, config: &Object) -> bool {
        PURE[self.0].1 == Pace::Short && !config.values().any(names_regex)
    }
}

/// Whether a predicate, or one of several, is a regular expression.
fn names_regex(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("op").is_some_and(|op| op == "regex") || fields.values().any(names_regex)
        }
        Value::Array(items) => items.iter().any(names_regex),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Outputs in the order in which they are listed.
fn outputs<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The text by which two values are the same: keys sorted, numbers as `ECMAScript` writes them.
fn canonical(value: &Value, meter: &mut Meter<'_>) -> Result<String, Failure> {
    meter.look(2 * crate::bounds::weight(value) as u64)?;
    Ok(serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| value.to_string()))
}

#[cfg(test)]
mod tests;
