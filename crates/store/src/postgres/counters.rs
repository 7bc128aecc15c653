//! Counters: sums that grow with a commit, by key and name.

use std::collections::BTreeMap;

use callboard_engine::{CounterChange, CounterQuery, Key};

use super::fault::Fault;
use super::rows::{limit, name, value};
use super::session::Session;
use super::text::stored;

/// How many rows a sum has at most.
pub(super) const SLOTS: u8 = 16;

pub(super) async fn add(
    session: &Session,
    slot: i16,
    changes: &[CounterChange],
) -> Result<(), Fault> {
    if changes.is_empty() {
        return Ok(());
    }
    // Each sum once, and all in one order, so that two who add do not wait for each other in a circle.
    let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for CounterChange { key, name, add } in changes {
        *sums.entry((key.as_str(), name)).or_default() += add;
    }
    let keys: Vec<_> = sums.keys().map(|(key, _)| stored(key)).collect();
    let names: Vec<&str> = sums.keys().map(|(_, name)| *name).collect();
    let values: Vec<f64> = sums.values().copied().collect();
    let sql = "INSERT INTO counters (key, name, slot, value)
         SELECT given.key, given.name, $1, given.value
         FROM unnest($2::text[], $3::text[], $4::double precision[]) AS given (key, name, value)
         ON CONFLICT (key, name, slot) DO UPDATE SET value = counters.value + excluded.value";
    session.execute(sql, &[&slot, &keys, &names, &values]).await?;
    Ok(())
}

/// One key, or a range of the primary key.
pub(super) async fn read(
    session: &Session,
    of: &CounterQuery,
) -> Result<Vec<(Key, String, f64)>, Fault> {
    let ((first, last), most, end) = match of {
        CounterQuery::Of(key) => ((key.to_string(), key.to_string()), i64::MAX, "<="),
        CounterQuery::Below { key, most } => (key.bounds_below(), limit(*most), "<"),
    };
    let sql = format!(
        "SELECT key, name, sum(value) FROM counters WHERE key >= $1 AND key {end} $2
         GROUP BY key, name ORDER BY key, name LIMIT $3"
    );
    let rows = session.rows(&sql, &[&stored(&first), &stored(&last), &most]).await?;
    let read =
        rows.iter().map(|row| Ok((Key::stored(name(row, 0)?), name(row, 1)?, value(row, 2)?)));
    read.collect()
}
