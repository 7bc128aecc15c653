//! More runs than a host drives at once: each has its turn, and none is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{Activities, Activity, Call, DrivingLimits, Filter, Order, Scope, Store};
use callboard_protocol::{Object, Owner, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_limited, order, scope};
use crate::world::workflow;

const MOST: usize = 3;

/// Counts how many of it are performed at once.
#[derive(Debug, Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Activity for Crowd {
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
    let crowd = Arc::new(Crowd::default());
    let store = doomed_store(Arc::default(), Fate::Live);
    let definitions = [
        definition("busy", "test.crowd", &json!({})),
        definition("wait", "core.delay", &json!({ "delayMs": 90_000 })),
    ];
    let activities = Activities::default().with("test.crowd", crowd.clone());
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
    assert!((2..=MOST).contains(&crowd.most.load(Ordering::Relaxed)));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_runs_keeps_no_other_waiting() {
    let store = doomed_store(Arc::default(), Fate::Live);
    let shared = store.inner.clone();
    let activities = Activities::default().with("test.crowd", Arc::new(Crowd::default()));
    let limits = DrivingLimits { most_runs: MOST, ..DrivingLimits::default() };
    let definitions = [definition("busy", "test.crowd", &json!({}))];
    let clock = SimClock::new();
    let engine =
        host_limited("one", store, shared.clone(), clock, &definitions, activities, limits);
    for _ in 0..200 {
        engine.create(of_tenant("many", "busy"), None).await.unwrap();
    }
    let few = engine.create(of_tenant("default", "busy"), None).await.unwrap().run;
    ended(&shared, &few).await;
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let theirs = Scope { tenant: "many".into(), ..scope() };
    let theirs = shared.list(&theirs, &filter).await.unwrap();
    let ended = theirs.iter().filter(|run| run.status.is_terminal()).count();
    // Those that are at work and a few more; behind the others it would be all of them.
    assert!(ended < 50, "{ended}");
}
