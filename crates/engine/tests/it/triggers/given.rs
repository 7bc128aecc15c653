//! Hosts with bridges on one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::ConformanceNodes;
use callboard_engine::{
    Activities, Arrival, Bridge, BridgeError, Catalog, Clock, DueArrivals, Filter, InMemoryStore,
    Incoming, Kept, NewRun, NewSubscription, Scope, Settled, SigningSecrets, Store, StoreError,
    Subscription, TriggerDelivery, Triggers, Verification, Workflows,
};
use callboard_protocol::{
    Backoff, Object, Owner, RetryPolicy, Timestamp, TriggerEvent, TriggerSource,
};

use crate::sim::{DoomedStore, Fate, SimClock, host_with, scope};

pub(super) struct World {
    pub(super) store: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
}

pub(super) fn owner() -> Owner {
    Owner { tenant: "default".into(), workspace: None, principal: Some("key_1".into()) }
}

impl World {
    pub(super) fn new() -> Self {
        Self { store: Arc::new(InMemoryStore::new()), clock: SimClock::new() }
    }

    pub(super) fn host(&self, name: &str, fate: Fate) -> Bridge {
        let bridge = self.quiet(name, fate);
        bridge.start();
        bridge
    }

    /// A bridge whose loop does not run.
    pub(super) fn quiet(&self, name: &str, fate: Fate) -> Bridge {
        let store = DoomedStore::new(self.store.clone(), fate);
        let definitions = [definition("quick")];
        let engine = host_with(
            name,
            store.clone(),
            self.store.clone(),
            self.clock.clone(),
            &definitions,
            Activities::default(),
        );
        Bridge::new(engine, store)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) async fn register(&self, id: &str) {
        let catalog = Catalog::new(self.store.clone(), ConformanceNodes::On);
        let source = definition(id);
        let (owner, mode) = (owner(), scope().mode);
        catalog.register(&owner, mode, source.as_bytes(), self.now()).await.unwrap();
    }

    pub(super) async fn forget(&self, id: &str) {
        let catalog = Catalog::new(self.store.clone(), ConformanceNodes::On);
        assert!(catalog.remove(&scope(), &id.into()).await.unwrap());
    }

    /// Leaves a definition in the store that this build does not understand.
    pub(super) async fn spoil(&self, id: &str) {
        let (id, now) = (id.into(), self.now());
        self.store.put_workflow(&scope(), &id, "{}".into(), Vec::new(), now).await.unwrap();
    }

    /// How many runs of a workflow there are.
    pub(super) async fn runs(&self, workflow: &str) -> Vec<callboard_engine::Listed> {
        let filter =
            Filter { workflow: Some(workflow.into()), limit: usize::MAX, ..Filter::default() };
        self.store.list(&scope(), &filter).await.unwrap()
    }
}

pub(super) async fn subscribe(bridge: &Bridge, workflow: &str, attempts: u32) -> Subscription {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let new = NewSubscription {
        id: format!("tsub_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        owner: owner(),
        mode: scope().mode,
        source: TriggerSource::Queue,
        workflow: workflow.into(),
        roster_id: None,
        dedup: true,
        retry: RetryPolicy { max_attempts: attempts, backoff: Backoff::Exponential },
        verification: Verification::None,
        mapping: Object::new(),
        secret: None,
    };
    bridge.register(new).await.unwrap()
}

pub(super) async fn put(
    bridge: &Bridge,
    subscription: &Subscription,
    id: &str,
    payload: Value,
) -> Result<TriggerDelivery, BridgeError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let event = TriggerEvent {
        source: TriggerSource::Queue,
        subscription_id: subscription.id.clone(),
        delivery_id: String::new(),
        dedup_key: None,
        received_at: Timestamp::default(),
        verified: true,
        content_trust: "untrusted".to_owned(),
        webhook: None,
        email: None,
        form: None,
        queue: Some(payload),
    };
    let id_of_arrival = format!("dlv_{:06}", NEXT.fetch_add(1, Ordering::Relaxed));
    let incoming = Incoming { id: id_of_arrival, event_id: Some(id.to_owned()), event };
    bridge.deliver(subscription.clone(), incoming).await
}

fn definition(id: &str) -> String {
    let said = json!({ "input": { "type": "expression", "expression": "ctx.triggerData.queue" } });
    let definition = json!({
        "id": id, "name": id, "version": "1.0",
        "nodes": [{ "id": "only", "typeId": "core.identity", "name": "only",
            "position": { "x": 0, "y": 0 }, "config": {}, "inputs": said }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    definition.to_string()
}

#[async_trait]
impl Triggers for DoomedStore {
    async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError> {
        self.live().await;
        self.inner.add_subscription(subscription, secrets).await
    }
    async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        self.live().await;
        self.inner.subscriptions(scope).await
    }
    async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError> {
        self.live().await;
        self.inner.subscription(scope, id).await
    }
    async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError> {
        self.live().await;
        self.inner.open_subscription(id).await
    }
    async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        telling: Option<NewRun>,
    ) -> Result<(), StoreError> {
        self.live().await;
        self.inner.change_subscription(subscription, expected, secrets, telling).await
    }
    async fn keep_arrival(
        &self,
        arrival: Arrival,
        run: Option<NewRun>,
    ) -> Result<Kept, StoreError> {
        self.write(self.inner.keep_arrival(arrival, run)).await
    }
    async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError> {
        self.write(self.inner.remove_subscription(scope, id)).await
    }
    async fn note_refused(&self, arrival: Arrival, most: usize) -> Result<(), StoreError> {
        self.live().await;
        self.inner.note_refused(arrival, most).await
    }
    async fn due_arrivals(&self, at: Timestamp, most: usize) -> Result<DueArrivals, StoreError> {
        self.live().await;
        self.inner.due_arrivals(at, most).await
    }
    async fn settle_arrival(&self, settled: Settled, expected: u64) -> Result<(), StoreError> {
        self.write(self.inner.settle_arrival(settled, expected)).await
    }
    async fn arrival(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<Arrival>, StoreError> {
        self.live().await;
        self.inner.arrival(scope, subscription, id).await
    }
    async fn dead_arrivals(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<Arrival>, StoreError> {
        self.live().await;
        self.inner.dead_arrivals(scope, subscription, since, after, limit).await
    }
    async fn forget_arrivals(
        &self,
        delivered_before: Timestamp,
        dead_before: Timestamp,
    ) -> Result<(), StoreError> {
        self.live().await;
        self.inner.forget_arrivals(delivered_before, dead_before).await
    }
}
