//! A store that is away: for a moment it costs a run nothing, and for longer than a lease nobody acts twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Fact, Outcome, Resolution, Via};
use callboard_engine::{
    Activities, Activity, Call, Effect, Engine, InMemoryStore, Intercept, InterceptedStore,
    OnUnknown, Once, OnceError, Recorded, Store, StoreCall, StoreError,
};
use callboard_protocol::{Event, Object, RunId};

use crate::sim::{LEASE, SimClock, ended, host_with, open_questions, scope};
use crate::simulation::node;
use crate::world::{start, workflow};

/// How the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// For so many calls, from this one on.
    Calls {
        from: u64,
        most: u64,
    },
    /// This call is carried out, and its answer is lost.
    LostAnswer(u64),
    /// Until somebody brings it back.
    Switched,
    Never,
}

#[derive(Debug)]
struct Away {
    absence: Absence,
    /// Nothing is counted before the run is there.
    is_counting: AtomicBool,
    calls: AtomicU64,
    is_away: AtomicBool,
    /// What the call was that went wrong first.
    met: Mutex<Option<&'static str>>,
}

impl Away {
    fn new(absence: Absence) -> Arc<Self> {
        Arc::new(Self {
            absence,
            is_counting: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            met: Mutex::default(),
        })
    }

    fn fail(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        self.met.lock().unwrap().get_or_insert(call.name);
        Err(StoreError::Unavailable("away".to_owned()))
    }
}

#[async_trait]
impl Intercept for Away {
    async fn before(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        if !self.is_counting.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ordinal = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match self.absence {
            Absence::Calls { from, most } if (from..from + most).contains(&ordinal) => {
                self.fail(call)
            }
            Absence::Switched if self.is_away.load(Ordering::Relaxed) => self.fail(call),
            _ => Ok(()),
        }
    }

    async fn after(&self, call: &StoreCall<'_>) -> Result<(), StoreError> {
        if call.batch.is_some_and(|batch| !batch.births.is_empty()) {
            self.is_counting.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let ordinal = self.calls.load(Ordering::Relaxed);
        let is_first = self.met.lock().unwrap().is_none();
        match self.absence {
            Absence::LostAnswer(at) if ordinal == at && is_first => self.fail(call),
            _ => Ok(()),
        }
    }
}

/// Says something, makes a call whose repetition only a person may allow, and says what came of it.
#[derive(Debug)]
struct Caller {
    made: Arc<AtomicU64>,
}

#[async_trait]
impl Activity for Caller {
    async fn perform(&self, call: Call) -> Outcome {
        let word = |index, text: &str| {
            let (text, is_last) = (text.to_owned(), index == 1);
            vec![Fact::Chunk { index, text, is_last, meta: None }]
        };
        if call.record(word(0, "calling")).await.is_err() {
            return Outcome::Done { outputs: Object::new() };
        }
        let setup = call.setup().await;
        assert!(matches!(setup, Ok(None)), "no earlier attempt has begun: {setup:?}");
        call.keep_setup(&json!({ "by": "mail" })).await.unwrap();
        let effect = Effect {
            index: 0,
            provider: "mail",
            request: &json!("hello"),
            on_unknown: OnUnknown::Ask(|result| result),
            is_recorded: false,
        };
        let make = |_: Once| async {
            self.made.fetch_add(1, Ordering::Relaxed);
            Ok(json!("sent"))
        };
        match call.once(effect, make).await {
            Ok(_) | Err(OnceError::Superseded) => {}
            Err(OnceError::Ended(outcome)) => return outcome,
        }
        match call.record(word(1, "called")).await {
            Ok(()) | Err(_) => Outcome::Done { outputs: Object::new() },
        }
    }
}

fn definitions() -> [String; 2] {
    let whole = [
        node("a", "core.noop", json!({})),
        node("b", "test.caller", json!({})),
        node("c", "core.approvalGate", json!({ "title": "Go on?" })),
        node("d", "core.subWorkflow", json!({ "workflowId": "child" })),
    ];
    let child =
        [node("x", "core.delay", json!({ "ms": 500 })), node("y", "test.caller", json!({}))];
    [workflow("whole", &whole), workflow("child", &child)].map(|definition| definition.to_string())
}

fn host_on(
    name: &str,
    store: Arc<dyn Store>,
    shared: &Arc<InMemoryStore>,
    clock: &Arc<SimClock>,
    activity: Arc<dyn Activity>,
) -> Engine {
    let activities = Activities::default().with("test.caller", activity);
    host_with(name, store, shared.clone(), clock.clone(), &definitions(), activities)
}

/// Says yes as soon as somebody is asked, as often as it takes.
async fn approve(engine: &Engine, shared: &InMemoryStore, run: &RunId) {
    while open_questions(shared).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while !open_questions(shared).await.is_empty() {
        let value = json!({ "action": "accept" });
        let yes = Resolution { node: "c".into(), value, by: None, via: Via::Key };
        if engine.resolve(&scope(), run, yes, None).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What a log tells, without times and the name of the child.
fn told(log: &[Recorded], child: &RunId) -> Vec<(String, Option<String>, Value)> {
    let varying = ["durationMs", "decidedAt", "resolvedAt"];
    let told = log.iter().map(|event| {
        let payload = event.payload.replace(child.as_str(), "child");
        let mut payload: Value = serde_json::from_str(&payload).unwrap();
        if let Value::Object(fields) = &mut payload {
            varying.iter().for_each(|field| drop(fields.remove(*field)));
        }
        (event.kind.clone(), event.node.as_ref().map(ToString::to_string), payload)
    });
    told.collect()
}

fn child_of(log: &[Recorded]) -> RunId {
    let dispatched: Vec<&Recorded> =
        log.iter().filter(|event| event.kind == "node.dispatched").collect();
    assert_eq!(dispatched.len(), 1, "one child: {log:?}");
    let payload: Value = serde_json::from_str(&dispatched[0].payload).unwrap();
    payload["childRunId"].as_str().unwrap().into()
}

struct Came {
    parent: Vec<(String, Option<String>, Value)>,
    child: Vec<(String, Option<String>, Value)>,
    /// Outward calls that were really made.
    made: u64,
    /// Calls of the store.
    calls: u64,
    met: Option<&'static str>,
}

async fn drive(absence: Absence) -> Came {
    let (shared, clock) = (Arc::<InMemoryStore>::default(), SimClock::new());
    let away = Away::new(absence);
    let store = Arc::new(InterceptedStore::new(shared.clone(), away.clone()));
    let made = Arc::<AtomicU64>::default();
    let caller = Arc::new(Caller { made: made.clone() });
    let engine = host_on("host", store, &shared, &clock, caller);
    let run = start(&engine, "whole").await;
    approve(&engine, &shared, &run).await;
    let log = ended(&shared, &run).await;
    let child = child_of(&log);
    let childs_log = ended(&shared, &child).await;
    engine.kill();
    let (made, calls) = (made.load(Ordering::Relaxed), away.calls.load(Ordering::Relaxed));
    let met = *away.met.lock().unwrap();
    Came { parent: told(&log, &child), child: told(&childs_log, &child), made, calls, met }
}

/// A holder whose claim nobody told it about finds the run again when that claim has run out.
fn without_takeover(
    told: &[(String, Option<String>, Value)],
) -> Vec<(String, Option<String>, Value)> {
    told.iter().filter(|(kind, ..)| kind != "run.resumed").cloned().collect()
}

fn check(absence: Absence, came: &Came, undisturbed: &Came) {
    let what = format!("{absence:?} at {:?}", came.met);
    assert_eq!(came.made, 2, "{what}: each call is made once");
    if came.met == Some("claim") {
        assert_eq!(without_takeover(&came.parent), undisturbed.parent, "{what}");
        assert_eq!(without_takeover(&came.child), undisturbed.child, "{what}");
        return;
    }
    assert_eq!(came.parent, undisturbed.parent, "{what}");
    assert_eq!(came.child, undisturbed.child, "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_costs_a_run_nothing() {
    let undisturbed = drive(Absence::Never).await;
    let last = undisturbed.parent.last().unwrap();
    assert_eq!(last.0, "run.completed", "{last:?}");
    assert!(undisturbed.calls > 30, "{}", undisturbed.calls);
    for from in 1..=undisturbed.calls {
        for most in [1, 4] {
            let absence = Absence::Calls { from, most };
            check(absence, &drive(absence).await, &undisturbed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_found_out_and_nothing_is_doubled() {
    let undisturbed = drive(Absence::Never).await;
    for at in 1..=undisturbed.calls {
        let absence = Absence::LostAnswer(at);
        check(absence, &drive(absence).await, &undisturbed);
    }
}

/// Acts ten times a second for twenty seconds, and notes when.
#[derive(Debug)]
struct Acting {
    host: &'static str,
    acts: Arc<Mutex<Vec<(&'static str, tokio::time::Instant)>>>,
}

#[async_trait]
impl Activity for Acting {
    async fn perform(&self, call: Call) -> Outcome {
        for _ in 0..200 {
            self.acts.lock().unwrap().push((self.host, tokio::time::Instant::now()));
            call.pause(Duration::from_millis(100)).await;
        }
        Outcome::Done { outputs: Object::new() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_without_its_store_stops_acting_before_another_can_begin() {
    let (shared, clock) = (Arc::<InMemoryStore>::default(), SimClock::new());
    let away = Away::new(Absence::Switched);
    let acts = Arc::<Mutex<Vec<_>>>::default();
    let acting = |host| Arc::new(Acting { host, acts: acts.clone() });
    let store = Arc::new(InterceptedStore::new(shared.clone(), away.clone()));
    let first = host_on("first", store, &shared, &clock, acting("first"));
    let run = start(&first, "child").await;
    tokio::time::sleep(LEASE).await;
    away.is_away.store(true, Ordering::Relaxed);
    let _second = host_on("second", shared.clone(), &shared, &clock, acting("second"));
    let log = ended(&shared, &run).await;
    assert!(Event::is_terminal(&log.last().unwrap().kind));
    assert_eq!(log.iter().filter(|event| event.kind == "run.resumed").count(), 1);
    let acts = acts.lock().unwrap();
    let last_of_first = acts.iter().rfind(|(host, _)| *host == "first").unwrap().1;
    let first_of_second = acts.iter().find(|(host, _)| *host == "second").unwrap().1;
    assert!(last_of_first < first_of_second, "both acted at once");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_lost_its_store_is_of_use_again() {
    let (shared, clock) = (Arc::<InMemoryStore>::default(), SimClock::new());
    let away = Away::new(Absence::Switched);
    let store = Arc::new(InterceptedStore::new(shared.clone(), away.clone()));
    let acts = Arc::<Mutex<Vec<_>>>::default();
    let acting = Arc::new(Acting { host: "only", acts });
    let engine = host_on("only", store, &shared, &clock, acting);
    let run = start(&engine, "child").await;
    tokio::time::sleep(LEASE).await;
    away.is_away.store(true, Ordering::Relaxed);
    tokio::time::sleep(LEASE * 5).await;
    assert_eq!(engine.driving(), 0, "nothing is held that may be another's");
    away.is_away.store(false, Ordering::Relaxed);
    let log = ended(&shared, &run).await;
    assert_eq!(log.last().unwrap().kind, "run.completed");
}
