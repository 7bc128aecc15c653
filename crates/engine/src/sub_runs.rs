//! Child runs that an activity orders while it performs a node, as an agent does with a workflow that is its tool.
//!
//! The driver starts them: the child's birth and its event are one append, as for every child, and what
//! holds for the others holds for them (depth, family, budget, rights, cancelling).

use std::sync::{Arc, Weak};

use callboard_core::Attempt;
use callboard_protocol::{Failure, Object, RunId, RunStatus, WorkflowId, hex};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use crate::activity::{Call, Message, Superseded};
use crate::effects::EffectId;
use crate::engine::{Engine, Inner};
use crate::store::StoreError;

/// A workflow that an activity wants to have run.
#[derive(Debug, Clone)]
pub struct SubRun<'a> {
    /// The call that it is for: the same one finds the same run.
    pub effect: &'a EffectId,
    pub workflow: &'a WorkflowId,
    pub inputs: Object,
}

/// How a child run ended, as readers may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SubRunResult {
    pub status: RunStatus,
    /// The payload of the run's last event.
    pub last: Object,
}

/// Why there is no child run, or no result of one.
#[derive(Debug, thiserror::Error)]
pub enum SubRunError {
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// No such child may be started.
    #[error("{}", .0.message)]
    Refused(Failure),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A child that the driver is to start.
#[derive(Debug)]
pub(crate) struct StartChild {
    pub(crate) attempt: Attempt,
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowId,
    pub(crate) inputs: Object,
    pub(crate) started: oneshot::Sender<Result<(), SubRunError>>,
}

/// An engine that others hold without keeping it alive.
#[derive(Debug, Clone)]
pub struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner })
    }
}

impl Engine {
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }
}

impl Call {
    /// Starts a child of this run, unless an earlier attempt has started it for the same call.
    pub async fn start_sub_run(&self, sub_run: SubRun<'_>) -> Result<RunId, SubRunError> {
        let run = run_of(sub_run.effect);
        let (started, answer) = oneshot::channel();
        let order = StartChild {
            attempt: self.attempt.clone(),
            run: run.clone(),
            workflow: sub_run.workflow.clone(),
            inputs: sub_run.inputs,
            started,
        };
        self.fact_sender.0.send(Message::StartChild(order)).await.map_err(|_| Superseded)?;
        answer.await.map_err(|_| Superseded)??;
        Ok(run)
    }

    /// Waits until a child has ended and this run's log says so.
    pub async fn sub_run_result(&self, run: &RunId) -> Result<SubRunResult, SubRunError> {
        let scope = self.scope();
        let gone = || Failure::new("child_run_missing", format!("there is no run {run} any more"));
        loop {
            let found = self.store.find(&scope, run).await?;
            let found = found.ok_or_else(|| SubRunError::Refused(gone()))?;
            let version = found.version;
            if !found.status.is_terminal() {
                self.store.changed(run, version).await;
                continue;
            }
            let (synced, answer) = oneshot::channel();
            self.fact_sender.0.send(Message::ChildUpdates(synced)).await.map_err(|_| Superseded)?;
            answer.await.map_err(|_| Superseded)?;
            let page = self.store.read(&scope, run, version.saturating_sub(1), 1).await?;
            let page = page.ok_or_else(|| SubRunError::Refused(gone()))?;
            let last = page.events.last().map(|event| event.payload.as_str());
            let last = last.and_then(|payload| serde_json::from_str(payload).ok());
            return Ok(SubRunResult { status: page.status, last: last.unwrap_or_default() });
        }
    }
}

/// The name of the run that is started for a call: the same on every host.
fn run_of(effect: &EffectId) -> RunId {
    let mut hash = Sha256::new();
    hash.update("callboard:sub-run\0");
    hash.update(effect.as_str());
    format!("run_{}", &hex(hash.finalize())[..32]).into()
}
