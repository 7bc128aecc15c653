//! What is committed in one transaction.

use callboard_protocol::Timestamp;

use super::{Append, Claim, NewRun, Outcome};
use crate::audit_log::AuditFact;
use crate::memory::MemoryWrite;
use crate::records::{Key, RecordChange};

/// What is written together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Runs that begin.
    pub births: Vec<NewRun>,
    pub appends: Vec<Append>,
    pub records: Vec<RecordChange>,
    pub memory: Vec<MemoryWrite>,
    /// Claims that must be held, whatever else is written: what a past holder does has no effect.
    pub claims: Vec<Claim>,
    pub counters: Vec<CounterChange>,
    /// What the idempotent request came to that this batch is for, and the time by which an earlier outcome must have
    /// expired.
    pub outcome: Option<(Outcome, Timestamp)>,
    /// What the audit log tells of it, beside what follows from the records. For the store that
    /// [`audited`](crate::audited) makes, which makes records of it; a database never sees one.
    pub facts: Vec<AuditFact>,
}

impl Batch {
    pub fn of_append(append: Append) -> Self {
        Self { appends: vec![append], ..Self::default() }
    }

    /// A run that begins, with a claim where the new run asks for one.
    pub fn of_run(run: NewRun) -> Self {
        Self::default().with_birth(run)
    }

    /// What a request came to that wrote nothing else, unless one that has not expired at `at` is there.
    pub fn of_outcome(outcome: Outcome, at: Timestamp) -> Self {
        Self { outcome: Some((outcome, at)), ..Self::default() }
    }

    pub fn of_records(records: impl IntoIterator<Item = RecordChange>) -> Self {
        Self { records: records.into_iter().collect(), ..Self::default() }
    }

    #[must_use]
    pub fn with_birth(mut self, run: NewRun) -> Self {
        self.births.push(run);
        self
    }
}

/// Adds to a counter. Adding needs no version: it does not depend on what was there before.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterChange {
    pub key: Key,
    /// Which of the key's counters.
    pub name: &'static str,
    pub add: f64,
}

/// Which counters are read.
#[derive(Debug, Clone)]
pub enum CounterQuery {
    /// Those of one key.
    Of(Key),
    /// The first `most` of the keys below one.
    Below { key: Key, most: usize },
}
