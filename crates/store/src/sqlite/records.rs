//! Records: a key, a version, a sealed body, values that they are found by, a time at which they are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use callboard_engine::{
    DueRecords, Expected, IndexEntry, Key, KeyMode, KeyOrder, Kind, Record, RecordChange,
    RecordQuery, RecordWrite, RunLink, Scope, Within,
};
use callboard_protocol::{Timestamp, Workspace};

use super::fault::Fault;
use super::rows::{execute, millis, optional_time, scope_params, signed, unsigned};
use crate::seal::Seal;
use crate::sealed::{SealedChange, open_blob, open_body};

const COLUMNS: &str = "SELECT records.id, records.key, records.tenant, records.test,
     records.workspace, records.version, records.due_at, records.body FROM records";

/// The kinds of which there ever was a record: what is asked of the others costs nothing.
#[derive(Debug, Default)]
pub(super) struct Kinds(AtomicU64);

impl Kinds {
    pub(super) fn read(db: &Connection) -> Result<Self, rusqlite::Error> {
        let kinds = Self::default();
        let mut exists = db.prepare("SELECT EXISTS (SELECT 1 FROM records WHERE kind = ?1)")?;
        for kind in Kind::ALL {
            let is_there: bool = exists.query_row([kind.as_str()], |row| row.get(0))?;
            // Definitions and queues of work write records outside a batch, so most kinds are always asked for.
            if is_there || !matches!(kind, Kind::File | Kind::Prompt) {
                kinds.add([*kind]);
            }
        }
        Ok(kinds)
    }

    pub(super) fn add(&self, kinds: impl IntoIterator<Item = Kind>) {
        let bits = kinds.into_iter().fold(0, |bits, kind| bits | bit(kind));
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.0.load(Ordering::Acquire) & bit(kind) != 0
    }
}

/// There are far fewer kinds than bits.
const fn bit(kind: Kind) -> u64 {
    1 << (kind as u32 % u64::BITS)
}

/// Refuses where an expectation does not hold, before anything is written.
pub(super) fn check(db: &Connection, changes: &[SealedChange]) -> Result<(), Fault> {
    let expecting = changes.iter().filter(|sealed| sealed.change.expected != Expected::Anything);
    for SealedChange { change, .. } in expecting {
        let version = standing(db, change)?.map(|(_, version)| version);
        if !change.expected.holds(version) {
            return Err(change.moved().into());
        }
    }
    Ok(())
}

pub(super) fn apply(db: &Connection, changes: &[SealedChange]) -> Result<(), Fault> {
    for SealedChange { change, body, blob } in changes {
        let (kind, key) = (change.kind.as_str(), change.key.as_str());
        match &change.write {
            RecordWrite::Nothing => {}
            RecordWrite::Delete => {
                let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2";
                execute(db, sql, params![kind, key])?;
            }
            RecordWrite::Put { place, due_at, indexed, run, .. } => {
                let body = body.as_deref().unwrap_or_default();
                let id = put(db, change, place, *due_at, body, run.as_ref())?;
                if let Some(blob) = blob {
                    let sql = "INSERT INTO record_blobs (record, bytes) VALUES (?1, ?2)
                         ON CONFLICT (record) DO UPDATE SET bytes = excluded.bytes";
                    execute(db, sql, params![id, blob])?;
                }
                for IndexEntry { name, value } in indexed {
                    let sql = "INSERT OR IGNORE INTO record_index (kind, name, value, key, record)
                         VALUES (?1, ?2, ?3, ?4, ?5)";
                    execute(db, sql, params![kind, name, value, key, id])?;
                }
            }
        }
    }
    Ok(())
}

/// Writes the row and takes its old index entries away; answers its id.
fn put(
    db: &Connection,
    change: &RecordChange,
    place: &Scope,
    due_at: Option<Timestamp>,
    body: &[u8],
    run: Option<&RunLink>,
) -> Result<i64, Fault> {
    let (tenant, test, workspace) = scope_params(place);
    let due_at = millis(due_at);
    let retains = run.is_some_and(|link| link.retains);
    let run = run.map(|link| link.run.as_str());
    if let Some((id, version)) = standing(db, change)? {
        execute(
            db,
            "UPDATE records SET tenant = ?2, test = ?3, workspace = ?4, version = ?5, due_at = ?6, body = ?7,
                 run = ?8, retains = ?9
             WHERE id = ?1",
            params![id, tenant, test, workspace, signed(version + 1), due_at, body, run, retains],
        )?;
        execute(db, "DELETE FROM record_index WHERE record = ?1", params![id])?;
        return Ok(id);
    }
    let (kind, key) = (change.kind.as_str(), change.key.as_str());
    execute(
        db,
        "INSERT INTO records (kind, key, tenant, test, workspace, version, due_at, body, run, retains)
         VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9)",
        params![kind, key, tenant, test, workspace, due_at, body, run, retains],
    )?;
    Ok(db.last_insert_rowid())
}

/// The id and the version of the record that a change is about.
fn standing(db: &Connection, change: &RecordChange) -> Result<Option<(i64, u64)>, Fault> {
    let mut select =
        db.prepare_cached("SELECT id, version FROM records WHERE kind = ?1 AND key = ?2")?;
    let mut rows = select.query(params![change.kind.as_str(), change.key.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((row.get(0)?, unsigned(row, 1)?)))
}

pub(super) fn get(
    db: &Connection,
    seal: &Seal,
    kind: Kind,
    key: &Key,
) -> Result<Option<Record>, Fault> {
    let sql = format!("{COLUMNS} WHERE kind = ?1 AND key = ?2");
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![kind.as_str(), key.as_str()])?;
    rows.next()?.map(|row| record(row, seal, kind)).transpose()
}

pub(super) fn blob(
    db: &Connection,
    seal: &Seal,
    kind: Kind,
    key: &Key,
) -> Result<Option<Arc<[u8]>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT record_blobs.bytes FROM records JOIN record_blobs ON record_blobs.record = records.id
         WHERE records.kind = ?1 AND records.key = ?2",
    )?;
    let mut rows = select.query(params![kind.as_str(), key.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(open_blob(seal, kind, key, row.get_ref(0)?.as_blob().unwrap_or_default())?))
}

pub(super) fn scan(
    db: &Connection,
    seal: &Seal,
    query: &RecordQuery,
) -> Result<Vec<Record>, Fault> {
    let (sql, values) = statement(query);
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(row, seal, query.kind)?);
    }
    Ok(records)
}

/// Each shape of a query is one statement, which the connection prepares once.
pub(super) fn statement(query: &RecordQuery) -> (String, Vec<Value>) {
    let kind = || Value::from(query.kind.as_str().to_owned());
    let mut sql = COLUMNS.to_owned();
    let mut values = Vec::new();
    // Where an index entry leads, its own key gives the order, so that a page reads no more than itself.
    let by = if let Some(IndexEntry { name, value }) = &query.index {
        sql.push_str(
            " JOIN record_index ON record_index.record = records.id
             WHERE record_index.kind = ? AND record_index.name = ? AND record_index.value = ?",
        );
        values.extend([kind(), (*name).to_owned().into(), value.clone().into()]);
        "record_index.key"
    } else {
        sql.push_str(" WHERE records.kind = ?");
        values.push(kind());
        "records.key"
    };
    within(&query.within, &mut sql, &mut values);
    if let Some(below) = &query.below {
        let (first, last) = below.bounds_below();
        sql.push_str(&format!(" AND {by} > ? AND {by} < ?"));
        values.extend([first.into(), last.into()]);
    }
    let (beyond, order) = match query.order {
        KeyOrder::Ascending => (">", "ASC"),
        KeyOrder::Descending => ("<", "DESC"),
    };
    if let Some(after) = &query.after {
        sql.push_str(&format!(" AND {by} {beyond} ?"));
        values.push(after.as_str().to_owned().into());
    }
    sql.push_str(&format!(" ORDER BY {by} {order} LIMIT ?"));
    values.push(signed(query.limit as u64).into());
    (sql, values)
}

fn within(within: &Within, sql: &mut String, values: &mut Vec<Value>) {
    let (tenant, mode, workspace) = match within {
        Within::Everywhere => return,
        Within::Realm(realm) => (&realm.tenant, realm.mode, None),
        Within::VisibleTo(scope) => (&scope.tenant, scope.mode, scope.workspace.as_ref().map(Some)),
        Within::Place(place) => (&place.tenant, place.mode, Some(place.workspace.as_ref())),
    };
    sql.push_str(" AND records.tenant = ? AND records.test = ?");
    values.extend([tenant.to_string().into(), i64::from(mode == KeyMode::Test).into()]);
    if let Some(workspace) = workspace {
        sql.push_str(" AND records.workspace IS ?");
        values.push(workspace.map(ToString::to_string).into());
    }
}

/// The queue of due records. However many wait, a look reads those that are due.
pub(super) fn due_statement() -> String {
    let due = "kind = ?1 AND due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3";
    [COLUMNS, " WHERE ", due].concat()
}

pub(super) const NEXT: &str =
    "SELECT min(due_at) FROM records WHERE kind = ?1 AND due_at IS NOT NULL AND due_at > ?2";

pub(super) fn due(
    db: &Connection,
    seal: &Seal,
    kind: Kind,
    at: Timestamp,
    most: usize,
) -> Result<DueRecords, Fault> {
    let mut select = db.prepare_cached(&due_statement())?;
    let mut rows = select.query(params![kind.as_str(), at.as_millis(), signed(most as u64)])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(row, seal, kind)?);
    }
    let mut select = db.prepare_cached(NEXT)?;
    let next: Option<Option<i64>> =
        select.query_row(params![kind.as_str(), at.as_millis()], |row| row.get(0)).optional()?;
    Ok(DueRecords { records, next: next.flatten().map(Timestamp::from_millis) })
}

fn record(row: &Row<'_>, seal: &Seal, kind: Kind) -> Result<Record, Fault> {
    let key: String = row.get(1)?;
    let sealed: Vec<u8> = row.get(7)?;
    let body = open_body(seal, kind, &key, &sealed);
    Ok(Record {
        kind,
        place: Scope {
            tenant: row.get::<_, String>(2)?.into(),
            workspace: row.get::<_, Option<String>>(4)?.map(Workspace::from),
            mode: KeyMode::of(row.get(3)?),
        },
        version: unsigned(row, 5)?,
        position: unsigned(row, 0)?,
        due_at: optional_time(row, 6)?,
        body,
        key: Key::stored(key),
    })
}
