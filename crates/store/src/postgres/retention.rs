//! Which runs may be removed, and everything that is removed with them.

use callboard_engine::{EndedRuns, LogPosition, Removable, RemovableCount};
use callboard_protocol::RunId;

use super::fault::Fault;
use super::rows::{Statement, limit, name, signed, unsigned, value};
use super::session::Session;
use super::{feed, text};

/// Ended runs that nothing needs. The run with the newest event of all stays, as in every store.
const REMOVABLE: &str = "runs.ended_at IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.prefix_of = runs.id)
         AND NOT EXISTS (SELECT 1 FROM runs AS fork WHERE fork.forked_from = runs.id)
         AND NOT EXISTS (SELECT 1 FROM runs AS above WHERE above.run_id = runs.parent AND above.ended_at IS NULL)
         AND NOT EXISTS (SELECT 1 FROM runs AS below WHERE below.parent = runs.run_id AND below.ended_at IS NULL)
         AND NOT EXISTS (SELECT 1 FROM log_pending WHERE log_pending.run = runs.id)
         AND NOT EXISTS (SELECT 1 FROM records WHERE records.run = runs.run_id AND records.retains)
         AND runs.id IS DISTINCT FROM (SELECT run FROM log_feed ORDER BY last DESC LIMIT 1)";

/// What is a run's alone, with the column that names it.
const OF_RUN: [(&str, &str); 10] = [
    ("births", "run"),
    ("run_tags", "run"),
    ("run_agents", "run"),
    ("events", "run"),
    ("snapshots", "run"),
    ("interrupts", "run"),
    ("effects", "run"),
    ("wakes", "run"),
    ("log_feed", "run"),
    ("runs", "id"),
];

/// The runs that may go, with what is wanted of each.
fn statement(wanted: &str, removable: &Removable, read_until: Option<LogPosition>) -> Statement {
    let mut sql = Statement::default();
    sql.push(&format!(
        "SELECT {wanted} FROM runs JOIN births ON births.run = runs.id WHERE {REMOVABLE}"
    ));
    sql.bind(" AND runs.ended_at < ", removable.before.as_millis());
    if let Some(read) = read_until {
        let unread = " AND NOT EXISTS (SELECT 1 FROM log_feed WHERE log_feed.run = runs.id AND log_feed.last > ";
        sql.bind(unread, signed(read.0));
        sql.push(")");
    }
    sql.push(" AND ");
    fits(&mut sql, &removable.of);
    for except in &removable.except {
        sql.push(" AND NOT (");
        fits(&mut sql, except);
        sql.push(")");
    }
    sql
}

fn fits(sql: &mut Statement, of: &EndedRuns) {
    let EndedRuns { tenant, workflow, agent, status } = of;
    sql.push("true");
    sql.bind_some(" AND runs.tenant = ", tenant.as_ref().map(|tenant| tenant.as_str()));
    sql.bind_some(" AND runs.workflow_id = ", workflow.as_ref().map(|workflow| workflow.as_str()));
    if let Some(agent) = agent {
        sql.push(" AND EXISTS (SELECT 1 FROM run_agents AS asked WHERE asked.run = runs.id");
        sql.bind_name(" AND asked.agent = ", agent);
        sql.push(")");
    }
    sql.bind_some(" AND runs.status = ", status.map(|status| status.as_str()));
}

/// How many may go, and the text of their logs and births.
pub(super) async fn count(
    session: &Session,
    removable: &Removable,
) -> Result<RemovableCount, Fault> {
    let wanted = "count(*), coalesce(sum(octet_length(births.record::text)
         + (SELECT coalesce(sum(octet_length(events.payload::text)), 0) FROM events
            WHERE events.run = runs.id)), 0)::bigint";
    let rows = statement(wanted, removable, None).rows(session).await?;
    let Some(row) = rows.first() else { return Ok(RemovableCount::default()) };
    Ok(RemovableCount { runs: unsigned(row, 0)?, bytes: unsigned(row, 1)? })
}

/// The oldest first, in one transaction, which the caller has begun. Those that another host is removing are skipped.
pub(super) async fn remove(
    session: &Session,
    removable: &Removable,
    read_until: Option<LogPosition>,
    most: usize,
) -> Result<Vec<RunId>, Fault> {
    let mut sql = statement("runs.id, runs.run_id, births.definition", removable, read_until);
    sql.bind(" ORDER BY runs.ended_at, runs.id LIMIT ", limit(most));
    sql.push(" FOR UPDATE OF runs SKIP LOCKED");
    let found = sql.rows(session).await?;
    let ids = found.iter().map(|row| value::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let runs = found.iter().map(|row| name(row, 1)).collect::<Result<Vec<_>, _>>()?;
    let definitions =
        found.iter().map(|row| value::<i64>(row, 2)).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    for (table, column) in OF_RUN {
        session.execute(&format!("DELETE FROM {table} WHERE {column} = ANY($1)"), &[&ids]).await?;
    }
    let named: Vec<_> = runs.iter().map(|run| text::stored(run)).collect();
    let records = "WITH gone AS (DELETE FROM records WHERE run = ANY($1) RETURNING id),
         unindexed AS (DELETE FROM record_index USING gone WHERE record = gone.id)
         DELETE FROM record_blobs USING gone WHERE record = gone.id";
    session.execute(records, &[&named]).await?;
    forget_definitions(session, &definitions).await?;
    Ok(runs.into_iter().map(RunId::from).collect())
}

/// A definition goes an hour after the last run that was born with it: a creation that is under way has seen it.
async fn forget_definitions(session: &Session, definitions: &[i64]) -> Result<(), Fault> {
    let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let unused = "NOT EXISTS (SELECT 1 FROM births WHERE births.definition = definitions.id)";
    let mark = format!(
        "UPDATE definitions SET unused_since = {now} WHERE id = ANY($1) AND unused_since IS NULL AND {unused}"
    );
    session.execute(&mark, &[&definitions]).await?;
    let delete = format!(
        "DELETE FROM definitions WHERE unused_since IS NOT NULL AND unused_since < {now} - 3600000 AND {unused}"
    );
    session.execute(&delete, &[]).await?;
    Ok(())
}

/// Appends without a place would keep their runs.
pub(super) async fn prepare(session: &Session) -> Result<(), Fault> {
    feed::newest(session).await.map(|_| ())
}
