//! Reading one run: decrypted for the fold, masked for everyone else.
//!
//! A log only grows, so a head that is read first and the events up to its version are of one moment. Retention alone
//! takes events away, with the whole run: whoever finds fewer than the head says has met it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use tokio_postgres::Row;

use callboard_core::Entry;
use callboard_engine::{Found, Opened, Page, Recorded, Scope, Standing};
use callboard_protocol::{NodeId, RunId};

use super::fault::Fault;
use super::gather::Question;
use super::rows::{
    Statement, cause, is_test, limit, name, optional_name, signed, status, time, unsigned, value,
    version as engine_version,
};
use super::session::{Params, Session};
use super::text::{given, stored};
use crate::seal::Seal;
use crate::sealed::{SealedBirth, SealedEvent, open_birth, open_entry, unknown_run};

pub(super) async fn open(
    session: &Session,
    seal: &Seal,
    run: &RunId,
) -> Result<Option<Opened>, Fault> {
    let sql = "SELECT births.record, births.sealed_inputs, births.sealed_delivery, definitions.source, runs.version
         FROM runs JOIN births ON births.run = runs.id JOIN definitions ON definitions.id = births.definition
         WHERE runs.run_id = $1";
    let Some(row) = session.row(sql, &[&stored(run.as_str())]).await? else { return Ok(None) };
    let sealed =
        SealedBirth { record: value(&row, 0)?, inputs: value(&row, 1)?, delivery: value(&row, 2)? };
    let birth = open_birth(seal, run, &sealed)?;
    let entries = entries(session, seal, run, 0).await?;
    let is_whole = entries.len() as u64 >= unsigned(&row, 4)?;
    Ok(is_whole.then_some(Opened { birth, definition: name(&row, 3)?.into(), entries }))
}

pub(super) async fn statuses(
    session: &Session,
    runs: &[RunId],
) -> Result<Vec<Option<Standing>>, Fault> {
    let names: Vec<Cow<'_, str>> = runs.iter().map(|run| stored(run.as_str())).collect();
    let sql = "SELECT run_id, status, epoch FROM runs WHERE run_id = ANY($1)";
    let mut found = HashMap::new();
    for row in session.rows(sql, &[&names]).await? {
        let standing = Standing { status: status(&row, 1)?, epoch: unsigned(&row, 2)? };
        found.insert(name(&row, 0)?, standing);
    }
    Ok(runs.iter().map(|run| found.get(run.as_str()).copied()).collect())
}

pub(super) async fn tail(
    session: &Session,
    seal: &Seal,
    run: &RunId,
    from: u64,
) -> Result<Vec<Entry>, Fault> {
    let entries = entries(session, seal, run, from).await?;
    if entries.is_empty() && version(session, run).await?.is_none() {
        return Err(unknown_run(run).into());
    }
    Ok(entries)
}

/// The events of a log between `$2` and `$3`, wherever they are: those before a fork are with its source.
const EVENTS: &str = "WITH RECURSIVE parts (id, run_id, begins, until, prefix_of) AS (
         SELECT id, run_id, prefix_length, $3::bigint, prefix_of FROM runs WHERE run_id = $1
         UNION ALL
         SELECT runs.id, runs.run_id, runs.prefix_length, parts.begins, runs.prefix_of
         FROM parts JOIN runs ON runs.id = parts.prefix_of WHERE parts.begins > $2)
     SELECT parts.run_id, events.sequence, events.at, events.kind, events.node, events.payload, events.cause,
         events.sealed
     FROM parts JOIN events ON events.run = parts.id
         AND events.sequence >= greatest(parts.begins, $2) AND events.sequence < least(parts.until, $3)
     ORDER BY events.sequence LIMIT $4";

async fn entries(
    session: &Session,
    seal: &Seal,
    run: &RunId,
    from: u64,
) -> Result<Vec<Entry>, Fault> {
    let run = stored(run.as_str());
    let rows = session.rows(EVENTS, &[&&*run, &signed(from), &i64::MAX, &i64::MAX]).await?;
    rows.iter().map(|row| entry(row, seal)).collect()
}

fn entry(row: &Row, seal: &Seal) -> Result<Entry, Fault> {
    let run = name(row, 0)?.into();
    let kind = name(row, 3)?;
    let event = SealedEvent {
        run: &run,
        sequence: unsigned(row, 1)?,
        at: time(row, 2)?,
        kind: &kind,
        node: optional_name(row, 4)?.map(NodeId::from),
        payload: row.try_get(5)?,
        sealed: row.try_get(7)?,
        cause: cause(row, 6)?,
    };
    Ok(open_entry(seal, event)?)
}

/// How many events the run's log holds; none for a run that does not exist.
pub(super) async fn version(session: &Session, run: &RunId) -> Result<Option<u64>, Fault> {
    let sql = "SELECT version FROM runs WHERE run_id = $1";
    let found = session.row(sql, &[&stored(run.as_str())]).await?;
    found.map(|row| unsigned(&row, 0)).transpose()
}

/// The same for many: those that exist.
pub(super) async fn versions(
    session: &Session,
    runs: &[RunId],
) -> Result<Vec<(RunId, u64)>, Fault> {
    let names: Vec<Cow<'_, str>> = runs.iter().map(|run| stored(run.as_str())).collect();
    let sql = "SELECT run_id, version FROM runs WHERE run_id = ANY($1)";
    let rows = session.rows(sql, &[&names]).await?;
    rows.iter().map(|row| Ok((name(row, 0)?.into(), unsigned(row, 1)?))).collect()
}

fn visible(select: &str, scope: &Scope, run: &RunId) -> Statement {
    let mut statement = Statement::default();
    statement.push(select);
    statement.bind_name(" WHERE runs.run_id = ", run.as_str());
    // By the name alone, as in `PAGES`.
    statement.bind_name(" AND runs.tenant IS NOT DISTINCT FROM ", scope.tenant.as_str());
    statement.bind(" AND runs.test IS NOT DISTINCT FROM ", is_test(scope.mode));
    let workspace = scope.workspace.as_ref().map(|workspace| workspace.as_str());
    statement.bind_some(" AND runs.workspace = ", workspace);
    statement
}

pub(super) async fn find(
    session: &Session,
    scope: &Scope,
    run: &RunId,
) -> Result<Option<Found>, Fault> {
    let select = "SELECT runs.status, runs.version, runs.engine_version, snapshots.body, births.record
         FROM runs JOIN births ON births.run = runs.id LEFT JOIN snapshots ON snapshots.run = runs.id AND snapshots.version = runs.version";
    let rows = visible(select, scope, run).rows(session).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let snapshot: Option<String> = value(row, 3)?;
    let born: String = value(row, 4)?;
    let born = serde_json::from_str(&born)
        .map_err(|error| Fault::unreadable(format!("the birth of {run}"), error))?;
    Ok(Some(Found {
        status: status(row, 0)?,
        version: unsigned(row, 1)?,
        engine_version: engine_version(row, 2)?,
        born,
        snapshot: snapshot.map(given),
    }))
}

/// Events of one run for somebody who may see it, with where the run stands.
#[derive(Debug, Clone)]
pub(super) struct PageOf {
    pub(super) scope: Scope,
    pub(super) run: RunId,
    pub(super) from: u64,
    pub(super) most: usize,
}

/// Heads and events of one moment. A run is found by its name alone: whose it is is compared in a way that no index
/// knows, or a plan that was made while there were few runs would go through all of a tenant.
pub(super) const PAGES: &str = "WITH RECURSIVE given AS MATERIALIZED (
         SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::bigint[], $6::bigint[])
             WITH ORDINALITY AS given (run_id, tenant, test, workspace, begins, most, n)),
     heads AS MATERIALIZED (
         SELECT given.n, runs.id, runs.status, runs.version, runs.stamped_version, runs.prefix_length, runs.prefix_of
         FROM given JOIN runs ON runs.run_id = given.run_id
         WHERE runs.tenant IS NOT DISTINCT FROM given.tenant AND runs.test IS NOT DISTINCT FROM given.test
             AND (given.workspace IS NULL OR runs.workspace = given.workspace)),
     parts (n, id, begins, until, prefix_of) AS (
         SELECT n, id, prefix_length, version, prefix_of FROM heads
         UNION ALL
         SELECT parts.n, runs.id, runs.prefix_length, parts.begins, runs.prefix_of
         FROM parts JOIN given USING (n) JOIN runs ON runs.id = parts.prefix_of WHERE parts.begins > given.begins)
     SELECT heads.n, heads.status, heads.version, heads.stamped_version, entry.*
     FROM heads JOIN given USING (n) LEFT JOIN LATERAL (
         SELECT events.sequence, events.at, events.kind, events.node, events.payload, events.cause
         FROM parts JOIN events ON events.run = parts.id
             AND events.sequence >= greatest(parts.begins, given.begins) AND events.sequence < parts.until
         WHERE parts.n = heads.n ORDER BY events.sequence LIMIT given.most) AS entry ON true
     ORDER BY heads.n, entry.sequence";

impl Question for PageOf {
    type Answer = Option<Page>;
    /// Each may have many events.
    const MOST: usize = 32;

    async fn read(
        session: &Session,
        _: &Seal,
        questions: &[Self],
    ) -> Result<Vec<Result<Option<Page>, Fault>>, Fault> {
        macro_rules! each {
            (|$it:ident| $value:expr) => {
                &questions.iter().map(|$it| $value).collect::<Vec<_>>()
            };
        }
        let params: Params<'_> = &[
            each!(|it| stored(it.run.as_str())),
            each!(|it| stored(it.scope.tenant.as_str())),
            each!(|it| is_test(it.scope.mode)),
            each!(|it| it.scope.workspace.as_ref().map(|name| stored(name.as_str()))),
            each!(|it| signed(it.from)),
            each!(|it| limit(it.most)),
        ];
        let mut rows: Vec<Vec<Row>> = questions.iter().map(|_| Vec::new()).collect();
        for row in session.rows(PAGES, params).await? {
            let place = usize::try_from(value::<i64>(&row, 0)? - 1).unwrap_or(usize::MAX);
            if let Some(rows) = rows.get_mut(place) {
                rows.push(row);
            }
        }
        Ok(questions.iter().zip(&rows).map(|(asked, rows)| asked.page(rows)).collect())
    }
}

impl PageOf {
    fn page(&self, rows: &[Row]) -> Result<Option<Page>, Fault> {
        let Some(head) = rows.first() else { return Ok(None) };
        let version = unsigned(head, 2)?;
        let mut page = Page { status: status(head, 1)?, version, events: Vec::new() };
        let stamp = engine_version(head, 3)?;
        for row in rows {
            if value::<Option<i64>>(row, 4)?.is_some() {
                page.events.push(recorded(row, 4, self.run.clone(), stamp)?);
            }
        }
        let due = version.saturating_sub(self.from).min(self.most as u64);
        let is_whole = page.events.len() as u64 == due;
        Ok(is_whole.then_some(page))
    }
}

/// An event as readers see it: sequence, time, kind, node, payload and cause from the column `first` on.
pub(super) fn recorded(
    row: &Row,
    first: usize,
    run: RunId,
    engine_version: u32,
) -> Result<Recorded, Fault> {
    let payload: String = value(row, first + 4)?;
    // JSON that readers get as it stands.
    serde_json::from_str::<&RawValue>(&payload)
        .map_err(|error| Fault::unreadable("the payload of an event", error))?;
    Ok(Recorded {
        run,
        sequence: unsigned(row, first)?,
        at: time(row, first + 1)?,
        kind: name(row, first + 2)?,
        node: optional_name(row, first + 3)?.map(NodeId::from),
        payload,
        engine_version,
        cause: cause(row, first + 5)?,
    })
}
