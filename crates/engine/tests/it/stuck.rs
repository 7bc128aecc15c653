//! Runs about which nothing can be decided: they are given up, and everybody else goes on.
//!
//! In real time: a thread that spins does not know of simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{ConformanceNodes, HostLimits, Outcome, Run};
use callboard_engine::{
    Activities, Activity, Call, Catalog, Claim, ClaimOrigin, DrivingLimits, Engine, InMemoryStore,
    NoAgents, Options, Parts, RandomIds, Recorded, Secrets, Store, Strikes, SystemClock,
};
use callboard_protocol::{Object, RunId, RunStatus, Timestamp};

use crate::sim::{ended, scope};
use crate::world::{start, workflow};

/// Long enough for every honest decision on a busy machine.
const LIMIT: Duration = Duration::from_millis(400);

/// Never comes to anything.
#[derive(Debug)]
struct Hangs;

#[async_trait]
impl Activity for Hangs {
    async fn perform(&self, _call: Call) -> Outcome {
        std::future::pending().await
    }
}

#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Activity for Nothing {
    async fn perform(&self, _call: Call) -> Outcome {
        Outcome::Done { outputs: Object::new() }
    }
}

fn has(run: &Run, kind: &str) -> bool {
    run.plan().definition().nodes.iter().any(|node| node.type_id.as_str() == kind)
}

/// Lets spinning threads end with their test, or the test's runtime would wait for them.
#[derive(Debug)]
struct Released(&'static AtomicBool);

impl Drop for Released {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn host(store: &Arc<InMemoryStore>, before_decision: fn(&Run)) -> Engine {
    let mut catalog = Catalog::new(store.clone(), ConformanceNodes::On);
    let node = |id: &str, kind: &str| {
        json!({ "id": id, "typeId": kind, "name": id,
        "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} })
    };
    let mut parent = workflow("parent", &[node("a", "core.subWorkflow")]);
    parent["nodes"][0]["config"] = json!({ "workflowId": "stuck" });
    for definition in [
        workflow("stuck", &[node("a", "test.stuck")]),
        workflow("fine", &[node("a", "core.noop")]),
        workflow("busy", &[node("a", "test.fine")]),
        workflow("hang", &[node("a", "test.hang")]),
        parent,
    ] {
        catalog.load(&definition.to_string()).unwrap();
    }
    let nothing: Arc<dyn Activity> = Arc::new(Nothing);
    let activities = Activities::default().with("test.stuck", nothing.clone());
    let engine = Engine::new(Parts {
        store: store.clone(),
        catalog,
        activities: activities.with("test.fine", nothing).with("test.hang", Arc::new(Hangs)),
        directory: Arc::new(NoAgents),
        secrets: Secrets::new(store.clone()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        options: Options {
            host: "stuck-host".into(),
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            limits: HostLimits::default(),
            driving: DrivingLimits {
                decision: LIMIT,
                before_decision: Some(before_decision),
                ..DrivingLimits::default()
            },
        },
    });
    engine.start();
    engine
}

fn failure(log: &[Recorded]) -> Value {
    let last = log.last().unwrap();
    assert_eq!(last.kind, "run.failed", "{log:?}");
    serde_json::from_str::<Value>(&last.payload).unwrap()["error"].clone()
}

async fn status(engine: &Engine, run: &RunId) -> (RunStatus, Value) {
    let seen = engine.snapshot(&scope(), run).await.unwrap().unwrap();
    (seen.status, serde_json::from_str(&seen.json).unwrap())
}

#[tokio::test]
async fn a_run_that_spins_for_ever_is_given_up_and_the_others_go_on() {
    static DONE: AtomicBool = AtomicBool::new(false);
    fn spin(run: &Run) {
        while has(run, "test.stuck") && !DONE.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
    let _released = Released(&DONE);
    let store = Arc::new(InMemoryStore::default());
    let engine = host(&store, spin);
    let stuck = start(&engine, "stuck").await;
    for fine in ["fine", "busy"] {
        let fine = start(&engine, fine).await;
        assert_eq!(ended(&store, &fine).await.last().unwrap().kind, "run.completed");
    }
    let error = failure(&ended(&store, &stuck).await);
    assert_eq!(error["code"], "run_unprocessable", "{error}");
    assert!(error["message"].as_str().unwrap().contains("start it anew"), "{error}");
    let (state, shown) = status(&engine, &stuck).await;
    assert_eq!((state, &shown["error"]["code"]), (RunStatus::Failed, &error["code"]));
    // Nobody claims what has ended, at this start or the next.
    engine.kill();
    let again = host(&store, spin);
    let fine = start(&again, "busy").await;
    assert_eq!(ended(&store, &fine).await.last().unwrap().kind, "run.completed");
    assert_eq!(status(&again, &stuck).await.0, RunStatus::Failed);
}

#[tokio::test]
async fn a_run_that_cannot_be_folded_can_be_looked_at_and_cancelled() {
    static DONE: AtomicBool = AtomicBool::new(false);
    fn spin(run: &Run) {
        while has(run, "test.stuck") && !DONE.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
    let _released = Released(&DONE);
    let store = Arc::new(InMemoryStore::default());
    let engine = host(&store, spin);
    let stuck = start(&engine, "stuck").await;
    assert_eq!(status(&engine, &stuck).await.0, RunStatus::Pending);
    let done = engine.cancel(&scope(), &stuck, None, None, None).await.unwrap();
    let log = ended(&store, &stuck).await;
    // Whoever was first, it has one end.
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(["run.cancelled", "run.failed"].contains(&log[0].kind.as_str()));
    assert!(done.status.is_terminal());
}

#[tokio::test]
async fn a_run_whose_decision_panics_twice_is_given_up_and_once_is_not() {
    static TIMES: AtomicU32 = AtomicU32::new(0);
    fn panic_twice(run: &Run) {
        assert!(!has(run, "test.stuck"), "on command");
        if has(run, "test.fine") && TIMES.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("once");
        }
    }
    let store = Arc::new(InMemoryStore::default());
    let engine = host(&store, panic_twice);
    let once = start(&engine, "busy").await;
    assert_eq!(ended(&store, &once).await.last().unwrap().kind, "run.completed");
    let stuck = start(&engine, "stuck").await;
    let error = failure(&ended(&store, &stuck).await);
    assert_eq!(error["code"], "run_unprocessable", "{error}");
    assert!(!error["message"].as_str().unwrap().contains("internal"), "{error}");
}

#[tokio::test]
async fn a_parent_hears_that_its_child_was_given_up() {
    fn panic_always(run: &Run) {
        assert!(!has(run, "test.stuck"), "on command");
    }
    let store = Arc::new(InMemoryStore::default());
    let engine = host(&store, panic_always);
    let parent = start(&engine, "parent").await;
    let log = ended(&store, &parent).await;
    let told = log.iter().map(|event| event.payload.as_str()).collect::<String>();
    assert!(told.contains("run_unprocessable"), "{told}");
}

#[tokio::test]
async fn a_run_that_ends_the_process_each_time_is_given_up_at_the_third_start() {
    fn never(_: &Run) {}
    let store = Arc::new(InMemoryStore::default());
    let first = host(&store, never);
    let run = start(&first, "hang").await;
    store.changed(&run, 1).await;
    first.kill();
    // As two processes leave it that ended within its first decision.
    for _ in 0..2 {
        Strikes::new(store.clone()).add(&run).await.unwrap();
    }
    let origin = ClaimOrigin::Free;
    let claim = Claim { run: run.clone(), host: "stuck-host".into(), epoch: 1, origin };
    assert_eq!(
        store.renew(&[claim], Timestamp::default()).await.unwrap(),
        [""; 0].map(RunId::from)
    );
    let _third = host(&store, never);
    let error = failure(&ended(&store, &run).await);
    assert_eq!(error["code"], "run_unprocessable", "{error}");
    assert!(error["message"].as_str().unwrap().contains("the host ended each time"), "{error}");
}

#[tokio::test]
async fn a_run_that_survives_its_takeover_is_counted_no_more() {
    fn never(_: &Run) {}
    let store = Arc::new(InMemoryStore::default());
    let first = host(&store, never);
    let run = start(&first, "hang").await;
    store.changed(&run, 1).await;
    first.kill();
    let origin = ClaimOrigin::Free;
    let claim = Claim { run: run.clone(), host: "stuck-host".into(), epoch: 1, origin };
    store.renew(&[claim], Timestamp::default()).await.unwrap();
    let before = store.open(&run).await.unwrap().unwrap().entries.len() as u64;
    let second = host(&store, never);
    store.changed(&run, before).await;
    second.cancel(&scope(), &run, None, None, None).await.unwrap();
    ended(&store, &run).await;
    assert_eq!(Strikes::new(store.clone()).all().await.unwrap(), []);
}
