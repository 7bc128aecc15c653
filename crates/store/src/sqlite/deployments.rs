//! What is deployed: one row for each agent of a realm, which changes together with a run.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{
    DeploymentChange, Deployments, NewRun, Realm, StoreError, StoredDeployment,
};
use callboard_protocol::AgentId;

use super::SqliteStore;
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, realm_params, signed, unsigned};

#[async_trait]
impl Deployments for SqliteStore {
    async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError> {
        let (realm, agent) = (realm.clone(), agent.clone());
        self.readers.read(move |db| find(db, &realm, &agent)).await
    }

    async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError> {
        let run = SealedRun::seal(run, &self.seal)?;
        let changes = Arc::clone(&self.changes);
        let announce = move |run: SealedRun, ()| changes.announce(&run.birth.run_id, 0);
        self.writer.write_then(run, move |db, run| deploy(db, &change, run), announce).await
    }
}

fn find(
    db: &Connection,
    realm: &Realm,
    agent: &AgentId,
) -> Result<Option<StoredDeployment>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT version, state FROM deployments WHERE tenant = ?1 AND test = ?2 AND agent = ?3",
    )?;
    let (tenant, test) = realm_params(realm);
    let mut rows = select.query(params![tenant, test, agent.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(StoredDeployment { version: unsigned(row, 0)?, state: row.get(1)? }))
}

/// The run comes first: a repetition of its request must learn what the first came to, not that it lost.
fn deploy(db: &Connection, change: &DeploymentChange, run: &SealedRun) -> Result<(), Fault> {
    create::create(db, run)?;
    let (tenant, test) = realm_params(&change.realm);
    let agent = change.agent.as_str();
    let current: Option<i64> = db
        .prepare_cached(
            "SELECT version FROM deployments WHERE tenant = ?1 AND test = ?2 AND agent = ?3",
        )?
        .query_row(params![tenant, test, agent], |row| row.get(0))
        .optional()?;
    let expected = signed(change.expected);
    if current.unwrap_or(0) != expected {
        let what = format!("the deployment of {agent}");
        return Err(StoreError::Moved { what }.into());
    }
    execute(
        db,
        "INSERT INTO deployments (tenant, test, agent, version, state, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant, test, agent) DO UPDATE SET version = ?4, state = ?5, updated_at = ?6",
        params![tenant, test, agent, expected + 1, change.state, change.at.as_millis()],
    )?;
    Ok(())
}
