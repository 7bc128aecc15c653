//! A store whose every call can be made to fail, to wait, to be repeated or never to return, before or after it is carried
//! out: for simulations of faults and crashes, and for callers that wait for an unavailable store.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_core::Entry;
use callboard_protocol::{MemoryId, RosterId, RunId, Timestamp};

use crate::effects::{Begun, EffectClaim, EffectKey, SettledEffect};
use crate::logs::{LogPosition, Window};
use crate::memory::{CrowdedMemory, MemoryQuery, MemoryRecord};
use crate::records::{DueRecords, Key, Kind, Record, RecordQuery, Within};
use crate::retention::Removable;
use crate::roster::Spent;
use crate::store::{
    Batch, Claim, ClaimRequest, Claimed, CounterQuery, Digest, Filter, Found, InboxFilter,
    InboxItem, Listed, Opened, Outcome, Page, Realm, Scope, Standing, Store, StoreError,
};

/// Who is asked around every call of an [`InterceptedStore`]. One that never returns is a process that died there.
#[async_trait]
pub trait Intercept: fmt::Debug + Send + Sync {
    /// Before the call: an error is answered in its place, and nothing is read or written.
    async fn before(&self, _call: &StoreCall<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// After a call that succeeded: an error is answered although what was written stays.
    async fn after(&self, _call: &StoreCall<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// After a call that failed for the `failures + 1`st time: whether it is carried out again.
    async fn again(&self, _call: &StoreCall<'_>, _error: &StoreError, _failures: u32) -> bool {
        false
    }

    /// Commits in the place of the store, or gives the batch back.
    async fn commit_instead(
        &self,
        _store: &dyn Store,
        batch: Batch,
    ) -> Result<Result<(), StoreError>, Batch> {
        Err(batch)
    }

    /// What was read of a log in order to fold it: a change is what this process alone sees.
    fn spoil(&self, _entries: &mut [Entry]) {}
}

/// One call of the store.
#[derive(Debug, Clone, Copy)]
pub struct StoreCall<'a> {
    /// The name of the method.
    pub name: &'static str,
    pub access: Access,
    /// What is committed.
    pub batch: Option<&'a Batch>,
    /// Of the one record that is read.
    pub kind: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl StoreCall<'_> {
    const fn read(name: &'static str) -> Self {
        Self { name, access: Access::Read, batch: None, kind: None }
    }

    const fn write(name: &'static str) -> Self {
        Self { name, access: Access::Write, batch: None, kind: None }
    }

    pub fn is_write(&self) -> bool {
        self.access == Access::Write
    }
}

/// A store that asks its hook before and after every call.
#[derive(Debug)]
pub struct InterceptedStore<H> {
    store: Arc<dyn Store>,
    hook: Arc<H>,
}

impl<H> Deref for InterceptedStore<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hook
    }
}

impl<H: Intercept> InterceptedStore<H> {
    pub fn new(store: Arc<dyn Store>, hook: Arc<H>) -> Self {
        Self { store, hook }
    }

    async fn around<T, Answer>(
        &self,
        call: StoreCall<'_>,
        carry_out: impl Fn() -> Answer + Send + Sync,
    ) -> Result<T, StoreError>
    where
        Answer: Future<Output = Result<T, StoreError>> + Send,
    {
        let mut failures = 0;
        loop {
            match self.carry_out(&call, &carry_out).await {
                Err(error) if self.hook.again(&call, &error, failures).await => {
                    failures = failures.saturating_add(1);
                }
                answered => return answered,
            }
        }
    }

    async fn carry_out<T, Answer>(
        &self,
        call: &StoreCall<'_>,
        carry_out: &(impl Fn() -> Answer + Send + Sync),
    ) -> Result<T, StoreError>
    where
        Answer: Future<Output = Result<T, StoreError>> + Send,
    {
        self.hook.before(call).await?;
        let answer = carry_out().await?;
        self.hook.after(call).await?;
        Ok(answer)
    }
}

#[async_trait]
impl<H: Intercept> Store for InterceptedStore<H> {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let batch = match self.hook.commit_instead(&*self.store, batch).await {
            Ok(outcome) => return outcome,
            Err(batch) => batch,
        };
        let call = StoreCall { batch: Some(&batch), ..StoreCall::write("commit") };
        self.around(call, || self.store.commit(batch.clone())).await
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        let call = StoreCall { kind: Some(kind), ..StoreCall::read("get") };
        self.around(call, || self.store.get(kind, key)).await
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.around(StoreCall::read("scan"), || self.store.scan(query)).await
    }

    async fn blob(&self, kind: Kind, key: &Key) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.around(StoreCall::read("blob"), || self.store.blob(kind, key)).await
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        self.around(StoreCall::read("due"), || self.store.due(kind, at, most)).await
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        let mut opened = self.around(StoreCall::read("open"), || self.store.open(run)).await?;
        opened.iter_mut().for_each(|opened| self.hook.spoil(&mut opened.entries));
        Ok(opened)
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        let mut tail =
            self.around(StoreCall::read("tail"), || self.store.tail(run, version)).await?;
        self.hook.spoil(&mut tail);
        Ok(tail)
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<Standing>>, StoreError> {
        self.around(StoreCall::read("statuses"), || self.store.statuses(runs)).await
    }

    async fn counters(&self, of: &CounterQuery) -> Result<Vec<(Key, String, f64)>, StoreError> {
        self.around(StoreCall::read("counters"), || self.store.counters(of)).await
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        self.around(StoreCall::read("find"), || self.store.find(scope, run)).await
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.around(StoreCall::read("read"), || self.store.read(scope, run, from, limit)).await
    }

    async fn newest(&self) -> Result<LogPosition, StoreError> {
        self.around(StoreCall::read("newest"), || self.store.newest()).await
    }

    async fn read_all(
        &self,
        within: &Within,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        self.around(StoreCall::read("read_all"), || self.store.read_all(within, after, most)).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.around(StoreCall::read("list"), || self.store.list(scope, filter)).await
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        self.around(StoreCall::read("inbox"), || self.store.inbox(scope, filter)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.around(StoreCall::write("claim"), || self.store.claim(request)).await
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        self.around(StoreCall::write("renew"), || self.store.renew(claims, until)).await
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.around(StoreCall::write("release"), || self.store.release(claim, seen, wake_at)).await
    }

    async fn changed(&self, run: &RunId, version: u64) {
        let wait = || async {
            self.store.changed(run, version).await;
            Ok(())
        };
        // A hint may come for nothing, so one that fails is only early.
        self.around(StoreCall::read("changed"), wait).await.unwrap_or_default();
    }

    fn derive(&self, purpose: &str) -> [u8; 32] {
        self.store.derive(purpose)
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        self.around(StoreCall::read("find_effect"), || self.store.find_effect(key)).await
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.around(StoreCall::write("begin_effect"), || self.store.begin_effect(effect)).await
    }

    async fn settle_effect(
        &self,
        claim: &Claim,
        key: &EffectKey,
        outcome: Option<String>,
    ) -> Result<(), StoreError> {
        let settle = || self.store.settle_effect(claim, key, outcome.clone());
        self.around(StoreCall::write("settle_effect"), settle).await
    }

    async fn memory_position(&self, realm: &Realm) -> Result<u64, StoreError> {
        self.around(StoreCall::read("memory_position"), || self.store.memory_position(realm)).await
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.around(StoreCall::read("recall"), || self.store.recall(scope, query)).await
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.around(StoreCall::read("memory_history"), || self.store.memory_history(scope, id))
            .await
    }

    async fn crowded_memory(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError> {
        self.around(StoreCall::read("crowded_memory"), || self.store.crowded_memory(most)).await
    }

    async fn remove_ended(
        &self,
        removable: &Removable,
        read_until: Option<LogPosition>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let remove = || self.store.remove_ended(removable, read_until, limit);
        self.around(StoreCall::write("remove_ended"), remove).await
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        self.around(StoreCall::read("spent"), || self.store.spent(scope, member, since)).await
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        self.around(StoreCall::read("outcome"), || self.store.outcome(key, at)).await
    }
}
