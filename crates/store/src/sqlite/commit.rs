//! One batch: everything that is written together, and what follows once it is on the disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;

use callboard_engine::{Batch, Kind, Outcome, StoreError};
use callboard_protocol::Timestamp;

use super::append::{self, SealedAppend, Written};
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::recent::HeldLog;
use super::records::{self, SealedChange};
use super::{SqliteStore, outcome};
use crate::seal::Seal;

/// A batch as it goes to the disk.
struct SealedBatch {
    births: Vec<SealedRun>,
    appends: Vec<SealedAppend>,
    records: Vec<SealedChange>,
    outcome: Option<(Outcome, Timestamp)>,
}

impl SealedBatch {
    fn seal(batch: Batch, seal: &Seal) -> Result<Self, StoreError> {
        let Batch { births, appends, records, outcome } = batch;
        let births = births.into_iter().map(|run| SealedRun::seal(run, seal));
        let appends = appends.into_iter().map(|append| SealedAppend::seal(append, seal));
        Ok(Self {
            births: births.collect::<Result<_, _>>()?,
            appends: appends.collect::<Result<_, _>>()?,
            records: SealedChange::seal_all(records, seal)?,
            outcome,
        })
    }

    /// Records are compared first: most refusals then come before anything has changed, and cost nothing.
    fn write(&self, db: &Connection) -> Result<Vec<Written>, Fault> {
        records::check(db, &self.records)?;
        if let Some((outcome, at)) = &self.outcome {
            outcome::keep(db, outcome, *at)?;
        }
        for run in &self.births {
            create::create(db, run)?;
        }
        let written = self.appends.iter().map(|append| append::append(db, append));
        let written = written.collect::<Result<_, _>>()?;
        records::apply(db, &self.records)?;
        Ok(written)
    }
}

impl SqliteStore {
    pub(super) async fn commit_batch(&self, batch: Batch) -> Result<(), StoreError> {
        let sealed = SealedBatch::seal(batch, &self.seal)?;
        let recent = Arc::clone(&self.recent);
        let write = move |db: &Connection, sealed: &SealedBatch| {
            let written = sealed.write(db)?;
            let logs = sealed.appends.iter().map(|sealed| recent.hold(&sealed.append.run));
            Ok(written.into_iter().zip(logs).collect::<Vec<_>>())
        };
        self.writer.write_then(sealed, write, self.announce()).await
    }

    /// What follows a commit, before its caller is answered: caches learn of it, and those who wait are woken.
    fn announce(
        &self,
    ) -> impl FnOnce(SealedBatch, Vec<(Written, Option<HeldLog>)>) + Send + 'static {
        let (changes, recent) = (Arc::clone(&self.changes), Arc::clone(&self.recent));
        let (position, any_files) = (self.memory.clone(), self.files.clone());
        let known = Arc::clone(&self.records);
        move |sealed, written| {
            let changed: BTreeSet<Kind> = sealed.records.iter().map(SealedChange::kind).collect();
            if !changed.is_empty() {
                known.forget(|read| changed.contains(&read.kind()));
            }
            // Whoever waits for the first event need not ask the database whether there is one.
            for run in sealed.births {
                recent.begin(&run.birth, run.head.status);
                changes.announce(&run.birth.run_id, 0);
            }
            for (SealedAppend { append, .. }, (written, log)) in
                sealed.appends.into_iter().zip(written)
            {
                position.reach(written.memory);
                any_files.learn(written.files);
                if let Some(mut log) = log {
                    log.extend(append.rows, append.head.status);
                }
                changes.announce(&append.run, written.version);
            }
        }
    }
}
