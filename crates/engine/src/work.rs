//! The port to members' work items, with the runs that items fire.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_protocol::{RosterId, RunStatus, Tenant, WorkItem};

use crate::engine::{Done, Engine, EngineError, Newborn, Order, Remember};
use crate::store::{NewRun, StoreError};

/// Queues of work by tenant and member. They go with their member.
#[async_trait]
pub trait Work: fmt::Debug + Send + Sync {
    /// All items of a member, oldest first.
    async fn work(&self, tenant: &Tenant, member: &RosterId)
    -> Result<Vec<StoredWork>, StoreError>;

    async fn work_item(
        &self,
        tenant: &Tenant,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError>;

    /// Keeps an item with the run that it fires, or neither. What was decided on another version, or for a
    /// member that is gone, is [`StoreError::Moved`].
    async fn put_work(&self, change: WorkChange, run: Option<NewRun>) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredWork {
    pub item: WorkItem,
    /// Grows by one with every change; the first is one.
    pub version: u64,
}

/// An item to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkChange {
    pub tenant: Tenant,
    pub item: WorkItem,
    /// The version that the change was decided on; zero for a new item.
    pub expected: u64,
}

impl Engine {
    /// Keeps an item together with the run that it fires. Once this returns, both are on disk.
    pub async fn fire_work(
        &self,
        work: Arc<dyn Work>,
        mut change: WorkChange,
        order: Order,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let Newborn { mut record, claim, run } = self.conceive(order).await?;
        change.item.run_id = Some(run.id().clone());
        let at = record.birth.created_at;
        let done = Done { run: run.id().clone(), status: RunStatus::Pending, at };
        record.outcome = remember.map(|remember| remember(&done));
        let birth = run.birth().clone();
        let commit = async move { work.put_work(change, Some(*record)).await };
        self.commit_and_drive(commit, claim, run).await?;
        self.run_created(&birth);
        Ok(done)
    }
}
