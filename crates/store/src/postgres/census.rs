//! Counting what operators watch of a database that hosts share.

use tokio_postgres::Row;

use callboard_engine::{
    Census, Kind, Queue, QueuePlace, Removable, RemovableCount, RunGroup, StoreError, WATCHED,
    Wakes,
};
use callboard_protocol::{InterruptKind, Tenant, Timestamp};

use super::fault::Fault;
use super::rows::{name, optional_name, status, time, unsigned, value};
use super::{PostgresStore, retention};

/// A run whose child has moved is due, whatever its own time is.
const RUNS: &str = "SELECT status, coalesce(lease_until > $2, false) AS is_held,
         status LIKE 'waiting-%' AND EXISTS (SELECT 1 FROM interrupts AS asked
             WHERE asked.run = runs.id AND asked.about_budget) AS is_about_budget,
         CASE WHEN wake_at <= $1 OR EXISTS (SELECT 1 FROM wakes WHERE wakes.run = runs.id) THEN 0
             WHEN wake_at IS NULL THEN 2 ELSE 1 END::bigint AS wakes,
         count(*), min(updated_at), queued.tenant, queued.workflow_id, queued.agents, queued.priority
     FROM runs LEFT JOIN LATERAL (SELECT runs.tenant, runs.workflow_id, runs.agents, runs.priority
         WHERE runs.wake_at <= $1 AND coalesce(runs.lease_until <= $2, true)) AS queued ON true
     WHERE ended_at IS NULL GROUP BY 1, 2, 3, 4, 7, 8, 9, 10";

const QUESTIONS: &str = "SELECT kind, count(*), min(requested_at) FROM interrupts GROUP BY kind";

const RECORDS: &str = "SELECT kind, count(*) FROM records WHERE kind = ANY($1) GROUP BY kind";

fn place(row: &Row) -> Result<Option<QueuePlace>, Fault> {
    let Some(tenant) = optional_name(row, 6)? else { return Ok(None) };
    let (workflow, agents) = (name(row, 7)?.into(), name(row, 8)?);
    let queue = Queue { tenant: tenant.into(), workflow, agents };
    Ok(Some(QueuePlace { queue, rank: value(row, 9)? }))
}

impl PostgresStore {
    /// How many runs of each tenant there are.
    pub async fn stored_runs(&self) -> Result<Vec<(Tenant, u64)>, StoreError> {
        let session = self.inner.session().await?;
        let rows = session.rows("SELECT tenant, count(*) FROM runs GROUP BY tenant", &[]).await?;
        let read = |row: &Row| -> Result<(Tenant, u64), Fault> {
            Ok((name(row, 0)?.into(), unsigned(row, 1)?))
        };
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// How many runs would be removed by now, where readers of all logs have read everything.
    pub async fn count_removable(&self, of: &Removable) -> Result<RemovableCount, StoreError> {
        let session = self.inner.session().await?;
        retention::prepare(&session).await?;
        Ok(retention::count(&session, of).await?)
    }

    /// Leases are judged by the clock that only counts.
    pub async fn census(&self, now: Timestamp, counted: Timestamp) -> Result<Census, StoreError> {
        let session = self.inner.session().await?;
        let mut census = Census::default();
        for row in session.rows(RUNS, &[&now.as_millis(), &counted.as_millis()]).await? {
            census.runs.push(RunGroup {
                status: status(&row, 0)?,
                is_held: value(&row, 1)?,
                is_about_budget: value(&row, 2)?,
                wakes: Wakes::from_number(value(&row, 3)?),
                runs: unsigned(&row, 4)?,
                since: time(&row, 5)?,
                place: place(&row)?,
            });
        }
        for row in session.rows(QUESTIONS, &[]).await? {
            let kind = name(&row, 0)?;
            let kind = InterruptKind::from_name(&kind)
                .ok_or_else(|| Fault::unreadable("an interrupt", format!("unknown kind {kind}")))?;
            census.questions.push((kind, unsigned(&row, 1)?, time(&row, 2)?));
        }
        let watched = WATCHED.map(Kind::as_str);
        for row in session.rows(RECORDS, &[&watched.as_slice()]).await? {
            let found = name(&row, 0)?;
            let count = unsigned(&row, 1)?;
            let known = WATCHED.into_iter().find(|kind| kind.as_str() == found);
            census.records.extend(known.map(|kind| (kind, count)));
        }
        let size = "SELECT pg_database_size(current_database())";
        if let Some(row) = session.row(size, &[]).await? {
            census.bytes = unsigned(&row, 0)?;
        }
        Ok(census)
    }
}
