//! Runs that have to do with one another: children that begin with an append, wakes, forks.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{Birth, Fork};
use callboard_engine::{Append, Batch, ClaimRequest, Fence, NewRun, Row, Store, StoreError, Then};
use callboard_protocol::{ForkMode, RunId, RunStatus};

use crate::Subject;
use crate::given::{acme, append, at, head, new_run, row};

async fn due(store: &dyn Store, now: i64) -> Result<Vec<String>, StoreError> {
    let request = ClaimRequest {
        host: "h".into(),
        at: at(now),
        lapsed_at: at(now),
        until: at(now + 10_000),
        most: 10,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    let claimed = store.claim(&request).await?;
    Ok(claimed.claims.iter().map(|claim| claim.run.to_string()).collect())
}

/// A run that rests with nothing due.
async fn resting(store: &dyn Store, id: &str) -> Result<(), StoreError> {
    store.commit(Batch::of_run(new_run(id))).await?;
    store.commit(Batch::of_append(append(id, 0))).await
}

pub(crate) async fn a_child_begins_with_the_append_that_tells_of_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    resting(store, "parent").await?;
    let children = vec![new_run("child"), new_run("other")];
    let stale = store
        .commit(Batch::of_append(Append { children: children.clone(), ..append("parent", 0) }))
        .await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert!(store.find(&acme(), &"child".into()).await?.is_none(), "both or neither");
    store.commit(Batch::of_append(Append { children, ..append("parent", 1) })).await?;
    let asked = ["other", "nobody", "child"].map(RunId::from);
    let pending = Some(RunStatus::Pending);
    let standing = store.statuses(&asked).await?;
    let statuses: Vec<_> = standing.iter().map(|run| run.map(|run| run.status)).collect();
    assert_eq!(statuses, [pending, None, pending]);
    let children = vec![new_run("third"), new_run("child")];
    let twice = store.commit(Batch::of_append(Append { children, ..append("parent", 2) })).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert!(store.find(&acme(), &"third".into()).await?.is_none(), "all or none");
    let parent = store.find(&acme(), &"parent".into()).await?;
    assert_eq!(parent.map(|found| found.version), Some(2), "nothing of it was written");
    Ok(())
}

pub(crate) async fn a_wake_makes_a_resting_run_due(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    resting(store, "parent").await?;
    resting(store, "child").await?;
    assert_eq!(due(store, 5_000).await?, [""; 0]);
    store
        .commit(Batch::of_append(Append { wakes: Some("parent".into()), ..append("child", 1) }))
        .await?;
    // Somebody else's append meanwhile must not put the run back to sleep.
    store.commit(Batch::of_append(append("parent", 1))).await?;
    assert_eq!(due(store, 5_000).await?, ["parent"]);
    Ok(())
}

pub(crate) async fn a_wake_during_a_claim_counts_when_the_run_is_given_back(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    resting(store, "child").await?;
    for gives_back_with_append in [true, false] {
        let id = format!("parent-{gives_back_with_append}");
        store.commit(Batch::of_run(new_run(&id))).await?;
        let request = ClaimRequest {
            host: "h".into(),
            at: at(2_000),
            lapsed_at: at(2_000),
            until: at(99_000),
            most: 1,
            share: usize::MAX,
            held: BTreeMap::new(),
            limits: Arc::default(),
        };
        let claim = store.claim(&request).await?.claims.remove(0);
        let version = store.find(&acme(), &"child".into()).await?.map_or(0, |f| f.version);
        let wakes = Some(id.as_str().into());
        store.commit(Batch::of_append(Append { wakes, ..append("child", version) })).await?;
        assert_eq!(due(store, 50_000).await?, [""; 0], "it is held");
        if gives_back_with_append {
            let fence = Some(Fence { claim, then: Then::Release });
            store.commit(Batch::of_append(Append { fence, ..append(&id, 0) })).await?;
        } else {
            store.release(&claim, None, None).await?;
        }
        assert_eq!(due(store, 50_000).await?, [id.as_str()]);
        let again = ClaimRequest {
            host: "h".into(),
            at: at(90_000),
            lapsed_at: at(90_000),
            until: at(99_000),
            most: 9,
            share: usize::MAX,
            held: BTreeMap::new(),
            limits: Arc::default(),
        };
        let claim = store.claim(&again).await?.claims.remove(0);
        store.release(&claim, None, None).await?;
        assert_eq!(due(store, 99_999).await?, [""; 0], "a wake counts once");
    }
    Ok(())
}

pub(crate) async fn an_ended_run_is_not_woken(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    resting(store, "parent").await?;
    resting(store, "child").await?;
    let end = head(RunStatus::Completed, 2, None);
    store.commit(Batch::of_append(Append { head: end, ..append("parent", 1) })).await?;
    store
        .commit(Batch::of_append(Append { wakes: Some("parent".into()), ..append("child", 1) }))
        .await?;
    assert_eq!(due(store, 50_000).await?, [""; 0]);
    Ok(())
}

pub(crate) fn fork(id: &str, source: &str, from: u64) -> NewRun {
    let new = new_run(id);
    let fork = Fork {
        source: source.into(),
        from,
        until: from + 1,
        mode: ForkMode::Branch,
        origin: source.into(),
        earlier: Vec::new(),
        refusal: None,
        prompts: Vec::new(),
        retry: None,
        evaluated: Default::default(),
    };
    let birth = Birth { fork: Some(fork), ..new.birth };
    NewRun { birth, head: head(RunStatus::Running, from, None), ..new }
}

fn said(text: &str, private: Option<&str>) -> Row {
    Row { private: private.map(str::to_owned), ..row(&format!("{{\"n\":\"{text}\"}}")) }
}

async fn read(store: &dyn Store, id: &str, from: u64, limit: usize) -> anyhow::Result<Vec<String>> {
    let page = store.read(&acme(), &id.into(), from, limit).await?;
    let events = page.map(|page| page.events).unwrap_or_default();
    assert!(events.iter().all(|event| event.run.as_str() == id), "a fork's events are its own");
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert!(sequences.is_sorted() && sequences.first().is_none_or(|first| *first == from));
    Ok(events.iter().map(|event| event.payload.replace(['{', '}', '"', 'n', ':'], "")).collect())
}

/// The log of a fork is its source's up to the fork, whatever both append later; also of a fork of a fork.
pub(crate) async fn a_fork_shares_its_sources_history(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("source"))).await?;
    let rows = vec![said("s0", Some("{\"n\":\"secret\"}")), said("s1", None), said("s2", None)];
    store.commit(Batch::of_append(Append { rows, ..append("source", 0) })).await?;
    store.commit(Batch::of_run(fork("fork", "source", 2))).await?;
    store
        .commit(Batch::of_append(Append {
            rows: vec![said("f2", None), said("f3", None)],
            ..append("fork", 2)
        }))
        .await?;
    store
        .commit(Batch::of_append(Append { rows: vec![said("s3", None)], ..append("source", 3) }))
        .await?;
    store.commit(Batch::of_run(fork("within", "fork", 1))).await?;
    store
        .commit(Batch::of_append(Append { rows: vec![said("w1", None)], ..append("within", 1) }))
        .await?;
    store.commit(Batch::of_run(fork("beyond", "fork", 3))).await?;
    store
        .commit(Batch::of_append(Append { rows: vec![said("b3", None)], ..append("beyond", 3) }))
        .await?;
    assert_eq!(read(store, "source", 0, 99).await?, ["s0", "s1", "s2", "s3"]);
    assert_eq!(read(store, "fork", 0, 99).await?, ["s0", "s1", "f2", "f3"]);
    assert_eq!(read(store, "fork", 1, 2).await?, ["s1", "f2"]);
    assert_eq!(read(store, "within", 0, 99).await?, ["s0", "w1"]);
    assert_eq!(read(store, "beyond", 0, 99).await?, ["s0", "s1", "f2", "b3"]);
    assert_eq!(read(store, "beyond", 2, 1).await?, ["f2"]);
    let opened = store.open(&"beyond".into()).await?.ok_or_else(|| anyhow::anyhow!("gone"))?;
    assert_eq!(opened.entries.len(), 4);
    assert_eq!(
        opened.entries[0].event.payload()["n"],
        "secret",
        "what is sealed opens for the fold"
    );
    assert_eq!(store.tail(&"beyond".into(), 3).await?.len(), 1);
    let orphan = store.commit(Batch::of_run(fork("orphan", "nowhere", 1))).await;
    assert!(orphan.is_err(), "a fork needs its source");
    Ok(())
}
