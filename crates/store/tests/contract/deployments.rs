//! What is deployed: changed with a run or not at all, one change for each version.

use callboard_engine::{
    DeploymentChange, Deployments, KeyMode, NewRun, Outcome, Realm, StoreError, StoredDeployment,
};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, at, new_run};

const AGENT: &str = "vendor.acme.desk.assistant";

fn of(tenant: &str) -> Realm {
    Realm { tenant: tenant.into(), mode: KeyMode::Live }
}

fn change(tenant: &str, expected: u64, state: &str) -> DeploymentChange {
    let (realm, agent) = (of(tenant), AGENT.into());
    DeploymentChange { realm, agent, expected, state: state.to_owned(), at: at(2_000) }
}

fn stored(version: u64, state: &str) -> Option<StoredDeployment> {
    Some(StoredDeployment { version, state: state.to_owned() })
}

pub(crate) async fn a_deployment_changes_together_with_its_run(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = Deployments::new(subject.store()?);
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, None);
    store.deploy(change("acme", 0, "one"), new_run("r1")).await?;
    store.deploy(change("acme", 1, "two"), new_run("r2")).await?;
    drop(store);
    subject.restart().await?;
    let store = Deployments::new(subject.store()?);
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, stored(2, "two"));
    for run in ["r1", "r2"] {
        let found = subject.port()?.find(&acme(), &run.into()).await?;
        assert_eq!(found.map(|found| found.born), Some(new_run(run).birth.born()), "{run}");
    }
    Ok(())
}

pub(crate) async fn a_change_of_what_has_moved_on_leaves_neither(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = Deployments::new(subject.store()?);
    store.deploy(change("acme", 0, "one"), new_run("r1")).await?;
    for expected in [0, 2] {
        let late = store.deploy(change("acme", expected, "late"), new_run("r2")).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, stored(1, "one"));
    assert!(subject.port()?.find(&acme(), &"r2".into()).await?.is_none());
    // And a run that cannot be written takes the change with it.
    let twice = store.deploy(change("acme", 1, "two"), new_run("r1")).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, stored(1, "one"));
    Ok(())
}

pub(crate) async fn of_changes_at_once_one_is_kept(subject: Subject) -> anyhow::Result<()> {
    let store = Deployments::new(subject.store()?);
    let tried = join_all((0..8).map(|index| {
        store.deploy(change("acme", 0, &format!("{index}")), new_run(&format!("r{index}")))
    }))
    .await;
    let kept: Vec<usize> = (0..8).filter(|index| tried[*index].is_ok()).collect();
    assert_eq!(kept.len(), 1, "{tried:?}");
    let expected = stored(1, &kept[0].to_string());
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, expected);
    for index in 0..8 {
        let run = subject.port()?.find(&acme(), &format!("r{index}").into()).await?;
        assert_eq!(run.is_some(), kept == [index], "r{index}");
    }
    Ok(())
}

pub(crate) async fn a_deployment_is_its_tenants_own(subject: Subject) -> anyhow::Result<()> {
    let store = Deployments::new(subject.store()?);
    store.deploy(change("acme", 0, "acme's"), new_run("r1")).await?;
    assert_eq!(store.deployment(&of("globex"), &AGENT.into()).await?, None);
    assert_eq!(store.deployment(&of("acme"), &"vendor.acme.desk.other".into()).await?, None);
    store.deploy(change("globex", 0, "globex's"), new_run("r2")).await?;
    let test = Realm { mode: KeyMode::Test, ..of("acme") };
    assert_eq!(store.deployment(&test, &AGENT.into()).await?, None);
    let tried = DeploymentChange { realm: test.clone(), ..change("acme", 0, "a test key's") };
    store.deploy(tried, new_run("r3")).await?;
    assert_eq!(store.deployment(&test, &AGENT.into()).await?, stored(1, "a test key's"));
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, stored(1, "acme's"));
    assert_eq!(store.deployment(&of("globex"), &AGENT.into()).await?, stored(1, "globex's"));
    Ok(())
}

pub(crate) async fn a_repeated_request_to_deploy_gets_its_first_outcome(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = Deployments::new(subject.store()?);
    let outcome = Outcome {
        key: [1; 32],
        request: [2; 32],
        status: 200,
        body: "{}".to_owned(),
        expires_at: at(90_000),
    };
    let keyed = |run: &str| NewRun { outcome: Some(outcome.clone()), ..new_run(run) };
    store.deploy(change("acme", 0, "one"), keyed("r1")).await?;
    let again = store.deploy(change("acme", 0, "one"), keyed("r2")).await;
    assert!(matches!(&again, Err(StoreError::AlreadyDone(done)) if **done == outcome), "{again:?}");
    assert_eq!(store.deployment(&of("acme"), &AGENT.into()).await?, stored(1, "one"));
    Ok(())
}
