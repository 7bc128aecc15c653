//! A clock on the wall that is put forward or back under a host: nothing is done twice, and nothing falls silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{Activities, Activity, Call};
use callboard_protocol::Object;

use crate::sim::{Fate, ended};
use crate::world::{World, start, workflow};

const HOUR_MS: i64 = 3_600_000;

/// How often the slow call was made; the tests of this file are one, so that they share it.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A call that takes much longer than a lease.
#[derive(Debug)]
struct Slow;

#[async_trait]
impl Activity for Slow {
    async fn perform(&self, call: Call) -> Outcome {
        CALLS.fetch_add(1, Ordering::Relaxed);
        call.pause(Duration::from_secs(20)).await;
        Outcome::Done { outputs: Object::new() }
    }
}

fn world() -> World {
    let node = |kind: &str, config: Value| {
        json!({ "id": "a", "typeId": kind, "name": "a",
        "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
    };
    let slow = workflow("slow", &[node("test.slow", json!({}))]);
    let wait = workflow("wait", &[node("core.delay", json!({ "delayMs": 30_000 }))]);
    World::new(&[slow, wait], || Activities::default().with("test.slow", Arc::new(Slow)))
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_stepped_makes_no_host_take_its_own_runs_from_itself() {
    for step in [10_000, HOUR_MS, -26 * HOUR_MS] {
        let world = world();
        let (engine, _store) = world.host("first", Fate::Live);
        let before = CALLS.load(Ordering::Relaxed);
        let run = start(&engine, "slow").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.clock.step(step);
        let log = ended(&world.shared, &run).await;
        assert_eq!(log.last().unwrap().kind, "run.completed", "{step}");
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, 1, "{step}");
        let takeovers = log.iter().filter(|event| event.kind == "run.resumed").count();
        assert_eq!(takeovers, 0, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_no_longer_for_a_clock_that_is_put_back() {
    for step in [-10_000, -26 * HOUR_MS] {
        let world = world();
        let (engine, _store) = world.host("first", Fate::Live);
        let run = start(&engine, "wait").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.clock.step(step);
        let began = tokio::time::Instant::now();
        ended(&world.shared, &run).await;
        assert!(began.elapsed() < Duration::from_secs(31), "{step}: {:?}", began.elapsed());
    }
}
