//! Standing members: their rows, and their portfolios by workflow.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{
    Key, KeyMode, Kind, Roster, Scope, Spent, StoreError, StoredMember, Subscription, USAGE,
};
use callboard_protocol::{AgentRosterEntry, RosterId, Tenant, Timestamp, WorkflowId};

use super::fault::Fault;
use super::rows::{execute, in_scope, scope_params, signed, time, unsigned};
use super::{SqliteStore, org_chart};

#[async_trait]
impl Roster for SqliteStore {
    async fn member(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<Option<StoredMember>, StoreError> {
        Ok(self.asked(viewer, "roster_id = ?4", id.to_string()).await?.pop())
    }

    async fn members(&self, viewer: &Scope) -> Result<Vec<StoredMember>, StoreError> {
        let viewer = viewer.clone();
        self.readers.read(move |db| list(db, &viewer, "?4 IS NULL", None)).await
    }

    async fn owners_of(
        &self,
        viewer: &Scope,
        workflow: &WorkflowId,
    ) -> Result<Vec<StoredMember>, StoreError> {
        self.asked(viewer, OWNS, workflow.to_string()).await
    }

    async fn tenants_owning(
        &self,
        mode: KeyMode,
        workflow: &WorkflowId,
    ) -> Result<Vec<Tenant>, StoreError> {
        let workflow = workflow.clone();
        self.readers.read(move |db| tenants_owning(db, mode, &workflow)).await
    }

    async fn hire(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let write = move |db: &Connection, (): &()| hire(db, mode, &entry, at);
        self.writer.write_then((), write, self.roster_changed()).await
    }

    async fn change(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        expected: u64,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let write = move |db: &Connection, (): &()| change(db, mode, &entry, expected, at);
        self.writer.write_then((), write, self.roster_changed()).await
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        let (scope, member) = (scope.clone(), member.clone());
        self.readers.read(move |db| spent(db, &scope, &member, since)).await
    }

    async fn dismiss(&self, scope: &Scope, id: &RosterId) -> Result<bool, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        let (records, changed) = (Arc::clone(&self.records), self.roster_changed());
        let forget = move |(), was_there| {
            // Its queue of work is gone too.
            records.forget(|read| read.kind() == Kind::Subscription);
            changed((), was_there)
        };
        self.writer.write_then((), move |db, ()| dismiss(db, &scope, &id), forget).await
    }
}

/// What of the roster was asked for: by whom, and the condition with its value.
pub(super) type Asked = (Scope, &'static str, String);

impl SqliteStore {
    /// Members under a condition with one value. Every fire asks, so the answer is kept until the roster changes.
    async fn asked(
        &self,
        viewer: &Scope,
        condition: &'static str,
        value: String,
    ) -> Result<Vec<StoredMember>, StoreError> {
        let asked = (viewer.clone(), condition, value.clone());
        let since = match self.roster.find(&asked) {
            Ok(members) => return Ok(members),
            Err(since) => since,
        };
        let viewer = viewer.clone();
        let read = self.readers.read(move |db| list(db, &viewer, condition, Some(value))).await?;
        self.roster.keep(since, asked, read.clone());
        Ok(read)
    }

    /// To follow a change of the roster.
    fn roster_changed<T>(&self) -> impl FnOnce((), T) -> T + Send + 'static {
        let roster = Arc::clone(&self.roster);
        move |(), changed| {
            roster.forget(|_| true);
            changed
        }
    }
}

/// What a caller sees of the roster; `scope_params` fills ?1 to ?3.
macro_rules! in_roster {
    () => {
        "roster.tenant = ?1 AND roster.test = ?2 AND (?3 IS NULL OR roster.workspace = ?3)"
    };
}
pub(super) use in_roster;

const OWNS: &str = "id IN (SELECT member FROM roster_workflows
     WHERE roster_workflows.tenant = roster.tenant AND workflow_id = ?4)";

fn list(
    db: &Connection,
    viewer: &Scope,
    condition: &str,
    value: Option<String>,
) -> Result<Vec<StoredMember>, Fault> {
    let in_roster = in_roster!();
    let mut select = db.prepare_cached(&format!(
        "SELECT version, entry, hired_at, test FROM roster
         WHERE {in_roster} AND {condition} ORDER BY id"
    ))?;
    let (tenant, test, workspace) = scope_params(viewer);
    let mut rows = select.query(params![tenant, test, workspace, value])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        members.push(member(row)?);
    }
    Ok(members)
}

fn tenants_owning(
    db: &Connection,
    mode: KeyMode,
    workflow: &WorkflowId,
) -> Result<Vec<Tenant>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT DISTINCT roster.tenant FROM roster_workflows JOIN roster ON roster.id = member
         WHERE workflow_id = ?1 AND test = ?2 ORDER BY roster.tenant",
    )?;
    let mut rows = select.query(params![workflow.as_str(), mode == KeyMode::Test])?;
    let mut tenants = Vec::new();
    while let Some(row) = rows.next()? {
        tenants.push(row.get::<_, String>(0)?.into());
    }
    Ok(tenants)
}

fn member(row: &Row<'_>) -> Result<StoredMember, Fault> {
    let entry: String = row.get(1)?;
    let unreadable = |error| Fault::unreadable("an entry of the roster", error);
    Ok(StoredMember {
        entry: serde_json::from_str(&entry).map_err(unreadable)?,
        mode: if row.get(3)? { KeyMode::Test } else { KeyMode::Live },
        version: unsigned(row, 0)?,
        hired_at: time(row, 2)?,
    })
}

fn hire(
    db: &Connection,
    mode: KeyMode,
    entry: &AgentRosterEntry,
    at: Timestamp,
) -> Result<(), Fault> {
    let inserted = execute(
        db,
        "INSERT INTO roster (tenant, roster_id, workspace, version, entry, hired_at, updated_at, test)
         VALUES (?1, ?2, ?3, 1, ?4, ?5, ?5, ?6) ON CONFLICT (tenant, roster_id) DO NOTHING",
        params![
            entry.owner.tenant_id.as_str(),
            entry.roster_id.as_str(),
            entry.owner.workspace_id.as_ref().map(|workspace| workspace.as_str()),
            text(entry)?,
            at.as_millis(),
            mode == KeyMode::Test,
        ],
    )?;
    if inserted == 0 {
        return Err(moved(entry));
    }
    keep_portfolio(db, db.last_insert_rowid(), entry)
}

fn change(
    db: &Connection,
    mode: KeyMode,
    entry: &AgentRosterEntry,
    expected: u64,
    at: Timestamp,
) -> Result<(), Fault> {
    let (tenant, id) = (entry.owner.tenant_id.as_str(), entry.roster_id.as_str());
    let row: Option<i64> = db
        .prepare_cached(
            "SELECT id FROM roster
             WHERE tenant = ?1 AND test = ?2 AND roster_id = ?3 AND version = ?4",
        )?
        .query_row(params![tenant, mode == KeyMode::Test, id, signed(expected)], |row| row.get(0))
        .optional()?;
    let row = row.ok_or_else(|| moved(entry))?;
    execute(
        db,
        "UPDATE roster SET version = version + 1, entry = ?2, updated_at = ?3 WHERE id = ?1",
        params![row, text(entry)?, at.as_millis()],
    )?;
    execute(db, "DELETE FROM roster_workflows WHERE member = ?1", params![row])?;
    keep_portfolio(db, row, entry)
}

fn keep_portfolio(db: &Connection, row: i64, entry: &AgentRosterEntry) -> Result<(), Fault> {
    for workflow in &entry.workflows {
        execute(
            db,
            "INSERT INTO roster_workflows (tenant, workflow_id, member) VALUES (?1, ?2, ?3)",
            params![entry.owner.tenant_id.as_str(), workflow.as_str(), row],
        )?;
    }
    Ok(())
}

fn spent(
    db: &Connection,
    scope: &Scope,
    member: &RosterId,
    since: Timestamp,
) -> Result<Spent, Fault> {
    let sql = concat!(
        "SELECT coalesce(sum(payload ->> 'inputTokens'), 0), coalesce(sum(payload ->> 'outputTokens'), 0),
             total(payload ->> 'costEstimateUsd')
         FROM runs JOIN events ON events.run = runs.id
         WHERE runs.roster_id = ?4 AND runs.created_at >= ?5 AND NOT runs.is_replay AND events.kind = ?6 AND ",
        in_scope!()
    );
    let (tenant, test, workspace) = scope_params(scope);
    let params = params![tenant, test, workspace, member.as_str(), since.as_millis(), USAGE];
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let Some(row) = rows.next()? else { return Ok(Spent::default()) };
    Ok(Spent {
        input_tokens: unsigned(row, 0)?,
        output_tokens: unsigned(row, 1)?,
        cost_usd: row.get(2)?,
    })
}

fn dismiss(db: &Connection, scope: &Scope, id: &RosterId) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = concat!("DELETE FROM roster WHERE roster_id = ?4 AND ", in_roster!());
    if execute(db, sql, params![tenant, test, workspace, id.as_str()])? == 0 {
        return Ok(false);
    }
    let tenant = &scope.tenant;
    org_chart::unplace(db, tenant, id)?;
    let sql = "DELETE FROM heartbeats WHERE tenant = ?1 AND roster_id = ?2";
    execute(db, sql, params![tenant.as_str(), id.as_str()])?;
    let sql = "DELETE FROM records WHERE id IN
         (SELECT record FROM record_index WHERE kind = ?1 AND name = 'member' AND value = ?2)";
    let theirs = Key::in_realm(&scope.realm(), [id.as_str()]);
    execute(db, sql, params![Kind::Schedule.as_str(), theirs.as_str()])?;
    let queue = Subscription::work_queue_id(tenant, id, scope.mode);
    let key = Subscription::key(&queue);
    let (first, last) = key.bounds_below();
    let sql = "DELETE FROM records WHERE kind = ?1 AND key > ?2 AND key < ?3";
    execute(db, sql, params![Kind::InboundDelivery.as_str(), first, last])?;
    let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2";
    execute(db, sql, params![Kind::Subscription.as_str(), key.as_str()])?;
    Ok(true)
}

fn text(entry: &AgentRosterEntry) -> Result<String, Fault> {
    serde_json::to_string(entry).map_err(|error| Fault::unreadable("an entry of the roster", error))
}

fn moved(entry: &AgentRosterEntry) -> Fault {
    StoreError::Moved { what: entry.roster_id.to_string() }.into()
}
