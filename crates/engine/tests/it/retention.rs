//! Ended runs whose time is over: gone with a tick, and to everybody who asks like runs that never were.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use callboard_engine::{
    Clock as _, Engine, EngineError, ForkOrder, InMemoryStore, KeyMode, Overlay, RetentionPolicy,
    RetentionRule, Store as _, Sweeper,
};
use callboard_protocol::{ForkMode, Object, Owner, RunId};

use crate::sim::{Fate, SimClock, doomed_store, ended, host, order, scope};
use crate::simulation::node;

const DAY: Duration = Duration::from_secs(86_400);

/// One rule for every run.
fn whole(keep: Duration) -> RetentionPolicy {
    RetentionPolicy(vec![RetentionRule { keep: Some(keep), ..RetentionRule::default() }])
}

async fn play(engine: &Engine, store: &InMemoryStore) -> RunId {
    let run = engine.create(order("plain", Object::new(), Object::new()), None).await.unwrap().run;
    ended(store, &run).await;
    run
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_when_its_time_is_over_and_not_before() {
    let store = Arc::new(InMemoryStore::default());
    let clock = SimClock::new();
    let definition = json!({ "id": "plain", "name": "plain", "version": "1.0", "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [node("only", "core.noop", json!({}))] });
    let doomed = doomed_store(store.clone(), Fate::Live);
    let engine = host("one", doomed, clock.clone(), &[definition.to_string()]);
    // Shorter than the protocol allows is as short as it allows.
    let sweeper = Sweeper::new(engine.clone(), whole(DAY));
    let old = play(&engine, &store).await;
    let now = clock.now();
    let young = play(&engine, &store).await;
    assert_eq!(sweeper.tick(now.plus(DAY * 6)).await.unwrap(), 0);
    assert_eq!(sweeper.tick(now.plus(DAY * 8)).await.unwrap(), 1);
    assert!(store.find(&scope(), &old).await.unwrap().is_none());
    // The end of all logs stays where it is.
    assert!(store.find(&scope(), &young).await.unwrap().is_some());
    let fork = ForkOrder {
        source: old.clone(),
        from: 0,
        mode: ForkMode::Replay,
        owner: Owner { tenant: "default".into(), workspace: None, principal: None },
        key_mode: KeyMode::Live,
        dialect: callboard_protocol::Dialect::V1,
        overlay: Overlay::default(),
    };
    let refused = engine.fork(&scope(), fork, None).await;
    assert!(matches!(refused, Err(EngineError::UnknownRun(run)) if run == old), "it is gone");
    for _ in 0..40 {
        play(&engine, &store).await;
    }
    // More than one batch goes with one tick.
    let later = clock.now().plus(DAY * 8);
    assert_eq!(sweeper.tick(later).await.unwrap(), 40);
}
