//! What a holder decides and records: on the spot where that is short, else on a thread of its own.

use std::time::Duration;

use callboard_core::{Command, Entry, Run};
use callboard_protocol::Timestamp;

use super::{Driver, Left, Step};
use crate::activity::Kept;
use crate::decisions::{Decisions, Lane};
use crate::engine::EngineError;
use crate::files::file_rows_of;
use crate::memory::rows_of;
use crate::patience::{may_pass, wait_after};
use crate::record::{Rows, append_of};
use crate::store::{Append, Claim, Fence, StoreError, Then};

/// Waits up to this long are sat out with claim and state in memory; longer ones release the run.
const LONGEST_HELD_WAIT: Duration = Duration::from_secs(60);
/// The same for a run that holds much: reading it again costs less than the memory that it would keep from others.
const LONGEST_HEAVY_WAIT: Duration = Duration::from_secs(1);
/// What such a run weighs.
const HEAVY: usize = 1 << 20;

/// What commands came to, with what is to be written of it.
struct Decided {
    entries: Vec<Entry>,
    append: Append,
    rows: Rows,
    then: Then,
}

/// Whether a run has nothing to do for so long that nobody needs to hold it.
pub(super) fn is_at_rest(run: &Run, now: Timestamp, is_syncing: bool) -> bool {
    let held = if run.weight() > HEAVY { LONGEST_HEAVY_WAIT } else { LONGEST_HELD_WAIT };
    let waits_long = run.wakes_at().is_none_or(|at| at > now.plus(held));
    let is_idle = run.attempts().next().is_none() && !run.owes_children();
    run.status().is_terminal() || (waits_long && is_idle && !is_syncing)
}

/// Under what a decision is written.
struct Terms {
    claim: Claim,
    now: Timestamp,
    hold_until: Timestamp,
    is_syncing: bool,
}

/// Decides steps one after the other; none where they come to nothing.
fn decide(run: &mut Run, steps: &[Step], kept: &Kept, terms: Terms) -> Option<Decided> {
    let Terms { claim, now, hold_until, is_syncing } = terms;
    let mut entries = Vec::new();
    for step in steps {
        match run.decide(&step.command, now) {
            Ok(decided) if entries.is_empty() => entries = decided,
            Ok(decided) => entries.extend(decided),
            Err(refusal) => tracing::debug!(%refusal, "command refused"),
        }
    }
    if entries.is_empty() {
        return None;
    }
    let then = match is_at_rest(run, now, is_syncing) {
        true => Then::Release,
        false => Then::Hold { until: hold_until },
    };
    let mut append = append_of(run, &entries, Some(Fence { claim, then }));
    let begun = steps.iter().filter_map(|step| step.child.as_ref());
    let begun = begun.filter(|child| run.has_started(child.run.id()));
    append.children = begun.map(|child| (*child.record).clone()).collect();
    let rows = Rows {
        memory: rows_of(run, &entries, &kept.memory),
        files: file_rows_of(&entries, &kept.files),
    };
    Some(Decided { entries, append, rows, then })
}

impl Driver<'_> {
    pub(super) async fn record(&mut self, command: Command) -> Result<Option<Left>, EngineError> {
        self.record_all(vec![command.into()], Kept::default()).await
    }

    /// Records commands under this claim, one after the other in one append, with what belongs to them. A refusal
    /// means that the run has moved on without us. What an activity says is cleaned here, before anything is made of it.
    pub(super) async fn record_all(
        &mut self,
        mut steps: Vec<Step>,
        mut kept: Kept,
    ) -> Result<Option<Left>, EngineError> {
        {
            let known = self.resolved.known();
            steps.iter_mut().for_each(|step| known.redact_command(&mut step.command));
            kept.memory.iter_mut().for_each(|(_, draft)| draft.redact(&known));
            kept.files.iter_mut().for_each(|row| row.redact(&known));
        }
        let mut failures = 0;
        loop {
            if self.engine.has_lapsed(&self.claim) {
                return Ok(Some(Left::Lost));
            }
            let now = self.engine.inner.clock.now();
            let terms = Terms {
                claim: self.claim.clone(),
                now,
                hold_until: self.engine.inner.lease_end(),
                is_syncing: self.is_syncing,
            };
            let decided = self.with_run(move |run| {
                let decided = decide(run, &steps, &kept, terms);
                (decided, steps, kept)
            });
            let (decided, these, theirs) = decided.await?;
            (steps, kept) = (these, theirs);
            self.place.weigh(self.run.weight());
            let Some(Decided { entries, append, rows, then }) = decided else {
                return self.rest(now).await;
            };
            match self.engine.commit(&self.run, &entries, append, rows).await {
                Ok(()) => {
                    let begun = steps.into_iter().filter_map(|step| step.child);
                    for child in begun.filter(|child| self.run.has_started(child.run.id())) {
                        self.engine.drive_child(child);
                    }
                    self.share_memory(&entries);
                    self.stop_superseded();
                    return Ok((then == Then::Release).then_some(Left::Released));
                }
                Err(StoreError::Conflict { .. }) => self.read_again().await?,
                Err(StoreError::LeaseLost { .. }) => return Ok(Some(Left::Lost)),
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "not recorded; trying again");
                    wait_after(&*self.engine.inner.clock, failures).await;
                    failures = failures.saturating_add(1);
                    // What was decided is dropped; the same commands are decided anew.
                    self.read_again().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does something with the run. One that does not come back from its thread ends this driver.
    pub(super) async fn with_run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Run) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        if self.run.is_light() {
            let run = &mut self.run;
            return Decisions::at_once(|| work(run))
                .map_err(|why| EngineError::Unprocessable { run: self.claim.run.clone(), why });
        }
        let stand_in = Box::new(self.run.stand_in());
        let run = std::mem::replace(&mut self.run, stand_in);
        let work = move |mut run: Box<Run>| {
            let done = work(&mut run);
            (run, done)
        };
        let (run, done) = self.engine.with_run(Lane::Drive, run, work).await?;
        self.run = run;
        Ok(done)
    }
}
