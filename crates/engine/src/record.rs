//! The one way into a log: decide on what is known, append with the expected version, and on conflict
//! read again and decide again. Drivers, endpoints and timers all come through here.

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Refusal, Run, Unreadable};
use callboard_protocol::{CancelRequested, ENGINE_VERSION, Event, ForkMode, RunId};

use crate::audit_log::AuditFact;
use crate::budget::accounted_of;
use crate::catalog::Uncompiled;
use crate::decisions::{Decisions, Lane, Undecided};
use crate::engine::{Done, Engine, EngineError, Remember};
use crate::files::FileRow;
use crate::memory::{self, MemoryRow};
use crate::patience::may_pass;
use crate::store::{Append, Fence, Opened, Row, Scope, StoreError};
use crate::webhooks::callbacks;

/// How often one command is decided anew because another writer was faster. A run has one driver and few
/// callers; one that loses this often is asked to come back.
pub(crate) const MAX_CONFLICTS: usize = 32;

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
        children: Vec::new(),
        wakes: waiting_parent(run, entries),
    }
}

/// The parent that waits for these entries.
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

/// What people decide about a run is told in the audit log, too.
fn approval(run: &Run, entry: &Entry) -> Option<AuditFact> {
    let Event::ApprovalReceived(received) = &entry.event else { return None };
    let subject = format!("{}/{}", run.id(), received.node_id);
    let fact = AuditFact::new(Scope::of(run.birth()), "approval.received", subject);
    Some(fact.with("decision", &received.action).with("decidedBy", &received.decided_by))
}

fn row_of(run: &Run, entry: &Entry) -> Row {
    let masked = run.masked(&entry.event);
    let whole = entry.event.payload_text();
    let (payload, private) = match masked {
        Some(masked) => (masked.to_string(), Some(whole)),
        None => (whole, None),
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

/// Refuses a log that holds an event which this build cannot read: what follows from such a log is not known.
pub(crate) fn refuse_unreadable(run: &RunId, entries: &[Entry]) -> Result<(), EngineError> {
    let Some(unreadable) = Unreadable::find(entries) else { return Ok(()) };
    Err(EngineError::Unprocessable { run: run.clone(), why: Undecided::Unreadable(unreadable) })
}

/// What a run writes beside its log, with its events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) files: Vec<FileRow>,
}

impl Engine {
    /// Writes what was decided with all that belongs to it, and wakes its waiting readers.
    pub(crate) async fn commit(
        &self,
        run: &Run,
        entries: &[Entry],
        append: Append,
        mut rows: Rows,
    ) -> Result<(), StoreError> {
        rows.memory.extend(memory::summary_rows(run, entries));
        let wakes = append.wakes.clone();
        let mut batch = accounted_of(run, append);
        batch.facts.extend(entries.iter().filter_map(|entry| approval(run, entry)));
        let callbacks = callbacks(run.birth(), entries)?;
        let calls = !callbacks.is_empty();
        batch.records.extend(callbacks);
        if !rows.memory.is_empty() {
            memory::add_memory(&mut batch, &Scope::of(run.birth()), rows.memory)?;
        }
        if !rows.files.is_empty() {
            let owner = Scope::of(run.birth());
            batch.records.extend(self.inner.files.changes(&owner, run.id(), rows.files).await?);
        }
        let is_held = batch.appends.iter().any(|append| append.fence.is_some());
        match self.inner.store.commit(batch).await {
            Err(error) if is_held && may_pass(&error) && self.is_written(run, entries).await? => {}
            committed => committed?,
        }
        self.observe(run, entries);
        if let Some(parent) = &wakes {
            self.wake(parent);
        }
        if calls {
            self.inner.asked.notify_one();
        }
        self.inner.log_grew();
        Ok(())
    }

    /// Whether entries are in the log although the store did not confirm them. For the run's holder: the only one to
    /// write what it decides.
    async fn is_written(&self, run: &Run, entries: &[Entry]) -> Result<bool, StoreError> {
        let before = run.version() - entries.len() as u64;
        let written = self.inner.patient_store.tail(run.id(), before).await?;
        let place = |entry: &Entry| (entry.sequence, entry.at, entry.event.kind().to_owned());
        let is_there = written.len() >= entries.len();
        Ok(is_there && written.iter().zip(entries).all(|(one, other)| place(one) == place(other)))
    }

    /// Reads and folds a run for its holder.
    pub(crate) async fn open(&self, run: &RunId) -> Result<Option<Box<Run>>, EngineError> {
        self.open_if(Lane::Drive, run, |_| true).await
    }

    /// Opens a run that the caller may see; any other does not exist, whatever else is wrong with it.
    pub(crate) async fn open_visible(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Box<Run>, EngineError> {
        self.open_on(Lane::Read, scope, run).await
    }

    async fn open_on(
        &self,
        lane: Lane,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Box<Run>, EngineError> {
        self.refuse_struck(run)?;
        let opened = self.open_if(lane, run, |birth| scope.sees(birth)).await;
        if let Err(EngineError::Unprocessable { why, .. }) = &opened
            && !matches!(why, Undecided::Unreadable(_))
        {
            self.unread(run);
        }
        opened?.ok_or_else(|| EngineError::UnknownRun(run.clone()))
    }

    /// The birth record of a run that the caller may see. Nothing is folded for it.
    pub(crate) async fn birth_of(&self, scope: &Scope, run: &RunId) -> Result<Birth, EngineError> {
        Ok(self.unfolded(scope, run).await?.birth)
    }

    /// What is stored of a run that the caller may see.
    pub(crate) async fn unfolded(&self, scope: &Scope, run: &RunId) -> Result<Opened, EngineError> {
        let opened = self.inner.store.open(run).await?;
        let opened = opened.filter(|opened| scope.sees(&opened.birth));
        opened.ok_or_else(|| EngineError::UnknownRun(run.clone()))
    }

    async fn open_if(
        &self,
        lane: Lane,
        run: &RunId,
        may_see: impl Fn(&Birth) -> bool,
    ) -> Result<Option<Box<Run>>, EngineError> {
        let opened = self.inner.store.open(run).await?;
        let Some(opened) = opened.filter(|opened| may_see(&opened.birth)) else { return Ok(None) };
        let Opened { birth, definition, entries } = opened;
        if birth.is_from_the_future() {
            return Err(EngineError::FutureVersion {
                run: run.clone(),
                persisted: birth.engine_version,
                current: ENGINE_VERSION,
            });
        }
        refuse_unreadable(run, &entries)?;
        let plan = self.inner.catalog.plan(&birth.definition, &definition).await;
        let plan = plan.map_err(|uncompiled| match uncompiled {
            Uncompiled::Undecided(why) => EngineError::Unprocessable { run: run.clone(), why },
            Uncompiled::Invalid(error) => {
                let why = Undecided::Unusable(error.to_string());
                EngineError::Unprocessable { run: run.clone(), why }
            }
        })?;
        let state = Box::new(Run::new(Arc::new(birth), plan));
        let source = self.source_of(state.birth()).await?;
        let fold = move |mut state: Box<Run>| {
            if !source.is_empty() {
                *state = state.with_source(&source);
            }
            entries.iter().for_each(|entry| state.apply(entry));
            state
        };
        self.with_run(lane, state, fold).await.map(Some)
    }

    /// What a replay goes through again; nothing for any other run.
    pub(crate) async fn source_of(&self, birth: &Birth) -> Result<Vec<Entry>, EngineError> {
        let replay = birth.fork.as_ref().filter(|fork| fork.mode == ForkMode::Replay);
        let Some(fork) = replay else { return Ok(Vec::new()) };
        let mut source = self.inner.store.tail(&fork.source, fork.from).await?;
        // What the source recorded after the fork is no part of the replay.
        source.truncate(usize::try_from(fork.until - fork.from).unwrap_or(usize::MAX));
        refuse_unreadable(&birth.run_id, &source)?;
        Ok(source)
    }

    /// Does something with a run: on the spot where that is short by construction, else on a thread of the lane.
    pub(crate) async fn with_run<T: Send + 'static>(
        &self,
        lane: Lane,
        state: Box<Run>,
        work: impl FnOnce(Box<Run>) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let run = state.id().clone();
        let done = if state.is_light() {
            Decisions::at_once(move || work(state))
        } else {
            let before = self.inner.options.driving.before_decision;
            let work = move || {
                before.into_iter().for_each(|before| before(&state));
                work(state)
            };
            self.inner.decisions.make(lane, work).await
        };
        done.map_err(|why| EngineError::Unprocessable { run, why })
    }

    /// Records a command that comes from outside a claim.
    pub(crate) async fn record(
        &self,
        scope: &Scope,
        run: &RunId,
        command: &Command,
        remember: Option<&Remember>,
    ) -> Result<Done, EngineError> {
        match (self.record_folded(scope, run, command, remember).await, command) {
            // What nobody can fold can still be ended.
            (Err(EngineError::Unprocessable { .. }), Command::Cancel { reason, by, parent }) => {
                let request = CancelRequested {
                    reason: reason.clone(),
                    cancelled_by: by.clone(),
                    parent_run_id: parent.clone(),
                };
                self.cancel_unfolded(scope, run, &request, remember).await
            }
            (recorded, _) => recorded,
        }
    }

    async fn record_folded(
        &self,
        scope: &Scope,
        run: &RunId,
        command: &Command,
        remember: Option<&Remember>,
    ) -> Result<Done, EngineError> {
        for _ in 0..MAX_CONFLICTS {
            let state = self.open_on(Lane::Control, scope, run).await?;
            let at = self.inner.clock.now();
            let command = command.clone();
            let decide = move |mut state: Box<Run>| {
                let entries = state.decide(&command, at)?;
                let append = append_of(&state, &entries, None);
                Ok::<_, Refusal>((state, entries, append))
            };
            let (state, entries, mut append) =
                self.with_run(Lane::Control, state, decide).await??;
            let done = Done {
                run: run.clone(),
                status: state.status(),
                at: entries.last().map_or(at, |last| last.at),
            };
            append.outcome = remember.map(|remember| remember(&done));
            match self.commit(&state, &entries, append, Rows::default()).await {
                Ok(()) => {
                    self.inner.nudge.notify_one();
                    return Ok(done);
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Store(StoreError::Unavailable(format!("the log of {run} is too busy"))))
    }
}
