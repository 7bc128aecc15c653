//! The engine's own promises, in memory and in simulated time: commands from outside, shutdown, pins, claims.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{ConformanceNodes, Outcome, Refusal, RetryClass};
use callboard_engine::{
    Activities, Activity, Batch, Call, Catalog, Engine, EngineError, Filter, InMemoryStore, Order,
    Recorded, Store, VersionError,
};
use callboard_protocol::{DrainPolicy, Failure, Object, RunId, RunStatus};

use crate::sim::{Fate, LEASE, SimClock, doomed_store, ended, host, host_with, order, scope};

fn workflow(id: &str, nodes: Value, edges: Value) -> String {
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    })
    .to_string()
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
}

fn kinds(log: &[Recorded]) -> Vec<&str> {
    log.iter().map(|event| event.kind.as_str()).collect()
}

async fn log_of(store: &InMemoryStore, run: &RunId) -> Vec<Recorded> {
    store.read(&scope(), run, 0, usize::MAX).await.unwrap().unwrap().events
}

struct World {
    store: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    engine: Engine,
    definitions: Vec<String>,
}

fn world(definitions: &[String]) -> World {
    let store = Arc::new(InMemoryStore::default());
    let clock = SimClock::new();
    let engine = host("one", doomed_store(store.clone(), Fate::Live), clock.clone(), definitions);
    World { store, clock, engine, definitions: definitions.to_vec() }
}

impl World {
    async fn start(&self, workflow: &str) -> RunId {
        let run = self
            .engine
            .create(order(workflow, Object::new(), Object::new()), None)
            .await
            .unwrap()
            .run;
        tokio::time::sleep(Duration::from_millis(10)).await;
        run
    }
}

fn sleeper() -> String {
    workflow(
        "sleeper",
        json!([
            node("a", "core.delay", json!({ "ms": 20_000 })),
            node("b", "core.noop", json!({}))
        ]),
        json!([{ "id": "e", "sourceNodeId": "a", "targetNodeId": "b" }]),
    )
}

fn talker() -> String {
    workflow("talker", json!([node("say", "core.ai.callPrompt", json!({}))]), json!([]))
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_an_activity_in_the_middle() {
    let world = world(&[talker()]);
    let run = world.start("talker").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let done =
        world.engine.cancel(&scope(), &run, Some("enough".into()), None, None).await.unwrap();
    assert_eq!(done.status, RunStatus::Cancelled);
    let log = ended(&world.store, &run).await;
    let expected = [
        "run.started",
        "node.started",
        "output.chunk",
        "callboard.cancel.requested",
        "node.cancelled",
        "run.cancelled",
    ];
    assert_eq!(kinds(&log), expected);
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(log_of(&world.store, &run).await, log, "a cancelled run goes on");
    let again = world.engine.cancel(&scope(), &run, None, None, None).await.unwrap();
    assert_eq!(again.status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn an_immediate_pause_starts_the_node_afresh_on_resume() {
    let world = world(&[sleeper()]);
    let run = world.start("sleeper").await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    world.engine.pause(&scope(), &run, DrainPolicy::Immediate, None, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let refused = world.engine.pause(&scope(), &run, DrainPolicy::Immediate, None, None).await;
    assert!(matches!(
        refused,
        Err(EngineError::Refused(Refusal::CannotPause { status: RunStatus::Paused, .. }))
    ));
    world.engine.resume(&scope(), &run, None, None).await.unwrap();
    let log = ended(&world.store, &run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "run.paused",
            "run.resumed",
            "node.started",
            "node.completed",
            "node.started",
            "node.completed",
            "run.completed"
        ]
    );
    assert_eq!(
        log[5].at.since(log[4].at),
        Duration::from_secs(20),
        "the delay has its full length again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_the_running_node_end_first() {
    let world = world(&[sleeper()]);
    let run = world.start("sleeper").await;
    world
        .engine
        .pause(&scope(), &run, DrainPolicy::DrainCurrentNode, Some("lunch".into()), None)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let log = log_of(&world.store, &run).await;
    assert_eq!(
        kinds(&log),
        [
            "run.started",
            "node.started",
            "callboard.pause.requested",
            "node.completed",
            "run.paused"
        ]
    );
    world.engine.resume(&scope(), &run, None, None).await.unwrap();
    assert_eq!(ended(&world.store, &run).await.last().unwrap().kind, "run.completed");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_runs_back_and_another_host_goes_on_without_a_takeover() {
    let world = world(&[sleeper(), talker()]);
    let (slow, chatty) = (world.start("sleeper").await, world.start("talker").await);
    world.engine.shut_down(Duration::from_secs(10)).await;
    assert_eq!(world.engine.driving(), 0);
    let told = kinds(&log_of(&world.store, &chatty).await)
        .iter()
        .filter(|kind| **kind == "output.chunk")
        .count();
    assert_eq!(told, 1, "what was under way came to its next recorded event");
    let definitions = world.definitions.clone();
    let _second = host(
        "two",
        doomed_store(world.store.clone(), Fate::Live),
        world.clock.clone(),
        &definitions,
    );
    for run in [slow, chatty] {
        let log = ended(&world.store, &run).await;
        assert_eq!(log.last().unwrap().kind, "run.completed");
        assert!(!kinds(&log).contains(&"run.resumed"), "{:?}", kinds(&log));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_tenant_does_not_exist() {
    let world = world(&[sleeper()]);
    let run = world.start("sleeper").await;
    let mut stranger = scope();
    stranger.tenant = "other".into();
    let refused = world.engine.cancel(&stranger, &run, None, None, None).await;
    assert!(matches!(refused, Err(EngineError::UnknownRun(_))));
    assert!(world.engine.snapshot(&stranger, &run).await.unwrap().is_none());
    assert!(world.engine.watch(&stranger, &run).await.unwrap().is_none());
}

/// Asks for versions in the way that code which changed does.
#[derive(Debug)]
struct Changed {
    min: i64,
    max: i64,
}

#[async_trait]
impl Activity for Changed {
    async fn perform(&self, mut call: Call) -> Outcome {
        match call.version("new-prompt", self.min, self.max).await {
            Ok(version) => Outcome::Done {
                outputs: Object::from_iter([("version".to_owned(), json!(version))]),
            },
            Err(VersionError::OutOfRange(failure)) => {
                Outcome::Failed { failure, class: RetryClass::Final }
            }
            Err(VersionError::Superseded(_)) => Outcome::Failed {
                failure: Failure::new("superseded", "superseded"),
                class: RetryClass::Final,
            },
        }
    }
}

fn changed_host(
    store: &Arc<InMemoryStore>,
    clock: &Arc<SimClock>,
    source: &str,
    name: &str,
    activity: Changed,
) -> Engine {
    let activities = Activities::default().with("test.changed", Arc::new(activity));
    host_with(name, store.clone(), store.clone(), clock.clone(), &[source.to_owned()], activities)
}

/// F54: the first question pins the newest version; a host that no longer knows it fails the node.
#[tokio::test(start_paused = true)]
async fn a_pinned_version_is_kept_for_the_run_and_refused_out_of_range() {
    let nodes = json!([
        node("first", "test.changed", json!({})),
        node("wait", "core.delay", json!({ "ms": 3_600_000 })),
        node("second", "test.changed", json!({})),
    ]);
    let edges = json!([
        { "id": "a", "sourceNodeId": "first", "targetNodeId": "wait" },
        { "id": "b", "sourceNodeId": "wait", "targetNodeId": "second" },
    ]);
    let source = workflow("pins", nodes, edges);
    let (store, clock) = (Arc::new(InMemoryStore::default()), SimClock::new());
    let old = changed_host(&store, &clock, &source, "old", Changed { min: -1, max: 1 });
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(old.create(order("pins", Object::new(), Object::new()), None).await.unwrap().run);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    old.shut_down(Duration::from_secs(1)).await;
    let new = changed_host(&store, &clock, &source, "new", Changed { min: 1, max: 2 });
    let log = ended(&store, &runs[0]).await;
    assert_eq!(kinds(&log).iter().filter(|kind| **kind == "version.pinned").count(), 1);
    let snapshot: Value =
        serde_json::from_str(&new.snapshot(&scope(), &runs[0]).await.unwrap().unwrap().json)
            .unwrap();
    assert_eq!(
        snapshot["variables"]["second"]["version"],
        json!(1),
        "the pin outlives the host that made it"
    );

    let source = workflow("later", json!([node("only", "test.changed", json!({}))]), json!([]));
    let refusing = changed_host(&store, &clock, &source, "broken", Changed { min: 3, max: 2 });
    let run =
        refusing.create(order("later", Object::new(), Object::new()), None).await.unwrap().run;
    let log = ended(&store, &run).await;
    assert!(log.last().unwrap().payload.contains("validation_error"), "{:?}", log.last());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_refused_when_the_run_is_created() {
    let world = world(&[workflow(
        "gated",
        json!([node("g", "core.ai.structuredOutput", json!({}))]),
        json!([]),
    )]);
    let refused = world.engine.create(order("gated", Object::new(), Object::new()), None).await;
    let Err(EngineError::Inadmissible(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.code, "capability_required");
    assert_eq!(refusal.details["offendingTypeId"], json!("core.ai.structuredOutput"));
    assert!(world.engine.catalog().fixtures().is_empty());
}

/// What only the doors of the test suite can perform is no fixture of a host without them.
#[tokio::test(start_paused = true)]
async fn a_fixture_that_needs_the_suites_doors_is_not_listed_without_them() {
    let tagged = |id: &str, config: Value| {
        let nodes = json!([node("only", "core.identity", config)]);
        let mut definition: Value = serde_json::from_str(&workflow(id, nodes, json!([]))).unwrap();
        definition["metadata"]["tags"] = json!(["conformance"]);
        definition.to_string()
    };
    let definitions =
        [tagged("plain", json!({})), tagged("asks-the-suite", json!({ "provider": "mock" }))];
    let store = Arc::new(InMemoryStore::default());
    for (doors, expected) in [
        (ConformanceNodes::Off, vec!["plain"]),
        (ConformanceNodes::On, vec!["asks-the-suite", "plain"]),
    ] {
        let mut catalog = Catalog::new(store.clone(), doors);
        definitions.iter().for_each(|text| drop(catalog.load(text).unwrap()));
        let listed: Vec<String> = catalog.fixtures().iter().map(ToString::to_string).collect();
        assert_eq!(listed, expected, "{doors:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tag_keeps_no_credential() {
    let world = world(&[sleeper()]);
    let tags = vec!["blue".to_owned(), format!("with-sk-{}", "CANARY0aB8mYjPpQe7oai9Lt7Nw2QrZ")];
    let order = Order { tags, ..order("sleeper", Object::new(), Object::new()) };
    world.engine.create(order, None).await.unwrap();
    let filter = Filter { limit: 10, ..Filter::default() };
    let listed = world.store.list(&scope(), &filter).await.unwrap();
    assert_eq!(listed[0].tags[0], "blue");
    assert!(!listed[0].tags[1].contains("CANARY"), "{:?}", listed[0].tags);
}

/// R73: a run that a newer build started is neither read nor driven, and a stranger still learns nothing of it.
#[tokio::test(start_paused = true)]
async fn a_run_from_a_newer_build_is_refused_and_left_alone() {
    let world = world(&[sleeper()]);
    let run = world.start("sleeper").await;
    let opened = world.store.open(&run).await.unwrap().unwrap();
    let mut birth = opened.birth.clone();
    birth.run_id = "run_future".into();
    birth.engine_version = 99;
    let fresh = callboard_core::Run::new(
        Arc::new(birth.clone()),
        Arc::new(callboard_core::Plan::parse(opened.definition.as_bytes()).unwrap()),
    );
    let new = callboard_engine::NewRun {
        birth,
        masked_inputs: None,
        definition: opened.definition,
        head: fresh.head(),
        lease: None,
        exclusive: false,
        outcome: None,
    };
    world.store.commit(Batch::of_run(new)).await.unwrap();
    tokio::time::sleep(LEASE * 3).await;
    let future: RunId = "run_future".into();
    assert!(log_of(&world.store, &future).await.is_empty(), "nobody here may drive it");
    let refused = world.engine.snapshot(&scope(), &future).await;
    assert!(
        matches!(refused, Err(EngineError::FutureVersion { persisted: 99, .. })),
        "{refused:?}"
    );
    let refused = world.engine.cancel(&scope(), &future, None, None, None).await;
    assert!(matches!(refused, Err(EngineError::FutureVersion { .. })));
    let mut stranger = scope();
    stranger.tenant = "other".into();
    let hidden = world.engine.cancel(&stranger, &future, None, None, None).await;
    assert!(matches!(hidden, Err(EngineError::UnknownRun(_))));
}

/// Puts out what the caller configured.
#[derive(Debug)]
struct Echo;

#[async_trait]
impl Activity for Echo {
    async fn perform(&self, call: Call) -> Outcome {
        Outcome::Done { outputs: call.configurable.clone() }
    }
}

/// R21: options reach nodes unchanged, are kept with the run, and outlive the host that took them.
#[tokio::test(start_paused = true)]
async fn configurable_options_reach_nodes_and_stay_with_the_run() {
    let source = workflow(
        "options",
        json!([
            node("wait", "core.delay", json!({ "ms": 5_000 })),
            node("echo", "test.echo", json!({}))
        ]),
        json!([{ "id": "e", "sourceNodeId": "wait", "targetNodeId": "echo" }]),
    );
    let (store, clock) = (Arc::new(InMemoryStore::default()), SimClock::new());
    let host = |name: &str| {
        let activities = Activities::default().with("test.echo", Arc::new(Echo));
        let definitions = std::slice::from_ref(&source);
        host_with(name, store.clone(), store.clone(), clock.clone(), definitions, activities)
    };
    let options = json!({ "model": "m", "temperature": 0.5, "acme.depth": { "n": [1, null] } });
    let options = options.as_object().cloned().unwrap();
    let first = host("first");
    let run =
        first.create(order("options", Object::new(), options.clone()), None).await.unwrap().run;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.kill();
    let second = host("second");
    ended(&store, &run).await;
    let seen = second.snapshot(&scope(), &run).await.unwrap().unwrap();
    let snapshot: Value = serde_json::from_str(&seen.json).unwrap();
    assert_eq!(snapshot["configurable"], Value::Object(options.clone()));
    assert_eq!(snapshot["variables"]["echo"], Value::Object(options));
}

#[derive(Debug)]
struct Panics;

#[async_trait]
impl Activity for Panics {
    async fn perform(&self, _: Call) -> Outcome {
        panic!("on command, with a secret")
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_activity_panics_has_failed() {
    let (store, clock) = (Arc::new(InMemoryStore::default()), SimClock::new());
    let activities = Activities::default().with("test.panics", Arc::new(Panics));
    let definition = workflow("faulty", json!([node("only", "test.panics", json!({}))]), json!([]));
    let doomed = doomed_store(store.clone(), Fate::Live);
    let engine = host_with("one", doomed, store.clone(), clock, &[definition], activities);
    let run = engine.create(order("faulty", Object::new(), Object::new()), None).await.unwrap().run;
    let log = ended(&store, &run).await;
    assert_eq!(kinds(&log), ["run.started", "node.started", "node.failed", "run.failed"]);
    let told = format!("{log:?}");
    assert!(told.contains("internal_error") && !told.contains("secret"), "{told}");
}

/// A host that goes on renewing such a claim would keep the run from everybody.
#[tokio::test(start_paused = true)]
async fn a_run_whose_driver_panics_is_taken_up_again() {
    let (store, clock) = (Arc::new(InMemoryStore::default()), SimClock::new());
    let doomed = doomed_store(store.clone(), Fate::Panic(2));
    let engine = host("one", doomed, clock, &[sleeper()]);
    let run =
        engine.create(order("sleeper", Object::new(), Object::new()), None).await.unwrap().run;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(engine.driving(), 0);
    let log = ended(&store, &run).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
}
