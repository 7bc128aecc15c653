//! Records: versions compared and kept together with whatever else a batch holds.

use std::collections::BTreeMap;

use std::sync::Arc;

use callboard_engine::{
    Batch, Claim, ClaimRequest, CounterChange, CounterQuery, Expected, Key, Kind, Record,
    RecordChange, RecordQuery, Scope, StoreError, Within,
};
use serde_json::json;

use crate::Subject;
use crate::given::{acme, append, at, new_run};

const KIND: Kind = Kind::Prompt;

fn key(name: &str) -> Key {
    Key::of([name])
}

fn put(name: &str, place: Scope, body: &str) -> anyhow::Result<RecordChange> {
    Ok(RecordChange::put(KIND, key(name), place, &json!({ "text": body }))?)
}

fn keys(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.key.as_str()).collect()
}

pub(crate) async fn a_record_moves_one_version_at_a_time(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    store.commit(Batch::of_records([put("a", acme(), "one")?.expecting(Expected::Absent)])).await?;
    let again = Batch::of_records([put("a", acme(), "two")?.expecting(Expected::Absent)]);
    let again = store.commit(again).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    let second = put("a", acme(), "two")?.expecting(Expected::Version(1)).due(Some(at(9)));
    store.commit(Batch::of_records([second])).await?;
    drop(store);
    subject.restart().await?;
    let store = subject.store()?;
    let record = store.get(KIND, &key("a")).await?.ok_or_else(|| anyhow::anyhow!("not kept"))?;
    assert_eq!((record.version, record.due_at), (2, Some(at(9))));
    assert_eq!(record.read::<serde_json::Value>()?, json!({ "text": "two" }));
    store.commit(Batch::of_records([RecordChange::delete(KIND, key("a"))])).await?;
    assert_eq!(store.get(KIND, &key("a")).await?, None);
    store.commit(Batch::of_records([put("a", acme(), "three")?])).await?;
    let anew = store.get(KIND, &key("a")).await?.ok_or_else(|| anyhow::anyhow!("not kept"))?;
    assert_eq!(anew.version, 1);
    assert!(anew.position > record.position, "no position is given twice");
    Ok(())
}

pub(crate) async fn an_expectation_that_does_not_hold_leaves_everything_as_it_was(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    store.commit(Batch::of_records([put("a", acme(), "one")?])).await?;
    let unmet = [
        RecordChange::check(KIND, key("a"), Expected::Absent),
        RecordChange::check(KIND, key("a"), Expected::Version(2)),
        RecordChange::check(KIND, key("none"), Expected::Present),
        RecordChange::delete(KIND, key("none")).expecting(Expected::Version(1)),
    ];
    for unmet in unmet {
        let batch = Batch::of_records([put("a", acme(), "two")?, put("b", acme(), "b")?, unmet]);
        let refused = store.commit(batch).await;
        assert!(matches!(refused, Err(StoreError::Moved { .. })), "{refused:?}");
        assert_eq!(store.get(KIND, &key("a")).await?.map(|record| record.version), Some(1));
        assert_eq!(store.get(KIND, &key("b")).await?, None);
    }
    let met = RecordChange::check(KIND, key("a"), Expected::Version(1));
    store.commit(Batch::of_records([met, put("b", acme(), "b")?])).await?;
    assert_eq!(store.get(KIND, &key("a")).await?.map(|record| record.version), Some(1));
    Ok(())
}

pub(crate) async fn records_are_found_where_they_are_and_by_their_values(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let ops = Scope { workspace: Some("ops".into()), ..acme() };
    let globex = Scope { tenant: "globex".into(), ..acme() };
    store
        .commit(Batch::of_records([
            put("c", acme(), "c")?.indexed("colour", "red").indexed("size", "big"),
            put("a", ops.clone(), "a")?.indexed("colour", "red"),
            put("b", acme(), "b")?.indexed("colour", "blue"),
            put("d", globex, "d")?.indexed("colour", "red"),
        ]))
        .await?;
    let found = async |query: RecordQuery| store.scan(&query).await;
    let all = |within| RecordQuery::all(KIND, within);
    assert_eq!(keys(&found(all(Within::Everywhere)).await?), ["a", "b", "c", "d"]);
    assert_eq!(keys(&found(all(Within::VisibleTo(acme()))).await?), ["a", "b", "c"]);
    assert_eq!(keys(&found(all(Within::VisibleTo(ops.clone()))).await?), ["a"]);
    assert_eq!(keys(&found(all(Within::Place(acme()))).await?), ["b", "c"]);
    assert_eq!(keys(&found(all(Within::Realm(ops.realm()))).await?), ["a", "b", "c"]);
    let red = || all(Within::Realm(acme().realm())).with("colour", "red");
    assert_eq!(keys(&found(red()).await?), ["a", "c"]);
    assert_eq!(keys(&found(red().descending().limit(1)).await?), ["c"]);
    assert_eq!(keys(&found(red().after(Some(key("a")))).await?), ["c"]);
    assert_eq!(keys(&found(red().descending().after(Some(key("c")))).await?), ["a"]);
    store.commit(Batch::of_records([put("c", acme(), "c")?.indexed("colour", "blue")])).await?;
    assert_eq!(keys(&found(red()).await?), ["a"]);
    let big = all(Within::Everywhere).with("size", "big");
    assert!(found(big).await?.is_empty(), "a record is found by what it was written with last");
    Ok(())
}

pub(crate) async fn records_below_a_key_are_those_whose_keys_go_on(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let change = |parts: &[&str]| -> anyhow::Result<RecordChange> {
        let key = Key::of(parts.iter().copied());
        Ok(RecordChange::put(KIND, key, acme(), &json!({}))?.indexed("colour", "red"))
    };
    let all = [&["a", "1"][..], &["a", "2"], &["a"], &["a.b", "1"], &["a0"], &["b", "1"]];
    let all = all.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    store.commit(Batch::of_records(all)).await?;
    let below = || RecordQuery::all(KIND, Within::Everywhere).below(key("a"));
    for query in [below(), below().with("colour", "red")] {
        assert_eq!(keys(&store.scan(&query).await?), ["a/1", "a/2"]);
        assert_eq!(keys(&store.scan(&query.clone().descending().limit(1)).await?), ["a/2"]);
        assert_eq!(keys(&store.scan(&query.after(Some(Key::of(["a", "1"])))).await?), ["a/2"]);
    }
    Ok(())
}

pub(crate) async fn due_records_come_in_order_with_the_time_of_the_next(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    store
        .commit(Batch::of_records([
            put("late", acme(), "")?.due(Some(at(30))),
            put("first", acme(), "")?.due(Some(at(10))),
            put("never", acme(), "")?,
            put("second", acme(), "")?.due(Some(at(20))),
        ]))
        .await?;
    let due = store.due(KIND, at(20), 10).await?;
    assert_eq!((keys(&due.records), due.next), (vec!["first", "second"], Some(at(30))));
    let due = store.due(KIND, at(20), 1).await?;
    assert_eq!(keys(&due.records), ["first"]);
    assert_eq!(store.due(KIND, at(30), 10).await?.next, None);
    Ok(())
}

pub(crate) async fn a_batch_is_written_whole_or_not_at_all(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let batch = |expected| -> anyhow::Result<Batch> {
        Ok(Batch {
            births: vec![new_run("r2")],
            appends: vec![append("r1", expected)],
            records: vec![put("a", acme(), "one")?],
            counters: vec![CounterChange { key: key("c"), name: "n", add: 1.5 }],
            ..Batch::default()
        })
    };
    let refused = store.commit(batch(7)?).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    assert_eq!(store.get(KIND, &key("a")).await?, None);
    assert!(store.counters(&of("c")).await?.is_empty());
    store.commit(batch(0)?).await?;
    assert_eq!(store.counters(&of("c")).await?, [(key("c"), "n".to_owned(), 1.5)]);
    assert!(store.find(&acme(), &"r2".into()).await?.is_some());
    assert_eq!(store.find(&acme(), &"r1".into()).await?.map(|found| found.version), Some(1));
    assert!(store.get(KIND, &key("a")).await?.is_some());
    Ok(())
}

pub(crate) async fn a_blob_is_kept_with_its_record_and_goes_with_it(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (store, bytes) = (subject.store()?, std::sync::Arc::<[u8]>::from([0xff, 0, 7]));
    let first = put("a", acme(), "one")?.with_blob(bytes.clone());
    store.commit(Batch::of_records([first, put("b", acme(), "b")?])).await?;
    store.commit(Batch::of_records([put("a", acme(), "two")?])).await?;
    drop(store);
    subject.restart().await?;
    let store = subject.store()?;
    assert_eq!(store.blob(KIND, &key("a")).await?, Some(bytes), "a change without one leaves it");
    assert_eq!(store.blob(KIND, &key("b")).await?, None);
    let shorter = std::sync::Arc::<[u8]>::from([1]);
    let third = put("a", acme(), "three")?.with_blob(shorter.clone());
    store.commit(Batch::of_records([third])).await?;
    assert_eq!(store.blob(KIND, &key("a")).await?, Some(shorter));
    store.commit(Batch::of_records([RecordChange::delete(KIND, key("a"))])).await?;
    store.commit(Batch::of_records([put("a", acme(), "anew")?])).await?;
    assert_eq!(store.blob(KIND, &key("a")).await?, None);
    Ok(())
}

pub(crate) async fn a_batch_of_a_past_holder_writes_nothing(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let claim = async |host: &str, millis| {
        let request = ClaimRequest {
            host: host.into(),
            at: at(millis),
            lapsed_at: at(millis),
            until: at(millis + 1_000),
            most: 1,
            share: usize::MAX,
            held: BTreeMap::new(),
            limits: Arc::default(),
        };
        let claimed = store.claim(&request).await?;
        claimed.claims.into_iter().next().ok_or_else(|| anyhow::anyhow!("nothing is due"))
    };
    let write = async |claim: &Claim, text: &str| -> anyhow::Result<_> {
        let records = vec![put("a", acme(), text)?];
        let batch = Batch { claims: vec![claim.clone()], records, ..Batch::default() };
        Ok(store.commit(batch).await)
    };
    let first = claim("first", 10_000).await?;
    write(&first, "of the first").await??;
    let second = claim("second", 20_000).await?;
    let late = write(&first, "late").await?;
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{late:?}");
    assert_eq!(store.get(KIND, &key("a")).await?.map(|record| record.version), Some(1));
    let same_host = Claim { epoch: second.epoch, ..first };
    assert!(write(&same_host, "of nobody").await?.is_err());
    write(&second, "of the second").await??;
    assert_eq!(store.get(KIND, &key("a")).await?.map(|record| record.version), Some(2));
    Ok(())
}

/// The counters of one key.
fn of(name: &str) -> CounterQuery {
    CounterQuery::Of(key(name))
}

pub(crate) async fn counters_add_up_by_key_and_name(mut subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let add = |of: &str, name, add| CounterChange { key: key(of), name, add };
    let counters = vec![add("a", "y", 1.0), add("a", "x", 2.0), add("b", "x", 9.0)];
    store.commit(Batch { counters, ..Batch::default() }).await?;
    store.commit(Batch { counters: vec![add("a", "x", 0.25)], ..Batch::default() }).await?;
    drop(store);
    subject.restart().await?;
    let store = subject.store()?;
    let of_a = [(key("a"), "x".to_owned(), 2.25), (key("a"), "y".to_owned(), 1.0)];
    assert_eq!(store.counters(&of("a")).await?, of_a);
    assert!(store.counters(&of("nobody")).await?.is_empty());
    Ok(())
}
