//! Standing members: rows that one change at a time moves on, and the runs that are theirs.

use std::collections::BTreeMap;

use callboard_core::{AgentPin, Birth, TaskSource};
use callboard_engine::{
    Append, Batch, Filter, FiredWork, InboundDelivery, InboundState, InboxFilter, KeyMode,
    LogPosition, NewRun, Row, Scope, Spent, StoreError, StoredMember, StoredWork, Subscription,
    Triggers, Waits, Within, WorkChange,
};
use callboard_protocol::{
    AgentRosterEntry, InvocationSource, Object, Owner, RosterAgentRef, RosterOwner,
    RosterRunInitiated, SubscriptionState, WorkItem, WorkState, WorkflowId,
};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, append, at, new_run, row};

pub(crate) fn entry(id: &str, workflows: &[&str]) -> AgentRosterEntry {
    AgentRosterEntry {
        roster_id: id.into(),
        persona: "Sally".to_owned(),
        agent_ref: RosterAgentRef {
            agent_id: "vendor.acme.desk.writer".into(),
            version: None,
            channel: Some("stable".to_owned()),
        },
        workflows: workflows.iter().map(|workflow| WorkflowId::from(*workflow)).collect(),
        owner: RosterOwner { tenant_id: "acme".into(), workspace_id: None },
        enabled: true,
        label: None,
        description: Some("Owns campaigns.".to_owned()),
    }
}

fn viewer(tenant: &str, workspace: Option<&str>) -> Scope {
    Scope { tenant: tenant.into(), workspace: workspace.map(Into::into), mode: KeyMode::Live }
}

/// Test keys of the same tenant.
fn tests() -> Scope {
    Scope { mode: KeyMode::Test, ..acme() }
}

fn ids(members: Vec<StoredMember>) -> Vec<String> {
    members.into_iter().map(|member| member.entry.roster_id.to_string()).collect()
}

pub(crate) async fn members_are_kept_in_the_order_of_their_hiring(
    mut subject: Subject,
) -> anyhow::Result<()> {
    subject.roster()?.hire(KeyMode::Live, entry("host:z", &["a", "b"]), at(2_000)).await?;
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["b"]), at(2_000)).await?;
    let taken = subject.roster()?.hire(KeyMode::Live, entry("host:a", &[]), at(3_000)).await;
    assert!(matches!(taken, Err(StoreError::Moved { .. })), "{taken:?}");
    subject.restart().await?;
    let us = viewer("acme", None);
    assert_eq!(ids(subject.roster()?.members(&us).await?), ["host:z", "host:a"]);
    assert_eq!(ids(subject.roster()?.owners_of(&us, &"b".into()).await?), ["host:z", "host:a"]);
    assert_eq!(ids(subject.roster()?.owners_of(&us, &"a".into()).await?), ["host:z"]);
    assert_eq!(ids(subject.roster()?.owners_of(&us, &"c".into()).await?), [""; 0]);
    let found = subject.roster()?.member(&us, &"host:z".into()).await?;
    let (entry, mode) = (entry("host:z", &["a", "b"]), KeyMode::Live);
    assert_eq!(found, Some(StoredMember { entry, mode, version: 1, hired_at: at(2_000) }));
    Ok(())
}

pub(crate) async fn of_changes_to_a_member_one_is_kept(subject: Subject) -> anyhow::Result<()> {
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["a"]), at(2_000)).await?;
    let roster = subject.roster()?;
    let tried = join_all((0..8).map(|index| {
        let changed = entry("host:a", &[["b", "c"][index % 2]]);
        let changed = AgentRosterEntry { persona: format!("P{index}"), ..changed };
        roster.change(KeyMode::Live, changed, 1)
    }))
    .await;
    let kept: Vec<usize> = (0..8).filter(|index| tried[*index].is_ok()).collect();
    assert_eq!(kept.len(), 1, "{tried:?}");
    let us = viewer("acme", None);
    let found = subject.roster()?.member(&us, &"host:a".into()).await?;
    let found = found.ok_or_else(|| anyhow::anyhow!("the member is gone"))?;
    assert_eq!((found.version, found.hired_at), (2, at(2_000)));
    assert_eq!(found.entry.persona, format!("P{}", kept[0]));
    // The portfolio by workflow moves with the entry.
    assert_eq!(ids(subject.roster()?.owners_of(&us, &"a".into()).await?), [""; 0]);
    assert_eq!(ids(subject.roster()?.owners_of(&us, &found.entry.workflows[0]).await?), ["host:a"]);
    let gone = subject.roster()?.change(KeyMode::Live, entry("host:gone", &[]), 1).await;
    assert!(matches!(gone, Err(StoreError::Moved { .. })), "{gone:?}");
    Ok(())
}

pub(crate) async fn members_are_their_tenants_and_workspaces_own(
    subject: Subject,
) -> anyhow::Result<()> {
    let of = |tenant: &str, workspace: Option<&str>| RosterOwner {
        tenant_id: tenant.into(),
        workspace_id: workspace.map(Into::into),
    };
    for (id, owner) in [
        ("host:a", of("acme", None)),
        ("host:b", of("acme", Some("growth"))),
        ("host:c", of("globex", None)),
        ("host:a", of("globex", None)),
    ] {
        subject
            .roster()?
            .hire(KeyMode::Live, AgentRosterEntry { owner, ..entry(id, &["w"]) }, at(2_000))
            .await?;
    }
    for (who, sees) in [
        (viewer("acme", None), vec!["host:a", "host:b"]),
        (viewer("acme", Some("growth")), vec!["host:b"]),
        (viewer("acme", Some("sales")), vec![]),
        (viewer("globex", None), vec!["host:c", "host:a"]),
    ] {
        assert_eq!(ids(subject.roster()?.members(&who).await?), sees, "{who:?}");
        assert_eq!(ids(subject.roster()?.owners_of(&who, &"w".into()).await?), sees, "{who:?}");
        for id in ["host:a", "host:b", "host:c"] {
            let found = subject.roster()?.member(&who, &id.into()).await?;
            assert_eq!(found.is_some(), sees.contains(&id), "{who:?} {id}");
        }
    }
    assert!(!subject.roster()?.dismiss(&acme(), &"host:c".into()).await?);
    assert!(subject.roster()?.dismiss(&acme(), &"host:a".into()).await?);
    assert!(!subject.roster()?.dismiss(&acme(), &"host:a".into()).await?);
    assert_eq!(
        ids(subject.roster()?.owners_of(&viewer("globex", None), &"w".into()).await?).len(),
        2
    );
    Ok(())
}

pub(crate) async fn a_test_keys_members_are_apart_from_the_live_ones(
    mut subject: Subject,
) -> anyhow::Result<()> {
    subject.roster()?.hire(KeyMode::Live, entry("host:l", &["w"]), at(1)).await?;
    subject.roster()?.hire(KeyMode::Test, entry("host:t", &["w"]), at(2)).await?;
    let mut item = change("w1", 0);
    item.item.roster_id = "host:l".into();
    subject.work()?.put_work(item.clone(), None).await?;
    subject.restart().await?;
    for (who, own, other) in [(acme(), "host:l", "host:t"), (tests(), "host:t", "host:l")] {
        assert_eq!(ids(subject.roster()?.members(&who).await?), [own]);
        assert_eq!(ids(subject.roster()?.owners_of(&who, &"w".into()).await?), [own]);
        let found = subject.roster()?.member(&who, &own.into()).await?;
        assert_eq!(found.map(|found| found.mode), Some(who.mode));
        assert_eq!(subject.roster()?.member(&who, &other.into()).await?, None);
        let changed = subject.roster()?.change(who.mode, entry(other, &[]), 1).await;
        assert!(matches!(changed, Err(StoreError::Moved { .. })), "{changed:?}");
        assert!(!subject.roster()?.dismiss(&who, &other.into()).await?);
    }
    assert_eq!(subject.work()?.work(&acme(), &"host:l".into()).await?.len(), 1);
    assert_eq!(subject.work()?.work(&tests(), &"host:l".into()).await?, []);
    assert_eq!(subject.work()?.work_item(&tests(), &"host:l".into(), "w1").await?, None);
    let theirs = WorkChange { scope: tests(), expected: 1, ..item };
    let moved = subject.work()?.put_work(theirs, None).await;
    assert!(matches!(moved, Err(StoreError::Moved { .. })), "{moved:?}");
    assert!(subject.roster()?.dismiss(&acme(), &"host:l".into()).await?);
    assert_eq!(subject.roster()?.tenants_owning(KeyMode::Live, &"w".into()).await?, []);
    assert_eq!(
        subject.roster()?.tenants_owning(KeyMode::Test, &"w".into()).await?,
        ["acme".into()]
    );
    Ok(())
}

pub(crate) async fn the_runs_of_a_member_are_listed_also_when_it_is_gone(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["greet"]), at(500)).await?;
    for (run, member) in [("r1", Some("host:a")), ("r2", None), ("r3", Some("host:b"))] {
        store.commit(Batch::of_run(run_of(run, member))).await?;
    }
    subject.roster()?.dismiss(&acme(), &"host:a".into()).await?;
    let filter = Filter { member: Some("host:a".into()), limit: 10, ..Filter::default() };
    let listed = store.list(&acme(), &filter).await?;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0].run_id, &listed[0].roster_id), (&"r1".into(), &Some("host:a".into())));
    assert_eq!(listed[0].trigger_source.as_deref(), Some("schedule"));
    let inbox = InboxFilter { member: Some("host:a".into()), limit: 10, ..InboxFilter::default() };
    assert_eq!(store.inbox(&acme(), &inbox).await?, []);
    let opened = store.open(&"r1".into()).await?;
    let attribution = opened.and_then(|opened| opened.birth.attribution);
    assert_eq!(attribution.map(|told| told.persona), Some("Sally".to_owned()));
    Ok(())
}

pub(crate) async fn the_runs_of_an_agent_are_those_it_performs_and_those_of_its_members(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let pin = AgentPin {
        agent_id: "vendor.acme.desk.writer".to_owned(),
        version: "1.0.0".to_owned(),
        integrity: None,
        channel: None,
        task: TaskSource::Ports,
        persona: None,
        source: InvocationSource::default(),
    };
    let new = new_run("r1");
    let agents = [("a", pin.clone()), ("b", pin)].map(|(node, pin)| (node.into(), pin)).into();
    store.commit(Batch::of_run(NewRun { birth: Birth { agents, ..new.birth }, ..new })).await?;
    store.commit(Batch::of_run(run_of("r2", Some("host:a")))).await?;
    store.commit(Batch::of_run(run_of("r3", None))).await?;
    for (agent, expected) in [("vendor.acme.desk.writer", vec!["r2", "r1"]), ("nobody", vec![])] {
        let filter = Filter { agent: Some(agent.to_owned()), limit: 10, ..Filter::default() };
        let listed = store.list(&acme(), &filter).await?;
        let runs: Vec<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
        assert_eq!(runs, expected, "{agent}");
    }
    Ok(())
}

/// A run that is attributed to a member, or to nobody.
fn run_of(run: &str, member: Option<&str>) -> NewRun {
    let attribution = member.map(|member| RosterRunInitiated {
        roster_id: member.into(),
        persona: "Sally".to_owned(),
        agent_id: "vendor.acme.desk.writer".to_owned(),
        workflow_id: "greet".into(),
        trigger_source: "schedule".to_owned(),
        trigger_subscription_id: None,
    });
    let new = new_run(run);
    NewRun { birth: Birth { attribution, ..new.birth }, ..new }
}

pub(crate) async fn what_a_member_spent_is_summed_over_its_runs(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let usage =
        r#"{"provider":"p","model":"m","inputTokens":10,"outputTokens":3,"costEstimateUsd":0.25}"#;
    let unpriced = r#"{"provider":"p","model":"m","inputTokens":1,"outputTokens":1}"#;
    for (run, member) in [("r1", Some("host:a")), ("r2", Some("host:a")), ("r3", None)] {
        store.commit(Batch::of_run(run_of(run, member))).await?;
        let told = |payload: &str| Row { kind: "provider.usage".to_owned(), ..row(payload) };
        let rows = vec![told(usage), told(unpriced), row("{\"inputTokens\":99}")];
        store.commit(Batch::of_append(Append { rows, ..append(run, 0) })).await?;
    }
    let since = async |millis| store.spent(&acme(), &"host:a".into(), at(millis)).await;
    let spent = Spent { input_tokens: 22, output_tokens: 8, cost_usd: 0.5 };
    assert_eq!(since(1_000).await?, spent);
    assert_eq!(since(1_001).await?, Spent::default(), "only runs that began then or later");
    let theirs = viewer("globex", None);
    assert_eq!(store.spent(&theirs, &"host:a".into(), at(0)).await?, Spent::default());
    Ok(())
}

/// As the run's snapshot would say it: a price that is unknown makes an unknown sum, and nothing used is nothing said.
pub(crate) async fn a_list_says_what_runs_have_used(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    let priced =
        r#"{"provider":"p","model":"m","inputTokens":10,"outputTokens":3,"costEstimateUsd":0.25}"#;
    let unpriced = r#"{"provider":"p","model":"m","inputTokens":1,"outputTokens":1}"#;
    for (run, used) in
        [("r1", vec![priced, priced]), ("r2", vec![priced, unpriced]), ("r3", vec![])]
    {
        store.commit(Batch::of_run(new_run(run))).await?;
        let told = |payload: &&str| Row { kind: "provider.usage".to_owned(), ..row(payload) };
        let mut rows: Vec<Row> = used.iter().map(told).collect();
        rows.push(row("{\"inputTokens\":99}"));
        store.commit(Batch::of_append(Append { rows, ..append(run, 0) })).await?;
    }
    let listed = store.list(&acme(), &Filter { limit: 10, ..Filter::default() }).await?;
    let used: BTreeMap<String, Option<(Option<f64>, u64, u64)>> = listed
        .into_iter()
        .map(|run| {
            let cost = run.metrics.map(|metrics| metrics.openwop_cost);
            (run.run_id.to_string(), cost.map(|it| (it.usd, it.tokens.input, it.tokens.output)))
        })
        .collect();
    let expected = [
        ("r1".to_owned(), Some((Some(0.5), 20, 6))),
        ("r2".to_owned(), Some((None, 11, 4))),
        ("r3".to_owned(), None),
    ];
    assert_eq!(used, BTreeMap::from(expected));
    Ok(())
}

fn item(work: &str) -> WorkItem {
    WorkItem {
        work_id: work.to_owned(),
        roster_id: "host:a".into(),
        title: "Printer".to_owned(),
        workflow_id: "greet".into(),
        inputs: Object::new(),
        state: WorkState::Doing,
        claimed_by: None,
        reason: None,
        moves: 1,
        run_id: None,
        run_status: None,
        created_at: at(2_000),
        updated_at: at(2_000),
    }
}

fn change(work: &str, expected: u64) -> WorkChange {
    WorkChange { scope: acme(), item: item(work), expected, waits: None }
}

pub(crate) async fn the_tenants_that_own_a_workflow_are_known(
    subject: Subject,
) -> anyhow::Result<()> {
    let of = |tenant: &str, id: &str, workflows: &[&str]| {
        let owner = RosterOwner { tenant_id: tenant.into(), workspace_id: Some("ops".into()) };
        AgentRosterEntry { owner, ..entry(id, workflows) }
    };
    subject.roster()?.hire(KeyMode::Live, of("globex", "host:a", &["greet"]), at(1)).await?;
    subject.roster()?.hire(KeyMode::Live, of("acme", "host:b", &["greet", "part"]), at(2)).await?;
    subject.roster()?.hire(KeyMode::Live, of("acme", "host:c", &["greet"]), at(3)).await?;
    let roster = subject.roster()?;
    let owning =
        async |workflow: &str| roster.tenants_owning(KeyMode::Live, &workflow.into()).await;
    assert_eq!(owning("greet").await?, ["acme".into(), "globex".into()]);
    assert_eq!(owning("part").await?, ["acme".into()]);
    subject.roster()?.change(KeyMode::Live, of("acme", "host:b", &[]), 1).await?;
    subject.roster()?.dismiss(&viewer("globex", None), &"host:a".into()).await?;
    assert_eq!(owning("greet").await?, ["acme".into()]);
    assert_eq!(owning("part").await?, []);
    Ok(())
}

/// What an item fires: the delivery is called after its run.
fn fired(run: &str) -> FiredWork {
    let member = entry("host:a", &["greet"]);
    let queue = Subscription::work_queue(&member, KeyMode::Live, "greet".into(), at(500));
    let delivery = InboundDelivery {
        id: format!("dlv_{run}"),
        subscription: queue.id.clone(),
        place: queue.place.clone(),
        dedup_key: format!("dk_{run}"),
        attempts: 1,
        state: InboundState::Delivered { run: run.into(), at: at(2_000) },
        received_at: at(2_000),
        event: Some("{\"queue\":{}}".to_owned()),
        error: None,
        files: Vec::new(),
        version: 1,
    };
    FiredWork { queue, delivery, run: new_run(run) }
}

pub(crate) async fn a_work_item_is_kept_with_its_run_or_not_at_all(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let nobody = subject.work()?.put_work(change("w1", 0), Some(fired("r0"))).await;
    assert!(matches!(nobody, Err(StoreError::Moved { .. })), "{nobody:?}");
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["greet"]), at(500)).await?;
    subject.work()?.put_work(change("w1", 0), Some(fired("r1"))).await?;
    subject.work()?.put_work(change("w2", 0), None).await?;
    for expected in [0, 2] {
        let late = subject.work()?.put_work(change("w1", expected), Some(fired("r2"))).await;
        assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    }
    subject.restart().await?;
    let store = subject.port()?;
    for (run, is_there) in [("r0", false), ("r1", true), ("r2", false)] {
        assert_eq!(store.find(&acme(), &run.into()).await?.is_some(), is_there, "{run}");
    }
    let (us, member) = (acme(), "host:a".into());
    let kept = |work: &str, version| StoredWork { item: item(work), version };
    assert_eq!(subject.work()?.work(&us, &member).await?, [kept("w1", 1), kept("w2", 1)]);
    subject.work()?.put_work(change("w1", 1), None).await?;
    assert_eq!(subject.work()?.work_item(&us, &member, "w1").await?, Some(kept("w1", 2)));
    assert_eq!(subject.work()?.work_item(&viewer("globex", None), &member, "w1").await?, None);
    subject.roster()?.dismiss(&us, &member).await?;
    assert_eq!(subject.work()?.work(&us, &member).await?, []);
    Ok(())
}

pub(crate) async fn an_item_comes_over_its_members_queue_or_not_at_all(
    mut subject: Subject,
) -> anyhow::Result<()> {
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["greet"]), at(500)).await?;
    subject.work()?.put_work(change("w1", 0), Some(fired("r1"))).await?;
    let FiredWork { queue, delivery, .. } = fired("r1");
    subject.restart().await?;
    let store = subject.port()?;
    let triggers = Triggers::new(subject.store()?);
    let listed = triggers.subscriptions(&acme()).await?;
    assert_eq!(listed, std::slice::from_ref(&queue), "made with its first item");
    assert_eq!(triggers.delivery(&acme(), &queue.id, "dk_r1").await?, Some(delivery));
    let mut known = fired("r2");
    known.delivery.dedup_key = "dk_r1".to_owned();
    let twice = subject.work()?.put_work(change("w2", 0), Some(known)).await;
    assert!(matches!(twice, Err(StoreError::Moved { .. })), "the same move again: {twice:?}");
    let state = SubscriptionState::Paused;
    let paused = Subscription { state, version: 2, ..queue.clone() };
    triggers.change_subscription(paused, 1, None, None).await?;
    let late = subject.work()?.put_work(change("w2", 0), Some(fired("r3"))).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    for run in ["r2", "r3"] {
        assert!(store.find(&acme(), &run.into()).await?.is_none(), "{run}");
    }
    assert_eq!(subject.work()?.work(&acme(), &"host:a".into()).await?.len(), 1);
    subject.roster()?.dismiss(&acme(), &"host:a".into()).await?;
    assert_eq!(triggers.subscriptions(&acme()).await?, []);
    assert_eq!(triggers.delivery(&acme(), &queue.id, "dk_r1").await?, None);
    Ok(())
}

pub(crate) async fn of_moves_of_an_item_one_fires(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &["greet"]), at(500)).await?;
    subject.work()?.put_work(change("w1", 0), None).await?;
    let work = subject.work()?;
    let tried = join_all(
        (0..8).map(|index| work.put_work(change("w1", 1), Some(fired(&format!("r{index}"))))),
    )
    .await;
    assert_eq!(tried.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{tried:?}");
    let filter = Filter { limit: 10, ..Filter::default() };
    assert_eq!(store.list(&acme(), &filter).await?.len(), 1);
    Ok(())
}

pub(crate) async fn what_waits_is_found_once_its_member_and_its_queue_take_something(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let paused = AgentRosterEntry { enabled: false, ..entry("host:a", &["greet"]) };
    subject.roster()?.hire(KeyMode::Live, paused.clone(), at(500)).await?;
    subject.roster()?.hire(KeyMode::Test, entry("host:t", &["greet"]), at(500)).await?;
    let owner = Owner { tenant: "acme".into(), workspace: None, principal: Some("key:k".into()) };
    let waits = |mode| Waits { owner: owner.clone(), mode };
    let waiting = |work: &str| WorkChange { waits: Some(waits(KeyMode::Live)), ..change(work, 0) };
    let of_tests = WorkItem { roster_id: "host:t".into(), ..item("w2") };
    let theirs = WorkChange { scope: tests(), item: of_tests.clone(), ..change("w2", 0) };
    subject.work()?.put_work(waiting("w1"), None).await?;
    subject
        .work()?
        .put_work(WorkChange { waits: Some(waits(KeyMode::Test)), ..theirs }, None)
        .await?;
    subject.work()?.put_work(waiting("w3"), None).await?;
    subject.work()?.put_work(change("w4", 0), None).await?;
    let of_tests = (StoredWork { item: of_tests, version: 1 }, waits(KeyMode::Test));
    assert_eq!(subject.work()?.startable_work(9).await?, [of_tests], "the other member is paused");
    subject
        .roster()?
        .change(KeyMode::Live, AgentRosterEntry { enabled: true, ..paused }, 1)
        .await?;
    subject.restart().await?;
    let found = subject.work()?.startable_work(9).await?;
    let named = |found: &[(StoredWork, Waits)]| -> Vec<String> {
        let mut names: Vec<String> =
            found.iter().map(|(stored, _)| stored.item.work_id.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(named(&found), ["w1", "w2", "w3"]);
    assert_eq!(subject.work()?.startable_work(2).await?.len(), 2);
    // What has begun waits no longer, and what comes over a paused queue waits for the queue.
    subject.work()?.put_work(change("w1", 1), Some(fired("r1"))).await?;
    let FiredWork { queue, .. } = fired("r1");
    let triggers = Triggers::new(subject.store()?);
    let state = SubscriptionState::Paused;
    let paused = Subscription { state, version: 2, ..queue.clone() };
    triggers.change_subscription(paused, 1, None, None).await?;
    assert_eq!(
        named(&subject.work()?.startable_work(9).await?),
        ["w2"],
        "test keys have their own queue"
    );
    triggers.change_subscription(Subscription { version: 3, ..queue }, 2, None, None).await?;
    assert_eq!(named(&subject.work()?.startable_work(9).await?), ["w2", "w3"]);
    subject.roster()?.dismiss(&acme(), &"host:a".into()).await?;
    assert_eq!(named(&subject.work()?.startable_work(9).await?), ["w2"]);
    Ok(())
}

pub(crate) async fn all_logs_are_read_in_the_order_of_commits(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let start = store.newest().await?;
    let mut foreign = new_run("theirs");
    foreign.birth.owner.tenant = "globex".into();
    store.commit(Batch::of_run(foreign)).await?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_run(new_run("r2"))).await?;
    for (run, expected) in [("r1", 0), ("theirs", 0), ("r2", 0), ("theirs", 1), ("r1", 1)] {
        store.commit(Batch::of_append(append(run, expected))).await?;
    }
    let newest = store.newest().await?;
    assert!(newest > start);
    let ours = Within::VisibleTo(acme());
    let (mut after, mut seen) = (start, Vec::new());
    loop {
        let window = store.read_all(&ours, after, 2).await?;
        if window.until == after {
            break;
        }
        let shown = window.events.iter();
        seen.extend(shown.map(|logged| format!("{} {}", logged.event.run, logged.event.sequence)));
        assert!(window.events.iter().all(|it| it.position > after && it.position <= window.until));
        after = window.until;
    }
    assert_eq!(after, newest);
    assert_eq!(seen, ["r1 0", "r2 0", "r1 1"]);
    let beyond = LogPosition(newest.0 + 100);
    assert_eq!(store.read_all(&ours, beyond, 2).await?.until, beyond);
    Ok(())
}
