//! Whose run is taken up next where not all can be at work, and how many may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{PRIORITY, Parent, Priority};
use callboard_engine::{
    Batch, Ceilings, Claim, ClaimRequest, Claimed, Concurrency, Lease, NewRun, Queue, Store,
};
use callboard_protocol::RunStatus;

use crate::Subject;
use crate::given::{append, at, head, new_run};

fn due(id: &str, tenant: &str, workflow: &str, wake_at: i64) -> NewRun {
    let mut new = NewRun { head: head(RunStatus::Pending, 0, Some(wake_at)), ..new_run(id) };
    new.birth.owner.tenant = tenant.into();
    new.birth.workflow_id = workflow.into();
    new
}

fn with(mut new: NewRun, priority: Priority) -> NewRun {
    new.birth.configurable.insert(PRIORITY.to_owned(), priority.as_str().into());
    new
}

fn of_workflow(name: &str, most: usize) -> Concurrency {
    let workflows = BTreeMap::from([(name.to_owned(), most)]);
    let every = Ceilings { workflows, ..Ceilings::default() };
    Concurrency { every, tenants: BTreeMap::new() }
}

fn of_tenants(most: usize) -> Concurrency {
    let every = Ceilings { runs: Some(most), ..Ceilings::default() };
    Concurrency { every, tenants: BTreeMap::new() }
}

async fn claim(
    store: &dyn Store,
    (host, now): (&str, i64),
    most: usize,
    limits: &Concurrency,
) -> anyhow::Result<Claimed> {
    let (at, until) = (at(now), at(now + 10_000));
    let limits = Arc::new(limits.clone());
    let held = BTreeMap::new();
    let (host, share) = (host.into(), usize::MAX);
    Ok(store
        .claim(&ClaimRequest { host, at, lapsed_at: at, until, most, share, held, limits })
        .await?)
}

fn names(claimed: &Claimed) -> Vec<&str> {
    claimed.claims.iter().map(|claim| claim.run.as_str()).collect()
}

/// More wait than one look sees of any queue.
pub(crate) async fn however_many_runs_of_one_tenant_wait_another_has_its_turn(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..300 {
        let workflow = if number % 2 == 0 { "even" } else { "odd" };
        store
            .commit(Batch::of_run(due(
                &format!("many-{number:03}"),
                "acme",
                workflow,
                1_000 + number,
            )))
            .await?;
    }
    store.commit(Batch::of_run(due("few", "other", "even", 2_000))).await?;
    let none = Concurrency::default();
    let first = claim(store, ("h1", 3_000), 2, &none).await?;
    assert_eq!((names(&first), first.has_more), (vec!["many-000", "few"], true));
    let next = claim(store, ("h1", 3_000), 3, &none).await?;
    assert_eq!(names(&next), ["many-001", "many-002", "many-003"], "oldest first");
    // Those that wait for a place of their own keep nobody from one.
    let limits = of_workflow("even", 1);
    store.commit(Batch::of_run(due("late", "third", "quick", 2_500))).await?;
    let next = claim(store, ("h2", 3_000), 2, &limits).await?;
    assert_eq!(names(&next), ["many-005", "late"]);
    let queue = Queue { tenant: "acme".into(), workflow: "even".into(), agents: String::new() };
    let why = next.held_back.limits.get(&queue).map(String::as_str);
    assert_eq!(why, Some("limits.concurrency.workflows.\"even\""));
    Ok(())
}

pub(crate) async fn limits_hold_for_all_hosts_together(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..6 {
        store
            .commit(Batch::of_run(due(&format!("r{number}"), "acme", "greet", 1_000 + number)))
            .await?;
    }
    let limits = of_tenants(3);
    assert_eq!(names(&claim(store, ("h1", 2_000), 2, &limits).await?), ["r0", "r1"]);
    let third = claim(store, ("h2", 2_000), 9, &limits).await?;
    assert_eq!((names(&third), third.has_more), (vec!["r2"], true));
    assert!(claim(store, ("h1", 2_000), 9, &limits).await?.claims.is_empty());
    // One is given back and waits for its time; its place is free.
    store.release(&third.claims[0], None, Some(at(60_000))).await?;
    assert_eq!(names(&claim(store, ("h1", 2_000), 9, &limits).await?), ["r3"]);
    Ok(())
}

/// What is lost with a host is not lost to others, and takes no place twice.
pub(crate) async fn a_place_ends_with_its_lease(mut subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..4 {
        store
            .commit(Batch::of_run(due(&format!("r{number}"), "acme", "greet", 1_000 + number)))
            .await?;
    }
    let limits = of_tenants(2);
    assert_eq!(names(&claim(store, ("h1", 2_000), 9, &limits).await?), ["r0", "r1"]);
    // The host is dead: another takes both over, and no third.
    let taken = claim(store, ("h2", 20_000), 9, &limits).await?;
    assert_eq!(names(&taken), ["r0", "r1"]);
    subject.restart().await?;
    // Where one process has the database, a restart voids what it held; elsewhere the leases end.
    let again = claim(subject.port()?, ("h3", 40_000), 9, &limits).await?;
    assert_eq!(names(&again), ["r0", "r1"]);
    assert!(claim(subject.port()?, ("h3", 40_000), 9, &limits).await?.claims.is_empty());
    Ok(())
}

pub(crate) async fn a_higher_priority_goes_first_and_what_is_awaited_waits_for_no_limit(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let held = Lease { host: "h1".into(), until: at(90_000) };
    store
        .commit(Batch::of_run(NewRun { lease: Some(held), ..due("parent", "acme", "greet", 900) }))
        .await?;
    let mut child = due("child", "acme", "greet", 3_000);
    child.birth.parent = Some(Parent {
        run_id: "parent".into(),
        workflow_id: "greet".into(),
        node_id: "call".into(),
        depth: 1,
        root: None,
        place: 0,
        cause: "core.subWorkflow".into(),
    });
    for new in [
        with(due("low", "acme", "greet", 1_000), Priority::Low),
        due("usual", "acme", "greet", 1_500),
        with(due("high", "acme", "greet", 2_000), Priority::High),
        due("cancelled", "acme", "greet", 2_500),
        child,
    ] {
        store.commit(Batch::of_run(new)).await?;
    }
    let mut cancel = append("cancelled", 0);
    cancel.head = head(RunStatus::Cancelling, 1, Some(2_600));
    store.commit(Batch::of_append(cancel)).await?;
    let full = of_tenants(1);
    assert_eq!(names(&claim(store, ("h1", 4_000), 9, &full).await?), ["cancelled", "child"]);
    let first = claim(store, ("h1", 4_000), 1, &Concurrency::default()).await?;
    assert_eq!(names(&first), ["high"]);
    assert_eq!(first.held_back.ahead.get(&"acme".into()), Some(&Priority::Normal.rank()));
    let rest = claim(store, ("h1", 4_000), 9, &Concurrency::default()).await?;
    assert_eq!(names(&rest), ["usual", "low"]);
    Ok(())
}

/// Many look at once, and together take what one may.
pub(crate) async fn hosts_that_look_at_once_take_no_more_than_the_limit(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..20 {
        store.commit(Batch::of_run(due(&format!("r{number:02}"), "acme", "greet", 1_000))).await?;
    }
    let limits = of_tenants(5);
    let hosts: Vec<String> = (0..6).map(|host| format!("h{host}")).collect();
    let looks = hosts.iter().map(|host| claim(store, (host, 2_000), 2, &limits));
    let looked = futures_util::future::join_all(looks).await;
    let looked: Vec<Claimed> = looked.into_iter().collect::<anyhow::Result<_>>()?;
    let claims: Vec<&Claim> = looked.iter().flat_map(|claimed| &claimed.claims).collect();
    assert_eq!(claims.len(), 5, "{claims:?}");
    Ok(())
}
