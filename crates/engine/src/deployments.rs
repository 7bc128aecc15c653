//! Which versions of agents serve: the port, with the runs that tell of a change.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_core::Run;
use callboard_protocol::{AgentId, Owner, Timestamp, WorkflowId};

use crate::directory::Cast;
use crate::engine::{Done, Engine, EngineError, Newborn, Remember};
use crate::order::{Order, Target};
use crate::store::{KeyMode, NewRun, Realm, StoreError};

/// What each tenant has deployed for each kind of key, by agent. What stands in a state is not the store's business.
#[async_trait]
pub trait Deployments: fmt::Debug + Send + Sync {
    /// None where nobody ever changed anything.
    async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError>;

    /// Keeps a new state with the run that tells of it, or neither. Of several changes that were decided on
    /// the same version one is kept; the others are [`StoreError::Moved`].
    async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError>;
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

/// A run of the host's own: it tells what was decided, by whom.
#[derive(Debug, Clone)]
pub struct Telling {
    /// What the run is listed under. No catalog holds it.
    pub workflow: WorkflowId,
    pub definition: Arc<str>,
    pub owner: Owner,
    pub mode: KeyMode,
    pub tags: Vec<String>,
}

impl Engine {
    /// Changes what is deployed. Once this returns, the change is on disk, and so is the run that tells of it.
    pub async fn deploy(
        &self,
        deployments: Arc<dyn Deployments>,
        change: DeploymentChange,
        telling: Telling,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let newborn = self.telling(telling, change.at)?;
        let write =
            move |record: Box<NewRun>| async move { deployments.deploy(change, *record).await };
        Ok(self.bring_up_with(newborn, remember, write).await?)
    }

    /// Tells that something was not changed, and why.
    pub async fn tell(&self, telling: Telling, at: Timestamp) -> Result<Done, EngineError> {
        let newborn = self.telling(telling, at)?;
        self.bring_up(newborn, None).await
    }

    pub(crate) fn telling(&self, telling: Telling, at: Timestamp) -> Result<Newborn, EngineError> {
        let Telling { workflow, definition, owner, mode, tags } = telling;
        let (digest, plan) = self.inner.catalog.plan_of(&definition)?;
        let order = Order { tags, ..Order::new(Target::Workflow(workflow.clone()), owner, mode) };
        let limits = plan.admit(&order.inputs, &order.configurable, self.limits())?;
        let run = self.inner.ids.run_id();
        let birth = order.birth(run, workflow, digest, Cast::default(), (limits, None), at);
        Ok(self.newborn(Run::new(Arc::new(birth), plan), definition))
    }
}
