//! Runs whose logs hold an event that this build cannot read: left as they are, and tried again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use callboard_engine::{Activities, EngineError, Recorded, Store, Strikes, Undecided};
use callboard_protocol::{DrainPolicy, RunId, RunStatus};

use crate::sim::{DoomedStore, Fate, LEASE, ended, scope};
use crate::simulation::node;
use crate::world::{World, start, workflow};

/// Long enough for the run below to be due, and for ten more tries.
const LATER: Duration = Duration::from_secs(720);

/// A node ends, and the run rests for two minutes before the next.
fn world() -> World {
    let rests = node("w", "core.delay", json!({ "ms": 120_000 }));
    let nodes = [node("a", "core.noop", json!({})), rests, node("b", "core.noop", json!({}))];
    let quick = workflow("quick", &[node("a", "core.noop", json!({}))]);
    World::new(&[workflow("rests", &nodes), quick], Activities::default)
}

fn cannot_read(store: &DoomedStore, kind: Option<&'static str>) {
    *store.unreadable.lock().unwrap() = kind;
}

async fn log(world: &World, run: &RunId) -> Vec<Recorded> {
    world.shared.read(&scope(), run, 0, usize::MAX).await.unwrap().unwrap().events
}

fn ends_of(log: &[Recorded], node: &str) -> usize {
    let is_end = |event: &&Recorded| {
        event.kind == "node.completed" && event.node.as_ref().is_some_and(|it| it.as_str() == node)
    };
    log.iter().filter(is_end).count()
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_run_is_left_alone_and_goes_on_once_it_can_be_read() {
    let world = world();
    let (engine, store) = world.host("one", Fate::Live);
    let run = start(&engine, "rests").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = log(&world, &run).await;
    cannot_read(&store, Some("node.completed"));
    tokio::time::sleep(LATER).await;
    assert_eq!(log(&world, &run).await, before, "nothing is decided about it, not even its end");
    let tries = store.unread.load(Ordering::Relaxed);
    assert!((2..=12).contains(&tries), "it was tried {tries} times");
    assert_eq!(Strikes::new(world.shared.clone()).all().await.unwrap(), [], "and not counted");
    let other = start(&engine, "quick").await;
    assert_eq!(ended(&world.shared, &other).await.last().unwrap().kind, "run.completed");
    cannot_read(&store, None);
    let log = ended(&world.shared, &run).await;
    assert_eq!(log.last().unwrap().kind, "run.completed");
    assert_eq!((ends_of(&log, "a"), ends_of(&log, "b")), (1, 1), "{log:?}");
    assert!(log.iter().all(|event| event.kind != "run.resumed"), "{log:?}");
}

/// A run whose holder was lost is counted before it is opened; that it cannot be read is not held against it.
#[tokio::test(start_paused = true)]
async fn an_unreadable_run_is_not_given_up_whoever_dies() {
    let world = world();
    let (first, _) = world.host("first", Fate::DieAfter(1));
    let run = start(&first, "rests").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.kill();
    let before = log(&world, &run).await;
    let mut hosts = Vec::new();
    for name in ["second", "third", "fourth"] {
        let (host, store) = world.host(name, Fate::Live);
        cannot_read(&store, Some("node.started"));
        tokio::time::sleep(LEASE * 60).await;
        host.kill();
        hosts.push(store);
    }
    assert!(hosts.iter().all(|store| store.unread.load(Ordering::Relaxed) > 0), "each has tried");
    assert_eq!(log(&world, &run).await, before);
    assert_eq!(Strikes::new(world.shared.clone()).all().await.unwrap(), []);
    let (_last, _) = world.host("last", Fate::Live);
    assert_eq!(ended(&world.shared, &run).await.last().unwrap().kind, "run.completed");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_run_can_be_looked_at_and_cancelled() {
    let world = world();
    let (engine, store) = world.host("one", Fate::Live);
    let run = start(&engine, "rests").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cannot_read(&store, Some("node.completed"));
    for _ in 0..3 {
        let seen = engine.snapshot(&scope(), &run).await.unwrap().unwrap();
        assert_eq!(seen.status, RunStatus::Running);
        let refused = engine.pause(&scope(), &run, DrainPolicy::Immediate, None, None).await;
        let Err(EngineError::Unprocessable { why, .. }) = refused else { panic!("{refused:?}") };
        assert!(matches!(why, Undecided::Unreadable(_)), "{why}");
    }
    let before = log(&world, &run).await;
    engine.cancel(&scope(), &run, None, None, None).await.unwrap();
    let after = ended(&world.shared, &run).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.last().unwrap().kind, "run.cancelled");
}

/// Somebody else writes what the holder cannot read.
#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_read_on_lets_go() {
    let world = World::new(
        &[workflow("holds", &[node("w", "core.delay", json!({ "ms": 30_000 }))])],
        Activities::default,
    );
    let (engine, store) = world.host("one", Fate::Live);
    let (other, _) = world.host("other", Fate::Live);
    let run = start(&engine, "holds").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cannot_read(&store, Some("run.paused"));
    other.pause(&scope(), &run, DrainPolicy::Immediate, None, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.driving(), 0);
    assert!(store.unread.load(Ordering::Relaxed) > 0);
    cannot_read(&store, None);
    other.resume(&scope(), &run, None, None).await.unwrap();
    assert_eq!(ended(&world.shared, &run).await.last().unwrap().kind, "run.completed");
}
