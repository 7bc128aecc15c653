//! What both databases keep of a batch: values serialised and sealed on the caller's side, and read back again.

mod effect;
mod record;
mod run;

pub(crate) use effect::{SealedEffect, StoredEffect, open_effect, seal_outcome};
pub(crate) use record::{SealedChange, open_blob, open_body};
pub(crate) use run::{
    SealedAppend, SealedBirth, SealedEvent, SealedRun, cause_of, cause_text, open_birth, open_entry,
};

use callboard_engine::{Batch, Claim, CounterChange, MemoryWrite, Outcome, StoreError};
use callboard_protocol::{RunId, Timestamp};

use crate::seal::Seal;

/// A batch as it goes to the disk.
pub(crate) struct SealedBatch {
    pub(crate) births: Vec<SealedRun>,
    pub(crate) appends: Vec<SealedAppend>,
    pub(crate) records: Vec<SealedChange>,
    pub(crate) memory: Vec<MemoryWrite>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) counters: Vec<CounterChange>,
    pub(crate) outcome: Option<(Outcome, Timestamp)>,
}

impl SealedBatch {
    pub(crate) fn seal(batch: Batch, seal: &Seal) -> Result<Self, StoreError> {
        let Batch { births, appends, records, memory, claims, counters, outcome, facts: _ } = batch;
        let births = births.into_iter().map(|run| SealedRun::seal(run, seal));
        let appends = appends.into_iter().map(|append| SealedAppend::seal(append, seal));
        Ok(Self {
            births: births.collect::<Result<_, _>>()?,
            appends: appends.collect::<Result<_, _>>()?,
            records: SealedChange::seal_all(records, seal)?,
            claims,
            memory,
            counters,
            outcome,
        })
    }

    /// Every outcome that is kept with this batch, and the time by which an earlier one must have expired.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&Outcome, Timestamp)> {
        let own = self.outcome.iter().map(|(outcome, at)| (outcome, *at));
        let births = self.births.iter();
        let births = births.filter_map(|run| Some((run.outcome.as_ref()?, run.birth.created_at)));
        let appends = self
            .appends
            .iter()
            .map(|sealed| &sealed.append)
            .filter_map(|append| Some((append.outcome.as_ref()?, append.head.updated_at)));
        own.chain(births).chain(appends)
    }
}

pub(crate) fn unreadable(what: impl Into<String>, why: impl ToString) -> StoreError {
    StoreError::Unreadable { what: what.into(), why: why.to_string() }
}

pub(crate) fn unknown_run(run: &RunId) -> StoreError {
    unreadable(run.as_str(), "there is no such run")
}
