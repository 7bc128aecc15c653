//! Heartbeats: their rows, and the runs that their changes start.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{DueHeartbeats, Heartbeat, Heartbeats, KeyMode, NewRun, Scope, StoreError};
use callboard_protocol::{HeartbeatId, RosterId, Timestamp};

use super::SqliteStore;
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, millis, optional_time, scope_params, signed, unsigned};

const COLUMNS: &str =
    "SELECT heartbeat_id, tenant, workspace, test, workflow_id, roster_id, version, wake_at, state
     FROM heartbeats WHERE ";

const IN_SCOPE: &str = "tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3)";

#[async_trait]
impl Heartbeats for SqliteStore {
    async fn add_heartbeat(&self, heartbeat: Heartbeat) -> Result<(), StoreError> {
        self.writer.write(move |db| add(db, &heartbeat)).await
    }

    async fn heartbeat(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
    ) -> Result<Option<Heartbeat>, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        let found = self.readers.read(move |db| list(db, &scope, Some(&id))).await?;
        Ok(found.into_iter().next())
    }

    async fn heartbeats(&self, scope: &Scope) -> Result<Vec<Heartbeat>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |db| list(db, &scope, None)).await
    }

    async fn remove_heartbeat(&self, scope: &Scope, id: &HeartbeatId) -> Result<bool, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.writer.write(move |db| remove(db, &scope, &id)).await
    }

    async fn due_heartbeats(
        &self,
        at: Timestamp,
        most: usize,
    ) -> Result<DueHeartbeats, StoreError> {
        self.readers.read(move |db| due(db, at, most)).await
    }

    async fn advance_heartbeat(
        &self,
        heartbeat: Heartbeat,
        expected: u64,
        run: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let run = run.map(|run| SealedRun::seal(run, &self.seal)).transpose()?;
        self.writer.write(move |db| advance(db, &heartbeat, expected, run.as_ref())).await
    }
}

fn add(db: &Connection, heartbeat: &Heartbeat) -> Result<(), Fault> {
    let (tenant, test, workspace) = scope_params(&heartbeat.place);
    let added = execute(
        db,
        "INSERT INTO heartbeats (heartbeat_id, tenant, workspace, test, workflow_id, roster_id, version, wake_at, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (tenant, test, heartbeat_id) DO NOTHING",
        params![
            heartbeat.id.as_str(),
            tenant,
            workspace,
            test,
            heartbeat.workflow.as_str(),
            heartbeat.roster_id.as_ref().map(|member| member.as_str()),
            signed(heartbeat.version),
            millis(heartbeat.wake_at),
            state(heartbeat)?,
        ],
    )?;
    if added == 0 { Err(moved(&heartbeat.id)) } else { Ok(()) }
}

fn list(db: &Connection, scope: &Scope, id: Option<&HeartbeatId>) -> Result<Vec<Heartbeat>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = [COLUMNS, IN_SCOPE, " AND (?4 IS NULL OR heartbeat_id = ?4) ORDER BY heartbeat_id"];
    let mut select = db.prepare_cached(&sql.concat())?;
    let mut rows = select.query(params![tenant, test, workspace, id.map(|id| id.as_str())])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(heartbeat(row)?);
    }
    Ok(found)
}

fn remove(db: &Connection, scope: &Scope, id: &HeartbeatId) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = ["DELETE FROM heartbeats WHERE heartbeat_id = ?4 AND ", IN_SCOPE].concat();
    Ok(execute(db, &sql, params![tenant, test, workspace, id.as_str()])? > 0)
}

fn due(db: &Connection, at: Timestamp, most: usize) -> Result<DueHeartbeats, Fault> {
    let sql = [COLUMNS, "wake_at <= ?1 ORDER BY wake_at LIMIT ?2"].concat();
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![at.as_millis(), signed(most as u64)])?;
    let mut heartbeats = Vec::new();
    while let Some(row) = rows.next()? {
        heartbeats.push(heartbeat(row)?);
    }
    let mut next = db.prepare_cached("SELECT min(wake_at) FROM heartbeats WHERE wake_at > ?1")?;
    let next: Option<i64> =
        next.query_row([at.as_millis()], |row| row.get(0)).optional()?.flatten();
    Ok(DueHeartbeats { heartbeats, next: next.map(Timestamp::from_millis) })
}

fn advance(
    db: &Connection,
    heartbeat: &Heartbeat,
    expected: u64,
    run: Option<&SealedRun>,
) -> Result<(), Fault> {
    let (tenant, test, _) = scope_params(&heartbeat.place);
    let changed = execute(
        db,
        "UPDATE heartbeats SET version = ?5, wake_at = ?6, state = ?7
         WHERE tenant = ?1 AND test = ?2 AND heartbeat_id = ?3 AND version = ?4",
        params![
            tenant,
            test,
            heartbeat.id.as_str(),
            signed(expected),
            signed(heartbeat.version),
            millis(heartbeat.wake_at),
            state(heartbeat)?,
        ],
    )?;
    if changed == 0 {
        return Err(moved(&heartbeat.id));
    }
    run.map_or(Ok(()), |run| create::create(db, run))
}

fn heartbeat(row: &Row<'_>) -> Result<Heartbeat, Fault> {
    let (id, state): (String, String) = (row.get(0)?, row.get(8)?);
    let unreadable = |error| Fault::unreadable(format!("heartbeat {id}"), error);
    Ok(Heartbeat {
        state: serde_json::from_str(&state).map_err(unreadable)?,
        id: id.as_str().into(),
        place: Scope {
            tenant: row.get::<_, String>(1)?.into(),
            workspace: row.get::<_, Option<String>>(2)?.map(Into::into),
            mode: KeyMode::of(row.get(3)?),
        },
        workflow: row.get::<_, String>(4)?.into(),
        roster_id: row.get::<_, Option<String>>(5)?.map(RosterId::from),
        version: unsigned(row, 6)?,
        wake_at: optional_time(row, 7)?,
    })
}

fn state(heartbeat: &Heartbeat) -> Result<String, Fault> {
    serde_json::to_string(&heartbeat.state)
        .map_err(|error| Fault::unreadable(format!("heartbeat {}", heartbeat.id), error))
}

fn moved(id: &HeartbeatId) -> Fault {
    StoreError::Moved { what: format!("heartbeat {id}") }.into()
}
