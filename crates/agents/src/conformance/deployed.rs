//! The deployment that the protocol's channel fixture counts on.

use std::sync::Arc;

use async_trait::async_trait;

use callboard_engine::{
    DeploymentChange, Deployments, NewRun, Realm, StoreError, StoredDeployment,
};
use callboard_protocol::AgentId;

/// The agent of the fixture, which serves on `stable` before anybody deployed anything.
pub const DEPLOYED: &str = "core.conformance.channel-agent";

/// What `promote` would have left behind for the version that the pack brings.
const STATE: &str =
    r#"{"versions":{"1.0.0":{"state":"active"}},"channels":{"stable":{"serving":"1.0.0"}}}"#;

/// Every tenant's own deployments, and under them the one of conformance tests. A tenant that changes it has its own.
#[derive(Debug)]
pub struct SeededDeployments {
    own: Arc<dyn Deployments>,
}

impl SeededDeployments {
    pub fn over(own: Arc<dyn Deployments>) -> Self {
        Self { own }
    }
}

#[async_trait]
impl Deployments for SeededDeployments {
    async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError> {
        let own = self.own.deployment(realm, agent).await?;
        // Version zero: the tenant's first change is decided on nothing stored.
        let seed = || StoredDeployment { version: 0, state: STATE.to_owned() };
        Ok(own.or_else(|| (agent.as_str() == DEPLOYED).then(seed)))
    }

    async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError> {
        self.own.deploy(change, run).await
    }
}
