//! Children of the run that is driven: started, looked at, ended.

use callboard_core::{ChildOrder, Command, MemoryScope, status_for_parent};
use tokio::sync::oneshot;

use super::{Driver, Left, Step};
use crate::activity::{Kept, Superseded};
use crate::engine::EngineError;
use crate::sub_runs::{StartChild, SubRunError};

/// How many children are started, or looked at, in one append: enough to share a commit, few enough not to hold it up.
const MOST_AT_ONCE: usize = 64;

impl Driver<'_> {
    /// Starts the children that are owed, ends those that must end, and records what is new of the others.
    pub(super) async fn sync_children(&mut self) -> Result<Option<Left>, EngineError> {
        self.is_syncing = true;
        let mut left = None;
        while left.is_none() {
            let orders = self.run.child_orders();
            let steps = match orders.is_empty() {
                true => self.engine.patiently(|| self.child_updates()).await?,
                false => self.begin_children(orders).await?,
            };
            if steps.is_empty() {
                break;
            }
            left = self.record_all(steps, Kept::default()).await?;
        }
        self.is_syncing = false;
        match left {
            Some(left) => Ok(Some(left)),
            None => self.rest(self.engine.inner.clock.now()).await,
        }
    }

    /// What is new of the children. Most have not changed, so first it is only asked where they stand.
    async fn child_updates(&self) -> Result<Vec<Step>, EngineError> {
        let children = self.run.live_children();
        if children.is_empty() {
            return Ok(Vec::new());
        }
        for child in children.iter().filter(|child| child.must_end) {
            self.engine.end_child(&self.run, child).await?;
        }
        let runs: Vec<_> = children.iter().map(|child| child.run.clone()).collect();
        let statuses = self.engine.inner.store.statuses(&runs).await?;
        let moved = children.iter().zip(statuses).filter(|(child, standing)| {
            standing.is_some_and(|run| status_for_parent(run.status) != child.status)
        });
        let mut updates = Vec::new();
        for (child, _) in moved.take(MOST_AT_ONCE) {
            let update = self.engine.child_update(&self.run, child).await?;
            updates.extend(update.map(|update| Command::UpdateChild(update).into()));
        }
        Ok(updates)
    }

    /// Children, each to be written together with its event.
    async fn begin_children(&self, orders: Vec<ChildOrder>) -> Result<Vec<Step>, EngineError> {
        let mut steps = Vec::new();
        for order in orders.into_iter().take(MOST_AT_ONCE) {
            let prepare = || self.engine.child_of(&self.run, &order, None);
            let child = self.engine.patiently(prepare).await?;
            let ChildOrder { attempt, workflow, .. } = order;
            steps.push(match child {
                Ok(child) => {
                    let id = child.run.id().clone();
                    let command = Command::Dispatch { attempt, child: id, workflow };
                    Step { command, child: Some(child) }
                }
                Err(failure) => Command::Undispatch { attempt, workflow, failure }.into(),
            });
        }
        Ok(steps)
    }

    /// Starts a child that an activity ordered.
    pub(super) async fn start_child(
        &mut self,
        order: StartChild,
    ) -> Result<Option<Left>, EngineError> {
        let StartChild { attempt, run, workflow, inputs, started } = order;
        let mut left = None;
        let is_current = |driver: &Self| driver.run.attempts().any(|owed| owed == attempt);
        if is_current(self) && !self.run.has_started(&run) {
            let order = ChildOrder {
                attempt: attempt.clone(),
                workflow: workflow.clone(),
                inputs,
                unset: Vec::new(),
                memory: MemoryScope::default(),
                principal_scope: None,
            };
            let prepare = || self.engine.child_of(&self.run, &order, Some(run.clone()));
            match self.engine.patiently(prepare).await? {
                Ok(child) => {
                    let command = Command::Dispatch {
                        attempt: attempt.clone(),
                        child: run.clone(),
                        workflow,
                    };
                    let step = Step { command, child: Some(child) };
                    left = self.record_all(vec![step], Kept::default()).await?;
                }
                Err(failure) => {
                    // Its sender may be gone; then nobody waits for an answer.
                    let _gone = started.send(Err(SubRunError::Refused(failure)));
                    return Ok(None);
                }
            }
        }
        let is_started = is_current(self) && self.run.has_started(&run);
        let _gone = started.send(is_started.then_some(()).ok_or_else(|| Superseded.into()));
        Ok(left)
    }

    /// Records what is new of the children, for an attempt that waits for that.
    pub(super) async fn receive_child_updates(
        &mut self,
        synced: oneshot::Sender<()>,
    ) -> Result<Option<Left>, EngineError> {
        let left = self.sync_children().await?;
        let _gone = synced.send(());
        Ok(left)
    }
}
