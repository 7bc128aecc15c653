//! A change of what is deployed survives whoever made it, and is told of once.

use std::sync::Arc;

use serde_json::json;

use callboard_engine::{
    AuditRun, DeploymentChange, Deployments, EngineError, InMemoryStore, KeyMode, Realm, StoreError,
};
use callboard_protocol::{Owner, Timestamp};

use crate::sim::{Fate, SimClock, doomed_store, ended, host};

const AGENT: &str = "vendor.acme.desk.assistant";

fn realm() -> Realm {
    Realm { tenant: "default".into(), mode: KeyMode::Live }
}

fn change(expected: u64) -> DeploymentChange {
    DeploymentChange {
        realm: realm(),
        agent: AGENT.into(),
        expected,
        state: "{}".to_owned(),
        at: Timestamp::from_millis(1_700_000_000_000),
    }
}

pub(crate) fn audit() -> AuditRun {
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    let audit = AuditRun::new("deployment", owner, KeyMode::Live);
    audit.stating("tell", "deployment.promoted", &json!({ "toVersion": "1.0.0" }))
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_of_once_whenever_its_maker_dies() {
    for fate in [Fate::Live, Fate::DieBefore(1), Fate::DieAfter(1), Fate::Oversleep(1)] {
        let (shared, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
        let first = host("first", doomed_store(shared.clone(), fate), clock.clone(), &[]);
        let done =
            first.deploy(Deployments::new(shared.clone()), change(0), audit(), None).await.unwrap();
        let _second = host("second", doomed_store(shared.clone(), Fate::Live), clock, &[]);
        let log = ended(&shared, &done.run).await;
        let told = log.iter().filter(|event| event.kind == "deployment.promoted");
        assert_eq!(told.count(), 1, "{fate:?}: {log:?}");
        assert_eq!(log.last().map(|event| event.kind.as_str()), Some("run.completed"), "{fate:?}");
        let kept =
            Deployments::new(shared.clone()).deployment(&realm(), &AGENT.into()).await.unwrap();
        assert_eq!(kept.map(|kept| kept.version), Some(1), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_came_too_late_starts_no_run() {
    let (shared, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
    let engine = host("first", doomed_store(shared.clone(), Fate::Live), clock, &[]);
    engine.deploy(Deployments::new(shared.clone()), change(0), audit(), None).await.unwrap();
    let late = engine.deploy(Deployments::new(shared.clone()), change(0), audit(), None).await;
    assert!(matches!(late, Err(EngineError::Store(StoreError::Moved { .. }))), "{late:?}");
}
