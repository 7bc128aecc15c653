//! Writes the chain: entries in the transaction of what they tell of, checkpoints when they are full or due.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ed25519_dalek::SigningKey;

use callboard_protocol::Timestamp;

use super::chain::ChainHead;
use super::facts::{AuditFact, fact_of, is_audited};
use super::{checkpoint_due, head_key, numbered, signing_key};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::intercept::{Intercept, InterceptedStore};
use crate::records::{Expected, Kind, Record, RecordChange, Tries};
use crate::store::{Batch, Realm, Scope, Store, StoreError};

/// Checkpoints that one tick makes at most; the others have their turn in the next.
const BATCH: usize = 64;

/// The same store, which writes an entry with every change of access or policy. Two writers of one chain wait for each
/// other; whatever else is committed goes by.
pub fn audited(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let key = signing_key(&*store);
    Arc::new(InterceptedStore::new(store, Arc::new(Auditor { clock, key })))
}

struct Auditor {
    clock: Arc<dyn Clock>,
    key: SigningKey,
}

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auditor").finish_non_exhaustive()
    }
}

#[async_trait]
impl Intercept for Auditor {
    async fn commit_instead(
        &self,
        store: &dyn Store,
        mut batch: Batch,
    ) -> Result<Result<(), StoreError>, Batch> {
        let facts = std::mem::take(&mut batch.facts);
        if facts.is_empty() && !batch.records.iter().any(is_audited) {
            return Ok(store.commit(batch).await);
        }
        let mut tries = Tries::default();
        loop {
            let outcome = self.commit(store, &batch, &facts).await;
            // Only a chain that has moved on is no affair of the caller's.
            let is_ours = matches!(&outcome, Err((_, Cause::Chain)));
            let outcome = outcome.map_err(|(error, _)| error);
            if !is_ours || !tries.again(&outcome) {
                return Ok(outcome);
            }
        }
    }
}

/// Why a commit was refused.
enum Cause {
    Chain,
    Caller,
}

impl Auditor {
    async fn commit(
        &self,
        store: &dyn Store,
        batch: &Batch,
        facts: &[AuditFact],
    ) -> Result<(), (StoreError, Cause)> {
        let mut batch = batch.clone();
        let mut facts = facts.to_vec();
        for change in batch.records.iter().filter(|change| is_audited(change)) {
            let before = store.get(change.kind, &change.key).await.map_err(of_caller)?;
            facts.extend(fact_of(change, before.as_ref()));
        }
        let mut by_realm: BTreeMap<Realm, Vec<AuditFact>> = BTreeMap::new();
        for fact in facts {
            by_realm.entry(fact.place.realm()).or_default().push(fact);
        }
        let mut ours = BTreeSet::new();
        for (realm, facts) in by_realm {
            let chain = Chain::read(store, realm).await.map_err(of_caller)?;
            let changes = chain.extend(&facts, self.clock.now(), &self.key).map_err(of_caller)?;
            ours.extend(changes.iter().map(|change| change.moved().to_string()));
            batch.records.extend(changes);
        }
        store.commit(batch).await.map_err(|error| match ours.contains(&error.to_string()) {
            true => (error, Cause::Chain),
            false => (error, Cause::Caller),
        })
    }
}

fn of_caller(error: StoreError) -> (StoreError, Cause) {
    (error, Cause::Caller)
}

/// One chain, as it was read.
struct Chain {
    realm: Realm,
    head: ChainHead,
    expected: Expected,
}

impl Chain {
    async fn read(store: &dyn Store, realm: Realm) -> Result<Self, StoreError> {
        let record = store.get(Kind::AuditHead, &head_key(&realm)).await?;
        let head = record.as_ref().map(Record::read).transpose()?.unwrap_or_default();
        Ok(Self { realm, head, expected: Expected::of(record.as_ref()) })
    }

    /// The facts as entries, and a checkpoint for each that fills one.
    fn extend(
        mut self,
        facts: &[AuditFact],
        at: Timestamp,
        key: &SigningKey,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let mut changes = Vec::with_capacity(facts.len() + 1);
        for fact in facts {
            let entry = self.head.append(fact, at).ok_or_else(unwritable)?;
            let name = numbered(&self.realm, entry.sequence);
            let put = RecordChange::put(Kind::AuditEntry, name, fact.place.clone(), &entry)?;
            changes.push(put.expecting(Expected::Absent));
            if self.head.is_full() {
                changes.extend(self.checkpoint(key)?);
            }
        }
        changes.push(self.put()?);
        Ok(changes)
    }

    fn checkpoint(&mut self, key: &SigningKey) -> Result<Option<RecordChange>, StoreError> {
        let Some(checkpoint) = self.head.check(key) else { return Ok(None) };
        let name = numbered(&self.realm, checkpoint.at_sequence);
        let put = RecordChange::put(Kind::AuditCheckpoint, name, self.place(), &checkpoint)?;
        Ok(Some(put.expecting(Expected::Absent)))
    }

    fn put(&self) -> Result<RecordChange, StoreError> {
        let put =
            RecordChange::put(Kind::AuditHead, head_key(&self.realm), self.place(), &self.head)?;
        let due = self.head.waiting_since.map(checkpoint_due);
        Ok(put.expecting(self.expected).due(due))
    }

    fn place(&self) -> Scope {
        let Realm { tenant, mode } = self.realm.clone();
        Scope { tenant, workspace: None, mode }
    }
}

fn unwritable() -> StoreError {
    StoreError::Unavailable("an audit entry has no canonical form".to_owned())
}

/// Signs what has waited long enough for a checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointLoop {
    engine: Engine,
}

impl CheckpointLoop {
    /// Runs on the engine's clock, store and tasks, and stops with it.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    pub fn start(&self) {
        self.engine.inner.tasks.spawn(self.clone().check_until_stopped());
    }

    /// Answers how many checkpoints it made.
    pub async fn tick(&self, now: Timestamp) -> Result<usize, StoreError> {
        let store = &self.engine.inner.store;
        let key = signing_key(&**store);
        let mut made = 0;
        for record in store.due(Kind::AuditHead, now, BATCH).await?.records {
            let mut chain = Chain::read(&**store, record.place.realm()).await?;
            let Some(checkpoint) = chain.checkpoint(&key)? else { continue };
            let batch = Batch::of_records([checkpoint, chain.put()?]);
            match store.commit(batch).await {
                Ok(()) => made += 1,
                // Another host was faster, or another entry came: it is due again.
                Err(StoreError::Moved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
    async fn check_until_stopped(self) {
        /// A tenth of the longest that an entry may wait.
        const EVERY: std::time::Duration =
            std::time::Duration::from_secs(super::CHECKPOINT_SECONDS / 10);
        let inner = &self.engine.inner;
        loop {
            let now = inner.clock.now();
            if let Err(error) = self.tick(now).await {
                tracing::warn!(%error, "audit checkpoints not made; trying again");
            }
            // Losing either branch is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(now.plus(EVERY)) => {}
                () = inner.stop.cancelled() => return,
            }
        }
    }
}
