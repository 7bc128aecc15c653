//! Reading one run: decrypted for the fold, masked for everyone else.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_core::Entry;
use callboard_engine::{Found, Opened, Page, Recorded, Scope, Standing};
use callboard_protocol::{NodeId, RunId, RunStatus};

use super::fault::Fault;
use super::rows::{cause, in_scope, payload, scope_params, signed, status, time, unsigned, whole};
use crate::seal::Seal;
use crate::sealed::{SealedBirth, SealedEvent, open_birth, open_entry, unknown_run};

pub(super) fn open(db: &Connection, seal: &Seal, run: &RunId) -> Result<Option<Opened>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT runs.id, births.record, births.sealed_inputs, definitions.source, births.sealed_delivery
         FROM runs JOIN births ON births.run = runs.id JOIN definitions ON definitions.id = births.definition
         WHERE runs.run_id = ?1",
    )?;
    let mut rows = select.query([run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let record = whole(row, 1, "the birth of a run")?.into_owned();
    let sealed = SealedBirth { record, inputs: row.get(2)?, delivery: row.get(4)? };
    let birth = open_birth(seal, run, &sealed)?;
    let source: String = row.get(3)?;
    let entries = entries(db, seal, row.get(0)?, 0)?;
    Ok(Some(Opened { birth, definition: source.into(), entries }))
}

pub(super) fn statuses(db: &Connection, runs: &[RunId]) -> Result<Vec<Option<Standing>>, Fault> {
    let mut select = db.prepare_cached("SELECT status, epoch FROM runs WHERE run_id = ?1")?;
    let standing =
        |row: &Row<'_>| Ok(Standing { status: status(row, 0)?, epoch: unsigned(row, 1)? });
    let mut read = |run: &RunId| -> Result<Option<Standing>, Fault> {
        let mut rows = select.query([run.as_str()])?;
        rows.next()?.map(standing).transpose()
    };
    runs.iter().map(&mut read).collect()
}

pub(super) fn tail(
    db: &Connection,
    seal: &Seal,
    run: &RunId,
    version: u64,
) -> Result<Vec<Entry>, Fault> {
    let id: Option<i64> = db
        .prepare_cached("SELECT id FROM runs WHERE run_id = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()?;
    entries(db, seal, id.ok_or_else(|| unknown_run(run))?, version)
}

fn entries(db: &Connection, seal: &Seal, id: i64, from: u64) -> Result<Vec<Entry>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT sequence, at, kind, node, payload, sealed, cause FROM events
         WHERE run = ?1 AND sequence >= ?2 AND sequence < ?3 ORDER BY sequence",
    )?;
    let mut entries = Vec::new();
    for part in parts(db, id, signed(from))? {
        let mut rows = select.query(params![part.id, part.from, part.until])?;
        while let Some(row) = rows.next()? {
            entries.push(entry(row, seal, &part.run)?);
        }
    }
    Ok(entries)
}

/// A stretch of a log and the run that recorded it.
struct Part {
    pub(super) id: i64,
    run: RunId,
    from: i64,
    until: i64,
}

/// Where the events of a log from `from` on are: those before a fork are with its source.
fn parts(db: &Connection, id: i64, from: i64) -> Result<Vec<Part>, Fault> {
    let mut select =
        db.prepare_cached("SELECT run_id, prefix_of, prefix_length FROM runs WHERE id = ?1")?;
    let (mut next, mut until) = (Some(id), i64::MAX);
    let mut parts = Vec::new();
    while let Some(id) = next
        && until > from
    {
        let (run, source, begins): (String, Option<i64>, i64) =
            select.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        parts.push(Part { id, run: run.into(), from: begins.max(from), until });
        (next, until) = (source, begins);
    }
    parts.reverse();
    Ok(parts)
}

fn entry(row: &Row<'_>, seal: &Seal, run: &RunId) -> Result<Entry, Fault> {
    let event = SealedEvent {
        run,
        sequence: unsigned(row, 0)?,
        at: time(row, 1)?,
        kind: row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?,
        node: node(row, 3)?,
        payload: &whole(row, 4, "the payload of an event")?,
        sealed: row.get_ref(5)?.as_blob_or_null().map_err(rusqlite::Error::from)?,
        cause: cause(row, 6)?,
    };
    Ok(open_entry(seal, event)?)
}

fn node(row: &Row<'_>, column: usize) -> Result<Option<NodeId>, Fault> {
    Ok(row.get::<_, Option<String>>(column)?.map(NodeId::from))
}

/// How many events the run's log holds; none for a run that does not exist yet.
pub(super) fn version(db: &Connection, run: &RunId) -> Result<u64, Fault> {
    let mut select = db.prepare_cached("SELECT version FROM runs WHERE run_id = ?1")?;
    let mut rows = select.query([run.as_str()])?;
    rows.next()?.map_or(Ok(0), |row| unsigned(row, 0))
}

pub(super) fn find(db: &Connection, scope: &Scope, run: &RunId) -> Result<Option<Found>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(concat!(
        "SELECT runs.status, runs.version, runs.engine_version, snapshots.body, births.record
         FROM runs JOIN births ON births.run = runs.id LEFT JOIN snapshots ON snapshots.run = runs.id AND snapshots.version = runs.version
         WHERE runs.run_id = ?4 AND ",
        in_scope!(),
    ))?;
    let mut rows = select.query(params![tenant, test, workspace, run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let born = serde_json::from_str(&whole(row, 4, "the birth of a run")?);
    let born = born.map_err(|error| Fault::unreadable(format!("the birth of {run}"), &error))?;
    Ok(Some(Found {
        status: status(row, 0)?,
        version: unsigned(row, 1)?,
        engine_version: row.get(2)?,
        born,
        snapshot: snapshot(row, 3)?,
    }))
}

fn snapshot(row: &Row<'_>, column: usize) -> Result<Option<String>, Fault> {
    if row.get_ref(column)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(whole(row, column, "the fold of a run")?.into_owned()))
}

pub(super) fn page(
    db: &Connection,
    scope: &Scope,
    run: &RunId,
    from: u64,
    limit: usize,
) -> Result<Option<Page>, Fault> {
    let Some(visible) = visible(db, scope, run)? else { return Ok(None) };
    let mut select = db.prepare_cached(
        "SELECT sequence, at, kind, node, payload, cause FROM events
         WHERE run = ?1 AND sequence >= ?2 AND sequence < ?3 ORDER BY sequence LIMIT ?4",
    )?;
    let mut events = Vec::new();
    for part in parts(db, visible.id, signed(from))? {
        let left = signed((limit - events.len()) as u64);
        let mut rows = select.query(params![part.id, part.from, part.until, left])?;
        while let Some(row) = rows.next()? {
            events.push(Recorded {
                run: run.clone(),
                sequence: unsigned(row, 0)?,
                at: time(row, 1)?,
                kind: row.get(2)?,
                node: node(row, 3)?,
                payload: payload(row, 4)?,
                engine_version: visible.engine_version,
                cause: cause(row, 5)?,
            });
        }
    }
    Ok(Some(Page { status: visible.status, version: visible.version, events }))
}

/// What a reader of events must know of their run.
pub(super) struct Visible {
    /// The run's key in the other tables.
    pub(super) id: i64,
    status: RunStatus,
    version: u64,
    /// What its events are stamped with.
    engine_version: u32,
}

pub(super) fn visible(
    db: &Connection,
    scope: &Scope,
    run: &RunId,
) -> Result<Option<Visible>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(concat!(
        "SELECT runs.status, runs.version, runs.id, runs.stamped_version FROM runs WHERE runs.run_id = ?4 AND ",
        in_scope!(),
    ))?;
    let mut rows = select.query(params![tenant, test, workspace, run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Visible {
        status: status(row, 0)?,
        version: unsigned(row, 1)?,
        id: row.get(2)?,
        engine_version: row.get(3)?,
    }))
}

/// What SQLite finds wrong with the file.
pub(super) fn check(db: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let mut check = db.prepare("PRAGMA quick_check")?;
    let lines =
        check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
