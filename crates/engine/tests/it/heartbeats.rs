//! Heartbeats in simulated time: one run for each change, whoever dies and however many hosts look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use callboard_engine::{
    Activities, Filter, Heartbeat, HeartbeatEvent, HeartbeatLoop, Heartbeats, InMemoryStore,
    KeyMode, NewHeartbeat, Observe, ObserveError, Probe, Roster, Store,
};
use callboard_protocol::{
    AgentRosterEntry, HeartbeatSkip, HeartbeatStatus, Object, Owner, Timestamp,
};

use crate::roster::member;
use crate::sim::{Fate, SimClock, doomed_store, host_with, scope};

/// What there is to be seen: a number that a test sets, after as long as a test says.
#[derive(Debug, Default)]
struct Outside {
    number: AtomicU64,
    slow: Mutex<Duration>,
    is_gone: std::sync::atomic::AtomicBool,
    looks: AtomicU64,
}

#[async_trait]
impl Observe for Outside {
    async fn observe(
        &self,
        _: &callboard_protocol::Tenant,
        _probe: &Probe,
    ) -> Result<Object, ObserveError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let slow = *self.slow.lock().unwrap();
        tokio::time::sleep(slow).await;
        if self.is_gone.load(Ordering::Relaxed) {
            return Err(ObserveError("nobody answers".to_owned()));
        }
        let number = self.number.load(Ordering::Relaxed);
        Ok(Object::from_iter([("number".to_owned(), json!(number))]))
    }
}

impl Outside {
    fn set(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

struct World {
    store: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    outside: Arc<Outside>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(InMemoryStore::new());
        Self { store, clock: SimClock::new(), outside: Arc::default() }
    }

    fn host(&self, name: &str, fate: Fate) -> HeartbeatLoop {
        let store = doomed_store(self.store.clone(), fate);
        let definition = |id: &str, kind: &str, inputs: serde_json::Value| {
            json!({
                "id": id, "name": id, "version": "1.0", "variables": [], "edges": [], "triggers": [],
                "metadata": {}, "settings": {},
                "nodes": [{
                    "id": "n", "typeId": kind, "name": "n", "position": { "x": 0, "y": 0 },
                    "config": {}, "inputs": inputs,
                }],
            })
            .to_string()
        };
        let definitions = [
            definition("quick", "core.noop", json!({})),
            definition(
                "slow",
                "core.delay",
                json!({ "delayMs": { "type": "static", "value": 25_000 } }),
            ),
        ];
        let (workflows, clock) = (self.store.clone(), self.clock.clone());
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let engine = host_with(name, shared, workflows, clock, &definitions, Activities::default());
        let pulse = HeartbeatLoop::new(engine, store, Arc::clone(&self.outside) as _);
        pulse.start();
        pulse
    }

    async fn runs(&self) -> usize {
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        self.store.list(&scope(), &filter).await.unwrap().len()
    }

    async fn seen(&self, id: &str) -> Heartbeat {
        Heartbeats::new(self.store.clone()).heartbeat(&scope(), &id.into()).await.unwrap().unwrap()
    }
}

fn watch(id: &str, workflow: &str) -> NewHeartbeat {
    NewHeartbeat {
        id: id.into(),
        owner: Owner { tenant: "default".into(), workspace: None, principal: Some("key_1".into()) },
        mode: scope().mode,
        workflow: workflow.into(),
        roster_id: None,
        probe: Probe::Http { url: "https://example.com/".to_owned() },
        interval_sec: 10,
        enabled: true,
    }
}

/// Lets simulated time pass.
async fn nap(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_starts_one_run_and_what_stays_the_same_none() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    host.add(watch("h", "quick")).await.unwrap();
    nap(35).await;
    assert_eq!((world.outside.looks(), world.runs().await), (4, 0), "one look for each interval");
    world.outside.set(1);
    nap(30).await;
    assert_eq!(world.runs().await, 1);
    let seen = world.seen("h").await;
    assert_eq!(
        seen.state.last.map(|last| (last.status, last.changed)),
        Some((HeartbeatStatus::Ok, false))
    );
    assert!(seen.state.changed_at.is_some());
    world.outside.set(0);
    nap(10).await;
    assert_eq!(world.runs().await, 2, "back again is a change too");
}

#[tokio::test(start_paused = true)]
async fn requests_below_the_least_interval_count_as_that() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let made = host.add(NewHeartbeat { interval_sec: 1, ..watch("h", "quick") }).await.unwrap();
    assert_eq!(made.state.interval_sec, 10);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_takes_too_long_or_sees_nothing_changes_nothing() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    host.add(watch("h", "quick")).await.unwrap();
    nap(1).await;
    *world.outside.slow.lock().unwrap() = Duration::from_secs(60);
    world.outside.set(1);
    nap(16).await;
    let last = world.seen("h").await.state.last.unwrap();
    assert_eq!((last.status, last.changed), (HeartbeatStatus::Timeout, false));
    *world.outside.slow.lock().unwrap() = Duration::ZERO;
    world.outside.is_gone.store(true, Ordering::Relaxed);
    nap(10).await;
    let last = world.seen("h").await.state.last.unwrap();
    assert_eq!((last.status, world.runs().await), (HeartbeatStatus::Error, 0));
    world.outside.is_gone.store(false, Ordering::Relaxed);
    nap(10).await;
    assert_eq!(world.runs().await, 1, "what changed meanwhile is one change");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_while_the_run_of_the_last_change_goes_on() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    host.add(watch("h", "slow")).await.unwrap();
    nap(5).await;
    world.outside.set(1);
    nap(10).await;
    assert_eq!(world.runs().await, 1);
    let looks = world.outside.looks();
    world.outside.set(2);
    nap(20).await;
    assert_eq!((world.outside.looks(), world.runs().await), (looks, 1));
    nap(20).await;
    assert_eq!(world.runs().await, 2, "the next look finds what changed meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_paused_member_and_a_paused_heartbeat_fire_nothing() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let entry = AgentRosterEntry { enabled: false, ..member("host:a", &["quick"]) };
    Roster::new(world.store.clone())
        .hire(KeyMode::Live, entry, Timestamp::default())
        .await
        .unwrap();
    host.add(NewHeartbeat { roster_id: Some("host:a".into()), ..watch("h", "quick") })
        .await
        .unwrap();
    nap(1).await;
    world.outside.set(1);
    nap(20).await;
    assert_eq!(world.runs().await, 0);
    Roster::new(world.store.clone())
        .change(KeyMode::Live, member("host:a", &["quick"]), 1)
        .await
        .unwrap();
    world.outside.set(2);
    nap(10).await;
    assert_eq!(world.runs().await, 1);
    host.enable(&scope(), &"h".into(), false).await.unwrap();
    let looks = world.outside.looks();
    world.outside.set(3);
    nap(30).await;
    assert_eq!((world.outside.looks(), world.runs().await), (looks, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_skipped_is_told_with_its_reason() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let mut told = host.listen();
    let entry = AgentRosterEntry { enabled: false, ..member("host:a", &["quick"]) };
    Roster::new(world.store.clone())
        .hire(KeyMode::Live, entry, Timestamp::default())
        .await
        .unwrap();
    host.add(NewHeartbeat { roster_id: Some("host:a".into()), ..watch("paused", "quick") })
        .await
        .unwrap();
    host.add(watch("busy", "slow")).await.unwrap();
    nap(1).await;
    world.outside.set(1);
    nap(20).await;
    let mut skipped = Vec::new();
    while let Ok(told) = told.try_recv() {
        assert_eq!(told.place, scope());
        if let HeartbeatEvent::Skipped(told) = told.what {
            skipped.push((told.heartbeat_id.to_string(), told.reason));
        }
    }
    skipped.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("busy", HeartbeatSkip::RunUnderWay), ("paused", HeartbeatSkip::MemberPaused)];
    assert_eq!(skipped, expected.map(|(id, reason)| (id.to_owned(), reason)));
}

/// Dies before or after each of its writes, or sleeps through its lease; a second host is there all the time.
#[tokio::test(start_paused = true)]
async fn with_two_hosts_a_change_starts_one_run_whoever_dies() {
    let mut fates = vec![Fate::Live];
    for write in 1..=8 {
        fates.extend([Fate::DieBefore(write), Fate::DieAfter(write), Fate::Oversleep(write)]);
    }
    for fate in fates {
        let world = World::new();
        let _first = world.host("first", fate);
        let second = world.host("second", Fate::Live);
        second.add(watch("h", "quick")).await.unwrap();
        nap(15).await;
        for change in 1..=3 {
            world.outside.set(change);
            nap(40).await;
            let expected = usize::try_from(change).unwrap();
            assert_eq!(world.runs().await, expected, "{fate:?} after change {change}");
        }
    }
}
