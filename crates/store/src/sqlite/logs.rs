//! All logs at once, in the order of commits.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use callboard_engine::{LogPosition, Logs, Recorded, Scope, StoreError, Window};
use callboard_protocol::NodeId;

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{cause, in_scope, payload, scope_params, signed, time, unsigned};

#[async_trait]
impl Logs for SqliteStore {
    async fn newest(&self) -> Result<LogPosition, StoreError> {
        self.readers.read(newest).await
    }

    async fn read_all(
        &self,
        scope: &Scope,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |db| read(db, &scope, after, most)).await
    }
}

fn newest(db: &Connection) -> Result<LogPosition, Fault> {
    let mut select = db.prepare_cached("SELECT coalesce(max(position), 0) FROM events")?;
    let mut rows = select.query([])?;
    rows.next()?.map_or(Ok(LogPosition(0)), |row| Ok(LogPosition(unsigned(row, 0)?)))
}

/// The end comes first: what is committed after it belongs to the next window.
fn read(db: &Connection, scope: &Scope, after: LogPosition, most: u64) -> Result<Window, Fault> {
    let until = after.0.saturating_add(most).min(newest(db)?.0).max(after.0);
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(concat!(
        "SELECT events.position, runs.run_id, events.sequence, events.at, events.kind, events.node, events.payload,
             runs.stamped_version, events.cause
         FROM events JOIN runs ON runs.id = events.run
         WHERE events.position > ?4 AND events.position <= ?5 AND ",
        in_scope!(),
        " ORDER BY events.position",
    ))?;
    let mut rows =
        select.query(params![tenant, test, workspace, signed(after.0), signed(until)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let recorded = Recorded {
            run: row.get::<_, String>(1)?.into(),
            sequence: unsigned(row, 2)?,
            at: time(row, 3)?,
            kind: row.get(4)?,
            node: row.get::<_, Option<String>>(5)?.map(NodeId::from),
            payload: payload(row, 6)?,
            engine_version: row.get(7)?,
            cause: cause(row, 8)?,
        };
        events.push((LogPosition(unsigned(row, 0)?), recorded));
    }
    Ok(Window { events, until: LogPosition(until) })
}
