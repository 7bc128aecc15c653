//! The store in memory, with a switch that makes it fail the way databases do.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use callboard_core::Entry;
use callboard_engine::{
    Annotated, Annotations, Batch, Begun, Claim, ClaimRequest, Claimed, Crowd, DeadLetter,
    DeploymentChange, Deployments, Digest, DueRecords, EffectClaim, EffectKey, Filter, Found,
    HeldSecret, InMemoryStore, InboxFilter, InboxItem, Key, Keys, Kind, LinkSecrets, Listed, Made,
    MemoryQuery, MemoryRecord, NewRun, Opened, Outcome, Page, Plan, Put, Realm, Record,
    RecordChange, RecordQuery, Scope, Secret, Secrets, SettledEffect, Settlement, Store,
    StoreError, StoredDeployment, StoredKey, StoredSecret, StoredWorkflow, TakeRequest, Taken,
    Unplanned, Webhook, Webhooks, Workflows,
};
use callboard_protocol::{
    AgentId, Annotation, KeyId, MemoryId, RunId, RunStatus, SecretName, Tenant, Timestamp,
    WebhookId, WorkflowId,
};

/// What goes wrong with writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    Away,
    Full,
    Damaged,
    /// Nothing, but not at once.
    Late,
    /// Only for those who ask the store how it is.
    Panic,
}

#[derive(Debug, Default)]
pub(crate) struct FlakyStore {
    inner: Arc<InMemoryStore>,
    fault: Mutex<Fault>,
}

impl FlakyStore {
    /// The store itself, for what never fails in these tests.
    pub(crate) fn inner(&self) -> Arc<InMemoryStore> {
        Arc::clone(&self.inner)
    }

    pub(crate) fn fail(&self, fault: Fault) {
        *self.fault.lock().expect("no poison") = fault;
    }

    pub(crate) fn fault(&self) -> Fault {
        *self.fault.lock().expect("no poison")
    }

    pub(super) fn write(&self) -> Result<(), StoreError> {
        match self.fault() {
            Fault::None | Fault::Late | Fault::Panic => Ok(()),
            Fault::Away => Err(StoreError::Unavailable("secret-host:5432 refused".to_owned())),
            Fault::Full => Err(StoreError::Full),
            Fault::Damaged => {
                let what = "row 7 of secret-table".to_owned();
                Err(StoreError::Unreadable { what, why: "bad bytes".to_owned() })
            }
        }
    }
}

#[async_trait]
impl Store for FlakyStore {
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.write()?;
        if self.fault() == Fault::Late && !batch.appends.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.inner.commit(batch).await
    }
    async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        if self.fault() == Fault::Damaged {
            self.write()?;
        }
        self.inner.get(kind, key).await
    }
    async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.inner.scan(query).await
    }
    async fn due(&self, kind: Kind, at: Timestamp, most: usize) -> Result<DueRecords, StoreError> {
        self.inner.due(kind, at, most).await
    }
    async fn open(&self, run: &RunId) -> Result<Option<Opened>, StoreError> {
        self.inner.open(run).await
    }
    async fn tail(&self, run: &RunId, version: u64) -> Result<Vec<Entry>, StoreError> {
        self.inner.tail(run, version).await
    }
    async fn statuses(&self, runs: &[RunId]) -> Result<Vec<Option<RunStatus>>, StoreError> {
        self.inner.statuses(runs).await
    }
    async fn find(&self, scope: &Scope, run: &RunId) -> Result<Option<Found>, StoreError> {
        self.inner.find(scope, run).await
    }
    async fn read(
        &self,
        scope: &Scope,
        run: &RunId,
        from: u64,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.inner.read(scope, run, from, limit).await
    }
    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(scope, filter).await
    }
    async fn inbox(
        &self,
        scope: &Scope,
        filter: &InboxFilter,
    ) -> Result<Vec<InboxItem>, StoreError> {
        self.inner.inbox(scope, filter).await
    }
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.inner.claim(request).await
    }
    async fn renew(&self, claims: &[Claim], until: Timestamp) -> Result<Vec<RunId>, StoreError> {
        self.inner.renew(claims, until).await
    }
    async fn release(
        &self,
        claim: &Claim,
        seen: Option<u64>,
        wake_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.inner.release(claim, seen, wake_at).await
    }
    async fn strike(&self, run: &RunId) -> Result<u32, StoreError> {
        self.inner.strike(run).await
    }

    async fn absolve(&self, run: &RunId) -> Result<(), StoreError> {
        self.inner.absolve(run).await
    }

    async fn struck(&self) -> Result<Vec<(RunId, u32)>, StoreError> {
        self.inner.struck().await
    }

    async fn changed(&self, run: &RunId, version: u64) {
        self.inner.changed(run, version).await;
    }
    async fn find_effect(&self, key: &EffectKey) -> Result<Option<SettledEffect>, StoreError> {
        self.inner.find_effect(key).await
    }
    async fn begin_effect(&self, effect: &EffectClaim) -> Result<Begun, StoreError> {
        self.write()?;
        self.inner.begin_effect(effect).await
    }

    async fn settle_effect(&self, key: &EffectKey, outcome: String) -> Result<(), StoreError> {
        self.write()?;
        self.inner.settle_effect(key, outcome).await
    }

    async fn abandon_effect(&self, key: &EffectKey) -> Result<(), StoreError> {
        self.write()?;
        self.inner.abandon_effect(key).await
    }

    async fn memory_position(&self) -> Result<u64, StoreError> {
        self.inner.memory_position().await
    }
    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.inner.recall(scope, query).await
    }
    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.inner.memory_history(scope, id).await
    }
    async fn crowded_memory(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        self.inner.crowded_memory(most).await
    }
    async fn remove_ended(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError> {
        self.inner.remove_ended(before, limit).await
    }
    async fn outcome(&self, key: &Digest, at: Timestamp) -> Result<Option<Outcome>, StoreError> {
        self.inner.outcome(key, at).await
    }
}

#[async_trait]
impl Workflows for FlakyStore {
    async fn workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<StoredWorkflow>, StoreError> {
        self.inner.workflow(place, id).await
    }
    async fn workflows(&self, place: &Scope) -> Result<Vec<StoredWorkflow>, StoreError> {
        self.inner.workflows(place).await
    }
    async fn put_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        source: Arc<str>,
        records: Vec<RecordChange>,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        self.write()?;
        self.inner.put_workflow(place, id, source, records, at).await
    }
    async fn delete_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        records: Vec<RecordChange>,
    ) -> Result<bool, StoreError> {
        self.inner.delete_workflow(place, id, records).await
    }
}

#[async_trait]
impl Annotations for FlakyStore {
    async fn annotate(
        &self,
        scope: &Scope,
        annotation: Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError> {
        self.write()?;
        self.inner.annotate(scope, annotation, most).await
    }
    async fn annotations(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Annotation>>, StoreError> {
        self.inner.annotations(scope, run).await
    }
}

#[async_trait]
impl Deployments for FlakyStore {
    async fn deployment(
        &self,
        realm: &Realm,
        agent: &AgentId,
    ) -> Result<Option<StoredDeployment>, StoreError> {
        self.inner.deployment(realm, agent).await
    }
    async fn deploy(&self, change: DeploymentChange, run: NewRun) -> Result<(), StoreError> {
        self.write()?;
        self.inner.deploy(change, run).await
    }
}

#[async_trait]
impl Keys for FlakyStore {
    async fn all_keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        self.inner.all_keys().await
    }
    async fn put_key(&self, key: StoredKey) -> Result<(), StoreError> {
        self.write()?;
        self.inner.put_key(key).await
    }
    async fn revoke_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.inner.revoke_key(tenant, id, at).await
    }
    async fn note_maker(&self, realm: &Realm, made: Made, maker: &KeyId) -> Result<(), StoreError> {
        self.write()?;
        self.inner.note_maker(realm, made, maker).await
    }
    async fn noted_of(&self, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, StoreError> {
        self.inner.noted_of(realm, maker).await
    }
}

#[async_trait]
impl Webhooks for FlakyStore {
    async fn register_webhook(&self, webhook: Webhook, secret: Secret) -> Result<(), StoreError> {
        self.write()?;
        self.inner.register_webhook(webhook, secret).await
    }
    async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        self.inner.webhooks(scope).await
    }
    async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        self.inner.remove_webhook(scope, id).await
    }
    async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        self.inner.dead_letters(scope, id, since, limit).await
    }
    async fn read_unplanned(&self, limit: usize) -> Result<Unplanned, StoreError> {
        self.inner.read_unplanned(limit).await
    }
    async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError> {
        self.write()?;
        self.inner.plan_deliveries(plan).await
    }
    async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError> {
        self.write()?;
        self.inner.take_deliveries(request).await
    }
    async fn settle_delivery(&self, settlement: Settlement) -> Result<bool, StoreError> {
        self.write()?;
        self.inner.settle_delivery(settlement).await
    }
}

#[async_trait]
impl LinkSecrets for FlakyStore {
    async fn link_generation(&self, realm: &Realm) -> Result<u32, StoreError> {
        self.inner.link_generation(realm).await
    }
    async fn rotate_links(&self, realm: &Realm) -> Result<u32, StoreError> {
        self.write()?;
        self.inner.rotate_links(realm).await
    }
    fn link_secret(&self, realm: &Realm, generation: u32) -> [u8; 32] {
        self.inner.link_secret(realm, generation)
    }
}

#[async_trait]
impl Secrets for FlakyStore {
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        self.write()?;
        self.inner.resolve_secret(place, name).await
    }
    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        self.write()?;
        self.inner.put_secret(place, name, secret, at).await
    }
    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        self.inner.secrets(place).await
    }
    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        self.write()?;
        self.inner.remove_secret(place, name).await
    }
}
