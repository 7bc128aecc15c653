//! Who may drive a run, and when it is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use callboard_engine::{
    Append, Batch, Claim, ClaimOrigin, ClaimRequest, Claimed, Fence, Lease, NewRun, Store,
    StoreError, Strikes, Then,
};
use callboard_protocol::{RunStatus, Timestamp};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, append, at, head, new_run};

/// Claims up to ten runs for `host` at a time; leases last ten seconds.
async fn claim_at(store: &dyn Store, host: &str, now: i64) -> Result<Claimed, StoreError> {
    claim_some(store, host, now, 10).await
}

async fn claim_some(
    store: &dyn Store,
    host: &str,
    now: i64,
    most: usize,
) -> Result<Claimed, StoreError> {
    store
        .claim(&ClaimRequest {
            host: host.into(),
            at: at(now),
            lapsed_at: at(now),
            until: at(now + 10_000),
            most,
            share: usize::MAX,
            held: BTreeMap::new(),
            limits: Arc::default(),
        })
        .await
}

fn due_at(id: &str, wake_at: i64) -> NewRun {
    NewRun { head: head(RunStatus::Pending, 0, Some(wake_at)), ..new_run(id) }
}

fn fenced(append: Append, claim: Claim, then: Then) -> Append {
    Append { fence: Some(Fence { claim, then }), ..append }
}

fn claim(run: &str, host: &str, epoch: u64) -> Claim {
    Claim { run: run.into(), host: host.into(), epoch, origin: ClaimOrigin::Free }
}

/// These, and nothing else is due.
fn all_of(claims: Vec<Claim>, next: Option<Timestamp>) -> Claimed {
    let tenants = vec!["acme".into(); claims.len()];
    Claimed { claims, tenants, has_more: false, next, ..Claimed::default() }
}

fn names(claimed: &Claimed) -> Vec<&str> {
    claimed.claims.iter().map(|claim| claim.run.as_str()).collect()
}

pub(crate) async fn a_new_run_is_due(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    assert_eq!(claim_at(store, "h1", 999).await?, all_of(Vec::new(), Some(at(1_000))));
    let claimed = claim_at(store, "h1", 1_000).await?;
    assert_eq!(claimed, all_of(vec![claim("r1", "h1", 1)], None));
    assert_eq!(claim_at(store, "h2", 1_001).await?, all_of(Vec::new(), Some(at(11_000))));
    Ok(())
}

pub(crate) async fn a_creator_can_keep_the_run_for_itself(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store
        .commit(Batch::of_run(NewRun {
            lease: Some(Lease { host: "h1".into(), until: at(9_000) }),
            ..new_run("r1")
        }))
        .await?;
    assert_eq!(claim_at(store, "h2", 8_999).await?, all_of(Vec::new(), Some(at(9_000))));
    let kept = claim("r1", "h1", Claim::FIRST_EPOCH);
    store
        .commit(Batch::of_append(fenced(append("r1", 0), kept, Then::Hold { until: at(12_000) })))
        .await?;
    let taken = claim_at(store, "h2", 12_000).await?;
    assert_eq!(taken.claims, [Claim { origin: ClaimOrigin::Lost, ..claim("r1", "h2", 2) }]);
    Ok(())
}

pub(crate) async fn due_runs_come_in_order_and_no_more_than_asked_for(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for (id, wake_at) in
        [("late", 5_000), ("b", 3_000), ("a", 3_000), ("first", 2_000), ("future", 7_000)]
    {
        store.commit(Batch::of_run(due_at(id, wake_at))).await?;
    }
    let mut idle = due_at("idle", 0);
    idle.head.wake_at = None;
    store.commit(Batch::of_run(idle)).await?;
    let two = claim_some(store, "h1", 5_000, 2).await?;
    assert_eq!((names(&two), two.next), (vec!["first", "b"], Some(at(7_000))));
    let rest = claim_at(store, "h1", 5_000).await?;
    assert_eq!((names(&rest), rest.next), (vec!["a", "late"], Some(at(7_000))));
    Ok(())
}

pub(crate) async fn concurrent_claimers_never_share_a_run(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..40 {
        store.commit(Batch::of_run(new_run(&format!("r{number}")))).await?;
    }
    let hosts: Vec<String> = (0..8).map(|number| format!("h{number}")).collect();
    let claimed = join_all(hosts.iter().map(|host| claim_at(store, host, 1_000))).await;
    let mut taken = Vec::new();
    for claimed in claimed {
        taken.extend(claimed?.claims);
    }
    let distinct: BTreeSet<_> = taken.iter().map(|claim| claim.run.clone()).collect();
    assert_eq!((taken.len(), distinct.len()), (40, 40));
    Ok(())
}

pub(crate) async fn a_lost_holder_is_replaced_and_locked_out(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    let second = claim_at(store, "h2", 11_000).await?;
    assert_eq!(second.claims, [Claim { origin: ClaimOrigin::Lost, ..claim("r1", "h2", 2) }]);
    for stale in
        [claim("r1", "h1", 1), claim("r1", "h2", 1), claim("r1", "h1", 2), claim("r1", "h2", 3)]
    {
        let late = store
            .commit(Batch::of_append(fenced(append("r1", 0), stale.clone(), Then::Release)))
            .await;
        assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{stale:?}: {late:?}");
        assert_eq!(store.renew(std::slice::from_ref(&stale), at(99_000)).await?, ["r1".into()]);
        assert!(!store.release(&stale, None, Some(at(0))).await?);
    }
    assert_eq!(store.tail(&"r1".into(), 0).await?, []);
    assert_eq!(claim_at(store, "h3", 20_999).await?.claims, [], "the second holder still holds it");
    store
        .commit(Batch::of_append(fenced(append("r1", 0), claim("r1", "h2", 2), Then::Release)))
        .await?;
    Ok(())
}

pub(crate) async fn a_lease_is_checked_before_the_version(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let refused = store
        .commit(Batch::of_append(fenced(append("r1", 5), claim("r1", "h1", 1), Then::Release)))
        .await;
    assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
    claim_at(store, "h1", 1_000).await?;
    let refused = store
        .commit(Batch::of_append(fenced(append("r1", 5), claim("r1", "h1", 1), Then::Release)))
        .await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    Ok(())
}

pub(crate) async fn a_held_run_is_due_when_its_lease_ends(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    let mut next = append("r1", 0);
    next.head.wake_at = Some(at(3_000));
    store
        .commit(Batch::of_append(fenced(
            next,
            claim("r1", "h1", 1),
            Then::Hold { until: at(30_000) },
        )))
        .await?;
    assert_eq!(claim_at(store, "h2", 29_999).await?, all_of(Vec::new(), Some(at(30_000))));
    assert_eq!(names(&claim_at(store, "h2", 30_000).await?), ["r1"]);
    Ok(())
}

pub(crate) async fn a_released_run_is_due_when_its_head_says(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    let mut next = append("r1", 0);
    next.head.wake_at = Some(at(50_000));
    store.commit(Batch::of_append(fenced(next, claim("r1", "h1", 1), Then::Release))).await?;
    assert_eq!(claim_at(store, "h2", 49_999).await?, all_of(Vec::new(), Some(at(50_000))));
    let claimed = claim_at(store, "h2", 50_000).await?;
    assert_eq!(claimed.claims, [claim("r1", "h2", 2)], "it was given back, not lost");
    Ok(())
}

pub(crate) async fn an_ended_run_is_free_and_never_due(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for run in ["held", "cancelled"] {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    claim_at(store, "h1", 1_000).await?;
    let end = |run| Append { head: head(RunStatus::Cancelled, 1, Some(5_000)), ..append(run, 0) };
    store
        .commit(Batch::of_append(fenced(
            end("held"),
            claim("held", "h1", 1),
            Then::Hold { until: at(30_000) },
        )))
        .await?;
    store.commit(Batch::of_append(end("cancelled"))).await?;
    assert_eq!(claim_at(store, "h2", 90_000).await?, Claimed::default());
    let late = store
        .commit(Batch::of_append(fenced(
            append("cancelled", 1),
            claim("cancelled", "h1", 1),
            Then::Release,
        )))
        .await;
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{late:?}");
    let found = store.find(&acme(), &"held".into()).await?;
    assert_eq!(found.map(|found| (found.status, found.version)), Some((RunStatus::Cancelled, 1)));
    Ok(())
}

pub(crate) async fn an_append_from_outside_leaves_a_living_holder_alone(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    let mut outside = append("r1", 0);
    outside.head.wake_at = Some(at(1_500));
    store.commit(Batch::of_append(outside)).await?;
    assert_eq!(claim_at(store, "h2", 10_999).await?, all_of(Vec::new(), Some(at(11_000))));
    store
        .commit(Batch::of_append(fenced(append("r1", 1), claim("r1", "h1", 1), Then::Release)))
        .await?;
    Ok(())
}

pub(crate) async fn an_append_from_outside_wakes_a_run_that_nobody_holds(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let mut waiting = new_run("r1");
    waiting.head.wake_at = None;
    store.commit(Batch::of_run(waiting)).await?;
    assert_eq!(claim_at(store, "h1", 90_000).await?, Claimed::default());
    let mut answer = append("r1", 0);
    answer.head.wake_at = Some(at(1_500));
    store.commit(Batch::of_append(answer)).await?;
    assert_eq!(names(&claim_at(store, "h1", 1_500).await?), ["r1"]);
    Ok(())
}

pub(crate) async fn a_renewed_lease_lasts_longer(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for run in ["r1", "r2"] {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    let mut claims = claim_at(store, "h1", 1_000).await?.claims;
    claims.push(claim("unknown", "h1", 1));
    assert_eq!(store.renew(&claims, at(40_000)).await?, ["unknown".into()]);
    assert_eq!(claim_at(store, "h2", 39_999).await?, all_of(Vec::new(), Some(at(40_000))));
    assert_eq!(names(&claim_at(store, "h2", 40_000).await?), ["r1", "r2"]);
    Ok(())
}

pub(crate) async fn a_claim_can_be_given_back_without_an_append(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for run in ["r1", "r2"] {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    claim_at(store, "h1", 1_000).await?;
    assert!(!store.release(&claim("r1", "h1", 1), Some(0), Some(at(2_000))).await?);
    assert!(!store.release(&claim("r2", "h1", 1), None, None).await?);
    let claimed = claim_at(store, "h2", 90_000).await?;
    assert_eq!(claimed, all_of(vec![claim("r1", "h2", 2)], None));
    Ok(())
}

pub(crate) async fn what_a_holder_has_not_seen_is_looked_at_when_the_run_is_given_back(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    assert!(store.release(&claim("r1", "h1", 1), Some(0), None).await?, "it is due at once");
    assert_eq!(claim_at(store, "h2", 2_000).await?.claims, [claim("r1", "h2", 2)]);
    assert!(!store.release(&claim("r1", "h2", 2), Some(1), None).await?);
    assert_eq!(claim_at(store, "h3", 90_000).await?.claims, []);
    Ok(())
}

pub(crate) async fn a_new_process_finds_every_lease_void(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for (run, wake_at) in [("held", 1_000), ("touched", 1_000), ("sleeping", 80_000)] {
        store.commit(Batch::of_run(due_at(run, wake_at))).await?;
    }
    claim_at(store, "h1", 1_000).await?;
    subject.restart().await?;

    let store = subject.port()?;
    let late = store
        .commit(Batch::of_append(fenced(append("held", 0), claim("held", "h1", 1), Then::Release)))
        .await;
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{late:?}");
    assert_eq!(store.renew(&[claim("held", "h1", 1)], at(99_000)).await?, ["held".into()]);
    // A lost holder must be replaced, whatever somebody outside thinks of the next wake-up.
    store.commit(Batch::of_append(append("touched", 0))).await?;
    let claimed = claim_at(store, "h2", 1_001).await?;
    let lost = |run| Claim { origin: ClaimOrigin::Lost, ..claim(run, "h2", 2) };
    assert_eq!(claimed, all_of(vec![lost("held"), lost("touched")], Some(at(80_000))));
    Ok(())
}

pub(crate) async fn decisions_that_came_to_nothing_are_counted_over_a_restart(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let strikes = Strikes::new(subject.store()?);
    for run in ["r1", "r2"] {
        subject.port()?.commit(Batch::of_run(new_run(run))).await?;
        assert_eq!(strikes.add(&run.into()).await?, 1);
    }
    assert_eq!(strikes.add(&"r1".into()).await?, 2);
    strikes.take_back(&"r2".into()).await?;
    strikes.take_back(&"nobody".into()).await?;
    drop(strikes);
    subject.restart().await?;
    let strikes = Strikes::new(subject.store()?);
    assert_eq!(strikes.all().await?, [("r1".into(), 2)]);
    strikes.take_back(&"r1".into()).await?;
    assert_eq!(strikes.all().await?, [("r1".into(), 1)]);
    Ok(())
}

pub(crate) async fn a_clock_that_was_put_forward_ends_no_lease(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    claim_at(store, "h1", 1_000).await?;
    let mut request = ClaimRequest {
        host: "h1".into(),
        at: at(90_000),
        lapsed_at: at(1_500),
        until: at(11_500),
        most: 10,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    assert_eq!(store.claim(&request).await?.claims, []);
    request.lapsed_at = at(11_000);
    let lost = Claim { origin: ClaimOrigin::Lost, ..claim("r1", "h1", 2) };
    assert_eq!(store.claim(&request).await?.claims, [lost]);
    Ok(())
}

pub(crate) async fn tenants_take_turns_where_more_is_due_than_can_be_taken(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..6 {
        store.commit(Batch::of_run(due_at(&format!("many-{number}"), 1_000))).await?;
    }
    let mut few = due_at("few", 2_000);
    few.birth.owner.tenant = "other".into();
    store.commit(Batch::of_run(few)).await?;
    assert_eq!(names(&claim_some(store, "h1", 3_000, 2).await?), ["many-0", "few"]);
    let rest = claim_some(store, "h1", 3_000, 9).await?;
    assert_eq!(names(&rest), ["many-1", "many-2", "many-3", "many-4", "many-5"]);
    Ok(())
}

pub(crate) async fn a_tenant_gets_no_more_than_its_share(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    for number in 0..6 {
        store.commit(Batch::of_run(due_at(&format!("many-{number}"), 1_000))).await?;
    }
    let mut few = due_at("few", 2_000);
    few.birth.owner.tenant = "other".into();
    store.commit(Batch::of_run(few)).await?;
    let held = BTreeMap::from([("acme".into(), 3)]);
    let mut request = ClaimRequest {
        host: "h1".into(),
        at: at(3_000),
        lapsed_at: at(3_000),
        until: at(13_000),
        most: 1,
        share: 5,
        held,
        limits: Arc::default(),
    };
    let claimed = store.claim(&request).await?;
    assert_eq!((names(&claimed), claimed.has_more), (vec!["few"], true), "it holds none");
    assert_eq!(claimed.tenants, ["other".into()]);
    request.most = 9;
    let claimed = store.claim(&request).await?;
    assert_eq!((names(&claimed), claimed.has_more), (vec!["many-0", "many-1"], true));
    request.held = BTreeMap::from([("acme".into(), 5)]);
    let claimed = store.claim(&request).await?;
    assert_eq!((names(&claimed), claimed.has_more), (Vec::new(), true));
    Ok(())
}
