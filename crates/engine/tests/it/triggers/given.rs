//! Hosts with bridges on one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use callboard_core::ConformanceNodes;
use callboard_engine::{
    Activities, Catalog, Clock, Filter, InMemoryStore, Incoming, NewSubscription, Store,
    Subscription, Terms, TriggerDelivery, TriggerError, TriggerIngest, Verification, Workflows,
};
use callboard_protocol::{
    Backoff, Object, Owner, RetryPolicy, Timestamp, TriggerEvent, TriggerSource,
};

use crate::sim::{Fate, SimClock, doomed_store, host_with, scope};

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

    pub(super) fn host(&self, name: &str, fate: Fate) -> TriggerIngest {
        let bridge = self.quiet(name, fate);
        bridge.start();
        bridge
    }

    /// A bridge whose loop does not run.
    pub(super) fn quiet(&self, name: &str, fate: Fate) -> TriggerIngest {
        let store = doomed_store(self.store.clone(), fate);
        let definitions = [definition("quick")];
        let engine = host_with(
            name,
            store.clone(),
            self.store.clone(),
            self.clock.clone(),
            &definitions,
            Activities::default(),
        );
        TriggerIngest::new(engine, store)
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
        Workflows::new(self.store.clone())
            .put_workflow(&scope(), &id, "{}", Vec::new(), now)
            .await
            .unwrap();
    }

    /// How many runs of a workflow there are.
    pub(super) async fn runs(&self, workflow: &str) -> Vec<callboard_engine::Listed> {
        let filter =
            Filter { workflow: Some(workflow.into()), limit: usize::MAX, ..Filter::default() };
        self.store.list(&scope(), &filter).await.unwrap()
    }
}

pub(super) async fn subscribe(
    bridge: &TriggerIngest,
    workflow: &str,
    attempts: u32,
) -> Subscription {
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
        terms: Terms::default(),
        secret: None,
    };
    bridge.register(new).await.unwrap()
}

pub(super) async fn put(
    bridge: &TriggerIngest,
    subscription: &Subscription,
    id: &str,
    payload: Value,
) -> Result<TriggerDelivery, TriggerError> {
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
        event: None,
    };
    let id_of_delivery = format!("dlv_{:06}", NEXT.fetch_add(1, Ordering::Relaxed));
    let incoming =
        Incoming { id: id_of_delivery, event_id: Some(id.to_owned()), event, files: Vec::new() };
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
