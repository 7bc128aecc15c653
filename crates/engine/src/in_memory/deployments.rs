//! What is deployed, in memory.

use async_trait::async_trait;

use callboard_protocol::AgentId;

use super::InMemoryStore;
use crate::deployments::{DeploymentChange, Deployments, StoredDeployment};
use crate::store::{NewRun, Realm, StoreError};

#[async_trait]
impl Deployments for InMemoryStore {
    async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError> {
        Ok(self.tables().deployments.get(&(realm.clone(), agent.clone())).cloned())
    }

    async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.refuse_repetition(run.outcome.as_ref(), run.birth.created_at)?;
        let key = (change.realm, change.agent);
        let version = tables.deployments.get(&key).map_or(0, |stored| stored.version);
        if version != change.expected {
            return Err(StoreError::Moved { what: format!("the deployment of {}", key.1) });
        }
        tables.create(run)?;
        let stored = StoredDeployment { version: version + 1, state: change.state };
        tables.deployments.insert(key, stored);
        Ok(())
    }
}
