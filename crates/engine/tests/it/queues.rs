//! Limits of runs at work: what is over them waits, says why, and goes on when a place is free.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use callboard_core::{Outcome, PRIORITY};
use callboard_engine::{
    Activities, Activity, Call, Ceilings, Concurrency, DrivingLimits, Engine, Filter,
    InMemoryStore, Listed, Order, WaitReason,
};
use callboard_protocol::{Object, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_limited, order, scope};
use crate::world::workflow;

/// Takes a second, and counts how many of it are performed at once.
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

fn definition(id: &str) -> String {
    let node = json!({ "id": "a", "typeId": "test.busy", "name": "a",
        "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} });
    workflow(id, &[node]).to_string()
}

fn limited(
    name: &str,
    shared: &Arc<InMemoryStore>,
    busy: &Arc<Busy>,
    clock: &Arc<SimClock>,
) -> Engine {
    let store = doomed_store(shared.clone(), Fate::Live);
    let activities = Activities::default().with("test.busy", busy.clone());
    let definitions = [definition("slow"), definition("quick")];
    let limits = DrivingLimits::default();
    let engine =
        host_limited(name, store, shared.clone(), clock.clone(), &definitions, activities, limits);
    let workflows = BTreeMap::from([("slow".to_owned(), 2)]);
    let every = Ceilings { workflows, ..Ceilings::default() };
    engine.set_concurrency(Concurrency { every, tenants: BTreeMap::new() });
    engine
}

fn run_of(workflow: &str, priority: &str) -> Order {
    let configurable = Object::from_iter([(PRIORITY.to_owned(), priority.into())]);
    order(workflow, Object::new(), configurable)
}

async fn listed(engine: &Engine, run: &RunId) -> Listed {
    let filter = Filter { run: Some(run.clone()), limit: 1, ..Filter::default() };
    let found = engine.store().list(&scope(), &filter).await.unwrap().pop().unwrap();
    found.judged(&scope().tenant, engine.clock().now(), engine.waiting())
}

#[tokio::test(start_paused = true)]
async fn what_is_over_a_limit_waits_with_a_reason_and_the_higher_priority_is_next() {
    let (shared, busy, clock) = (Arc::default(), Arc::default(), SimClock::new());
    let engine = limited("one", &shared, &busy, &clock);
    let mut runs = Vec::new();
    for priority in ["normal", "normal", "low", "normal", "high"] {
        runs.push(engine.create(run_of("slow", priority), None).await.unwrap().run);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [_, _, low, usual, high] = &runs[..] else { panic!("five") };
    let wait = listed(&engine, low).await.wait.unwrap();
    assert_eq!(wait.reason, WaitReason::ConcurrencyLimit);
    assert_eq!(wait.limit.as_deref(), Some("limits.concurrency.workflows.\"slow\""));
    assert_eq!(listed(&engine, high).await.priority, "high");
    // Another workflow waits for none of them.
    let quick = engine.create(run_of("quick", "normal"), None).await.unwrap().run;
    ended(&shared, &quick).await;
    let mut order = Vec::new();
    for run in [low, usual, high] {
        let log = ended(&shared, run).await;
        let began = log.iter().find(|event| event.kind == "run.started").unwrap().at;
        order.push((began, run));
        assert!(listed(&engine, run).await.wait.is_none());
    }
    order.sort_by_key(|(began, _)| *began);
    // Two have places at a time: those two begin together, before the last.
    assert_eq!(order[2].1, low);
    assert_eq!(busy.most.load(Ordering::Relaxed), 3, "two slow ones and a quick one");
}

/// Whoever dies holds no place for longer than its lease, and meanwhile nobody takes it twice.
#[tokio::test(start_paused = true)]
async fn a_host_that_dies_leaves_no_place_taken() {
    let (shared, busy, clock) = (Arc::default(), Arc::<Busy>::default(), SimClock::new());
    let engine = limited("one", &shared, &busy, &clock);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(engine.create(run_of("slow", "normal"), None).await.unwrap().run);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    engine.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = Arc::<Busy>::default();
    let other = limited("two", &shared, &after, &clock);
    assert_eq!(after.now.load(Ordering::Relaxed), 0, "the lease of the dead host still counts");
    for run in &runs {
        ended(&shared, run).await;
    }
    assert_eq!(after.most.load(Ordering::Relaxed), 2);
    drop(other);
}
