//! Copies of a whole database with every kind of thing in it, there and back. C-45.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use callboard_engine::{
    Append, Batch, Claim, ClaimOrigin, CounterChange, Filter, InboxFilter, Key, KeyMode, Kind,
    Lease, LogPosition, MemoryQuery, MemoryRow, NewRun, Outcome, Place, RecordChange, RecordQuery,
    Row, Scope, Store, USAGE, Within, add_memory,
};
use callboard_protocol::RunStatus;
use callboard_store::{CopyEnd, CopyError, PostgresStore, SealKey, SqliteStore, copy};

use crate::effects::effect;
use crate::families::fork;
use crate::given::{acme, append, at, head, new_run, row};
use crate::inbox::{asking, question};
use crate::server;
use crate::shared::note;

fn blue() -> Scope {
    Scope { tenant: "blue\0".into(), workspace: Some("w".into()), mode: KeyMode::Test }
}

fn outcome() -> Outcome {
    let (key, request) = ([7; 32], [8; 32]);
    let body = "{\"done\":\"\\u0000\"}".to_owned();
    Outcome { key, request, status: 201, body, expires_at: at(90_000) }
}

/// Runs that ended, wait, ask, are held, were forked, have children and outward calls.
async fn fill_runs(store: &dyn Store) -> anyhow::Result<()> {
    let mut first = new_run("r1");
    first.birth.tags = vec!["a".to_owned(), "b\0".to_owned()];
    let pin = serde_json::from_value(
        serde_json::json!({ "agentId": "acme.writer", "version": "1.0.0" }),
    )?;
    first.birth.agents.insert("a".into(), pin);
    first.outcome = Some(outcome());
    store.commit(Batch::of_run(first)).await?;
    let usage =
        r#"{"provider":"p","model":"m","inputTokens":3,"outputTokens":4,"costEstimateUsd":0.5}"#;
    let rows = vec![
        row("{\"n\":\"\\u0000\"}"),
        Row { private: Some("{\"secret\":1}".to_owned()), ..row("{}") },
        Row { kind: USAGE.to_owned(), ..row(usage) },
    ];
    let mut child = new_run("r2");
    child.birth.parent = serde_json::from_value(serde_json::json!({
        "runId": "r1", "workflowId": "greet", "nodeId": "a", "depth": 1,
    }))?;
    let ends = Append {
        rows,
        head: head(RunStatus::Completed, 3, None),
        snapshot: Some("{\"status\":\"completed\"}".to_owned()),
        children: vec![child],
        ..append("r1", 0)
    };
    store.commit(Batch::of_append(ends)).await?;
    store.commit(Batch::of_append(asking("r2", 0, &[question("r2", "n", 5_000)]))).await?;
    store.commit(Batch::of_run(fork("r3", "r1", 2))).await?;
    store.commit(Batch::of_append(append("r3", 2))).await?;
    let lease = Some(Lease { host: "h1".into(), until: at(9_000) });
    store.commit(Batch::of_run(NewRun { lease, ..new_run("r4") })).await?;
    let run = "r4".into();
    let claim = Claim { run, host: "h1".into(), epoch: 1, origin: ClaimOrigin::Free };
    let call = effect(0, &claim);
    store.begin_effect(&call).await?;
    store.settle_effect(&claim, &call.key, Some("{\"sent\":1}".to_owned())).await?;
    store.begin_effect(&effect(1, &claim)).await?;
    Ok(())
}

/// One record of each kind, with all that a record may have; memory in versions; counters.
async fn fill_rest(store: &dyn Store) -> anyhow::Result<()> {
    for (number, kind) in (0..).zip(Kind::ALL) {
        let place = if number % 2 == 0 { acme() } else { blue() };
        let put = RecordChange::put(*kind, Key::of(["k", "\0"]), place, &kind.as_str())?
            .due((number % 3 == 0).then(|| at(number)))
            .indexed("by", format!("v{number}"))
            .retaining_run(&"r1".into())
            .with_blob(Arc::from(kind.as_str().as_bytes()));
        store.commit(Batch::of_records([put])).await?;
        let again = RecordChange::put(*kind, Key::of(["again"]), acme(), &number)?;
        store.commit(Batch::of_records([again.clone()])).await?;
        // The audit log is never changed.
        if !matches!(kind, Kind::AuditEntry | Kind::AuditCheckpoint) {
            store.commit(Batch::of_records([again])).await?;
        }
    }
    let gone = RecordChange::delete(Kind::Workflow, Key::of(["again"]));
    store.commit(Batch::of_records([gone])).await?;
    let tags = vec!["t".to_owned(), "\0".to_owned()];
    for (id, expected, content) in
        [("m1", 0, "tea time"), ("m1", 1, "tea\0time"), ("m2", 0, "gone")]
    {
        let entry =
            MemoryRow { expected, content: content.to_owned(), tags: tags.clone(), ..note(id) };
        let mut batch = Batch::default();
        add_memory(&mut batch, &acme(), vec![entry])?;
        batch.counters = vec![CounterChange { key: Key::of(["day"]), name: "cost", add: 0.1 }];
        store.commit(batch).await?;
    }
    Ok(())
}

/// Everything that readers find, as text to be compared.
async fn seen(store: &dyn Store) -> anyhow::Result<Vec<String>> {
    let mut seen = Vec::new();
    for kind in Kind::ALL {
        for record in store.scan(&RecordQuery::all(*kind, Within::Everywhere)).await? {
            let blob = store.blob(*kind, &record.key).await?;
            seen.push(format!("{record:?} {blob:?}"));
        }
    }
    let by = RecordQuery::all(Kind::Prompt, Within::Everywhere);
    seen.push(format!("{:?}", store.due(Kind::Annotation, at(99), 9).await?));
    seen.push(format!("{}", store.scan(&by).await?.len()));
    seen.push(format!("{:?}", store.read_all(&Within::Everywhere, LogPosition(0), 99).await?));
    let filter = Filter { limit: 99, ..Filter::default() };
    for listed in store.list(&acme(), &filter).await? {
        // When a run is due that somebody held: at once, which each start says in its own way.
        seen.push(format!("{:?} {:?} {:?}", listed.run_id, listed.tags, listed.metrics));
    }
    seen.push(format!(
        "{:?}",
        store.inbox(&acme(), &InboxFilter { limit: 9, ..InboxFilter::default() }).await?
    ));
    seen.push(format!("{:?}", store.outcome(&outcome().key, at(5_000)).await?));
    for run in ["r1", "r2", "r3", "r4"] {
        seen.push(format!("{:?}", store.open(&run.into()).await?.context(run)?));
        let found = store.find(&acme(), &run.into()).await?.context(run)?;
        seen.push(format!("{found:?}"));
    }
    let query = MemoryQuery {
        text: Some("tea".to_owned()),
        ..MemoryQuery::new(Place::Anywhere, at(5_000), 99)
    };
    seen.push(format!("{:?}", store.recall(&acme(), &query).await?));
    seen.push(format!("{:?}", store.memory_history(&acme(), &"m1".into()).await?));
    seen.push(format!("{}", store.memory_position(&acme().realm()).await?));
    let counted = store.counters(&callboard_engine::CounterQuery::Of(Key::of(["day"]))).await?;
    seen.push(format!("{counted:?}"));
    Ok(seen)
}

fn digits(folder: &Path) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(folder.join("host.key"))?.trim_end().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_everything_goes_there_and_back() -> anyhow::Result<()> {
    let Some(server) = server::server()? else { return Ok(()) };
    let address = server.database("template0").await?;
    let folders = tempfile::tempdir()?;
    let (folder, back) = (folders.path().join("from"), folders.path().join("back"));
    let store = SqliteStore::open(&folder)?;
    fill_runs(&store).await?;
    fill_rest(&store).await?;
    store.shutdown().await;
    drop(store);

    let (from, to) = (CopyEnd::Folder(folder.clone()), CopyEnd::Shared(address.clone()));
    let there = copy(&from, &to, None, |_, _| {}).await?;
    ensure!(there.iter().all(|table| table.rows > 0), "not everything is in it: {there:?}");
    let again = copy(&from, &to, None, |_, _| {}).await;
    ensure!(matches!(again, Err(CopyError::Refused { .. })), "{again:?}");
    let digits = digits(&folder)?;
    let wrong = copy(&to, &CopyEnd::Folder(back.clone()), Some(&"0".repeat(64)), |_, _| {}).await;
    ensure!(matches!(wrong, Err(CopyError::Refused { .. })), "{wrong:?}");
    let home = copy(&to, &CopyEnd::Folder(back.clone()), Some(&digits), |_, _| {}).await?;
    assert_eq!(home, there);

    let first = SqliteStore::open(&folder)?;
    let second = PostgresStore::connect(&address, SealKey::of_digits(&digits)).await?;
    let third = SqliteStore::open(&back)?;
    let expected = seen(&first).await?;
    for (place, (shared, folder)) in
        seen(&second).await?.iter().zip(seen(&third).await?).enumerate()
    {
        assert_eq!(*shared, expected[place], "in PostgreSQL");
        assert_eq!(folder, expected[place], "back in a folder");
    }
    // What is written next comes after all that was copied.
    for store in [&first as &dyn Store, &second, &third] {
        store.commit(Batch::of_run(new_run("r9"))).await?;
        store.commit(Batch::of_append(append("r9", 0))).await?;
        let put = RecordChange::put(Kind::Prompt, Key::of(["next"]), acme(), &1)?;
        store.commit(Batch::of_records([put])).await?;
    }
    let next = async |store: &dyn Store| {
        let record = store.get(Kind::Prompt, &Key::of(["next"])).await?.context("a record")?;
        anyhow::Ok((record.position, store.newest().await?))
    };
    let expected = next(&first).await?;
    assert_eq!(next(&second).await?, expected);
    assert_eq!(next(&third).await?, expected);
    Ok(())
}
