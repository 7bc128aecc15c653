//! Runs about which nothing can be decided: counted, given up, and ended from their birth record alone.
//!
//! The count is kept on disk, because the next start takes the run up again. A decision that outlived its limit or
//! broke is counted afterwards. One that ends the whole process cannot be, so a run whose last holder was lost is
//! counted before its first decision and absolved after it: one small write each, and only after a crash. Runs that
//! are counted already are then tried one at a time, so that one that kills the process takes nobody's name with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use callboard_core::{
    Birth, Command, Entry, Head, Refusal, UNPROCESSABLE, cancelled_unfolded, unfolded_snapshot,
    unprocessable,
};
use callboard_protocol::{CancelRequested, Event, RunId, RunStatus, Timestamp};

use crate::decisions::Undecided;
use crate::engine::{Done, Engine, EngineError, Remember};
use crate::record::MAX_CONFLICTS;
use crate::store::{Append, Batch, Claim, ClaimOrigin, Fence, Row, Scope, StoreError, Then};

/// Decisions about one run that may come to nothing before it is given up.
const MOST_STRIKES: u32 = 2;

/// The runs that are counted, as far as this process knows.
#[derive(Debug)]
pub(crate) struct Struck {
    runs: Mutex<BTreeMap<RunId, u32>>,
    /// The permit to try a run that may end the process.
    alone: Arc<Semaphore>,
}

impl Default for Struck {
    fn default() -> Self {
        Self { runs: Mutex::default(), alone: Arc::new(Semaphore::new(1)) }
    }
}

impl Struck {
    fn of(&self, run: &RunId) -> u32 {
        self.runs().get(run).copied().unwrap_or(0)
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, u32>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first decision about a run whose last holder was lost.
#[derive(Debug)]
pub(crate) struct Trial {
    /// How often the run is counted, this time included.
    pub(crate) strikes: u32,
    _alone: Option<OwnedSemaphorePermit>,
}

/// What becomes of a run after a decision that came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is tried once more.
    Again,
    /// It is given up.
    GivenUp,
}

impl Engine {
    /// Reads which runs are counted; before the first of them is claimed.
    pub(crate) async fn learn_struck(&self) {
        match self.inner.strikes.all().await {
            Ok(struck) => self.inner.struck.runs().extend(struck),
            Err(error) => tracing::warn!(%error, "not known which runs could not be decided"),
        }
    }

    /// Nobody who only looks gets a thread for a run that has taken as many as it may.
    pub(crate) fn refuse_struck(&self, run: &RunId) -> Result<(), EngineError> {
        if self.inner.struck.of(run) < MOST_STRIKES {
            return Ok(());
        }
        let why = Undecided::Overran { limit: self.inner.decisions.limit() };
        Err(EngineError::Unprocessable { run: run.clone(), why })
    }

    /// Notes that a reader's fold came to nothing. The run itself may be well, so this is forgotten with the process.
    pub(crate) fn unread(&self, run: &RunId) {
        *self.inner.struck.runs().entry(run.clone()).or_default() += 1;
    }

    /// Counts a run before its first decision, where its last holder was lost.
    pub(crate) async fn try_out(&self, claim: &Claim) -> Option<Trial> {
        if claim.origin != ClaimOrigin::Lost {
            return None;
        }
        let struck = &self.inner.struck;
        let alone = match struck.of(&claim.run) {
            0 => None,
            _ => Arc::clone(&struck.alone).acquire_owned().await.ok(),
        };
        Some(Trial { strikes: self.strike(&claim.run).await, _alone: alone })
    }

    /// Takes back what was counted before a decision that came to its end.
    pub(crate) async fn absolve(&self, run: &RunId) {
        let take_back = || async { Ok(self.inner.strikes.take_back(run).await?) };
        match self.patiently(take_back).await {
            Ok(()) => {
                let mut struck = self.inner.struck.runs();
                if let Some(count) = struck.get_mut(run) {
                    *count -= 1;
                    if *count == 0 {
                        struck.remove(run);
                    }
                }
            }
            Err(error) => tracing::warn!(%run, %error, "run not absolved"),
        }
    }

    async fn strike(&self, run: &RunId) -> u32 {
        let stored = self.inner.strikes.add(run).await;
        let mut struck = self.inner.struck.runs();
        let count = struck.entry(run.clone()).or_default();
        *count = stored.unwrap_or_else(|error| {
            tracing::warn!(%run, %error, "decision not counted on disk");
            *count + 1
        });
        *count
    }

    /// What becomes of a run about which nothing was decided. One that was tried out is counted already.
    pub(crate) async fn judge(&self, claim: &Claim, why: &Undecided, trial: Option<u32>) -> Fate {
        let strikes = match trial {
            Some(strikes) => strikes,
            None => self.strike(&claim.run).await,
        };
        tracing::error!(run = %claim.run, strikes, of = MOST_STRIKES, %why, "nothing decided about a run");
        let is_hopeless = matches!(why, Undecided::Unusable(_)) || strikes >= MOST_STRIKES;
        if !is_hopeless {
            return Fate::Again;
        }
        self.give_up(claim, &why.to_string()).await;
        Fate::GivenUp
    }

    /// Gives up a run that was counted too often before, by processes that are gone.
    pub(crate) async fn give_up_if_fatal(&self, claim: &Claim, trial: Option<&Trial>) -> Fate {
        if trial.is_none_or(|trial| trial.strikes <= MOST_STRIKES) {
            return Fate::Again;
        }
        let why = "the host ended each time that it decided what comes next";
        self.give_up(claim, why).await;
        Fate::GivenUp
    }

    async fn give_up(&self, claim: &Claim, why: &str) {
        tracing::error!(run = %claim.run, why, "run given up with run_unprocessable");
        let end = |birth: &Birth, at| unprocessable(birth, why, at);
        let ended = self
            .patiently(|| self.end_unfolded(&claim.run, |_| true, Some(claim), None, &end))
            .await;
        match ended {
            Ok(_) | Err(EngineError::Refused(Refusal::Ended { .. })) => {}
            // The claim expires by itself, and the next holder gives the run up.
            Err(error) => tracing::error!(run = %claim.run, %error, "run not given up"),
        }
    }

    /// Cancels a run that cannot be folded.
    pub(crate) async fn cancel_unfolded(
        &self,
        scope: &Scope,
        run: &RunId,
        request: &CancelRequested,
        remember: Option<&Remember>,
    ) -> Result<Done, EngineError> {
        tracing::warn!(%run, "cancelling a run about which nothing can be decided");
        let end = |birth: &Birth, at| cancelled_unfolded(birth, request.clone(), at);
        self.end_unfolded(run, |birth| scope.sees(birth), None, remember, &end).await
    }

    /// Appends a run's last event on what its birth record and the length of its log say.
    async fn end_unfolded(
        &self,
        run: &RunId,
        may_see: impl Fn(&Birth) -> bool,
        claim: Option<&Claim>,
        remember: Option<&Remember>,
        end: &(dyn Fn(&Birth, Timestamp) -> Event + Sync),
    ) -> Result<Done, EngineError> {
        let inner = &self.inner;
        for _ in 0..MAX_CONFLICTS {
            let opened = inner.store.open(run).await?.filter(|opened| may_see(&opened.birth));
            let opened = opened.ok_or_else(|| EngineError::UnknownRun(run.clone()))?;
            if let Some(status) = opened.entries.last().and_then(end_of) {
                return Err(EngineError::Refused(Refusal::Ended { status }));
            }
            let last = opened.entries.last().map(|last| last.at);
            let at = inner.clock.now().max(last.unwrap_or_default());
            let ending = Ending { birth: &opened.birth, expected: opened.entries.len() as u64, at };
            let event = end(&opened.birth, at);
            let mut append = ending.append(event, claim);
            let done = Done { run: run.clone(), status: append.head.status, at };
            append.outcome = remember.map(|remember| remember(&done));
            match inner.store.commit(Batch::of_append(append)).await {
                Ok(()) => {
                    let code = (done.status == RunStatus::Failed).then_some(UNPROCESSABLE);
                    self.run_ended(&opened.birth, done.status, at, code);
                    inner.nudge.notify_one();
                    if let Some(parent) = &opened.birth.parent {
                        self.wake(&parent.run_id);
                    }
                    inner.log_grew();
                    // Runs within runs may lie as deep as they may, so only addresses are moved.
                    Box::pin(self.end_children_of(&opened.birth, &opened.entries)).await;
                    return Ok(done);
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Store(StoreError::Unavailable(format!("the log of {run} is too busy"))))
    }

    /// Children go with their parent; one that has ended already needs nothing.
    async fn end_children_of(&self, birth: &Birth, entries: &[Entry]) {
        let scope = Scope { workspace: None, ..Scope::of(birth) };
        let command = Command::Cancel {
            reason: Some("parent-cancelled".into()),
            by: None,
            parent: Some(birth.run_id.clone()),
        };
        for entry in entries {
            let Event::NodeDispatched(dispatched) = &entry.event else { continue };
            let child = &dispatched.child_run_id;
            match self.record(&scope, child, &command, None).await {
                Ok(_) | Err(EngineError::Refused(Refusal::Ended { .. })) => {}
                Err(error) => tracing::warn!(%child, %error, "child not ended with its parent"),
            }
        }
    }
}

/// Where a run ends that nobody folds.
struct Ending<'a> {
    birth: &'a Birth,
    expected: u64,
    at: Timestamp,
}

impl Ending<'_> {
    fn append(&self, event: Event, claim: Option<&Claim>) -> Append {
        let (status, error) = match &event {
            Event::RunFailed(failed) => (RunStatus::Failed, Some(failed.error.clone())),
            _ => (RunStatus::Cancelled, None),
        };
        let version = self.expected + 1;
        let seen = unfolded_snapshot(self.birth, status, version, Some((self.at, error)));
        let row = Row {
            at: self.at,
            kind: event.kind().to_owned(),
            node: None,
            payload: event.payload_text(),
            private: None,
            cause: None,
        };
        Append {
            run: self.birth.run_id.clone(),
            expected: self.expected,
            fence: claim.map(|claim| Fence { claim: claim.clone(), then: Then::Release }),
            rows: vec![row],
            head: Head { status, version, wake_at: None, updated_at: self.at },
            snapshot: serde_json::to_string(&seen).ok(),
            interrupts: Some(Vec::new()),
            outcome: None,
            children: Vec::new(),
            wakes: self.birth.parent.as_ref().map(|parent| parent.run_id.clone()),
        }
    }
}

/// How a run ended with this event, if it did.
pub(crate) fn end_of(entry: &Entry) -> Option<RunStatus> {
    match entry.event {
        Event::RunCompleted(_) => Some(RunStatus::Completed),
        Event::RunFailed(_) => Some(RunStatus::Failed),
        Event::RunCancelled(_) => Some(RunStatus::Cancelled),
        _ => None,
    }
}
