//! Agents with a long memory: what one run found is there in the next, for the same tenant, once.

use std::sync::Arc;

use callboard_engine::{
    Engine, KeyMode, MemoryQuery, MemoryRecord, Order, Place, Recorded, Scope, Store as _,
};
use callboard_protocol::Timestamp;
use serde_json::{Value, json};

use crate::given::{Script, World, agent_order, calls, kinds, offered, results, says, task, told};
use crate::sim::Fate;

const PREAMBLE: &str = "What you remember from earlier runs";

/// An agent that remembers, with both tools for it.
fn remembering(agent: &mut Value) {
    agent["memoryShape"] = json!({ "longTerm": true });
    agent["toolAllowlist"] = json!(["openwop:core.memory.search", "openwop:core.memory.save"]);
}

fn sorting() -> Script {
    |_| Ok(says(r#"{"queue":"fire brigade","_confidence":1}"#))
}

/// Saves a note before it answers.
fn saving() -> Script {
    |request| match results(request) {
        0 => {
            let note = json!({ "content": "Müller pays late", "tags": ["customers"] });
            Ok(calls(request, &[(&offered(request, "save"), note)]))
        }
        _ => sorting()(request),
    }
}

/// Looks for a note before it answers.
fn searching() -> Script {
    |request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "search"), json!({ "query": "müller" }))])),
        1 => {
            let note = json!({ "content": "Müller pays late" });
            Ok(calls(request, &[(&offered(request, "save"), note)]))
        }
        _ => sorting()(request),
    }
}

fn of(tenant: &str) -> Scope {
    Scope { tenant: tenant.into(), workspace: None, mode: KeyMode::Live }
}

async fn run_as(world: &World, host: &Engine, tenant: &str) -> Vec<Recorded> {
    let mut order: Order = agent_order(task(), json!({}));
    order.owner.tenant = tenant.into();
    let run = host.create(order, None).await.unwrap().run;
    loop {
        let page = world.store.read(&of(tenant), &run, 0, usize::MAX).await.unwrap().unwrap();
        if page.status.is_terminal() {
            return page.events;
        }
        world.store.changed(&run, page.version).await;
    }
}

async fn kept(world: &World, tenant: &str) -> Vec<MemoryRecord> {
    let query = MemoryQuery::new(Place::Anywhere, Timestamp::default(), 100);
    world.store.recall(&of(tenant), &query).await.unwrap()
}

/// What the model was told before the `turn`-th answer.
fn system(world: &World, turn: usize) -> String {
    world.model.asked.lock().unwrap()[turn].system.clone().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_next_run_sees_what_the_last_one_found() {
    let world = World::with(sorting(), remembering).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let log = run_as(&world, &host, "default").await;
    run_as(&world, &host, "default").await;

    assert_eq!(system(&world, 0), "Sort it.");
    let second = system(&world, 1);
    assert!(second.starts_with(&format!("Sort it.\n\n{PREAMBLE}")), "{second}");
    let strange = second.split_once("<UNTRUSTED>").expect("marked").1;
    assert!(strange.contains(r#"{"queue":"fire brigade"}"#), "{second}");

    assert_eq!(told(&log, "agent.invocation.started")[0]["memoryBound"], json!(true));
    assert_eq!(told(&log, "memory.written").len(), 1);
    let kinds = kinds(&log);
    let at = |kind| kinds.iter().position(|it| *it == kind);
    assert!(at("agent.decided") < at("memory.written"), "{kinds:?}");
    assert!(at("memory.written") < at("agent.invocation.completed"), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn no_tenant_sees_what_another_s_agent_found() {
    let world = World::with(searching(), remembering).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    run_as(&world, &host, "default").await;
    let theirs = run_as(&world, &host, "rival").await;
    let again = run_as(&world, &host, "default").await;

    assert!(!system(&world, 3).contains(PREAMBLE), "{}", system(&world, 3));
    assert_eq!(told(&theirs, "agent.toolReturned")[0]["outcome"], json!({ "entries": [] }));
    let found = &told(&again, "agent.toolReturned")[0]["outcome"]["entries"];
    assert_eq!(found[0]["content"], json!("Müller pays late"), "{found}");
    assert_eq!((kept(&world, "default").await.len(), kept(&world, "rival").await.len()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_asks_for_no_memory_keeps_nothing() {
    let world = World::new(sorting()).await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let log = run_as(&world, &host, "default").await;
    run_as(&world, &host, "default").await;
    assert_eq!(told(&log, "agent.invocation.started")[0]["memoryBound"], json!(false));
    assert_eq!(system(&world, 1), "Sort it.");
    assert!(kept(&world, "default").await.is_empty());
}

async fn under(fate: Fate) -> (World, Vec<Recorded>, u64) {
    let world = World::with(saving(), remembering).await;
    let (log, appends) = world.survive(agent_order(task(), json!({})), fate).await;
    (world, log, appends)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_remembers_everything_once() {
    let (_, whole, appends) = under(Fate::Live).await;
    assert_eq!(told(&whole, "memory.written").len(), 2);
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate).await;
            assert_eq!(told(&log, "memory.written"), told(&whole, "memory.written"), "{fate:?}");
            let kept = kept(&world, "default").await;
            let said: Vec<_> = kept.iter().map(|it| (it.content.as_str(), it.version)).collect();
            let expected = [(r#"{"queue":"fire brigade"}"#, 1), ("Müller pays late", 1)];
            assert_eq!(said, expected, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_remembers_nothing_again() {
    let (world, source, _) = under(Fate::Live).await;
    let before = kept(&world, "default").await;
    let log = world.replay(&source).await;
    assert_eq!(kinds(&log), kinds(&source));
    assert_eq!(kept(&world, "default").await, before);
}
