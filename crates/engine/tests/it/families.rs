//! Durability of runs that have to do with one another or with the outside: children, forks, effects, with a
//! crash before and after each write, a holder that oversleeps, one host and two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, Resolution, Via};
use callboard_engine::{
    Activities, Activity, Call, Effect, Engine, Filter, ForkOrder, InMemoryStore, KeyMode,
    OnUnknown, Once, OnceError, Overlay, Recorded, Store,
};
use callboard_protocol::{ForkMode, Object, Owner, RunId, RunStatus};

use crate::sim::{
    DoomedStore, Fate, LEASE, SimClock, doomed_store, ended, host_with, order, scope,
};

/// Calls that were really made, by their ids.
type Made = Arc<Mutex<BTreeMap<String, usize>>>;

/// Two outward calls, one after the other.
#[derive(Debug)]
struct Caller {
    made: Made,
    on_unknown: OnUnknown,
}

#[async_trait]
impl Activity for Caller {
    async fn perform(&self, call: Call) -> Outcome {
        let mut sent = Vec::new();
        for index in 0..2 {
            let effect = Effect {
                index,
                provider: "mail",
                request: &json!(index),
                on_unknown: self.on_unknown,
                is_recorded: false,
            };
            let made = self.made.clone();
            let outcome = call.once(effect, |once: Once| async move {
                let mut made = made.lock().unwrap();
                *made.entry(once.id.to_string()).or_default() += 1;
                Ok(json!(index))
            });
            match outcome.await {
                Ok(value) => sent.push(value),
                Err(OnceError::Ended(outcome)) => return outcome,
                Err(OnceError::Superseded) => return Outcome::Done { outputs: Object::new() },
            }
        }
        Outcome::Done { outputs: Object::from_iter([("sent".to_owned(), Value::Array(sent))]) }
    }
}

/// Hosts on one store, of which the first meets its fate.
pub(crate) struct Stage {
    pub(crate) shared: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    definitions: Vec<String>,
    made: Made,
    on_unknown: OnUnknown,
}

impl Stage {
    pub(crate) fn new(definitions: &[Value], on_unknown: OnUnknown) -> Self {
        Self {
            shared: Arc::new(InMemoryStore::default()),
            clock: SimClock::new(),
            definitions: definitions.iter().map(Value::to_string).collect(),
            made: Made::default(),
            on_unknown,
        }
    }

    pub(crate) fn host(&self, name: &str, fate: Fate) -> (Engine, Arc<DoomedStore>) {
        let store = doomed_store(self.shared.clone(), fate);
        let caller = Caller { made: self.made.clone(), on_unknown: self.on_unknown };
        let activities = Activities::default().with("test.caller", Arc::new(caller));
        let engine = host_with(
            name,
            store.clone(),
            self.shared.clone(),
            self.clock.clone(),
            &self.definitions,
            activities,
        );
        (engine, store)
    }

    pub(crate) async fn logs(&self) -> Vec<(String, Vec<Recorded>)> {
        let filter = Filter { limit: 100, ..Filter::default() };
        let mut logs = Vec::new();
        for listed in self.shared.list(&scope(), &filter).await.unwrap() {
            logs.push((listed.workflow_id.to_string(), ended(&self.shared, &listed.run_id).await));
        }
        logs.sort_by_key(|(workflow, log)| (workflow.clone(), log.len()));
        logs
    }
}

/// A log without what a takeover may change: times, attempts, the marker itself, and ids.
pub(crate) fn story(log: &[Recorded]) -> Vec<String> {
    let told =
        log.iter().filter(|event| !["run.resumed", "node.started"].contains(&event.kind.as_str()));
    let mut story: Vec<String> = told
        .map(|event| {
            let mut payload: Value = serde_json::from_str(&event.payload).unwrap();
            forget(&mut payload);
            format!("{} {:?} {payload}", event.kind, event.node)
        })
        .collect();
    story.sort();
    story
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in [
                "durationMs",
                "attempts",
                "childRunId",
                "parentRunId",
                "interruptId",
                "key",
                "runId",
                "since",
                "effectId",
                "resolvedAt",
            ] {
                fields.remove(key);
            }
            fields.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::String(text) if text.contains("run_") => *value = "a run".into(),
        _ => {}
    }
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
}

pub(crate) fn workflow(id: &str, nodes: Value, edges: Value, variables: Value) -> Value {
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": variables, "metadata": {}, "settings": {} })
}

fn family() -> Vec<Value> {
    let edge = json!([{ "id": "e", "sourceNodeId": "call", "targetNodeId": "after" }]);
    let call = json!({ "workflowId": "child", "outputMapping": { "taken": "told" } });
    vec![
        workflow(
            "parent",
            json!([
                node("call", "core.subWorkflow", call.clone()),
                node("beside", "core.subWorkflow", call),
                node("after", "core.delay", json!({ "ms": 500 })),
            ]),
            edge,
            json!([]),
        ),
        workflow(
            "child",
            json!([node("wait", "core.delay", json!({ "ms": 2_000 }))]),
            json!([]),
            json!([{ "name": "told", "type": "string", "defaultValue": "by the child" }]),
        ),
    ]
}

async fn run_family(fate: Fate, two: bool) -> (Vec<(String, Vec<Recorded>)>, u64) {
    let stage = Stage::new(&family(), OnUnknown::Repeat);
    let (first, doomed) = stage.host("first", fate);
    let mut others = Vec::new();
    if two {
        others.push(stage.host("second", Fate::Live));
    }
    let run = first.create(order("parent", Object::new(), Object::new()), None).await.unwrap().run;
    survive(&stage, &first, &doomed, &run, &mut others).await;
    let logs = stage.logs().await;
    first.kill();
    (logs, doomed.appends())
}

/// Waits for the run's end; when the first host dies, another one takes over.
pub(crate) async fn survive(
    stage: &Stage,
    first: &Engine,
    doomed: &DoomedStore,
    run: &RunId,
    others: &mut Vec<(Engine, Arc<DoomedStore>)>,
) {
    tokio::select! {
        () = doomed.died.notified() => first.kill(),
        _ = ended(&stage.shared, run) => {}
        () = tokio::time::sleep(LEASE * 2) => {}
    }
    if others.is_empty() {
        others.push(stage.host("second", Fate::Live));
    }
    ended(&stage.shared, run).await;
    // A host that overslept wakes up now; what it tries must come to nothing.
    tokio::time::sleep(LEASE * 4).await;
}

pub(crate) fn fates(appends: u64) -> impl Iterator<Item = Fate> {
    (1..=appends).flat_map(|at| [Fate::DieBefore(at), Fate::DieAfter(at), Fate::Oversleep(at)])
}

/// F43–F48 under faults: a child per call, whoever drives; none is lost and none is started twice.
#[tokio::test(start_paused = true)]
async fn families_survive_a_crash_at_any_write() {
    let (undisturbed, appends) = run_family(Fate::Live, false).await;
    let workflows: Vec<&str> = undisturbed.iter().map(|(workflow, _)| workflow.as_str()).collect();
    assert_eq!(workflows, ["child", "child", "parent"]);
    let last = |log: &[Recorded]| log.last().map(|event| event.kind.clone());
    for fate in fates(appends) {
        for two in [false, true] {
            let (logs, _) = run_family(fate, two).await;
            assert_eq!(logs.len(), 3, "{fate:?}, two hosts: {two}: a child too many or too few");
            for ((name, log), (_, expected)) in logs.iter().zip(&undisturbed) {
                assert_eq!(story(log), story(expected), "{name} with {fate:?}, two hosts: {two}");
                assert_eq!(last(log).as_deref(), Some("run.completed"), "{name} {fate:?}");
            }
        }
    }
}

async fn cancel_family(fate: Fate) -> (Vec<(String, Vec<Recorded>)>, u64) {
    let stage = Stage::new(&family(), OnUnknown::Repeat);
    let (first, doomed) = stage.host("first", fate);
    let run = first.create(order("parent", Object::new(), Object::new()), None).await.unwrap().run;
    tokio::time::sleep(std::time::Duration::from_millis(1_000)).await;
    let (second, _) = stage.host("second", Fate::Live);
    second.cancel(&scope(), &run, Some("enough".into()), None, None).await.unwrap();
    let mut others = vec![(second, doomed.clone())];
    survive(&stage, &first, &doomed, &run, &mut others).await;
    let logs = stage.logs().await;
    first.kill();
    (logs, doomed.appends())
}

/// F47 under faults: whoever dies on the way, everybody ends.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_every_child_whatever_crashes() {
    let (_, appends) = cancel_family(Fate::Live).await;
    for fate in fates(appends) {
        for (name, log) in cancel_family(fate).await.0 {
            let last = log.last().unwrap();
            assert_eq!(last.kind, "run.cancelled", "{name} with {fate:?}");
            let payload: Value = serde_json::from_str(&last.payload).unwrap();
            let reason = if name == "child" { "parent-cancelled" } else { "enough" };
            assert_eq!(payload["reason"], reason, "{fate:?}");
            assert_eq!(payload.get("parentRunId").is_some(), name == "child", "{fate:?}");
        }
    }
}

fn calls() -> Vec<Value> {
    vec![workflow("calls", json!([node("send", "test.caller", json!({}))]), json!([]), json!([]))]
}

async fn run_calls(fate: Fate, on_unknown: OnUnknown) -> (Vec<Recorded>, Vec<usize>, u64) {
    let stage = Stage::new(&calls(), on_unknown);
    let (first, doomed) = stage.host("first", fate);
    let run = first.create(order("calls", Object::new(), Object::new()), None).await.unwrap().run;
    let mut others = Vec::new();
    if matches!(on_unknown, OnUnknown::Ask(_)) {
        answer_whatever_is_asked(&stage, &first, &doomed, &run, &mut others).await;
    }
    survive(&stage, &first, &doomed, &run, &mut others).await;
    let log = ended(&stage.shared, &run).await;
    first.kill();
    let made = stage.made.lock().unwrap().values().copied().collect();
    (log, made, doomed.appends())
}

/// A person who says that the call was made.
async fn answer_whatever_is_asked(
    stage: &Stage,
    first: &Engine,
    doomed: &DoomedStore,
    run: &RunId,
    others: &mut Vec<(Engine, Arc<DoomedStore>)>,
) {
    tokio::select! {
        () = doomed.died.notified() => first.kill(),
        () = tokio::time::sleep(LEASE * 4) => {}
    }
    let (second, store) = stage.host("second", Fate::Live);
    tokio::time::sleep(LEASE * 4).await;
    while let Some(open) = second.interrupts(&scope(), run).await.unwrap().first() {
        assert_eq!(open.data["customKind"], "callboard.outcome-unknown");
        let value = json!({ "action": "done", "result": "as the person says" });
        let resolution = Resolution { node: open.node.clone(), value, by: None, via: Via::Key };
        second.resolve(&scope(), run, resolution, None).await.unwrap();
        tokio::time::sleep(LEASE * 4).await;
    }
    others.push((second, store));
}

/// R65: a call whose outcome is on disk is never made again; one whose outcome is unknown follows its policy.
#[tokio::test(start_paused = true)]
async fn r65_a_recorded_call_is_never_made_twice() {
    let (_, made, appends) = run_calls(Fate::Live, OnUnknown::Repeat).await;
    assert_eq!(made, [1, 1]);
    for fate in fates(appends) {
        let (log, made, _) = run_calls(fate, OnUnknown::Repeat).await;
        assert_eq!(log.last().unwrap().kind, "run.completed", "{fate:?}");
        let most = made.iter().sum::<usize>();
        assert!(
            made.len() == 2 && most <= 3,
            "{fate:?}: {made:?}: only the call in the gap repeats"
        );
    }
}

/// R65: where a person decides, an unknown outcome is asked about and nothing is made twice.
#[tokio::test(start_paused = true)]
async fn r65_an_unknown_outcome_is_asked_about() {
    let (_, _, appends) = run_calls(Fate::Live, OnUnknown::Ask(|said| said)).await;
    let mut asked = 0;
    for fate in fates(appends) {
        let (log, made, _) = run_calls(fate, OnUnknown::Ask(|said| said)).await;
        assert_eq!(log.last().unwrap().kind, "run.completed", "{fate:?}");
        assert!(made.iter().all(|times| *times == 1), "{fate:?}: {made:?}");
        asked += log.iter().filter(|event| event.kind == "interrupt.requested").count();
    }
    assert!(asked > 0, "some crash must have left a call in the gap");
}

async fn replay_calls(fate: Fate) -> (Vec<Recorded>, Vec<Recorded>, u64) {
    let stage = Stage::new(&calls(), OnUnknown::Repeat);
    let (source, _) = stage.host("source", Fate::Live);
    let run = source.create(order("calls", Object::new(), Object::new()), None).await.unwrap().run;
    let told = ended(&stage.shared, &run).await;
    source.kill();
    let (first, doomed) = stage.host("first", fate);
    let order = ForkOrder {
        source: run,
        from: 1,
        mode: ForkMode::Replay,
        owner: Owner { tenant: "default".into(), workspace: None, principal: None },
        key_mode: KeyMode::Live,
        dialect: callboard_protocol::Dialect::V1,
        overlay: Overlay::default(),
    };
    let fork = first.fork(&scope(), order, None).await.unwrap();
    assert_eq!(fork.status, RunStatus::Pending);
    survive(&stage, &first, &doomed, &fork.run, &mut Vec::new()).await;
    let log = ended(&stage.shared, &fork.run).await;
    let made: Vec<usize> = stage.made.lock().unwrap().values().copied().collect();
    assert_eq!(made, [1, 1], "a replay calls nobody: {fate:?}");
    first.kill();
    (told, log, doomed.appends())
}

/// R54, R55 under faults: a replay tells what its source told, byte for byte, and calls nobody.
#[tokio::test(start_paused = true)]
async fn r55_a_replay_survives_a_crash_at_any_write_and_calls_nobody() {
    let (_, _, appends) = replay_calls(Fate::Live).await;
    assert!(appends > 0);
    for fate in fates(appends) {
        let (told, log, _) = replay_calls(fate).await;
        let tell = |log: &[Recorded]| -> Vec<_> {
            log.iter()
                .map(|event| (event.kind.clone(), event.node.clone(), event.payload.clone()))
                .collect()
        };
        assert_eq!(tell(&log), tell(&told), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_wakes_a_parent_that_is_held_at_the_same_instant() {
    let node = |id: &str, kind: &str, config: Value| {
        json!({ "id": id, "typeId": kind, "name": id,
        "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
    };
    let mut parent = crate::world::workflow(
        "parent",
        &[node("below", "core.subWorkflow", json!({ "workflowId": "child" }))],
    );
    // Shorter than what a holder sits out: the parent does not rest.
    parent["settings"] = json!({ "timeout": 30_000 });
    let wait = node("wait", "core.delay", json!({ "delayMs": 1_234 }));
    let stage = Stage::new(&[parent, crate::world::workflow("child", &[wait])], OnUnknown::Repeat);
    let (engine, _store) = stage.host("first", Fate::Live);
    let run = crate::world::start(&engine, "parent").await;
    let log = ended(&stage.shared, &run).await;
    let logs = stage.logs().await;
    let of_child = |(_, log): &&(String, Vec<Recorded>)| log.iter().all(|event| event.run != run);
    let child = logs.iter().find(of_child).unwrap();
    assert_eq!(log.last().unwrap().kind, "run.completed");
    assert_eq!(log.last().unwrap().at, child.1.last().unwrap().at);
}
