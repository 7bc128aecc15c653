//! Durability of supervisors and of those whom they give work to: whoever dies wherever, the same comes of it and
//! nobody works twice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{Resolution, Via};
use callboard_engine::{OnUnknown, Recorded};
use callboard_protocol::{Object, RunStatus};

use crate::families::{Stage, fates, node, story, survive, workflow};
use crate::sim::{Fate, LEASE, ended, order, scope};

/// A supervisor with a plan, and three workers of which each takes its time.
fn orchestra(plan: Value, dispatch: Value) -> Vec<Value> {
    let edges = json!([
        { "id": "e1", "sourceNodeId": "boss", "targetNodeId": "work" },
        { "id": "e2", "sourceNodeId": "work", "targetNodeId": "boss" },
    ]);
    let nodes = json!([
        node("boss", "core.orchestrator.supervisor", json!({ "mockDispatchPlan": plan })),
        node("work", "core.dispatch", dispatch),
    ]);
    let worker = |name: &str, millis: u64| {
        let told = json!([{ "name": "told", "type": "string", "defaultValue": name }]);
        workflow(
            name,
            json!([node("wait", "core.delay", json!({ "ms": millis }))]),
            json!([]),
            told,
        )
    };
    vec![
        workflow("boss", nodes, edges, json!([])),
        worker("quick", 500),
        worker("slow", 2_000),
        workflow("broken", json!([node("fail", "core.fail", json!({}))]), json!([]), json!([])),
    ]
}

fn next(workers: &[&str]) -> Value {
    json!({ "kind": "next-worker", "nextWorkerIds": workers })
}

type Logs = Vec<(String, Vec<Recorded>)>;

async fn play(definitions: &[Value], fate: Fate, two: bool) -> (Logs, u64) {
    let stage = Stage::new(definitions, OnUnknown::Repeat);
    let (first, doomed) = stage.host("first", fate);
    let mut others = Vec::new();
    if two {
        others.push(stage.host("second", Fate::Live));
    }
    let run = first.create(order("boss", Object::new(), Object::new()), None).await.unwrap().run;
    survive(&stage, &first, &doomed, &run, &mut others).await;
    let logs = stage.logs().await;
    first.kill();
    (logs, doomed.appends())
}

/// Everything that must hold, whatever happened: no worker twice, and every handoff in its order.
fn check_handoffs(logs: &Logs, started: usize, why: &str) {
    assert_eq!(logs.len(), started + 1, "{why}: a child too many or too few");
    let (_, log) = logs.iter().find(|(name, _)| name == "boss").unwrap();
    let mut phases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in log.iter().filter(|event| event.kind == "core.workflowChain.event") {
        let payload: Value = serde_json::from_str(&event.payload).unwrap();
        let Some(child) = payload["childRunId"].as_str() else { continue };
        let phase = payload["phase"].as_str().unwrap().to_owned();
        phases.entry(child.to_owned()).or_default().push(phase);
    }
    assert_eq!(phases.len(), started, "{why}");
    for (child, phases) in phases {
        assert_eq!(phases[0], "dispatch.succeeded", "{why}: {child}");
        assert!(phases[1].starts_with("child."), "{why}: {child} {phases:?}");
        let harvests = phases[2..].iter().filter(|phase| *phase == "output.harvested").count();
        assert_eq!(harvests, phases.len() - 2, "{why}: {child} {phases:?}");
        assert!(harvests <= 1, "{why}: {child} {phases:?}");
    }
}

async fn survives(definitions: &[Value], started: usize, ends: &str) {
    let (undisturbed, appends) = play(definitions, Fate::Live, false).await;
    check_handoffs(&undisturbed, started, "undisturbed");
    for fate in fates(appends) {
        for two in [false, true] {
            let (logs, _) = play(definitions, fate, two).await;
            check_handoffs(&logs, started, &format!("{fate:?}, two hosts: {two}"));
            for ((name, log), (_, expected)) in logs.iter().zip(&undisturbed) {
                assert_eq!(story(log), story(expected), "{name} with {fate:?}, two hosts: {two}");
            }
            let (_, log) = logs.iter().find(|(name, _)| name == "boss").unwrap();
            assert_eq!(log.last().unwrap().kind, ends, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_orchestra_survives_a_crash_at_any_write() {
    let plan = json!([next(&["quick", "slow"]), next(&["quick"]), { "kind": "terminate" }]);
    let mapping = json!({ "perWorkerOutputMappings": { "quick": { "taken": "told" } } });
    survives(&orchestra(plan, mapping), 3, "run.completed").await;
}

#[tokio::test(start_paused = true)]
async fn workers_side_by_side_survive_a_crash_at_any_write() {
    let plan = json!([next(&["slow", "quick"]), { "kind": "terminate" }]);
    let mapping = json!({ "fanOutPolicy": "parallel", "perWorkerOutputMappings":
        { "quick": { "a": "told" }, "slow": { "b": "told" } } });
    survives(&orchestra(plan, mapping), 2, "run.completed").await;
}

/// More than are started, and heard, in one append.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_workers_survives_a_crash_while_it_is_started() {
    let plan = json!([next(&["quick"; 70]), { "kind": "terminate" }]);
    let definitions = orchestra(plan, json!({ "fanOutPolicy": "parallel" }));
    let (undisturbed, _) = play(&definitions, Fate::Live, false).await;
    check_handoffs(&undisturbed, 70, "undisturbed");
    for fate in fates(4) {
        let (logs, _) = play(&definitions, fate, true).await;
        check_handoffs(&logs, 70, &format!("{fate:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_or_is_unknown_fails_its_orchestra_once() {
    let broken = orchestra(json!([next(&["broken"]), { "kind": "terminate" }]), json!({}));
    survives(&broken, 1, "run.failed").await;
    let ghost = orchestra(json!([next(&["ghost"]), { "kind": "terminate" }]), json!({}));
    survives(&ghost, 0, "run.failed").await;
}

/// The losers of a race end before the race does, whoever dies.
#[tokio::test(start_paused = true)]
async fn a_race_leaves_nobody_at_work() {
    let plan = json!([next(&["slow", "quick"]), { "kind": "terminate" }]);
    let race = json!({ "fanOutPolicy": "parallel", "joinPolicy": { "mode": "first" } });
    let definitions = orchestra(plan, race);
    let (_, appends) = play(&definitions, Fate::Live, false).await;
    for fate in fates(appends) {
        let (logs, _) = play(&definitions, fate, false).await;
        check_handoffs(&logs, 2, &format!("{fate:?}"));
        let (_, log) = logs.iter().find(|(name, _)| name == "boss").unwrap();
        assert_eq!(log.last().unwrap().kind, "run.completed", "{fate:?}");
    }
}

async fn ratify(fate: Fate) -> (Logs, u64) {
    let mut unsure = next(&["quick"]);
    unsure["confidence"] = json!(0.3);
    let definitions = orchestra(json!([unsure]), json!({}));
    let stage = Stage::new(&definitions, OnUnknown::Repeat);
    let (first, doomed) = stage.host("first", fate);
    let run = first.create(order("boss", Object::new(), Object::new()), None).await.unwrap().run;
    tokio::select! {
        () = doomed.died.notified() => first.kill(),
        () = tokio::time::sleep(LEASE * 2) => {}
    }
    let (second, store) = stage.host("second", Fate::Live);
    while second.interrupts(&scope(), &run).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let value = json!({ "action": "accept" });
    let resolution = Resolution { node: "boss".into(), value, by: None, via: Via::Key };
    let done = second.resolve(&scope(), &run, resolution, None).await.unwrap();
    assert_eq!(done.status, RunStatus::Running);
    survive(&stage, &first, &doomed, &run, &mut vec![(second, store)]).await;
    assert_eq!(ended(&stage.shared, &run).await.last().unwrap().kind, "run.completed", "{fate:?}");
    let logs = stage.logs().await;
    first.kill();
    (logs, doomed.appends())
}

/// What was ratified once is asked about once and carried out once, whoever dies.
#[tokio::test(start_paused = true)]
async fn a_ratified_decision_survives_a_crash_at_any_write() {
    let (undisturbed, appends) = ratify(Fate::Live).await;
    for fate in fates(appends) {
        let (logs, _) = ratify(fate).await;
        check_handoffs(&logs, 1, &format!("{fate:?}"));
        for ((name, log), (_, expected)) in logs.iter().zip(&undisturbed) {
            let kinds = |log: &[Recorded]| -> Vec<String> {
                let told = log.iter().filter(|event| event.kind != "run.resumed");
                told.map(|event| event.kind.clone()).collect()
            };
            assert_eq!(kinds(log), kinds(expected), "{name} with {fate:?}");
        }
    }
}
