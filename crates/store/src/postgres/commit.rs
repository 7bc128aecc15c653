//! One batch: in arrays with others where it brings nothing else, or alone in a transaction of its own.

use std::sync::Arc;

use callboard_engine::{Append, Batch, StoreError};

use super::create::Refusals;
use super::fault::Fault;
use super::retry::Patience;
use super::session::Session;
use super::writer::Request as _;
use super::{
    Inner, PostgresStore, append, counters, create, generations, inbox, memory, outcome, records,
};
use crate::sealed::{SealedAppend, SealedBatch, SealedRun};

/// How a batch is written.
enum Way {
    Create(Box<SealedRun>),
    Append(Box<SealedAppend>),
    Alone(SealedBatch),
}

fn is_plain_run(run: &SealedRun) -> bool {
    !run.exclusive && run.birth.fork.is_none()
}

fn is_plain_append(sealed: &SealedAppend) -> bool {
    let Append { interrupts, outcome, .. } = &sealed.append;
    sealed.children.is_empty() && interrupts.is_none() && outcome.is_none()
}

impl Way {
    fn of(mut batch: SealedBatch) -> Self {
        let SealedBatch { births, appends, records, memory, claims, counters, outcome } = &batch;
        let brings_more = !records.is_empty()
            || !memory.is_empty()
            || !claims.is_empty()
            || !counters.is_empty()
            || outcome.is_some();
        match (births.as_slice(), appends.as_slice()) {
            ([run], []) if !brings_more && is_plain_run(run) => {
                batch.births.pop().map_or(Self::Alone(batch), |run| Self::Create(Box::new(run)))
            }
            ([], [append]) if !brings_more && is_plain_append(append) => batch
                .appends
                .pop()
                .map_or(Self::Alone(batch), |append| Self::Append(Box::new(append))),
            _ => Self::Alone(batch),
        }
    }
}

impl PostgresStore {
    pub(super) async fn commit_batch(&self, batch: Batch) -> Result<(), StoreError> {
        match Way::of(SealedBatch::seal(batch, &self.inner.seal)?) {
            Way::Create(run) => self.creations.write(*run).await,
            Way::Append(append) => self.appends.write(*append).await,
            Way::Alone(batch) => {
                // A caller that goes away must not leave a transaction halfway.
                let inner = Arc::clone(&self.inner);
                let writing = async move {
                    let written = write_alone(&inner, &batch).await;
                    batch.records.iter().for_each(|it| inner.quiet.written(it.change.kind));
                    written
                };
                let writing = self.inner.tasks.spawn(writing);
                writing.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
            }
        }
    }
}

async fn write_alone(inner: &Inner, batch: &SealedBatch) -> Result<(), StoreError> {
    let mut patience = Patience::default();
    let runs: Vec<&SealedRun> = all_births(batch).collect();
    loop {
        let session = inner.session().await?;
        let done = try_alone(inner, &session, batch, &runs).await;
        match done {
            Ok(()) => break,
            Err(fault) if patience.lasts(&fault).await => inner.definitions.forget(),
            Err(fault) => {
                return Err(create::refusal(records::refusal(fault, &batch.records), &runs).into());
            }
        }
    }
    for run in runs {
        run.announce(&inner.hints);
    }
    for sealed in &batch.appends {
        sealed.announce(&inner.hints);
    }
    if !generations::caches(&batch.records).is_empty() {
        inner.hints.caches();
    }
    Ok(())
}

fn all_births(batch: &SealedBatch) -> impl Iterator<Item = &SealedRun> {
    batch.births.iter().chain(batch.appends.iter().flat_map(|sealed| &sealed.children))
}

/// Records are compared before runs, everywhere: so two transactions do not wait for each other in a circle.
async fn try_alone(
    inner: &Inner,
    session: &Session,
    batch: &SealedBatch,
    runs: &[&SealedRun],
) -> Result<(), Fault> {
    inner.definitions.write(session, runs).await?;
    session.begin().await?;
    match write(inner, session, batch).await {
        Ok(()) => session.commit().await,
        Err(fault) => {
            session.roll_back().await?;
            Err(fault)
        }
    }
}

async fn write(inner: &Inner, session: &Session, batch: &SealedBatch) -> Result<(), Fault> {
    let mut checked = records::check(session, &batch.records).await;
    if checked.is_ok() {
        checked = memory::check(session, &batch.memory).await;
    }
    if let Err(moved) = checked {
        // A repeated request must get the outcome of the first, not a conflict with it.
        for (outcome, at) in batch.outcomes() {
            outcome::refuse_known(session, outcome, at).await?;
        }
        return Err(moved);
    }
    append::check_claims(session, &batch.claims).await?;
    if let Some((outcome, at)) = &batch.outcome {
        outcome::keep(session, outcome, *at).await?;
    }
    create_all(session, &batch.births).await?;
    for sealed in &batch.appends {
        append_alone(session, sealed).await?;
    }
    records::apply(session, &batch.records).await?;
    generations::raise(session, &batch.records).await?;
    counters::add(session, inner.slot, &batch.counters).await?;
    memory::apply(session, &batch.memory).await
}

async fn create_all(session: &Session, runs: &[SealedRun]) -> Result<(), Fault> {
    for run in runs.iter().filter(|run| run.exclusive) {
        create::refuse_busy_scope(session, &run.birth).await?;
    }
    if runs.is_empty() {
        return Ok(());
    }
    let runs: Vec<&SealedRun> = runs.iter().collect();
    first(create::create(session, &runs).await?)
}

async fn append_alone(session: &Session, sealed: &SealedAppend) -> Result<(), Fault> {
    let append = &sealed.append;
    if let Some(outcome) = &append.outcome {
        outcome::keep(session, outcome, append.head.updated_at).await?;
    }
    first(append::append(session, &[sealed]).await?)?;
    create_all(session, &sealed.children).await?;
    if let Some(interrupts) = &append.interrupts {
        inbox::replace(session, &append.run, interrupts).await?;
    }
    Ok(())
}

/// Refuses the transaction with what one of it was refused with.
fn first(refusals: Refusals) -> Result<(), Fault> {
    refusals.into_iter().flatten().next().map_or(Ok(()), |refusal| Err(refusal.into()))
}
