//! More runs than a host drives at once: each has its turn, and none is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, Call, DrivingLimits, Engine, Filter, InMemoryStore, Order, Scope, Store,
};
use callboard_protocol::{Object, Owner, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_limited, order, scope};
use crate::world::workflow;

const MOST: usize = 3;

/// Counts how many of it are performed at once.
#[derive(Debug, Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Activity for Busy {
    async fn perform(&self, call: Call) -> Outcome {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        call.pause(Duration::from_secs(1)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        Outcome::Done { outputs: Object::new() }
    }
}

fn definition(id: &str, kind: &str, config: &Value) -> String {
    let node = json!({ "id": "a", "typeId": kind, "name": "a", "position": { "x": 0, "y": 0 },
        "config": config, "inputs": {} });
    workflow(id, &[node]).to_string()
}

fn of_tenant(tenant: &str, workflow: &str) -> Order {
    let order = order(workflow, Object::new(), Object::new());
    Order { owner: Owner { tenant: tenant.into(), ..order.owner.clone() }, ..order }
}

#[tokio::test(start_paused = true)]
async fn no_more_runs_than_allowed_are_at_work_and_all_have_their_turn() {
    let busy = Arc::new(Busy::default());
    let store = doomed_store(Arc::default(), Fate::Live);
    let definitions = [
        definition("busy", "test.busy", &json!({})),
        definition("wait", "core.delay", &json!({ "delayMs": 90_000 })),
    ];
    let activities = Activities::default().with("test.busy", busy.clone());
    let limits = DrivingLimits { most_runs: MOST, ..DrivingLimits::default() };
    let shared = store.inner.clone();
    let clock = SimClock::new();
    let engine =
        host_limited("one", store, shared.clone(), clock, &definitions, activities, limits);
    let mut runs: Vec<RunId> = Vec::new();
    for number in 0..20 {
        let order =
            order(if number % 2 == 0 { "busy" } else { "wait" }, Object::new(), Object::new());
        runs.push(engine.create(order, None).await.unwrap().run);
    }
    for run in &runs {
        assert_eq!(ended(&shared, run).await.last().unwrap().kind, "run.completed");
        assert!(engine.driving() <= MOST);
    }
    assert!((2..=MOST).contains(&busy.most.load(Ordering::Relaxed)));
}

/// How many runs of a tenant have ended.
async fn ended_of(store: &dyn Store, tenant: &str) -> usize {
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let theirs = Scope { tenant: tenant.into(), ..scope() };
    let theirs = store.list(&theirs, &filter).await.unwrap();
    theirs.iter().filter(|run| run.status.is_terminal()).count()
}

/// A host that drives so many runs, each of which takes a second.
fn host_of(most_runs: usize) -> (Engine, Arc<InMemoryStore>) {
    let store = doomed_store(Arc::default(), Fate::Live);
    let shared = store.inner.clone();
    let activities = Activities::default().with("test.busy", Arc::new(Busy::default()));
    let limits = DrivingLimits { most_runs, ..DrivingLimits::default() };
    let definitions = [definition("busy", "test.busy", &json!({}))];
    let (clock, all) = (SimClock::new(), shared.clone());
    (host_limited("one", store, all, clock, &definitions, activities, limits), shared)
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_runs_leaves_places_to_others() {
    let (engine, shared) = host_of(8);
    for _ in 0..200 {
        engine.create(of_tenant("many", "busy"), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(engine.driving(), 6, "three of four places are for one tenant");
    for other in ["default", "third"] {
        engine.create(of_tenant(other, "busy"), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(engine.driving(), 8, "the others begin at once");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(ended_of(&*shared, "many").await, 6);
    assert_eq!((ended_of(&*shared, "default").await, ended_of(&*shared, "third").await), (1, 1));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(ended_of(&*shared, "many").await, 200);
}

/// Places that become free one by one are no reason to forget whose turn it is.
#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_runs_keeps_no_other_waiting() {
    let (engine, shared) = host_of(MOST);
    for tenant in ["many", "third", "many"] {
        engine.create(of_tenant(tenant, "busy"), None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for _ in 0..200 {
        engine.create(of_tenant("many", "busy"), None).await.unwrap();
    }
    let few = engine.create(of_tenant("default", "busy"), None).await.unwrap().run;
    ended(&shared, &few).await;
    // Those that were at work, and those that began beside it.
    let before = ended_of(&*shared, "many").await;
    assert!(before <= 4, "{before}");
}
