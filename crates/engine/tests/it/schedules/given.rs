//! Hosts with schedulers on one store, and what their runs say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{ConformanceNodes, Plan};
use callboard_engine::{
    Activities, Catalog, Clock, Engine, Filter, InMemoryStore, MissedFire, NewSchedule, Overlap,
    Schedule, Scheduler, Scope, Store, Timing, Workflows,
};
use callboard_protocol::{Object, Owner, Timestamp};

use crate::sim::{DoomedStore, Fate, SimClock, doomed_store, host_with, scope};

pub(super) struct World {
    pub(super) store: Arc<InMemoryStore>,
    pub(super) clock: Arc<SimClock>,
    /// A scheduler whose loop does not run.
    pub(super) quiet: Scheduler,
}

/// What a fired run says of itself.
pub(super) struct Fired {
    pub(super) schedule: String,
    pub(super) slot: Timestamp,
    pub(super) is_catch_up: bool,
    pub(super) created_at: Timestamp,
    pub(super) owner: Owner,
    pub(super) status: &'static str,
}

impl World {
    pub(super) fn new() -> Self {
        let (store, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
        let engine = engine("quiet", doomed_store(store.clone(), Fate::Live), &store, &clock);
        let quiet = Scheduler::new(engine, store.clone());
        Self { store, clock, quiet }
    }

    pub(super) fn host(&self, name: &str, fate: Fate) -> Scheduler {
        let store = doomed_store(self.store.clone(), fate);
        let engine = engine(name, store.clone(), &self.store, &self.clock);
        let scheduler = Scheduler::new(engine, store);
        scheduler.start();
        scheduler
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The first slots of a schedule since it was made.
    pub(super) fn slots(&self, schedule: &Schedule, count: usize) -> Vec<Timestamp> {
        schedule.slots(schedule.state.created_at, count).unwrap()
    }

    /// Every run that a schedule started, in the order of slots.
    pub(super) async fn fired(&self) -> Vec<Fired> {
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        let mut all = Vec::new();
        for listed in self.store.list(&scope(), &filter).await.unwrap() {
            let birth = self.store.open(&listed.run_id).await.unwrap().unwrap().birth;
            let told = birth.metadata.unwrap_or_default();
            all.push(Fired {
                schedule: told["scheduleId"].as_str().unwrap().to_owned(),
                slot: told["scheduledFor"].as_str().unwrap().parse().unwrap(),
                is_catch_up: told.get("isCatchUp") == Some(&json!(true)),
                created_at: birth.created_at,
                owner: birth.owner,
                status: listed.status.as_str(),
            });
        }
        all.sort_by_key(|fired| fired.slot);
        all
    }

    pub(super) async fn register(&self, owner: &Owner, id: &str) {
        self.register_with(owner, id, &[]).await;
    }

    pub(super) async fn register_with(&self, owner: &Owner, id: &str, triggers: &[Value]) {
        let catalog = Catalog::new(self.store.clone(), ConformanceNodes::On);
        let source = definition(id, "core.noop", triggers);
        let registered = catalog.register(owner, scope().mode, source.as_bytes(), self.now());
        registered.await.unwrap();
    }

    pub(super) async fn forget(&self, owner: &Owner, id: &str) {
        let catalog = Catalog::new(self.store.clone(), ConformanceNodes::On);
        assert!(catalog.remove(&Scope::of_owner(owner, scope().mode), &id.into()).await.unwrap());
    }

    /// Leaves a definition in the store that this build does not understand.
    pub(super) async fn spoil(&self, owner: &Owner, id: &str) {
        let place = Scope::of_owner(owner, scope().mode);
        let (id, now) = (id.into(), self.now());
        Workflows::new(self.store.clone())
            .put_workflow(&place, &id, "{}", Vec::new(), now)
            .await
            .unwrap();
    }

    pub(super) fn plan(&self, id: &str, triggers: &[Value]) -> Plan {
        Plan::parse(definition(id, "core.noop", triggers).as_bytes()).unwrap()
    }
}

/// Lets simulated time pass.
pub(super) async fn nap(time: Duration) {
    // A moment more, so that what is due at the end has happened.
    tokio::time::sleep(time + Duration::from_millis(500)).await;
}

pub(super) fn every_five_seconds(workflow: &str) -> NewSchedule {
    let timing = Timing::Cron { cron: "*/5 * * * * *".to_owned(), timezone: "UTC".to_owned() };
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NewSchedule {
        priority: callboard_core::Priority::Normal,
        id: format!("sched_{:06}", NEXT.fetch_add(1, Ordering::Relaxed)).into(),
        owner: Owner { tenant: "default".into(), workspace: None, principal: Some("key_1".into()) },
        mode: scope().mode,
        workflow: workflow.into(),
        roster_id: None,
        timing,
        inputs: Object::new(),
        overlap: Overlap::Allow,
        missed: MissedFire::FireOnce,
        enabled: true,
    }
}

pub(super) fn once_at(workflow: &str, at: Timestamp) -> NewSchedule {
    NewSchedule { timing: Timing::Once { at }, ..every_five_seconds(workflow) }
}

fn engine(
    name: &str,
    store: Arc<DoomedStore>,
    workflows: &Arc<InMemoryStore>,
    clock: &Arc<SimClock>,
) -> Engine {
    let definitions =
        [definition("quick", "core.noop", &[]), definition("slow", "core.delay", &[])];
    host_with(name, store, workflows.clone(), clock.clone(), &definitions, Activities::default())
}

fn definition(id: &str, kind: &str, triggers: &[Value]) -> String {
    let delay = json!({ "delayMs": { "type": "static", "value": 12_000 } });
    let inputs = if kind == "core.delay" { delay } else { json!({}) };
    let definition = json!({
        "id": id, "name": id, "version": "1.0",
        "nodes": [{ "id": "only", "typeId": kind, "name": "only", "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": inputs }],
        "edges": [], "triggers": triggers, "variables": [], "metadata": {}, "settings": {},
    });
    definition.to_string()
}
