//! Records: a key, a version, a sealed body, values that they are found by, a time at which they are due.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio_postgres::Row;

use callboard_engine::{
    DueRecords, Expected, IndexEntry, Key, KeyOrder, Kind, Record, RecordQuery, RecordWrite,
    RunLink, Scope,
};
use callboard_protocol::Timestamp;

use super::fault::Fault;
use super::gather::Question;
use super::latch;
use super::rows::{Statement, is_test, limit, millis, name, optional_time, place, unsigned, value};
use super::session::Session;
use super::text::stored;
use crate::seal::Seal;
use crate::sealed::{SealedChange, open_blob, open_body};

const COLUMNS: &str =
    "SELECT records.id, records.key, records.tenant, records.test, records.workspace,
     records.version, records.due_at, records.body FROM records";

/// Refuses where an expectation does not hold, before anything is written, and keeps what is there as it is until the
/// commit. What must not be there is kept out by its name.
pub(super) async fn check(session: &Session, changes: &[SealedChange]) -> Result<(), Fault> {
    let expecting: Vec<&SealedChange> =
        changes.iter().filter(|sealed| sealed.change.expected != Expected::Anything).collect();
    if expecting.is_empty() {
        return Ok(());
    }
    let standing = standing(session, &expecting).await?;
    for SealedChange { change, .. } in &expecting {
        let found = standing.get(&(change.kind.as_str().to_owned(), change.key.to_string()));
        if !change.expected.holds(found.copied()) {
            return Err(change.moved().into());
        }
    }
    for SealedChange { change, .. } in &expecting {
        if change.expected == Expected::Absent && matches!(change.write, RecordWrite::Nothing) {
            keep_out(session, change.kind, &change.key).await?;
        }
    }
    Ok(())
}

/// The versions of the records that changes are about, locked in the order of their names.
async fn standing(
    session: &Session,
    changes: &[&SealedChange],
) -> Result<HashMap<(String, String), u64>, Fault> {
    let kinds: Vec<&str> = changes.iter().map(|sealed| sealed.change.kind.as_str()).collect();
    let keys: Vec<Cow<'_, str>> =
        changes.iter().map(|sealed| stored(sealed.change.key.as_str())).collect();
    let sql = "SELECT kind, key, version FROM records
         WHERE (kind, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))
         ORDER BY kind, key FOR UPDATE";
    let rows = session.rows(sql, &[&kinds, &keys]).await?;
    let named = rows.iter().map(|row| Ok(((value(row, 0)?, name(row, 1)?), unsigned(row, 2)?)));
    named.collect()
}

/// Takes the name of a record that must not be there, and gives it back with the commit.
async fn keep_out(session: &Session, kind: Kind, key: &Key) -> Result<(), Fault> {
    let sql = "WITH taken AS (INSERT INTO records (kind, key, tenant, test, version, body, retains)
             VALUES ($1, $2, '', false, 0, '', false) RETURNING id)
         SELECT id FROM taken";
    let (kind, key) = (kind.as_str(), stored(key.as_str()));
    session.rows(sql, &[&kind, &&*key]).await?;
    session.execute("DELETE FROM records WHERE kind = $1 AND key = $2", &[&kind, &&*key]).await?;
    Ok(())
}

/// The error of a batch whose record was written by somebody else between the comparison and the write.
pub(super) fn refusal(fault: Fault, changes: &[SealedChange]) -> Fault {
    let moved = match fault.taken() {
        Some(("records_key", detail)) => {
            let is_named = |sealed: &&SealedChange| {
                let (kind, key) = (sealed.change.kind.as_str(), sealed.change.key.as_str());
                detail.contains(&format!("=({kind}, {})", stored(key)))
            };
            changes.iter().find(is_named).or(changes.first()).map(|sealed| sealed.change.moved())
        }
        _ => None,
    };
    moved.map_or(fault, Fault::Store)
}

pub(super) async fn apply(session: &Session, changes: &[SealedChange]) -> Result<(), Fault> {
    hold_order(session, changes).await?;
    for SealedChange { change, body, blob } in changes {
        let (kind, key) = (change.kind.as_str(), stored(change.key.as_str()));
        match &change.write {
            RecordWrite::Nothing => {}
            RecordWrite::Delete => {
                let sql =
                    "WITH gone AS (DELETE FROM records WHERE kind = $1 AND key = $2 RETURNING id),
                     unindexed AS (DELETE FROM record_index USING gone WHERE record = gone.id)
                     DELETE FROM record_blobs USING gone WHERE record = gone.id";
                session.execute(sql, &[&kind, &&*key]).await?;
            }
            RecordWrite::Put { place, due_at, indexed, run, .. } => {
                let put = Put {
                    place,
                    due_at: *due_at,
                    indexed,
                    run: run.as_ref(),
                    body: body.as_deref().unwrap_or_default(),
                    blob: blob.as_deref(),
                };
                put.write(session, kind, &key, change.expected).await?;
            }
        }
    }
    Ok(())
}

/// A reservation counts for those behind it: who is before whom must be the order of commits, in one realm.
async fn hold_order(session: &Session, changes: &[SealedChange]) -> Result<(), Fault> {
    let mut realms: BTreeSet<(&str, bool)> = BTreeSet::new();
    for SealedChange { change, .. } in changes {
        if let (Kind::Reservation, RecordWrite::Put { place, .. }) = (change.kind, &change.write) {
            realms.insert((place.tenant.as_str(), is_test(place.mode)));
        }
    }
    for (tenant, test) in realms {
        let mode = if test { "test" } else { "live" };
        latch::hold(session, &["reservations", tenant, mode]).await?;
    }
    Ok(())
}

/// A record as it is written.
struct Put<'a> {
    place: &'a Scope,
    due_at: Option<Timestamp>,
    indexed: &'a [IndexEntry],
    run: Option<&'a RunLink>,
    body: &'a [u8],
    blob: Option<&'a [u8]>,
}

impl Put<'_> {
    async fn write(
        &self,
        session: &Session,
        kind: &str,
        key: &str,
        expected: Expected,
    ) -> Result<(), Fault> {
        // Whoever expects none there gets the name that is taken as an error.
        let or_else = match expected {
            Expected::Absent => "",
            Expected::Anything | Expected::Present | Expected::Version(_) => {
                "ON CONFLICT (kind, key) DO UPDATE SET tenant = excluded.tenant, test = excluded.test,
                     workspace = excluded.workspace, version = records.version + 1, due_at = excluded.due_at,
                     body = excluded.body, run = excluded.run, retains = excluded.retains"
            }
        };
        let sql = format!(
            "WITH put AS (
                 INSERT INTO records (kind, key, tenant, test, workspace, version, due_at, body, run, retains)
                 VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9) {or_else} RETURNING id),
             entries AS MATERIALIZED (
                 SELECT DISTINCT * FROM unnest($10::text[], $11::text[]) AS entries (name, value)),
             gone AS (
                 DELETE FROM record_index USING put WHERE record = put.id AND NOT EXISTS (
                     SELECT 1 FROM entries
                     WHERE entries.name = record_index.name AND entries.value = record_index.value)),
             found_by AS (
                 INSERT INTO record_index (kind, name, value, key, record)
                 SELECT $1, entries.name, entries.value, $2, put.id FROM put, entries
                 ON CONFLICT DO NOTHING)
             INSERT INTO record_blobs (record, bytes) SELECT put.id, $12 FROM put WHERE $12::bytea IS NOT NULL
             ON CONFLICT (record) DO UPDATE SET bytes = excluded.bytes"
        );
        let workspace = self.place.workspace.as_ref().map(|workspace| stored(workspace.as_str()));
        let run = self.run.map(|link| stored(link.run.as_str()));
        let names: Vec<&str> = self.indexed.iter().map(|entry| entry.name).collect();
        let values: Vec<Cow<'_, str>> = self.indexed.iter().map(|it| stored(&it.value)).collect();
        session
            .execute(
                &sql,
                &[
                    &kind,
                    &key,
                    &stored(self.place.tenant.as_str()),
                    &is_test(self.place.mode),
                    &workspace,
                    &millis(self.due_at),
                    &self.body,
                    &run,
                    &self.run.is_some_and(|link| link.retains),
                    &names,
                    &values,
                    &self.blob,
                ],
            )
            .await?;
        Ok(())
    }
}

/// One record, by its name.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

impl Question for Named {
    type Answer = Option<Record>;
    const MOST: usize = 64;

    async fn read(
        session: &Session,
        seal: &Seal,
        questions: &[Self],
    ) -> Result<Vec<Result<Option<Record>, Fault>>, Fault> {
        let kinds: Vec<&str> = questions.iter().map(|named| named.kind.as_str()).collect();
        let keys: Vec<_> = questions.iter().map(|named| stored(named.key.as_str())).collect();
        let mut found: Vec<_> = questions.iter().map(|_| Ok(None)).collect();
        for row in session.rows(&named_sql(), &[&kinds, &keys]).await? {
            let place = usize::try_from(value::<i64>(&row, 8)? - 1).unwrap_or(usize::MAX);
            if let (Some(named), Some(found)) = (questions.get(place), found.get_mut(place)) {
                *found = record(&row, seal, named.kind).map(Some);
            }
        }
        Ok(found)
    }
}

fn named_sql() -> String {
    format!(
        "{COLUMNS} JOIN unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (kind, key, n)
             ON records.kind = given.kind AND records.key = given.key"
    )
    .replacen(" FROM records", ", given.n FROM records", 1)
}

pub(super) async fn blob(
    session: &Session,
    seal: &Seal,
    kind: Kind,
    key: &Key,
) -> Result<Option<Arc<[u8]>>, Fault> {
    let sql = "SELECT record_blobs.bytes FROM records JOIN record_blobs ON record_blobs.record = records.id
         WHERE records.kind = $1 AND records.key = $2";
    let found = session.row(sql, &[&kind.as_str(), &stored(key.as_str())]).await?;
    let Some(row) = found else { return Ok(None) };
    let sealed: Vec<u8> = value(&row, 0)?;
    Ok(Some(open_blob(seal, kind, key, &sealed)?))
}

pub(super) async fn scan(
    session: &Session,
    seal: &Seal,
    query: &RecordQuery,
) -> Result<Vec<Record>, Fault> {
    let rows = statement(query).rows(session).await?;
    rows.iter().map(|row| record(row, seal, query.kind)).collect()
}

/// Where an index entry leads, its own key gives the order, so that a page reads no more than itself.
pub(super) fn statement(query: &RecordQuery) -> Statement {
    let mut statement = Statement::default();
    statement.push(COLUMNS);
    let by = match &query.index {
        Some(IndexEntry { name, value }) => {
            statement.push(" JOIN record_index ON record_index.record = records.id WHERE ");
            statement.bind("record_index.kind = ", query.kind.as_str());
            statement.bind(" AND record_index.name = ", *name);
            statement.bind_name(" AND record_index.value = ", value);
            "record_index.key"
        }
        None => {
            statement.bind(" WHERE records.kind = ", query.kind.as_str());
            "records.key"
        }
    };
    statement.push(" AND ");
    statement.within("records", &query.within);
    if let Some(below) = &query.below {
        let (first, last) = below.bounds_below();
        statement.bind_name(&format!(" AND {by} > "), &first);
        statement.bind_name(&format!(" AND {by} < "), &last);
    }
    let (beyond, order) = match query.order {
        KeyOrder::Ascending => (">", "ASC"),
        KeyOrder::Descending => ("<", "DESC"),
    };
    statement.bind_some(&format!(" AND {by} {beyond} "), query.after.as_ref().map(Key::as_str));
    statement.bind(&format!(" ORDER BY {by} {order} LIMIT "), limit(query.limit));
    statement
}

/// The queue of due records. However many wait, a look reads those that are due.
pub(super) async fn due(
    session: &Session,
    seal: &Seal,
    kind: Kind,
    at: Timestamp,
    most: usize,
) -> Result<DueRecords, Fault> {
    let (named, at) = (kind.as_str(), at.as_millis());
    let rows = session.rows(&due_sql(), &[&named, &at, &limit(most)]).await?;
    let next = rows.first().map_or(Ok(None), |row| optional_time(row, 8))?;
    // Where nothing is due, a row stands for what comes next alone.
    let mut records = Vec::new();
    for row in &rows {
        if value::<Option<i64>>(row, 0)?.is_some() {
            records.push(record(row, seal, kind)?);
        }
    }
    Ok(DueRecords { records, next })
}

/// What is due and when something is next, in one question: every host asks it for every kind, also when it is idle.
pub(super) fn due_sql() -> String {
    format!(
        "SELECT due.*, next.at FROM (
             SELECT min(due_at) AS at FROM records WHERE kind = $1 AND due_at IS NOT NULL AND due_at > $2) AS next
         LEFT JOIN LATERAL (
             {COLUMNS} WHERE kind = $1 AND due_at IS NOT NULL AND due_at <= $2 ORDER BY due_at, id LIMIT $3
         ) AS due ON true ORDER BY due.due_at, due.id"
    )
}

fn record(row: &Row, seal: &Seal, kind: Kind) -> Result<Record, Fault> {
    let key = name(row, 1)?;
    let sealed: &[u8] = row.try_get(7)?;
    Ok(Record {
        kind,
        place: place(row, 2)?,
        version: unsigned(row, 5)?,
        position: unsigned(row, 0)?,
        due_at: optional_time(row, 6)?,
        body: open_body(seal, kind, &key, sealed),
        key: Key::stored(key),
    })
}
