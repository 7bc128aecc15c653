//! Days of members and tenants: what was recorded is counted once, and what was raised holds for its day.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{Birth, Fork};
use callboard_engine::{
    Append, Batch, BudgetAccount, Budgets, Claim, ClaimOrigin, ClaimRequest, KeyMode, Lease,
    NewRun, Realm, Row, Spent, Store, accounted,
};
use callboard_protocol::{BudgetDimension, EffectiveBudget, ForkMode, RosterId, RunStatus};

use crate::Subject;
use crate::given::{acme, append, at, head, new_run, row};
use crate::roster::entry;

const DAY: i64 = 86_400_000;
const USAGE: &str =
    r#"{"provider":"p","model":"m","inputTokens":10,"outputTokens":3,"costEstimateUsd":0.25}"#;

fn account(tenant: &str, member: Option<&str>) -> BudgetAccount {
    BudgetAccount { tenant: tenant.into(), mode: KeyMode::Live, member: member.map(Into::into) }
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
    let store = subject.store()?;
    for (run, member) in [("r1", Some("host:a")), ("r2", Some("host:b")), ("r3", None)] {
        let new = charged(run, member);
        store.commit(Batch::of_run(new.clone())).await?;
        let rows = vec![used(DAY - 1), used(DAY), used(DAY + 1)];
        store.commit(accounted(&new.birth, Append { rows, ..append(run, 0) })).await?;
    }
    // Refused appends count nothing.
    let late = Append { rows: vec![used(DAY)], ..append("r1", 0) };
    assert!(store.commit(accounted(&charged("r1", None).birth, late)).await.is_err());
    drop(store);
    subject.restart().await?;
    let budgets = Budgets::new(subject.store()?);
    for (whose, day, count) in [
        (account("acme", Some("host:a")), 0, 1),
        (account("acme", Some("host:a")), 1, 2),
        (account("acme", None), 1, 6),
        (account("acme", None), 2, 0),
        (account("globex", None), 1, 0),
        (BudgetAccount { mode: KeyMode::Test, ..account("acme", None) }, 1, 0),
    ] {
        assert_eq!(budgets.spent_on(&whose, day).await?, times(count), "{whose:?} {day}");
    }
    Ok(())
}

pub(crate) async fn forks_pay_for_what_they_do_themselves(subject: Subject) -> anyhow::Result<()> {
    let (store, budgets) = (subject.store()?, Budgets::new(subject.store()?));
    let source = charged("r1", Some("host:a"));
    store.commit(Batch::of_run(source.clone())).await?;
    let rows = vec![used(DAY), used(DAY)];
    store.commit(accounted(&source.birth, Append { rows, ..append("r1", 0) })).await?;
    for (run, mode) in [("replay", ForkMode::Replay), ("branch", ForkMode::Branch)] {
        let mut fork = charged(run, Some("host:a"));
        fork.birth.fork = Some(Fork::of(&charged("r1", None).birth, mode, 1, 2));
        fork.head.version = 1;
        store.commit(Batch::of_run(fork.clone())).await?;
        let append = Append { rows: vec![used(DAY)], ..append(run, 1) };
        store.commit(accounted(&fork.birth, append)).await?;
    }
    assert_eq!(budgets.spent_on(&account("acme", Some("host:a")), 1).await?, times(3));
    Ok(())
}

/// Runs that this host holds, and what one of their nodes reserves: as much as so many usages.
async fn reserve(
    budgets: &Budgets,
    run: &str,
    member: Option<&str>,
    node: &str,
    count: u64,
) -> anyhow::Result<()> {
    let origin = ClaimOrigin::Free;
    let claim = Claim { run: run.into(), host: "h1".into(), epoch: 1, origin };
    let payer = account("acme", member);
    Ok(budgets.reserve(&payer, &claim, &node.into(), 1, times(count)).await?)
}

async fn held(store: &dyn Store, runs: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
    for (run, member) in runs {
        let lease = Some(Lease { host: "h1".into(), until: at(9_000) });
        store.commit(Batch::of_run(NewRun { lease, ..charged(run, *member) })).await?;
    }
    Ok(())
}

pub(crate) async fn what_is_reserved_counts_for_those_behind_it_until_the_call_is_over(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (store, budgets) = (subject.store()?, Budgets::new(subject.store()?));
    let sally = Some("host:a");
    held(&*store, &[("r1", sally), ("r2", sally), ("r3", None), ("r4", sally)]).await?;
    for (run, node, count) in [("r1", "a", 5), ("r2", "a", 1), ("r1", "b", 1)] {
        reserve(&budgets, run, sally, node, count).await?;
    }
    reserve(&budgets, "r3", None, "a", 2).await?;
    // Whoever asks again is behind the others, with what it asks for now.
    reserve(&budgets, "r1", sally, "a", 3).await?;
    reserve(&budgets, "r4", sally, "a", 9).await?;
    drop((store, budgets));
    subject.restart().await?;
    let (store, budgets) = (subject.store()?, Budgets::new(subject.store()?));
    let (hers, all) = (account("acme", sally), account("acme", None));
    let before = async |whose: &BudgetAccount, day, run: &str, node: &str| {
        budgets.reserved_before(whose, day, &run.into(), &node.into()).await
    };
    for (whose, day, run, node, count) in [
        (&hers, 1, "r2", "a", 0),
        (&hers, 1, "r1", "b", 1),
        (&hers, 1, "r1", "a", 2),
        (&hers, 1, "r4", "a", 5),
        (&all, 1, "r4", "a", 7),
        (&hers, 2, "r4", "a", 0),
        (&account("globex", None), 1, "r4", "a", 0),
        (&BudgetAccount { mode: KeyMode::Test, ..all.clone() }, 1, "r4", "a", 0),
    ] {
        assert_eq!(before(whose, day, run, node).await?, times(count), "{whose:?} {day} {run}");
    }
    let birth = charged("r1", sally).birth;
    // Other rows of the node end nothing; its usage does, and so does the end of its attempt.
    let rows = vec![row("{}"), Row { kind: "node.started".to_owned(), ..row("{}") }];
    store.commit(accounted(&birth, Append { rows, ..append("r1", 0) })).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(5));
    let rows = vec![used(DAY)];
    store.commit(accounted(&birth, Append { rows, ..append("r1", 2) })).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(2), "only that of its node");
    let failed = Row { kind: "node.failed".to_owned(), ..row("{}") };
    let append = Append { rows: vec![failed], ..append("r2", 0) };
    store.commit(accounted(&birth, append)).await?;
    assert_eq!(before(&hers, 1, "r4", "a").await?, times(1));
    Ok(())
}

pub(crate) async fn what_is_reserved_ends_with_its_run_and_with_its_holder(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, budgets) = (subject.store()?, Budgets::new(subject.store()?));
    held(&*store, &[("ended", None), ("paused", None), ("lost", None), ("last", None)]).await?;
    for run in ["ended", "paused", "lost", "last"] {
        reserve(&budgets, run, None, "a", 1).await?;
    }
    let all = account("acme", None);
    let before = async || budgets.reserved_before(&all, 1, &"last".into(), &"a".into()).await;
    assert_eq!(before().await?, times(3));
    for (run, status) in [("ended", RunStatus::Cancelled), ("paused", RunStatus::Paused)] {
        store
            .commit(Batch::of_append(Append { head: head(status, 1, None), ..append(run, 0) }))
            .await?;
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
            share: usize::MAX,
            held: BTreeMap::new(),
            limits: Arc::default(),
        })
        .await?;
    assert_eq!(before().await?, Spent::default(), "who has taken over asks for itself");
    Ok(())
}

pub(crate) async fn a_raise_holds_for_its_day_and_is_never_lowered(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = Budgets::new(subject.store()?);
    let (sally, tokens) = (account("acme", Some("host:a")), BudgetDimension::Tokens);
    for limit in [200_u64, 300, 100] {
        store.grant_extra(&sally, 1, tokens, limit.into()).await?;
    }
    store.grant_extra(&sally, 1, BudgetDimension::Cost, 2.5.into()).await?;
    store.grant_extra(&account("acme", None), 1, tokens, 900_u64.into()).await?;
    drop(store);
    subject.restart().await?;
    let store = Budgets::new(subject.store()?);
    let raised = EffectiveBudget {
        max_tokens: Some(300),
        max_cost_usd: Some(2.5),
        ..EffectiveBudget::default()
    };
    assert_eq!(store.granted_on(&sally, 1).await?, raised);
    assert_eq!(store.granted_on(&account("acme", None), 1).await?.max_tokens, Some(900));
    for (whose, day) in [(sally.clone(), 2), (account("globex", Some("host:a")), 1)] {
        assert!(store.granted_on(&whose, day).await?.is_unbounded(), "{whose:?} {day}");
    }
    Ok(())
}

pub(crate) async fn a_daily_limit_goes_with_its_member(subject: Subject) -> anyhow::Result<()> {
    let (roster, budgets) = (subject.roster()?, subject.budgets()?);
    let (ours, sally) = (acme().realm(), RosterId::from("host:a"));
    let some = EffectiveBudget { max_tokens: Some(5), ..EffectiveBudget::default() };
    budgets.set_daily_limit(&ours, &sally, Some(some)).await?;
    assert_eq!(budgets.daily_limit(&ours, &sally).await?, None, "nobody is there to have one");
    roster.hire(KeyMode::Live, entry("host:a", &[]), at(2)).await?;
    budgets.set_daily_limit(&ours, &sally, Some(some)).await?;
    let more = EffectiveBudget { max_cost_usd: Some(1.5), ..some };
    budgets.set_daily_limit(&ours, &sally, Some(more)).await?;
    assert_eq!(budgets.daily_limit(&ours, &sally).await?, Some(more));
    let theirs = Realm { tenant: "globex".into(), mode: KeyMode::Live };
    assert_eq!(budgets.daily_limit(&theirs, &sally).await?, None);
    let tests = Realm { mode: KeyMode::Test, ..ours.clone() };
    budgets.set_daily_limit(&tests, &sally, Some(some)).await?;
    assert_eq!(budgets.daily_limit(&tests, &sally).await?, None, "test keys have no such member");
    budgets.set_daily_limit(&ours, &sally, None).await?;
    assert_eq!(budgets.daily_limit(&ours, &sally).await?, None);
    budgets.set_daily_limit(&ours, &sally, Some(more)).await?;
    roster.dismiss(&acme(), &sally).await?;
    roster.hire(KeyMode::Live, entry("host:a", &[]), at(7)).await?;
    assert_eq!(budgets.daily_limit(&ours, &sally).await?, None, "a new member has none of the old");
    Ok(())
}
