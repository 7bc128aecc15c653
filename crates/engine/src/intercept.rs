//! A store whose every call can be made to fail, to wait or never to return, before or after it is carried out: for
//! simulations of faults and crashes, over any implementation of the port.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_core::Entry;
use callboard_protocol::{MemoryId, RunId, RunStatus, Timestamp};

use crate::effects::{Begun, EffectClaim, EffectKey, SettledEffect};
use crate::memory::{Crowd, MemoryQuery, MemoryRecord};
use crate::records::{DueRecords, Key, Kind, Record, RecordQuery};
use crate::store::{
    Batch, Claim, ClaimRequest, Claimed, Digest, Filter, Found, InboxFilter, InboxItem, Listed,
    Opened, Outcome, Page, Scope, Store, StoreError,
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
}

/// One call of the store.
#[derive(Debug, Clone, Copy)]
pub struct StoreCall<'a> {
    /// The name of the method.
    pub name: &'static str,
    pub access: Access,
    /// What is committed.
    pub batch: Option<&'a Batch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl StoreCall<'_> {
    const fn read(name: &'static str) -> Self {
        Self { name, access: Access::Read, batch: None }
    }

    const fn write(name: &'static str) -> Self {
        Self { name, access: Access::Write, batch: None }
    }

    pub fn is_write(&self) -> bool {
        self.access == Access::Write
    }
}

/// A store that asks somebody before and after every call.
#[derive(Debug, Clone)]
pub struct InterceptedStore {
    inner: Arc<dyn Store>,
    hook: Arc<dyn Intercept>,
}

impl InterceptedStore {
    pub fn new(inner: Arc<dyn Store>, hook: Arc<dyn Intercept>) -> Self {
        Self { inner, hook }
    }

    async fn around<T>(
        &self,
        call: StoreCall<'_>,
        carry_out: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.hook.before(&call).await?;
        let answer = carry_out.await?;
        self.hook.after(&call).await?;
        Ok(answer)
    }
}

#[async_trait]
impl Store for InterceptedStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let call = StoreCall { batch: Some(&batch), ..StoreCall::write("commit") };
        self.around(call, self.inner.commit(batch.clone())).await
    }

    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        self.around(StoreCall::read("get"), self.inner.get(kind, key)).await
    }

    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.around(StoreCall::read("scan"), self.inner.scan(query)).await
    }

    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        self.around(StoreCall::read("due"), self.inner.due(kind, at, most)).await
    }

    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        self.around(StoreCall::read("open"), self.inner.open(run)).await
    }

    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        self.around(StoreCall::read("tail"), self.inner.tail(run, version)).await
    }

    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<RunStatus>>, StoreError> {
        self.around(StoreCall::read("statuses"), self.inner.statuses(runs)).await
    }

    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        self.around(StoreCall::read("find"), self.inner.find(scope, run)).await
    }

    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.around(StoreCall::read("read"), self.inner.read(scope, run, from, limit)).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.around(StoreCall::read("list"), self.inner.list(scope, filter)).await
    }

    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        self.around(StoreCall::read("inbox"), self.inner.inbox(scope, filter)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.around(StoreCall::write("claim"), self.inner.claim(request)).await
    }

    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        self.around(StoreCall::write("renew"), self.inner.renew(claims, until)).await
    }

    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.around(StoreCall::write("release"), self.inner.release(claim, seen, wake_at)).await
    }

    async fn strike(&self, run: &RunId) -> Result<u32, StoreError> {
        self.around(StoreCall::write("strike"), self.inner.strike(run)).await
    }

    async fn absolve(&self, run: &RunId) -> Result<(), StoreError> {
        self.around(StoreCall::write("absolve"), self.inner.absolve(run)).await
    }

    async fn struck(&self) -> Result<Vec<(RunId, u32)>, StoreError> {
        self.around(StoreCall::read("struck"), self.inner.struck()).await
    }

    async fn changed(&self, run: &RunId, version: u64) {
        let wait = async {
            self.inner.changed(run, version).await;
            Ok(())
        };
        // A hint may come for nothing, so one that fails is only early.
        self.around(StoreCall::read("changed"), wait).await.unwrap_or_default();
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        self.around(StoreCall::read("find_effect"), self.inner.find_effect(key)).await
    }

    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.around(StoreCall::write("begin_effect"), self.inner.begin_effect(effect)).await
    }

    async fn settle_effect(&self, key: &EffectKey, outcome: String) -> Result<(), StoreError> {
        let settle = self.inner.settle_effect(key, outcome);
        self.around(StoreCall::write("settle_effect"), settle).await
    }

    async fn abandon_effect(&self, key: &EffectKey) -> Result<(), StoreError> {
        self.around(StoreCall::write("abandon_effect"), self.inner.abandon_effect(key)).await
    }

    async fn memory_position(&self) -> Result<u64, StoreError> {
        self.around(StoreCall::read("memory_position"), self.inner.memory_position()).await
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.around(StoreCall::read("recall"), self.inner.recall(scope, query)).await
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.around(StoreCall::read("memory_history"), self.inner.memory_history(scope, id)).await
    }

    async fn crowded_memory(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        self.around(StoreCall::read("crowded_memory"), self.inner.crowded_memory(most)).await
    }

    async fn remove_ended(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        let remove = self.inner.remove_ended(before, limit);
        self.around(StoreCall::write("remove_ended"), remove).await
    }

    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        self.around(StoreCall::read("outcome"), self.inner.outcome(key, at)).await
    }
}
