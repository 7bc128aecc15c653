//! The one way into a log: decide on what is known, append with the expected version, and on conflict
//! read again and decide again. Drivers, endpoints and timers all come through here.

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Run};
use callboard_protocol::{ENGINE_VERSION, Event, ForkMode, RunId};

use crate::engine::{Done, Engine, EngineError, Remember};
use crate::store::{Append, Fence, Row, Scope, StoreError};
use crate::webhooks::callbacks;

/// How often one command is decided anew because somebody else was faster. A run has one driver and few
/// callers; whoever loses this often is told to come back.
const MAX_CONFLICTS: usize = 32;

/// Builds the append that records what was decided.
pub(crate) fn append_of(run: &Run, entries: &[Entry], fence: Option<Fence>) -> Append {
    let head = run.head();
    let expected = head.version - entries.len() as u64;
    // A run that rests is read often and changes seldom: keep its fold beside it.
    let rests = head.status.is_terminal() || head.status.is_waiting() || head.wake_at.is_none();
    let snapshot = rests.then(|| serde_json::to_string(&run.snapshot()).ok()).flatten();
    Append {
        run: run.id().clone(),
        expected,
        fence,
        rows: entries.iter().map(|entry| row_of(run, entry)).collect(),
        head,
        snapshot,
        interrupts: run.questions_after(entries),
        outcome: None,
        memory: Vec::new(),
        files: Vec::new(),
        callbacks: callbacks(run.birth(), entries),
        children: Vec::new(),
        wakes: waiting_parent(run, entries),
    }
}

/// The parent that waits for what these entries tell.
fn waiting_parent(run: &Run, entries: &[Entry]) -> Option<RunId> {
    let parent = run.birth().parent.as_ref()?;
    let moves = |entry: &Entry| {
        matches!(
            entry.event,
            Event::NodeSuspended(_)
                | Event::NodeResumed(_)
                | Event::ChildChanged(_)
                | Event::RunCompleted(_)
                | Event::RunFailed(_)
                | Event::RunCancelled(_)
        )
    };
    entries.iter().any(moves).then(|| parent.run_id.clone())
}

fn row_of(run: &Run, entry: &Entry) -> Row {
    let masked = run.masked(&entry.event);
    let told = entry.event.payload_text();
    let (payload, private) = match masked {
        Some(masked) => (masked.to_string(), Some(told)),
        None => (told, None),
    };
    Row {
        at: entry.at,
        kind: entry.event.kind().to_owned(),
        node: entry.event.node_id().cloned(),
        payload,
        private,
        cause: entry.cause.clone(),
    }
}

impl Engine {
    /// Reads and folds a run.
    pub(crate) async fn open(&self, run: &RunId) -> Result<Option<Run>, EngineError> {
        self.open_if(run, |_| true).await
    }

    /// Opens a run that the caller may see; any other does not exist, whatever else is wrong with it.
    pub(crate) async fn open_visible(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Run, EngineError> {
        let opened = self.open_if(run, |birth| scope.sees(birth)).await?;
        opened.ok_or_else(|| EngineError::UnknownRun(run.clone()))
    }

    async fn open_if(
        &self,
        run: &RunId,
        may_see: impl Fn(&Birth) -> bool,
    ) -> Result<Option<Run>, EngineError> {
        let opened = self.inner.store.open(run).await?;
        let Some(opened) = opened.filter(|opened| may_see(&opened.birth)) else { return Ok(None) };
        if opened.birth.is_from_the_future() {
            return Err(EngineError::FutureVersion {
                run: run.clone(),
                persisted: opened.birth.engine_version,
                current: ENGINE_VERSION,
            });
        }
        let plan = self.inner.catalog.plan(&opened.birth.definition, &opened.definition)?;
        let mut run = Run::new(Arc::new(opened.birth), plan);
        if let Some(fork) = run.birth().fork.clone().filter(|fork| fork.mode == ForkMode::Replay) {
            let mut source = self.inner.store.tail(&fork.source, fork.from).await?;
            // What the source recorded after the fork is no part of the replay.
            source.truncate(usize::try_from(fork.until - fork.from).unwrap_or(usize::MAX));
            run = run.with_source(&source);
        }
        for entry in &opened.entries {
            run.apply(entry);
        }
        Ok(Some(run))
    }

    /// Records a command that comes from outside a claim.
    pub(crate) async fn record(
        &self,
        scope: &Scope,
        run: &RunId,
        command: &Command,
        remember: Option<&Remember>,
    ) -> Result<Done, EngineError> {
        for _ in 0..MAX_CONFLICTS {
            let mut state = self.open_visible(scope, run).await?;
            let at = self.inner.clock.now();
            let entries = state.decide(command, at)?;
            let done = Done {
                run: run.clone(),
                status: state.status(),
                at: entries.last().map_or(at, |last| last.at),
            };
            let mut append = append_of(&state, &entries, None);
            append.outcome = remember.map(|remember| remember(&done));
            let calls = !append.callbacks.is_empty();
            match self.inner.store.append(append).await {
                Ok(()) => {
                    self.observe(&state, &entries);
                    self.inner.nudge.notify_one();
                    if calls {
                        self.inner.asked.notify_one();
                    }
                    self.inner.log_grew();
                    return Ok(done);
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Store(StoreError::Unavailable(format!("the log of {run} is too busy"))))
    }
}
