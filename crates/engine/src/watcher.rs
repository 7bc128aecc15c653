//! A reader's own fold of a run, for streams that show its state.

use std::collections::VecDeque;

use callboard_core::{Entry, Run};
use callboard_protocol::{RunId, RunSnapshot};

use crate::decisions::Lane;
use crate::engine::{Engine, EngineError};
use crate::record::refuse_unreadable;
use crate::store::Scope;

/// Folds a run's log step by step.
#[derive(Debug)]
pub struct Watcher {
    engine: Engine,
    id: RunId,
    /// None while a thread has it, and for good where it did not come back.
    run: Option<Box<Run>>,
    /// How many events the fold has seen.
    version: u64,
    /// Read and not folded yet.
    ahead: VecDeque<Entry>,
}

impl Engine {
    /// A fold that a reader advances at its own pace.
    pub async fn watch(&self, scope: &Scope, run: &RunId) -> Result<Option<Watcher>, EngineError> {
        let state = match self.open_visible(scope, run).await {
            Ok(state) => state,
            Err(EngineError::UnknownRun(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let fresh = Run::new(state.birth().clone(), state.plan().clone());
        let source = self.source_of(state.birth()).await?;
        Ok(Some(Watcher {
            engine: self.clone(),
            id: run.clone(),
            run: Some(Box::new(fresh.with_source(&source))),
            version: 0,
            ahead: VecDeque::new(),
        }))
    }
}

impl Watcher {
    /// The run as it was when its log held `version` events; going back is not possible.
    pub async fn advance_to(&mut self, version: u64) -> Result<RunSnapshot, EngineError> {
        let known = self.version + self.ahead.len() as u64;
        if known < version {
            let tail = self.engine.inner.store.tail(&self.id, known).await?;
            refuse_unreadable(&self.id, &tail)?;
            self.ahead.extend(tail);
        }
        let unknown = || EngineError::UnknownRun(self.id.clone());
        let run = self.run.take().ok_or_else(unknown)?;
        let missing = usize::try_from(version.saturating_sub(self.version)).unwrap_or(usize::MAX);
        let next: Vec<Entry> = self.ahead.drain(..missing.min(self.ahead.len())).collect();
        let fold = move |mut run: Box<Run>| {
            next.iter().for_each(|entry| run.apply(entry));
            let seen = run.snapshot();
            (run, seen)
        };
        let (run, seen) = self.engine.with_run(Lane::Read, run, fold).await?;
        self.version = run.version();
        self.run = Some(run);
        Ok(seen)
    }
}
