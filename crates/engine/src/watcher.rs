//! A reader's own fold of a run, for streams that show its state.

use std::collections::VecDeque;
use std::sync::Arc;

use callboard_core::{Entry, Run};
use callboard_protocol::{RunId, RunSnapshot};

use crate::engine::{Engine, EngineError};
use crate::store::{Scope, Store, StoreError};

/// Folds a run's log step by step.
#[derive(Debug)]
pub struct Watcher {
    store: Arc<dyn Store>,
    run: Run,
    /// Read and not folded yet.
    ahead: VecDeque<Entry>,
}

impl Engine {
    /// A fold that a reader advances at its own pace.
    pub async fn watch(&self, scope: &Scope, run: &RunId) -> Result<Option<Watcher>, EngineError> {
        match self.open_visible(scope, run).await {
            Ok(state) => {
                let run = Run::new(state.birth().clone(), state.plan().clone());
                Ok(Some(Watcher { store: self.inner.store.clone(), run, ahead: VecDeque::new() }))
            }
            Err(EngineError::UnknownRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Watcher {
    /// The run as it was when its log held `version` events; going back is not possible.
    pub async fn advance_to(&mut self, version: u64) -> Result<RunSnapshot, StoreError> {
        let known = self.run.version() + self.ahead.len() as u64;
        if known < version {
            self.ahead.extend(self.store.tail(self.run.id(), known).await?);
        }
        while self.run.version() < version
            && let Some(entry) = self.ahead.pop_front()
        {
            self.run.apply(&entry);
        }
        Ok(self.run.snapshot())
    }
}
