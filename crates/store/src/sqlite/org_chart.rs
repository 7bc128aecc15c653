//! Charts of who stands where.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{KeyMode, OrgCharts, StoreError, StoredChart};
use callboard_protocol::{AgentOrgChart, RosterId, RosterOwner, Tenant, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, signed, unsigned};

#[async_trait]
impl OrgCharts for SqliteStore {
    async fn chart(
        &self,
        mode: KeyMode,
        owner: &RosterOwner,
    ) -> Result<Option<StoredChart>, StoreError> {
        let owner = owner.clone();
        self.readers.read(move |db| read(db, mode, &owner)).await
    }

    async fn put_chart(
        &self,
        mode: KeyMode,
        chart: AgentOrgChart,
        expected: Option<u64>,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        self.writer.write(move |db| put(db, mode, &chart, expected, at)).await
    }
}

/// Takes somebody out of every chart of their tenant.
pub(super) fn unplace(db: &Connection, tenant: &Tenant, id: &RosterId) -> Result<(), Fault> {
    let mut select = db.prepare_cached(
        "SELECT chart, version, updated_at, test FROM org_charts WHERE tenant = ?1",
    )?;
    let mut rows = select.query([tenant.as_str()])?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let mut stored =
            StoredChart { chart: chart(&row.get::<_, String>(0)?)?, version: unsigned(row, 1)? };
        if stored.chart.without(id) {
            let mode = if row.get(3)? { KeyMode::Test } else { KeyMode::Live };
            changed.push((mode, stored, Timestamp::from_millis(row.get(2)?)));
        }
    }
    for (mode, stored, at) in changed {
        keep(db, mode, &stored.chart, stored.version + 1, at)?;
    }
    Ok(())
}

fn read(db: &Connection, mode: KeyMode, owner: &RosterOwner) -> Result<Option<StoredChart>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT chart, version FROM org_charts WHERE tenant = ?1 AND test = ?2 AND workspace = ?3",
    )?;
    let place = params![owner.tenant_id.as_str(), mode == KeyMode::Test, workspace(owner)];
    let found: Option<(String, i64)> =
        select.query_row(place, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((text, version)) = found else { return Ok(None) };
    let version = u64::try_from(version).unwrap_or_default();
    Ok(Some(StoredChart { chart: chart(&text)?, version }))
}

fn put(
    db: &Connection,
    mode: KeyMode,
    chart: &AgentOrgChart,
    expected: Option<u64>,
    at: Timestamp,
) -> Result<u64, Fault> {
    let before = read(db, mode, &chart.owner)?.map_or(0, |stored| stored.version);
    let mut select = db.prepare_cached(
        "SELECT 1 FROM roster
         WHERE tenant = ?1 AND test = ?2 AND roster_id = ?3 AND (?4 = '' OR workspace = ?4)",
    )?;
    let (tenant, workspace) = (chart.owner.tenant_id.as_str(), workspace(&chart.owner));
    let mut all_there = true;
    for member in &chart.members {
        let id = member.roster_id.as_str();
        all_there &= select.exists(params![tenant, mode == KeyMode::Test, id, workspace])?;
    }
    if !all_there || expected.is_some_and(|expected| expected != before) {
        return Err(StoreError::Moved { what: "the org chart".to_owned() }.into());
    }
    keep(db, mode, chart, before + 1, at)?;
    Ok(before + 1)
}

fn keep(
    db: &Connection,
    mode: KeyMode,
    chart: &AgentOrgChart,
    version: u64,
    at: Timestamp,
) -> Result<(), Fault> {
    let text = serde_json::to_string(chart).map_err(|error| Fault::unreadable("a chart", error))?;
    let owner = &chart.owner;
    execute(
        db,
        "INSERT OR REPLACE INTO org_charts (tenant, test, workspace, version, chart, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            owner.tenant_id.as_str(),
            mode == KeyMode::Test,
            workspace(owner),
            signed(version),
            text,
            at.as_millis(),
        ],
    )?;
    Ok(())
}

fn workspace(owner: &RosterOwner) -> &str {
    owner.workspace_id.as_ref().map_or("", |workspace| workspace.as_str())
}

fn chart(text: &str) -> Result<AgentOrgChart, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::unreadable("a chart", error))
}
