//! Models in trouble: the next one is taken once, told, and kept for the rest of the run.

use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{ModelError, ModelRequest, Turn};
use callboard_engine::{Order, Recorded, Target};
use serde_json::{Value, json};

use crate::given::{
    Script, World, agent_order, calls, kinds, offered, outputs, results, says, task, told,
};
use crate::sim::{Fate, doomed_store, ended};

const FALLBACK: &str = "callboard.model.fallback";

fn is_first(request: &ModelRequest) -> bool {
    request.model.model == "one"
}

fn trouble(status: u16) -> Result<Turn, ModelError> {
    Err(ModelError::of_status("puppet", status, None))
}

fn sorted() -> Result<Turn, ModelError> {
    Ok(says(r#"{"queue":"fire","_confidence":1}"#))
}

/// The first model has a tool called, and is in trouble from then on.
fn leaving() -> Script {
    |request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": 1 }))])),
        1 if is_first(request) => trouble(503),
        1 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": 2 }))])),
        _ => sorted(),
    }
}

async fn world(script: Script) -> World {
    let mut world = World::new(script).await;
    world.table.fallback = ["puppet/two", "puppet/three"].map(|it| it.parse().unwrap()).into();
    world
}

fn asked(world: &World, model: &str) -> usize {
    let asked = world.model.asked.lock().unwrap();
    asked.iter().filter(|request| request.model.model == model).count()
}

#[tokio::test(start_paused = true)]
async fn a_model_in_trouble_is_left_for_the_next_one_and_the_log_says_so() {
    let world = world(leaving()).await;
    let log = world.run(task(), json!({})).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    assert_eq!((asked(&world, "one"), asked(&world, "two"), asked(&world, "three")), (4, 2, 0));
    let fallback = json!({
        "nodeId": "agent", "modelClass": "classification", "reason": "service_unavailable",
        "originalProvider": "puppet", "originalModel": "one",
        "fallbackProvider": "puppet", "fallbackModel": "two",
    });
    assert_eq!(told(&log, FALLBACK), [fallback]);
    assert_eq!(told(&log, "agent.invocation.started")[0]["resolvedModel"], "one");
    let paid: Vec<Value> =
        told(&log, "provider.usage").into_iter().map(|usage| usage["model"].clone()).collect();
    assert_eq!(paid, ["one", "two", "two"]);
    let asked = world.model.asked.lock().unwrap();
    let (left, taken) = (&asked[3].messages, &asked[4].messages);
    assert_eq!(left, taken, "the next one is asked the same");
}

#[tokio::test(start_paused = true)]
async fn who_says_no_is_not_in_trouble() {
    let scripts: [(u16, Script); 4] = [
        (400, |_| trouble(400)),
        (401, |_| trouble(401)),
        (403, |_| trouble(403)),
        (404, |_| trouble(404)),
    ];
    for (status, script) in scripts {
        let world = world(script).await;
        let log = world.run(task(), json!({})).await;
        assert_eq!((world.asked(), told(&log, FALLBACK).len()), (1, 0), "{status}");
        assert_eq!(kinds(&log).last(), Some(&"run.failed"), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_last_model_the_trouble_is_the_runs() {
    let world = world(|_| trouble(500)).await;
    let log = world.run(task(), json!({})).await;
    assert_eq!(world.asked(), 9);
    assert_eq!(told(&log, FALLBACK).len(), 2);
    assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "failed");
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "service_unavailable");
}

#[tokio::test(start_paused = true)]
async fn nobody_sleeps_while_somebody_else_can_be_asked() {
    let world = world(|request| match request.model.model.as_str() {
        "one" => Err(ModelError::of_status("puppet", 429, Some(Duration::from_secs(600)))),
        _ => sorted(),
    })
    .await;
    let log = world.run(task(), json!({})).await;
    assert_eq!((asked(&world, "one"), asked(&world, "two")), (1, 1));
    assert_eq!(told(&log, "node.retried").len(), 0);
    assert_eq!(told(&log, FALLBACK)[0]["reason"], "rate_limited");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_the_run_named_has_no_substitute() {
    let world = world(|_| trouble(500)).await;
    let log = world.run(task(), json!({ "ai": { "model": "one" } })).await;
    assert_eq!((world.asked(), told(&log, FALLBACK).len()), (3, 0));
}

/// Decided once per run and class: who works next begins with the model that was taken.
#[tokio::test(start_paused = true)]
async fn the_next_agent_of_the_run_begins_where_the_last_one_went() {
    let world = world(|request| if is_first(request) { trouble(500) } else { sorted() }).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let order = Order { target: Target::Workflow("pair".into()), ..agent_order(task(), json!({})) };
    let run = host.create(order, None).await.unwrap().run;
    let log = ended(&world.store, &run).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let began: Vec<Value> = told(&log, "agent.invocation.started")
        .into_iter()
        .map(|started| started["resolvedModel"].clone())
        .collect();
    assert_eq!(began, ["one", "two"]);
    assert_eq!((asked(&world, "one"), told(&log, FALLBACK).len()), (3, 1));
}

async fn under(fate: Fate) -> (World, Vec<Recorded>, u64) {
    let mut world = world(leaving()).await;
    let doomed = doomed_store(Arc::clone(&world.store), fate);
    let first = world.host("first", Arc::clone(&doomed) as _);
    let run = first.create(agent_order(task(), json!({})), None).await.unwrap().run;
    if fate != Fate::Live {
        tokio::select! {
            () = doomed.died.notified() => {}
            _ = ended(&world.store, &run) => {}
        }
        first.kill();
        // Whoever goes on has another list, which counts only where nothing was decided.
        world.table.fallback = vec!["puppet/three".parse().unwrap()];
        world.host("second", Arc::clone(&world.store) as _);
    }
    let log = ended(&world.store, &run).await;
    (world, log, doomed.appends())
}

/// A-48: what a class means is decided once per run, whoever goes on with it.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_configured_otherwise_goes_on_with_the_runs_model() {
    let mut world = World::new(|request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": 1 }))])),
        _ => sorted(),
    })
    .await;
    let doomed = doomed_store(Arc::clone(&world.store), Fate::DieAfter(6));
    let first = world.host("first", Arc::clone(&doomed) as _);
    let run = first.create(agent_order(task(), json!({})), None).await.unwrap().run;
    tokio::select! {
        () = doomed.died.notified() => {}
        log = ended(&world.store, &run) => panic!("it ended too soon: {:?}", kinds(&log)),
    }
    first.kill();
    assert!(asked(&world, "one") > 0, "it was asked before");
    world.table.default = Some("puppet/two".parse().unwrap());
    world.host("second", Arc::clone(&world.store) as _);
    let log = ended(&world.store, &run).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    assert_eq!(asked(&world, "two"), 0);
    assert_eq!(told(&log, "agent.invocation.started").len(), 1);
}

/// A-48.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_keeps_what_was_decided() {
    let (_, whole, appends) = under(Fate::Live).await;
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate).await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            let fallbacks = told(&log, FALLBACK);
            assert_eq!(fallbacks.len(), 1, "{fate:?}");
            let taken = fallbacks[0]["fallbackModel"].as_str().unwrap().to_owned();
            let other = if taken == "two" { "three" } else { "two" };
            assert_eq!(asked(&world, other), 0, "{fate:?}: nobody else is asked");
            // The calls of the turn under way may be made once more.
            assert!(asked(&world, "one") <= 7 && asked(&world, &taken) <= 3, "{fate:?}");
            assert_eq!(told(&log, "agent.toolCalled").len(), 2, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_tells_of_the_same_fallback_and_asks_nobody() {
    let (world, source, _) = under(Fate::Live).await;
    let before = world.asked();
    let log = world.replay(&source).await;
    assert_eq!(kinds(&log), kinds(&source));
    assert_eq!(told(&log, FALLBACK), told(&source, FALLBACK));
    assert_eq!(world.asked(), before);
}
