//! What must be true where several hosts have one database. The numbers are those of the checklist for clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use callboard_core::Attempt;
use callboard_engine::{
    Append, Batch, Begun, BudgetAccount, Budgets, Claim, ClaimOrigin, ClaimRequest, Claimed,
    EffectClaim, EffectKey, Elsewhere as _, Expected, Fence, FileRow, Files, Filter, Key, KeyMode,
    Kind, Lease, LogPosition, MAX_FILES, MemoryAuthor, MemoryQuery, MemoryRow, MemorySeen, NewRun,
    Outcome, Place, RecordChange, RequestDigest, Scope, Spent, Store, StoreError, Then, Within,
    add_memory,
};
use callboard_protocol::RunStatus;
use futures_util::future::join_all;
use serde_json::json;

use crate::given::{acme, append, at, head, new_run, row};
use crate::server;
use crate::{open_postgres, postgres_database};

/// Two hosts on one database; none where PostgreSQL is not installed.
struct Two {
    address: String,
    hosts: [Arc<dyn Store>; 2],
}

impl Two {
    async fn open() -> anyhow::Result<Option<Self>> {
        let Some(address) = postgres_database().await? else { return Ok(None) };
        let hosts: [Arc<dyn Store>; 2] =
            [Arc::new(open_postgres(&address).await?), Arc::new(open_postgres(&address).await?)];
        Ok(Some(Self { address, hosts }))
    }

    /// Eight callers, by turns on the one host and the other.
    fn eight(&self) -> impl Iterator<Item = (usize, Arc<dyn Store>)> {
        (0..8).map(|caller| (caller, Arc::clone(&self.hosts[caller % 2])))
    }
}

macro_rules! two_hosts {
    ($($(#[$meta:meta])* $scenario:ident)*) => {
        mod two_hosts {
            $(
                $(#[$meta])*
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() -> anyhow::Result<()> {
                    match super::Two::open().await? {
                        Some(two) => super::$scenario(two).await,
                        None => Ok(()),
                    }
                }
            )*
        }
    };
}

two_hosts! {
    hosts_never_share_a_run
    a_new_process_voids_no_lease
    nothing_that_a_past_epoch_writes_has_an_effect
    of_calls_claimed_on_two_hosts_one_is_fresh
    one_key_makes_one_run_on_two_hosts
    an_exclusive_scope_is_exclusive_on_two_hosts
    a_days_limit_is_passed_by_one_call_at_most
    every_append_has_one_place_and_readers_miss_none
    a_foreign_transaction_stalls_no_reader
    a_view_of_memory_does_not_change_under_its_run
    a_limit_of_files_holds_on_two_hosts
    eight_callers_count_without_losing_one
    a_name_is_taken_once
    wakes_of_many_children_reach_their_parent
    what_one_host_appends_the_other_hears_of
    texts_with_a_zero_are_stored
    ended_sessions_stay_inside
    a_foreign_lock_costs_an_answer_and_no_connection
}

fn request(host: &str, now: i64, most: usize) -> ClaimRequest {
    ClaimRequest {
        host: host.into(),
        at: at(now),
        lapsed_at: at(now),
        until: at(now + 10_000),
        most,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    }
}

fn held_by(run: &str, host: &str, epoch: u64) -> Claim {
    Claim { run: run.into(), host: host.into(), epoch, origin: ClaimOrigin::Free }
}

/// C-03: many claimers, each run once, and all of them.
async fn hosts_never_share_a_run(two: Two) -> anyhow::Result<()> {
    let runs =
        (0..200).map(|number| two.hosts[0].commit(Batch::of_run(new_run(&format!("r{number}")))));
    join_all(runs).await.into_iter().collect::<Result<(), _>>()?;
    let claimers = two.eight().map(|(caller, store)| async move {
        let mut taken = Vec::new();
        loop {
            let claimed: Claimed = store.claim(&request(&format!("h{caller}"), 1_000, 7)).await?;
            if claimed.claims.is_empty() && !claimed.has_more {
                return Ok::<_, StoreError>(taken);
            }
            taken.extend(claimed.claims);
        }
    });
    let taken = join_all(claimers).await.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let distinct: BTreeSet<_> = taken.iter().map(|claim| claim.run.clone()).collect();
    assert_eq!((taken.len(), distinct.len()), (200, 200));
    assert!(taken.iter().all(|claim| claim.epoch == 1 && claim.origin == ClaimOrigin::Free));
    Ok(())
}

/// The opposite of what a store promises that one process has to itself.
async fn a_new_process_voids_no_lease(two: Two) -> anyhow::Result<()> {
    two.hosts[0].commit(Batch::of_run(new_run("r1"))).await?;
    two.hosts[0].claim(&request("h1", 1_000, 1)).await?;
    let third = open_postgres(&two.address).await?;
    assert_eq!(third.claim(&request("h3", 10_999, 1)).await?.claims, []);
    assert_eq!(two.hosts[0].renew(&[held_by("r1", "h1", 1)], at(20_000)).await?, []);
    let taken = third.claim(&request("h3", 20_000, 1)).await?.claims;
    assert_eq!(taken, [Claim { origin: ClaimOrigin::Lost, ..held_by("r1", "h3", 2) }]);
    Ok(())
}

fn effect(claim: &Claim) -> EffectClaim {
    let attempt = Attempt { node: "n".into(), visit: 0, number: 0 };
    EffectClaim {
        key: EffectKey::new(&"acme".into(), &claim.run, &attempt, 0),
        request: RequestDigest::of("mail", &json!({})),
        claim: claim.clone(),
        at: at(2_000),
        repeat: true,
        outcome: None,
    }
}

/// C-02, on every call that carries a claim.
async fn nothing_that_a_past_epoch_writes_has_an_effect(two: Two) -> anyhow::Result<()> {
    let [first, second] = &two.hosts;
    first.commit(Batch::of_run(new_run("r1"))).await?;
    let past = first.claim(&request("h1", 1_000, 1)).await?.claims.remove(0);
    let present = second.claim(&request("h2", 11_000, 1)).await?.claims.remove(0);
    assert_eq!(second.begin_effect(&effect(&present)).await?, Begun::Fresh);
    let is_lost = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::LeaseLost { .. })), "{result:?}");
    };
    let fenced = Append {
        fence: Some(Fence { claim: past.clone(), then: Then::Release }),
        ..append("r1", 0)
    };
    is_lost(first.commit(Batch::of_append(fenced.clone())).await);
    let told = Append { interrupts: Some(Vec::new()), ..fenced };
    is_lost(first.commit(Batch::of_append(told)).await);
    let put = RecordChange::put(Kind::Prompt, Key::of(["p"]), acme(), &1)?;
    let batch = Batch { claims: vec![past.clone()], ..Batch::of_records([put]) };
    is_lost(first.commit(batch).await);
    is_lost(first.begin_effect(&effect(&past)).await.map(|_| ()));
    for outcome in [None, Some("1".to_owned())] {
        is_lost(first.settle_effect(&past, &effect(&past).key, outcome).await);
    }
    assert_eq!(first.renew(std::slice::from_ref(&past), at(99_000)).await?, ["r1".into()]);
    assert!(!first.release(&past, None, Some(at(0))).await?);

    assert!(second.get(Kind::Prompt, &Key::of(["p"])).await?.is_none());
    assert_eq!(second.find_effect(&effect(&past).key).await?, None);
    assert_eq!(second.tail(&"r1".into(), 0).await?, []);
    second.settle_effect(&present, &effect(&present).key, Some("2".to_owned())).await?;
    let fence = Some(Fence { claim: present, then: Then::Release });
    Ok(second.commit(Batch::of_append(Append { fence, ..append("r1", 0) })).await?)
}

async fn of_calls_claimed_on_two_hosts_one_is_fresh(two: Two) -> anyhow::Result<()> {
    two.hosts[0].commit(Batch::of_run(new_run("r1"))).await?;
    let claim = two.hosts[0].claim(&request("h1", 1_000, 1)).await?.claims.remove(0);
    let call = EffectClaim { repeat: false, ..effect(&claim) };
    let call = &call;
    let begun = two.eight().map(|(_, store)| async move { store.begin_effect(call).await });
    let begun = join_all(begun).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(begun.iter().filter(|begun| **begun == Begun::Fresh).count(), 1, "{begun:?}");
    Ok(())
}

/// C-13.
async fn one_key_makes_one_run_on_two_hosts(two: Two) -> anyhow::Result<()> {
    for round in 0..10_u8 {
        let created = two.eight().map(|(caller, store)| async move {
            let id = format!("r{round}-{caller}");
            let (key, request, expires_at) = ([round; 32], [2; 32], at(10_000));
            let outcome = Outcome { key, request, status: 201, body: id.clone(), expires_at };
            (
                id.clone(),
                store
                    .commit(Batch::of_run(NewRun { outcome: Some(outcome), ..new_run(&id) }))
                    .await,
            )
        });
        let created = join_all(created).await;
        let winners: Vec<&String> =
            created.iter().filter(|(_, done)| done.is_ok()).map(|(id, _)| id).collect();
        let [winner] = winners[..] else { anyhow::bail!("{created:?}") };
        for (id, done) in &created {
            match done {
                Ok(()) => {}
                Err(StoreError::AlreadyDone(known)) => assert_eq!(known.body, *winner),
                Err(error) => anyhow::bail!("{id}: {error}"),
            }
        }
    }
    let filter = Filter { limit: 100, ..Filter::default() };
    assert_eq!(two.hosts[1].list(&acme(), &filter).await?.len(), 10);
    Ok(())
}

async fn an_exclusive_scope_is_exclusive_on_two_hosts(two: Two) -> anyhow::Result<()> {
    let created = two.eight().map(|(caller, store)| async move {
        let mut run = NewRun { exclusive: true, ..new_run(&format!("r{caller}")) };
        run.birth.scope_id = Some("invoice".to_owned());
        store.commit(Batch::of_run(run)).await
    });
    let created = join_all(created).await;
    assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1);
    let is_busy =
        |created: &Result<(), StoreError>| matches!(created, Err(StoreError::ScopeBusy { .. }));
    assert_eq!(created.iter().filter(|created| is_busy(created)).count(), 7, "{created:?}");
    Ok(())
}

/// C-15: who reserves reads what was reserved before it; of those that then have nothing before them there is one.
async fn a_days_limit_is_passed_by_one_call_at_most(two: Two) -> anyhow::Result<()> {
    let account = BudgetAccount { tenant: "acme".into(), mode: KeyMode::Live, member: None };
    for caller in 0..8 {
        let lease = Some(Lease { host: "h1".into(), until: at(9_000) });
        two.hosts[0]
            .commit(Batch::of_run(NewRun { lease, ..new_run(&format!("r{caller}")) }))
            .await?;
    }
    let account = &account;
    let estimate = Spent { input_tokens: 1, ..Spent::default() };
    let asked = two.eight().map(|(caller, store)| async move {
        let (budgets, run) = (Budgets::new(store), format!("r{caller}"));
        let node = "n".into();
        budgets.reserve(account, &held_by(&run, "h1", 1), &node, 1, estimate).await?;
        let before = budgets.reserved_before(account, 1, &run.as_str().into(), &node).await?;
        Ok::<_, StoreError>(before.input_tokens)
    });
    let mut before = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    before.sort_unstable();
    assert_eq!(before, [0, 1, 2, 3, 4, 5, 6, 7], "each sees all that are before it");
    Ok(())
}

/// C-24: eight writers and two readers, who read while it is written.
async fn every_append_has_one_place_and_readers_miss_none(two: Two) -> anyhow::Result<()> {
    const EACH: u64 = 20;
    let writers = two.eight().map(|(caller, store)| async move {
        let run = format!("r{caller}");
        store.commit(Batch::of_run(new_run(&run))).await?;
        for expected in 0..EACH {
            let (expected, rows) = (expected * 2, vec![row("{}"), row("{}")]);
            let head = head(RunStatus::Running, expected + 2, None);
            store.commit(Batch::of_append(Append { rows, head, ..append(&run, expected) })).await?;
        }
        Ok::<_, StoreError>(())
    });
    let readers = two.hosts.iter().map(|store| async move {
        let (mut after, mut seen) = (LogPosition(0), Vec::new());
        while (seen.len() as u64) < 8 * EACH * 2 {
            let window = store.read_all(&Within::Everywhere, after, 7).await?;
            let shown = window.events.iter();
            seen.extend(shown.map(|it| (it.position, it.event.run.clone(), it.event.sequence)));
            after = window.until;
        }
        Ok::<_, StoreError>(seen)
    });
    let (written, read) = futures_util::future::join(join_all(writers), join_all(readers)).await;
    written.into_iter().collect::<Result<(), _>>()?;
    let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(read[0], read[1], "everybody reads one order");
    assert!(read[0].iter().map(|(position, ..)| position.0).eq(1..=8 * EACH * 2), "without a gap");
    for caller in 0..8 {
        let of = |run: &callboard_protocol::RunId| run.as_str() == format!("r{caller}");
        let own = read[0].iter().filter(|(_, run, _)| of(run)).map(|(.., sequence)| *sequence);
        assert!(own.eq(0..EACH * 2), "each log in its own order, once");
    }
    Ok(())
}

/// C-25.
async fn a_foreign_transaction_stalls_no_reader(two: Two) -> anyhow::Result<()> {
    two.hosts[0].commit(Batch::of_run(new_run("r1"))).await?;
    let (foreign, _connection) = server::connect(&two.address).await?;
    foreign
        .batch_execute("CREATE TABLE theirs (n int); BEGIN; INSERT INTO theirs VALUES (1)")
        .await?;
    two.hosts[0].commit(Batch::of_append(append("r1", 0))).await?;
    let window = two.hosts[1].read_all(&Within::Everywhere, LogPosition(0), 9).await?;
    assert_eq!(window.events.len(), 1);
    Ok(foreign.batch_execute("ROLLBACK").await?)
}

pub(crate) fn note(id: &str) -> MemoryRow {
    MemoryRow {
        id: id.into(),
        expected: 0,
        scope_id: String::new(),
        memory_ref: "notes".to_owned(),
        family: None,
        content: "said".to_owned(),
        tags: Vec::new(),
        at: at(2_000),
        expires_at: None,
        author: MemoryAuthor::default(),
        sources: Vec::new(),
        due: None,
        absorbs: Vec::new(),
    }
}

/// C-16: whatever was there at a position when it was read is there later, and nothing else is.
async fn a_view_of_memory_does_not_change_under_its_run(two: Two) -> anyhow::Result<()> {
    let view = async |store: &Arc<dyn Store>, as_of: u64| {
        let view = callboard_core::MemoryView { as_of, also: Vec::new() };
        let seen = Some(MemorySeen { view, ..MemorySeen::default() });
        let query = MemoryQuery { seen, ..MemoryQuery::new(Place::Anywhere, at(5_000), 500) };
        let found = store.recall(&acme(), &query).await?;
        Ok::<_, StoreError>(found.into_iter().map(|it| it.id).collect::<Vec<_>>())
    };
    let writers = two.eight().map(|(caller, store)| async move {
        for number in 0..10 {
            let mut batch = Batch::default();
            add_memory(&mut batch, &acme(), vec![note(&format!("m{caller}-{number}"))])?;
            store.commit(batch).await?;
        }
        Ok::<_, StoreError>(())
    });
    let watcher = async {
        let mut views = Vec::new();
        for _ in 0..30 {
            let as_of = two.hosts[1].memory_position(&acme().realm()).await?;
            views.push((as_of, view(&two.hosts[1], as_of).await?));
        }
        Ok::<_, StoreError>(views)
    };
    let (written, views) = futures_util::future::join(join_all(writers), watcher).await;
    written.into_iter().collect::<Result<(), _>>()?;
    assert_eq!(two.hosts[0].memory_position(&acme().realm()).await?, 80);
    for (as_of, seen) in views? {
        assert_eq!(seen.len() as u64, as_of, "all that stands before a position is there");
        assert_eq!(view(&two.hosts[0], as_of).await?, seen);
    }
    Ok(())
}

async fn a_limit_of_files_holds_on_two_hosts(two: Two) -> anyhow::Result<()> {
    let file = |path: String| FileRow {
        write: path.clone(),
        path,
        expected: 0,
        content: Some(String::new()),
        content_type: "text/plain".to_owned(),
        at: at(2_000),
    };
    let write = async |store: Arc<dyn Store>, rows: Vec<FileRow>| loop {
        let (files, owner, run) = (Files::new(Arc::clone(&store)), acme(), "r1".into());
        let Ok(records) = files.changes(&owner, &run, rows.clone()).await else { return false };
        match store.commit(Batch::of_records(records)).await {
            Ok(()) => return true,
            Err(StoreError::Moved { .. }) => {}
            Err(_) => return false,
        }
    };
    let room = MAX_FILES - 4;
    let first = (0..room).map(|number| file(format!("f{number}"))).collect();
    assert!(write(Arc::clone(&two.hosts[0]), first).await);
    let write = &write;
    let more = two.eight().map(|(caller, store)| write(store, vec![file(format!("more{caller}"))]));
    let written = join_all(more).await.into_iter().filter(|is_written| *is_written).count();
    assert_eq!(written, 4);
    Ok(())
}

/// C-34 for records: whoever was slower reads and decides again, and nothing is lost.
async fn eight_callers_count_without_losing_one(two: Two) -> anyhow::Result<()> {
    let key = || Key::of(["count"]);
    let callers = two.eight().map(|(_, store)| async move {
        for _ in 0..10 {
            loop {
                let found = store.get(Kind::Prompt, &key()).await?;
                let count: u64 = found.as_ref().map_or(Ok(0), callboard_engine::Record::read)?;
                let put = RecordChange::put(Kind::Prompt, key(), acme(), &(count + 1))?
                    .expecting(Expected::of(found.as_ref()));
                match store.commit(Batch::of_records([put])).await {
                    Err(StoreError::Moved { .. }) => {}
                    done => break done?,
                }
            }
        }
        Ok::<_, StoreError>(())
    });
    join_all(callers).await.into_iter().collect::<Result<(), _>>()?;
    let found = two.hosts[0].get(Kind::Prompt, &key()).await?.context("the count")?;
    assert_eq!((found.read::<u64>()?, found.version), (80, 80));
    Ok(())
}

/// What must not be there is kept out until the commit, also by who writes nothing under its name.
async fn a_name_is_taken_once(two: Two) -> anyhow::Result<()> {
    for round in 0..10 {
        let name = format!("n{round}");
        let name = name.as_str();
        let put = |key: Key| RecordChange::put(Kind::Prompt, key, acme(), &1);
        let taken = two.eight().map(|(caller, store)| async move {
            let own = put(Key::of([name, &caller.to_string()]))?;
            let change = match caller {
                0..4 => put(Key::of([name]))?.expecting(Expected::Absent),
                _ => RecordChange::check(Kind::Prompt, Key::of([name]), Expected::Absent),
            };
            let done = store.commit(Batch::of_records([change, own])).await;
            Ok::<_, StoreError>((caller, done))
        });
        let taken = join_all(taken).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let first: Vec<_> =
            taken.iter().filter(|(caller, done)| *caller < 4 && done.is_ok()).collect();
        assert_eq!(first.len(), 1, "{taken:?}");
        let is_moved =
            |done: &Result<(), StoreError>| matches!(done, Err(StoreError::Moved { .. }));
        assert!(taken.iter().all(|(_, done)| done.is_ok() || is_moved(done)), "{taken:?}");
    }
    Ok(())
}

/// A hundred children that end at once do not wait for one another, and their parent is due once.
async fn wakes_of_many_children_reach_their_parent(two: Two) -> anyhow::Result<()> {
    let parent = NewRun { head: head(RunStatus::Running, 0, None), ..new_run("parent") };
    two.hosts[0].commit(Batch::of_run(parent)).await?;
    let ends = (0..50).map(|number| {
        let store = Arc::clone(&two.hosts[number % 2]);
        async move {
            let run = format!("child{number}");
            let child = NewRun { head: head(RunStatus::Running, 0, None), ..new_run(&run) };
            store.commit(Batch::of_run(child)).await?;
            let end = Append {
                head: head(RunStatus::Completed, 1, None),
                wakes: Some("parent".into()),
                ..append(&run, 0)
            };
            store.commit(Batch::of_append(end)).await
        }
    });
    join_all(ends).await.into_iter().collect::<Result<(), _>>()?;
    let claimed = two.hosts[1].claim(&request("h2", 1_000, 9)).await?;
    assert_eq!(claimed.claims, [held_by("parent", "h2", 1)]);
    assert!(!two.hosts[1].release(&claimed.claims[0], Some(0), None).await?, "all were heard");
    assert_eq!(two.hosts[0].claim(&request("h1", 90_000, 9)).await?.claims, []);
    Ok(())
}

/// C-22 without hints: within a second and a half.
async fn what_one_host_appends_the_other_hears_of(two: Two) -> anyhow::Result<()> {
    let [first, second] = &two.hosts;
    first.commit(Batch::of_run(new_run("r1"))).await?;
    let run = "r1".into();
    let heard = tokio::time::timeout(Duration::from_secs(30), second.changed(&run, 0));
    let (heard, appended) =
        futures_util::future::join(heard, first.commit(Batch::of_append(append("r1", 0)))).await;
    appended?;
    heard.context("nobody told the other host")?;
    let page = second.read(&acme(), &run, 0, 9).await?.context("a run")?;
    assert_eq!((page.version, page.events.len()), (1, 1));
    Ok(())
}

/// C-20, C-21: whoever asks after a change was acknowledged learns that there was one, and of nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_what_hosts_keep_in_memory_is_seen_by_all() -> anyhow::Result<()> {
    let Some(address) = postgres_database().await? else { return Ok(()) };
    let [first, second] = &[open_postgres(&address).await?, open_postgres(&address).await?];
    let put = |kind, key: &str| {
        anyhow::Ok(Batch::of_records([RecordChange::put(kind, Key::of([key]), acme(), &key)?]))
    };
    let before = second.generations().await?;
    first.commit(put(Kind::ApiKey, "k1")?).await?;
    let after = second.generations().await?;
    assert!(after.keys > before.keys && after.packs == before.packs, "{before:?} {after:?}");
    first.commit(put(Kind::Prompt, "p1")?).await?;
    assert_eq!(second.generations().await?, after);
    first.commit(put(Kind::PackOffer, "o1")?).await?;
    assert!(second.generations().await?.packs > after.packs);
    // Many who ask at once get answers that are no older than their questions.
    let writers = (0..8).map(|number| async move {
        first.commit(put(Kind::ApiKey, &format!("w{number}"))?).await?;
        anyhow::Ok(second.generations().await?.keys)
    });
    let seen = join_all(writers).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    assert_eq!(seen.iter().max(), Some(&(after.keys + 8)));
    assert_eq!(second.generations().await?.keys, after.keys + 8);
    Ok(())
}

/// C-22: a host says what it did. The look that is behind hints never says which run was woken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_tell_each_other_what_they_did() -> anyhow::Result<()> {
    let Some(address) = postgres_database().await? else { return Ok(()) };
    let (first, second) = (open_postgres(&address).await?, open_postgres(&address).await?);
    first.commit(Batch::of_run(new_run("parent"))).await?;
    first.commit(Batch::of_run(new_run("child"))).await?;
    let mut version = 0;
    let told = async {
        loop {
            // Both have to be there before one listens to the other, so it is said until it is heard.
            let wakes = Some("parent".into());
            first.commit(Batch::of_append(Append { wakes, ..append("child", version) })).await?;
            version += 1;
            let heard = tokio::time::timeout(Duration::from_millis(100), second.heard()).await;
            if let Ok(heard) = heard
                && !heard.woken.is_empty()
            {
                return Ok::<_, StoreError>(heard);
            }
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(60), told).await??;
    assert!(heard.log_grew && heard.woken.contains(&"parent".into()), "{heard:?}");
    Ok(())
}

/// C-48: whatever holds U+0000 comes back as it was given.
async fn texts_with_a_zero_are_stored(two: Two) -> anyhow::Result<()> {
    let [first, second] = &two.hosts;
    let mut run = new_run("r\0one");
    run.birth.tags = vec!["t\0".to_owned(), "\u{1}".to_owned()];
    run.birth.owner.workspace = Some("w\0".into());
    run.birth.inputs.insert("a\0".to_owned(), json!("b\0"));
    let birth = run.birth.clone();
    first.commit(Batch::of_run(run)).await?;
    let rows = vec![row("{\"a\\u0000\":\"\\u0000\"}")];
    first.commit(Batch::of_append(Append { rows, ..append("r\0one", 0) })).await?;
    let opened = second.open(&"r\0one".into()).await?.context("a run")?;
    assert_eq!((opened.birth, opened.entries.len()), (birth, 1));
    let filter = Filter { tag: Some("t\0".to_owned()), limit: 9, ..Filter::default() };
    let listed = second.list(&acme(), &filter).await?;
    assert_eq!(listed.iter().map(|run| run.tags.clone()).collect::<Vec<_>>(), [["t\0", "\u{1}"]]);
    let place = Scope { workspace: Some("w\0".into()), ..acme() };
    let put =
        RecordChange::put(Kind::Prompt, Key::of(["a\0"]), place.clone(), &1)?.indexed("by", "v\0");
    let mut batch = Batch::of_records([put]);
    let content = "tea\0time".to_owned();
    let entry = MemoryRow { content, tags: vec!["\0".to_owned()], ..note("m\0") };
    add_memory(&mut batch, &place, vec![entry])?;
    first.commit(batch).await?;
    let query =
        callboard_engine::RecordQuery::all(Kind::Prompt, Within::Everywhere).with("by", "v\0");
    let found = second.scan(&query).await?;
    assert_eq!(
        found.iter().map(|it| (it.key.clone(), it.place.clone())).collect::<Vec<_>>(),
        [(Key::of(["a\0"]), place)]
    );
    let text = Some("time".to_owned());
    let query = MemoryQuery { text, ..MemoryQuery::new(Place::Anywhere, at(5_000), 9) };
    let found = second.recall(&acme(), &query).await?;
    assert_eq!(found.iter().map(|it| it.content.as_str()).collect::<Vec<_>>(), ["tea\0time"]);
    Ok(())
}

/// C-34: a host whose sessions were ended makes new ones.
async fn ended_sessions_stay_inside(two: Two) -> anyhow::Result<()> {
    two.hosts[0].commit(Batch::of_run(new_run("r1"))).await?;
    two.hosts[0].commit(Batch::of_append(append("r1", 0))).await?;
    server::end_connections(&two.address).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for store in &two.hosts {
        assert!(store.find(&acme(), &"r1".into()).await?.is_some());
    }
    two.hosts[0].commit(Batch::of_append(append("r1", 1))).await?;
    let put = RecordChange::put(Kind::Prompt, Key::of(["p"]), acme(), &1)?;
    Ok(two.hosts[1].commit(Batch::of_records([put])).await?)
}

/// C-37: somebody locks a table, callers are told, and all is as before when it is over.
async fn a_foreign_lock_costs_an_answer_and_no_connection(two: Two) -> anyhow::Result<()> {
    two.hosts[0].commit(Batch::of_run(new_run("r1"))).await?;
    let (foreign, _connection) = server::connect(&two.address).await?;
    foreign.batch_execute("BEGIN; LOCK TABLE runs; LOCK TABLE records").await?;
    let put = || RecordChange::put(Kind::Prompt, Key::of(["p"]), acme(), &1);
    let [first, second] = &two.hosts;
    let (scope, run) = (acme(), "r1".into());
    let (appended, put_first, found) = tokio::join!(
        first.commit(Batch::of_append(append("r1", 0))),
        first.commit(Batch::of_records([put()?])),
        second.find(&scope, &run),
    );
    for refused in [appended, put_first, found.map(|_| ())] {
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    foreign.batch_execute("ROLLBACK").await?;
    first.commit(Batch::of_append(append("r1", 0))).await?;
    first.commit(Batch::of_records([put()?])).await?;
    assert_eq!(second.tail(&"r1".into(), 0).await?.len(), 1, "what was given up was not written");
    Ok(())
}
