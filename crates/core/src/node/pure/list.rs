//! `core.flow.*` over one or two lists.

use std::collections::{BTreeMap, BTreeSet};

use callboard_protocol::{Failure, Object};
use serde_json::{Value, json};

use super::given::Given;
use super::meter::{EACH, Meter};
use super::number::number;
use super::{canonical, outputs, path};

/// The first of each; also `core.openwop.data.array-unique`.
pub(super) fn distinct(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.configured_text("path")?.unwrap_or_default();
    let items = given.list("array")?;
    let (mut seen, mut kept) = (BTreeSet::new(), Vec::new());
    for item in items {
        if seen.insert(key(item, place, items.len(), meter)?) {
            kept.push(meter.copy(item)?);
        }
    }
    let dropped = items.len() - kept.len();
    Ok(outputs([("array", kept.into()), ("dropped", dropped.into())]))
}

/// The text by which items are compared, with what finding it among `others` costs.
fn key(
    item: &Value,
    place: &str,
    others: usize,
    meter: &mut Meter<'_>,
) -> Result<Option<String>, Failure> {
    let Some(found) = path::find(item, place) else {
        meter.look(EACH as u64)?;
        return Ok(None);
    };
    let key = canonical(found, meter)?;
    let comparisons = u64::from(others.max(1).ilog2()) + 1;
    meter.look(comparisons * (EACH + key.len().min(64)) as u64)?;
    Ok(Some(key))
}

pub(super) fn limit(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let count = given.required_whole("count", 0)?;
    let offset = given.configured_whole("offset", 0)?.unwrap_or(0);
    let items = given.list("array")?;
    let rest = items.get(offset..).unwrap_or_default();
    let taken = meter.copy_all(&rest[..count.min(rest.len())])?;
    let count = taken.len();
    Ok(outputs([("array", taken.into()), ("count", count.into())]))
}

/// More items than this are for batches, or for a tool.
pub(crate) const MOST_ITEMS: usize = 100_000;

/// Each item with its index and the total.
pub(super) fn iterate(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let items = given.list("array")?;
    bound_items(items.len(), MOST_ITEMS)?;
    let total = items.len();
    let mut bundles = Vec::with_capacity(total);
    for (index, item) in items.iter().enumerate() {
        // An object with two numbers, and the names of its fields.
        meter.make(6 * EACH + "itemindextotal".len())?;
        bundles.push(json!({ "item": meter.copy(item)?, "index": index, "total": total }));
    }
    Ok(outputs([("items", bundles.into()), ("total", total.into())]))
}

/// Refuses a list that is too long to be gone through.
pub(crate) fn bound_items(given: usize, most: usize) -> Result<(), Failure> {
    if given <= most {
        return Ok(());
    }
    let message = format!(
        "the list has {given} items, and at most {most} are gone through: take fewer, for example with \
         core.flow.split-in-batches"
    );
    Err(Failure::new("too_many_items", message))
}

pub(super) fn batch(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let size = given.required_whole("batchSize", 1)?;
    let items = given.list("array")?;
    let (batch, remaining) = items.split_at(size.min(items.len()));
    let (length, left) = (batch.len(), remaining.len());
    Ok(outputs([
        ("batch", meter.copy_all(batch)?.into()),
        ("remaining", meter.copy_all(remaining)?.into()),
        ("done", (left == 0).into()),
        ("batchSize", length.into()),
        ("remainingCount", left.into()),
    ]))
}

pub(super) fn repeat(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let count = given.required_whole("count", 0)?;
    let start = given.configured_number("start")?.unwrap_or(0.0);
    let step = given.configured_number("step")?.unwrap_or(1.0);
    // An object with three numbers and their names.
    meter.make(count.saturating_mul(7 * EACH + "iindextotal".len()))?;
    let mut items = Vec::new();
    for index in 0..count {
        #[expect(clippy::cast_precision_loss, reason = "what fits into a run is far below 2^53")]
        let i = number(start + index as f64 * step)?;
        items.push(json!({ "i": i, "index": index, "total": count }));
    }
    Ok(outputs([("items", items.into()), ("count", count.into())]))
}

/// What two lists have in common by a key. Of several items with one key the last counts.
pub(super) fn compare(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let place = given.required_text("keyPath")?;
    let (left, right) = (given.list("left")?, given.list("right")?);
    let (before, order_before) = by_key(left, place, meter)?;
    let (after, order_after) = by_key(right, place, meter)?;
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    for key in order_after {
        let now = after[&key];
        let then = before.get(&key).copied();
        match then {
            None => added.push(meter.copy(now)?),
            Some(then) if canonical(then, meter)? == canonical(now, meter)? => {
                unchanged.push(meter.copy(now)?);
            }
            Some(then) => {
                meter.make(3 * EACH)?;
                changed.push(json!({ "before": meter.copy(then)?, "after": meter.copy(now)? }));
            }
        }
    }
    for key in order_before.into_iter().filter(|key| !after.contains_key(key)) {
        removed.push(meter.copy(before[&key])?);
    }
    Ok(outputs([
        ("addedIn2", added.into()),
        ("removedFrom1", removed.into()),
        ("changed", changed.into()),
        ("unchanged", unchanged.into()),
    ]))
}

type ByKey<'a> = BTreeMap<Option<String>, &'a Value>;

/// Items by their keys, and the keys in the order in which they came first.
fn by_key<'a>(
    items: &'a [Value],
    place: &str,
    meter: &mut Meter<'_>,
) -> Result<(ByKey<'a>, Vec<Option<String>>), Failure> {
    let (mut known, mut order) = (BTreeMap::new(), Vec::new());
    for item in items {
        let key = key(item, place, items.len(), meter)?;
        if known.insert(key.clone(), item).is_none() {
            order.push(key);
        }
    }
    Ok((known, order))
}
