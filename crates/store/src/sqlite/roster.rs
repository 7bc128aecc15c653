//! Standing members: their rows, and their portfolios by workflow.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use callboard_engine::{
    KeyMode, Roster, Scope, Spent, StoreError, StoredMember, Subscription, USAGE,
};
use callboard_protocol::{
    AgentRosterEntry, Owner, RosterId, Tenant, Timestamp, WorkflowId, Workspace,
};

use super::fault::Fault;
use super::rows::{execute, in_scope, scope_params, signed, time, unsigned};
use super::{SqliteStore, org_chart};

#[async_trait]
impl Roster for SqliteStore {
    async fn member(
        &self,
        viewer: &Owner,
        id: &RosterId,
    ) -> Result<Option<StoredMember>, StoreError> {
        Ok(self.asked(viewer, "roster_id = ?", id.to_string()).await?.pop())
    }

    async fn members(&self, viewer: &Owner) -> Result<Vec<StoredMember>, StoreError> {
        let viewer = viewer.clone();
        self.readers.read(move |db| list(db, &viewer, "true", None)).await
    }

    async fn owners_of(
        &self,
        viewer: &Owner,
        workflow: &WorkflowId,
    ) -> Result<Vec<StoredMember>, StoreError> {
        self.asked(viewer, OWNS, workflow.to_string()).await
    }

    async fn tenants_owning(&self, workflow: &WorkflowId) -> Result<Vec<Tenant>, StoreError> {
        let workflow = workflow.clone();
        self.readers.read(move |db| tenants_owning(db, &workflow)).await
    }

    async fn hire(&self, entry: AgentRosterEntry, at: Timestamp) -> Result<(), StoreError> {
        self.writer.write_then((), move |db, ()| hire(db, &entry, at), self.roster_changed()).await
    }

    async fn change(
        &self,
        entry: AgentRosterEntry,
        expected: u64,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let write = move |db: &Connection, (): &()| change(db, &entry, expected, at);
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

    async fn dismiss(&self, tenant: &Tenant, id: &RosterId) -> Result<bool, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let (subscriptions, changed) = (Arc::clone(&self.subscriptions), self.roster_changed());
        let forget = move |(), was_there| {
            // Its queue of work is gone too.
            subscriptions.forget(|_| true);
            changed((), was_there)
        };
        self.writer.write_then((), move |db, ()| dismiss(db, &tenant, &id), forget).await
    }
}

/// What of the roster was asked for: by whose tenant and workspace, and the condition with its value.
pub(super) type Asked = (Tenant, Option<Workspace>, &'static str, String);

impl SqliteStore {
    /// Members under a condition with one value. Every fire asks, so the answer is kept until the roster changes.
    async fn asked(
        &self,
        viewer: &Owner,
        condition: &'static str,
        value: String,
    ) -> Result<Vec<StoredMember>, StoreError> {
        let (tenant, workspace) = (viewer.tenant.clone(), viewer.workspace.clone());
        let asked = (tenant, workspace, condition, value.clone());
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

const OWNS: &str = "id IN (SELECT member FROM roster_workflows
     WHERE roster_workflows.tenant = roster.tenant AND workflow_id = ?)";

fn list(
    db: &Connection,
    viewer: &Owner,
    condition: &str,
    value: Option<String>,
) -> Result<Vec<StoredMember>, Fault> {
    let mut values: Vec<Value> = vec![viewer.tenant.to_string().into()];
    let mut in_workspace = "";
    if let Some(workspace) = &viewer.workspace {
        in_workspace = " AND workspace = ?";
        values.push(workspace.to_string().into());
    }
    values.extend(value.map(Value::from));
    let mut select = db.prepare_cached(&format!(
        "SELECT version, entry, hired_at FROM roster
         WHERE tenant = ?{in_workspace} AND {condition} ORDER BY id"
    ))?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        members.push(member(row)?);
    }
    Ok(members)
}

fn tenants_owning(db: &Connection, workflow: &WorkflowId) -> Result<Vec<Tenant>, Fault> {
    let sql = "SELECT DISTINCT tenant FROM roster_workflows WHERE workflow_id = ?1 ORDER BY tenant";
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query([workflow.as_str()])?;
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
        version: unsigned(row, 0)?,
        hired_at: time(row, 2)?,
    })
}

fn hire(db: &Connection, entry: &AgentRosterEntry, at: Timestamp) -> Result<(), Fault> {
    let inserted = execute(
        db,
        "INSERT INTO roster (tenant, roster_id, workspace, version, entry, hired_at, updated_at)
         VALUES (?1, ?2, ?3, 1, ?4, ?5, ?5) ON CONFLICT (tenant, roster_id) DO NOTHING",
        params![
            entry.owner.tenant_id.as_str(),
            entry.roster_id.as_str(),
            entry.owner.workspace_id.as_ref().map(|workspace| workspace.as_str()),
            text(entry)?,
            at.as_millis(),
        ],
    )?;
    if inserted == 0 {
        return Err(moved(entry));
    }
    keep_portfolio(db, db.last_insert_rowid(), entry)
}

fn change(
    db: &Connection,
    entry: &AgentRosterEntry,
    expected: u64,
    at: Timestamp,
) -> Result<(), Fault> {
    let (tenant, id) = (entry.owner.tenant_id.as_str(), entry.roster_id.as_str());
    let row: Option<i64> = db
        .prepare_cached(
            "SELECT id FROM roster WHERE tenant = ?1 AND roster_id = ?2 AND version = ?3",
        )?
        .query_row(params![tenant, id, signed(expected)], |row| row.get(0))
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

fn dismiss(db: &Connection, tenant: &Tenant, id: &RosterId) -> Result<bool, Fault> {
    let sql = "DELETE FROM roster WHERE tenant = ?1 AND roster_id = ?2";
    let was_there = execute(db, sql, params![tenant.as_str(), id.as_str()])? > 0;
    org_chart::unplace(db, tenant, id)?;
    let sql = "DELETE FROM heartbeats WHERE tenant = ?1 AND roster_id = ?2";
    execute(db, sql, params![tenant.as_str(), id.as_str()])?;
    let sql = "DELETE FROM schedules WHERE tenant = ?1 AND roster_id = ?2";
    execute(db, sql, params![tenant.as_str(), id.as_str()])?;
    for mode in [KeyMode::Live, KeyMode::Test] {
        let queue = Subscription::work_queue_id(tenant, id, mode);
        let sql = "DELETE FROM trigger_subscriptions WHERE tenant = ?1 AND subscription_id = ?2";
        execute(db, sql, params![tenant.as_str(), queue])?;
    }
    Ok(was_there)
}

fn text(entry: &AgentRosterEntry) -> Result<String, Fault> {
    serde_json::to_string(entry).map_err(|error| Fault::unreadable("an entry of the roster", error))
}

fn moved(entry: &AgentRosterEntry) -> Fault {
    StoreError::Moved { what: entry.roster_id.to_string() }.into()
}
