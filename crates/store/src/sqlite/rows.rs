//! Columns as values and values as columns: conversions that several statements share.

use std::borrow::Cow;

use rusqlite::{Connection, Row, ToSql};
use serde_json::value::RawValue;

use callboard_core::Cause;
use callboard_engine::{KeyMode, Scope};
use callboard_protocol::{RunStatus, Timestamp};

use super::fault::Fault;
use super::short;
use crate::sealed::cause_of;

/// The condition that keeps a caller inside its scope; `scope_params` fills ?1 to ?3.
macro_rules! in_scope {
    () => {
        "runs.tenant = ?1 AND runs.test = ?2 AND (?3 IS NULL OR runs.workspace = ?3)"
    };
}
pub(super) use in_scope;

pub(super) fn scope_params(scope: &Scope) -> (&str, bool, Option<&str>) {
    let workspace = scope.workspace.as_ref().map(|workspace| workspace.as_str());
    (scope.tenant.as_str(), scope.mode == KeyMode::Test, workspace)
}

pub(super) fn status(row: &Row<'_>, column: usize) -> Result<RunStatus, Fault> {
    let name: String = row.get(column)?;
    RunStatus::from_name(&name)
        .ok_or_else(|| Fault::unreadable("the status of a run", format!("{name:?} is unknown")))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, Fault> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

pub(super) fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Fault> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|error| Fault::unreadable("a stored number", error))
}

/// JSON that may be stored in its short form.
pub(super) fn whole<'a>(
    row: &'a Row<'_>,
    column: usize,
    what: &str,
) -> Result<Cow<'a, str>, Fault> {
    let stored = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    short::whole(stored).map_err(|error| Fault::unreadable(what, error))
}

/// JSON that readers get as it stands.
pub(super) fn payload(row: &Row<'_>, column: usize) -> Result<String, Fault> {
    let text = whole(row, column, "the payload of an event")?.into_owned();
    serde_json::from_str::<&RawValue>(&text)
        .map_err(|error| Fault::unreadable("the payload of an event", error))?;
    Ok(text)
}

pub(super) fn cause(row: &Row<'_>, column: usize) -> Result<Option<Cause>, Fault> {
    let text: Option<String> = row.get(column)?;
    Ok(text.map(cause_of))
}

/// SQLite's integers are signed. A count beyond them is beyond everything stored as well.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_millis)
}

/// Executes a statement that is prepared once per connection; answers how many rows it changed.
pub(super) fn execute(
    db: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
) -> Result<usize, rusqlite::Error> {
    db.prepare_cached(sql)?.execute(params)
}

pub(super) fn mode(row: &Row<'_>, column: usize) -> Result<KeyMode, Fault> {
    Ok(KeyMode::of(row.get(column)?))
}
