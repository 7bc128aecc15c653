//! One batch: everything that is written together, and what follows once it is on the disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use callboard_engine::{Batch, Kind, StoreError};

use super::fault::Fault;
use super::recent::HeldLog;
use super::{SqliteStore, append, counters, create, memory, outcome, records};
use crate::sealed::{SealedAppend, SealedBatch, SealedChange};

/// The outcome of a batch.
struct Written {
    /// How many events each log holds that was appended to.
    versions: Vec<u64>,
    /// Those logs, where their newest events are kept in memory.
    logs: Vec<Option<HeldLog>>,
    /// The last position of what was remembered; zero where nothing was.
    memory: u64,
}

impl SealedBatch {
    /// Records are compared first: most refusals then come before anything has changed, and cost nothing.
    fn write(&self, db: &Connection) -> Result<Written, Fault> {
        let checked =
            records::check(db, &self.records).and_then(|()| memory::check(db, &self.memory));
        if let Err(moved) = checked {
            self.refuse_repetition(db)?;
            return Err(moved);
        }
        for claim in &self.claims {
            append::check_claim(db, claim)?;
        }
        if let Some((outcome, at)) = &self.outcome {
            outcome::keep(db, outcome, *at)?;
        }
        for run in &self.births {
            create::create(db, run)?;
        }
        let versions = self.appends.iter().map(|append| append::append(db, append));
        let versions = versions.collect::<Result<_, _>>()?;
        records::apply(db, &self.records)?;
        counters::add(db, &self.counters)?;
        Ok(Written { versions, memory: memory::apply(db, &self.memory)?, logs: Vec::new() })
    }

    /// A repeated request must get the outcome of the first, not a conflict with it.
    fn refuse_repetition(&self, db: &Connection) -> Result<(), Fault> {
        for (outcome, at) in self.outcomes() {
            outcome::refuse_known(db, outcome, at)?;
        }
        Ok(())
    }
}

impl SqliteStore {
    pub(super) async fn commit_batch(&self, batch: Batch) -> Result<(), StoreError> {
        let sealed = SealedBatch::seal(batch, &self.seal)?;
        let recent = Arc::clone(&self.recent);
        let write = move |db: &Connection, sealed: &SealedBatch| {
            let written = sealed.write(db)?;
            let logs = sealed.appends.iter().map(|sealed| recent.hold(&sealed.append.run));
            Ok(Written { logs: logs.collect(), ..written })
        };
        self.writer.write_then(sealed, write, self.announce()).await
    }

    /// What follows a commit, before its caller is answered: caches learn of it, and those who wait are woken.
    fn announce(&self) -> impl FnOnce(SealedBatch, Written) + Send + 'static {
        let (changes, recent) = (Arc::clone(&self.changes), Arc::clone(&self.recent));
        let (position, known) = (self.memory.clone(), Arc::clone(&self.records));
        let (kinds, ended) = (Arc::clone(&self.kinds), Arc::clone(&self.ended));
        move |sealed, written| {
            let changed: BTreeSet<Kind> =
                sealed.records.iter().filter_map(SealedChange::changed).collect();
            if !changed.is_empty() {
                kinds.add(changed.iter().copied());
                known.forget(|read| changed.contains(&read.kind()));
            }
            position.reach(written.memory);
            // Whoever waits for the first event need not ask the database whether there is one.
            for run in sealed.births {
                recent.begin(&run.birth, run.head.status);
                changes.announce(&run.birth.run_id, 0);
            }
            let logs = written.versions.into_iter().zip(written.logs);
            for (SealedAppend { append, .. }, (version, log)) in
                sealed.appends.into_iter().zip(logs)
            {
                match log {
                    Some(mut log) => log.extend(append.rows, append.head.status, append.snapshot),
                    None => ended.forget(|run| *run == append.run),
                }
                changes.announce(&append.run, version);
            }
        }
    }
}
