//! Days of members and tenants: what was recorded is counted once, and what was raised holds for its day.

use callboard_core::{Birth, Fork};
use callboard_engine::{
    Append, Claim, ClaimOrigin, ClaimRequest, KeyMode, Lease, NewRun, Purse, Row, Spent,
};
use callboard_protocol::{BudgetDimension, EffectiveBudget, ForkMode, RunStatus};

use crate::given::{acme, append, at, head, new_run, row};
use crate::roster::entry;
use crate::{Ports, Subject};

const DAY: i64 = 86_400_000;
const USAGE: &str =
    r#"{"provider":"p","model":"m","inputTokens":10,"outputTokens":3,"costEstimateUsd":0.25}"#;

fn purse(tenant: &str, member: Option<&str>) -> Purse {
    Purse { tenant: tenant.into(), mode: KeyMode::Live, member: member.map(Into::into) }
}

fn used(millis: i64) -> Row {
    Row { kind: "provider.usage".to_owned(), at: at(millis), ..row(USAGE) }
}

fn charged(run: &str, member: Option<&str>) -> NewRun {
    let new = new_run(run);
    NewRun { birth: Birth { charged_to: member.map(Into::into), ..new.birth }, ..new }
}

fn times(count: u64) -> Spent {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let cost_usd = 0.25 * count as f64;
    Spent { input_tokens: 10 * count, output_tokens: 3 * count, cost_usd }
}

pub(crate) async fn what_a_day_used_is_counted_where_it_was_recorded(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    for (run, member) in [("r1", Some("host:a")), ("r2", Some("host:b")), ("r3", None)] {
        store.create(charged(run, member)).await?;
        let rows = vec![used(DAY - 1), used(DAY), used(DAY + 1)];
        store.append(Append { rows, ..append(run, 0) }).await?;
    }
    // Refused appends count nothing.
    let late = Append { rows: vec![used(DAY)], ..append("r1", 0) };
    assert!(store.append(late).await.is_err());
    subject.restart()?;
    let store = subject.ports()?;
    for (whose, day, count) in [
        (purse("acme", Some("host:a")), 0, 1),
        (purse("acme", Some("host:a")), 1, 2),
        (purse("acme", None), 1, 6),
        (purse("acme", None), 2, 0),
        (purse("globex", None), 1, 0),
        (Purse { mode: KeyMode::Test, ..purse("acme", None) }, 1, 0),
    ] {
        assert_eq!(store.spent_on(&whose, day).await?, times(count), "{whose:?} {day}");
    }
    Ok(())
}

pub(crate) async fn forks_pay_for_what_they_do_themselves(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.create(charged("r1", Some("host:a"))).await?;
    store.append(Append { rows: vec![used(DAY), used(DAY)], ..append("r1", 0) }).await?;
    for (run, mode) in [("replay", ForkMode::Replay), ("branch", ForkMode::Branch)] {
        let mut fork = charged(run, Some("host:a"));
        fork.birth.fork = Some(Fork::of(&charged("r1", None).birth, mode, 1, 2));
        fork.head.version = 1;
        store.create(fork).await?;
        store.append(Append { rows: vec![used(DAY)], ..append(run, 1) }).await?;
    }
    assert_eq!(store.spent_on(&purse("acme", Some("host:a")), 1).await?, times(3));
    Ok(())
}

/// Runs that this host holds, and what one of their nodes sets aside: as much as so many usages.
async fn set_aside(store: &dyn Ports, run: &str, node: &str, count: u64) -> anyhow::Result<()> {
    let origin = ClaimOrigin::Free;
    let claim = Claim { run: run.into(), host: "h1".into(), epoch: 1, origin };
    Ok(store.set_aside(&claim, &node.into(), 1, times(count)).await?)
}

async fn held(store: &dyn Ports, runs: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
    for (run, member) in runs {
        let lease = Some(Lease { host: "h1".into(), until: at(9_000) });
        store.create(NewRun { lease, ..charged(run, *member) }).await?;
    }
    Ok(())
}

pub(crate) async fn what_is_set_aside_counts_for_those_behind_it_until_the_call_is_over(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let sally = Some("host:a");
    held(store, &[("r1", sally), ("r2", sally), ("r3", None), ("r4", sally)]).await?;
    for (run, node, count) in [("r1", "a", 5), ("r2", "a", 1), ("r1", "b", 1), ("r3", "a", 2)] {
        set_aside(store, run, node, count).await?;
    }
    // Whoever asks again is behind the others, with what it asks for now.
    set_aside(store, "r1", "a", 3).await?;
    set_aside(store, "r4", "a", 9).await?;
    subject.restart()?;
    let store = subject.ports()?;
    let (hers, all) = (purse("acme", sally), purse("acme", None));
    let before = async |whose: &Purse, day, run: &str, node: &str| {
        store.set_aside_before(whose, day, &run.into(), &node.into()).await
    };
    for (whose, day, run, node, count) in [
        (&hers, 1, "r2", "a", 0),
        (&hers, 1, "r1", "b", 1),
        (&hers, 1, "r1", "a", 2),
        (&hers, 1, "r4", "a", 5),
        (&all, 1, "r4", "a", 7),
        (&hers, 2, "r4", "a", 0),
        (&purse("globex", None), 1, "r4", "a", 0),
        (&Purse { mode: KeyMode::Test, ..all.clone() }, 1, "r4", "a", 0),
    ] {
        assert_eq!(before(whose, day, run, node).await?, times(count), "{whose:?} {day} {run}");
    }
    // Other rows of the node end nothing; its usage does, and so does the end of its attempt.
    let rows = vec![row("{}"), Row { kind: "node.started".to_owned(), ..row("{}") }];
    store.append(Append { rows, ..append("r1", 0) }).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(5));
    store.append(Append { rows: vec![used(DAY)], ..append("r1", 2) }).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(2), "only that of its node");
    let failed = Row { kind: "node.failed".to_owned(), ..row("{}") };
    store.append(Append { rows: vec![failed], ..append("r2", 0) }).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(1));
    Ok(())
}

pub(crate) async fn what_is_set_aside_ends_with_its_run_and_with_its_holder(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    held(store, &[("ended", None), ("paused", None), ("lost", None), ("last", None)]).await?;
    for run in ["ended", "paused", "lost", "last"] {
        set_aside(store, run, "a", 1).await?;
    }
    let all = purse("acme", None);
    let before = async || store.set_aside_before(&all, 1, &"last".into(), &"a".into()).await;
    assert_eq!(before().await?, times(3));
    for (run, status) in [("ended", RunStatus::Cancelled), ("paused", RunStatus::Paused)] {
        store.append(Append { head: head(status, 1, None), ..append(run, 0) }).await?;
    }
    assert_eq!(before().await?, times(1), "a lost holder may still be at it");
    let (until, most) = (at(19_000), 10);
    store
        .claim(&ClaimRequest {
            host: "h2".into(),
            at: at(9_000),
            lapsed_at: at(9_000),
            until,
            most,
        })
        .await?;
    assert_eq!(before().await?, Spent::default(), "who has taken over asks for itself");
    Ok(())
}

pub(crate) async fn a_raise_holds_for_its_day_and_is_never_lowered(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let (sally, tokens) = (purse("acme", Some("host:a")), BudgetDimension::Tokens);
    for limit in [200_u64, 300, 100] {
        store.raise(&sally, 1, tokens, limit.into()).await?;
    }
    store.raise(&sally, 1, BudgetDimension::Cost, 2.5.into()).await?;
    store.raise(&purse("acme", None), 1, tokens, 900_u64.into()).await?;
    subject.restart()?;
    let store = subject.ports()?;
    let raised = EffectiveBudget {
        max_tokens: Some(300),
        max_cost_usd: Some(2.5),
        ..EffectiveBudget::default()
    };
    assert_eq!(store.raised_on(&sally, 1).await?, raised);
    assert_eq!(store.raised_on(&purse("acme", None), 1).await?.max_tokens, Some(900));
    for (whose, day) in [(sally.clone(), 2), (purse("globex", Some("host:a")), 1)] {
        assert!(store.raised_on(&whose, day).await?.is_unbounded(), "{whose:?} {day}");
    }
    Ok(())
}

pub(crate) async fn an_allowance_goes_with_its_member(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let sally = purse("acme", Some("host:a"));
    let some = EffectiveBudget { max_tokens: Some(5), ..EffectiveBudget::default() };
    store.allow(&sally, Some(some), at(1)).await?;
    assert_eq!(store.allowance(&sally).await?, None, "nobody is there to have one");
    store.hire(KeyMode::Live, entry("host:a", &[]), at(2)).await?;
    store.allow(&sally, Some(some), at(3)).await?;
    let more = EffectiveBudget { max_cost_usd: Some(1.5), ..some };
    store.allow(&sally, Some(more), at(4)).await?;
    assert_eq!(store.allowance(&sally).await?, Some(more));
    assert_eq!(store.allowance(&purse("globex", Some("host:a"))).await?, None);
    let tests = Purse { mode: KeyMode::Test, ..sally.clone() };
    store.allow(&tests, Some(some), at(4)).await?;
    assert_eq!(store.allowance(&tests).await?, None, "and test keys have no such member");
    store.allow(&sally, None, at(5)).await?;
    assert_eq!(store.allowance(&sally).await?, None);
    store.allow(&sally, Some(more), at(6)).await?;
    store.dismiss(&acme(), &"host:a".into()).await?;
    store.hire(KeyMode::Live, entry("host:a", &[]), at(7)).await?;
    assert_eq!(store.allowance(&sally).await?, None, "a new member has none of the old");
    Ok(())
}
