//! Which versions of agents serve, with the runs that state a change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{AgentId, Timestamp};

use crate::audit::AuditRun;
use crate::engine::{Done, Engine, EngineError, Remember};
use crate::records::{Expected, Key, Kind, RecordChange};
use crate::store::{Batch, NewRun, Realm, Scope, Store, StoreError};

/// What each tenant has deployed for each kind of key, by agent.
#[derive(Debug, Clone)]
pub struct Deployments {
    store: Arc<dyn Store>,
    /// The state of one agent where a tenant has changed nothing.
    initial: Option<(AgentId, &'static str)>,
}

/// A state as it is kept: JSON, whose format answers for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDeployment {
    /// Grows by one with every change.
    pub version: u64,
    pub state: String,
}

/// A state to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentChange {
    pub realm: Realm,
    pub agent: AgentId,
    /// The version that the change was decided on; zero where there was none.
    pub expected: u64,
    pub state: String,
    pub at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    state: String,
    updated_at: Timestamp,
}

impl Deployments {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, initial: None }
    }

    /// Answers this state of an agent for every tenant that has not changed it.
    #[must_use]
    pub fn with_initial(mut self, agent: AgentId, state: &'static str) -> Self {
        self.initial = Some((agent, state));
        self
    }

    /// None where nobody ever changed anything.
    pub async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError> {
        if let Some(record) = self.store.get(Kind::Deployment, &key(realm, agent)).await? {
            let Body { state, .. } = record.read()?;
            return Ok(Some(StoredDeployment { version: record.version, state }));
        }
        let initial = self.initial.as_ref().filter(|(of, _)| of == agent);
        // Version zero: the tenant's first change is decided on nothing stored.
        Ok(initial.map(|(_, state)| StoredDeployment { version: 0, state: (*state).to_owned() }))
    }

    /// Keeps a new state with the run that states it, or neither. Of several changes that were decided on
    /// the same version one is kept; the others are [`StoreError::Moved`].
    pub async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError> {
        let DeploymentChange { realm, agent, expected, state, at } = change;
        let key = key(&realm, &agent);
        let place = Scope { tenant: realm.tenant, workspace: None, mode: realm.mode };
        let body = Body { state, updated_at: at };
        let expected = if expected == 0 { Expected::Absent } else { Expected::Version(expected) };
        let record = RecordChange::put(Kind::Deployment, key, place, &body)?.expecting(expected);
        self.store.commit(Batch::of_records([record]).with_birth(run)).await
    }
}

fn key(realm: &Realm, agent: &AgentId) -> Key {
    Key::in_realm(realm, [agent.as_str()])
}

impl Engine {
    /// Changes what is deployed. Once this returns, the change is on disk, and so is the run that states it.
    pub async fn deploy(
        &self,
        deployments: Deployments,
        change: DeploymentChange,
        audit: AuditRun,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let prepared = self.prepare_audit(audit, change.at)?;
        let write =
            move |record: Box<NewRun>| async move { deployments.deploy(change, *record).await };
        Ok(self.persist_and_drive(prepared, remember, write).await?)
    }
}
