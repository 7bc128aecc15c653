//! One run's log: created, appended to, read.

use callboard_core::{Cause, Delivered};
use callboard_engine::{Append, Batch, Row, StoreError};
use callboard_protocol::{Event, Object, RunStatus};
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::Subject;
use crate::given::{acme, append, head, new_run, row};

pub(crate) async fn a_new_run_is_found_with_its_head(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let found = store.find(&acme(), &"r1".into()).await?;
    let found = found.map(|found| (found.status, found.version, found.snapshot));
    assert_eq!(found, Some((RunStatus::Pending, 0, None)));
    let page = store.read(&acme(), &"r1".into(), 0, 10).await?;
    let page = page.map(|page| (page.status, page.version, page.events));
    assert_eq!(page, Some((RunStatus::Pending, 0, Vec::new())));
    let opened = store.open(&"r1".into()).await?;
    assert_eq!(opened.map(|opened| opened.birth), Some(new_run("r1").birth));
    Ok(())
}

pub(crate) async fn an_unknown_run_is_nowhere(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    assert!(store.find(&acme(), &"r1".into()).await?.is_none());
    assert!(store.read(&acme(), &"r1".into(), 0, 10).await?.is_none());
    assert!(store.open(&"r1".into()).await?.is_none());
    assert!(matches!(store.tail(&"r1".into(), 0).await, Err(StoreError::Unreadable { .. })));
    assert!(matches!(
        store.commit(Batch::of_append(append("r1", 0))).await,
        Err(StoreError::Unreadable { .. })
    ));
    Ok(())
}

pub(crate) async fn an_event_keeps_what_it_answers(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let causes = [None, Some(Cause::Event(0)), Some(Cause::Outside("delivery-7".to_owned()))];
    let rows = causes.clone().map(|cause| Row { cause, ..row("{}") }).to_vec();
    let head = head(RunStatus::Running, 3, None);
    store.commit(Batch::of_append(Append { rows, head, ..append("r1", 0) })).await?;
    let folded: Vec<_> =
        store.tail(&"r1".into(), 0).await?.into_iter().map(|entry| entry.cause).collect();
    assert_eq!(folded, causes);
    let page =
        store.read(&acme(), &"r1".into(), 0, 10).await?.ok_or_else(|| anyhow::anyhow!("no run"))?;
    let told = serde_json::to_value(&page.events)?;
    let ids: Vec<_> = (0..3).map(|place| told[place]["causationId"].clone()).collect();
    assert_eq!(ids, [json!(null), told[0]["eventId"].clone(), json!("delivery-7")]);
    Ok(())
}

pub(crate) async fn an_id_is_created_once(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    let again = store.commit(Batch::of_run(new_run("r1"))).await;
    assert!(
        matches!(&again, Err(StoreError::Conflict { run }) if run.as_str() == "r1"),
        "{again:?}"
    );
    assert_eq!(store.tail(&"r1".into(), 0).await?.len(), 1);
    Ok(())
}

pub(crate) async fn what_was_appended_is_read_in_order(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let mut first = append("r1", 0);
    first.rows = vec![row("0"), row("1")];
    first.head = head(RunStatus::Running, 2, Some(5_000));
    store.commit(Batch::of_append(first)).await?;
    store.commit(Batch::of_append(append("r1", 2))).await?;

    let page = store.read(&acme(), &"r1".into(), 1, 10).await?;
    let read: Vec<_> = page.iter().flat_map(|page| &page.events).collect();
    let places: Vec<_> =
        read.iter().map(|event| (event.sequence, event.payload.as_str())).collect();
    assert_eq!(places, [(1, "1"), (2, "{\"n\":1}")]);
    assert!(read.iter().all(|event| event.kind == "acme.noted" && event.node == Some("a".into())));
    assert_eq!(page.map(|page| (page.status, page.version)), Some((RunStatus::Running, 3)));

    let first_two = store.read(&acme(), &"r1".into(), 0, 2).await?;
    assert_eq!(first_two.map(|page| page.events.len()), Some(2));
    let beyond = store.read(&acme(), &"r1".into(), 3, 10).await?;
    assert_eq!(beyond.map(|page| page.events.len()), Some(0));
    let tail: Vec<u64> =
        store.tail(&"r1".into(), 2).await?.iter().map(|entry| entry.sequence).collect();
    assert_eq!(tail, [2]);
    Ok(())
}

pub(crate) async fn a_stale_version_conflicts_and_writes_nothing(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    for expected in [0, 2] {
        let mut stale = append("r1", expected);
        stale.snapshot = Some("{}".to_owned());
        let refused = store.commit(Batch::of_append(stale)).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{expected}: {refused:?}");
    }
    let found = store.find(&acme(), &"r1".into()).await?;
    assert_eq!(found.map(|found| (found.version, found.snapshot)), Some((1, None)));
    assert_eq!(store.tail(&"r1".into(), 0).await?.len(), 1);
    Ok(())
}

pub(crate) async fn only_one_of_many_appends_gets_a_version(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    for run in ["r1", "r2"] {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    let appends = (0..20).map(|number| {
        store.commit(Batch::of_append(append(if number % 2 == 0 { "r1" } else { "r2" }, 0)))
    });
    let results = join_all(appends).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2);
    assert!(
        results.iter().all(|result| matches!(result, Ok(()) | Err(StoreError::Conflict { .. })))
    );
    for run in ["r1", "r2"] {
        assert_eq!(store.tail(&run.into(), 0).await?.len(), 1, "{run}");
    }
    Ok(())
}

pub(crate) async fn a_forced_version_is_stamped_on_events_alone(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let mut run = new_run("r1");
    run.birth.forced_engine_version = Some(7);
    store.commit(Batch::of_run(run)).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    let page = store.read(&acme(), &"r1".into(), 0, 10).await?;
    let stamped: Vec<u32> =
        page.iter().flat_map(|page| &page.events).map(|event| event.engine_version).collect();
    assert_eq!(stamped, [7]);
    let found = store.find(&acme(), &"r1".into()).await?;
    assert_eq!(found.map(|found| found.engine_version), Some(1));
    Ok(())
}

pub(crate) async fn a_snapshot_is_shown_while_it_has_seen_everything(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    for (expected, snapshot, shown) in
        [(0, Some("one"), Some("one")), (1, None, None), (2, Some("two"), Some("two"))]
    {
        let mut next = append("r1", expected);
        next.snapshot = snapshot.map(str::to_owned);
        store.commit(Batch::of_append(next)).await?;
        let found = store.find(&acme(), &"r1".into()).await?;
        assert_eq!(found.and_then(|found| found.snapshot).as_deref(), shown, "after {expected}");
    }
    Ok(())
}

pub(crate) async fn the_fold_sees_true_values_and_readers_the_mask(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let inputs = Object::from_iter([("pin".to_owned(), json!("4711"))]);
    let mut run = new_run("r1");
    run.birth.inputs = inputs.clone();
    run.masked_inputs = Some(Object::from_iter([("pin".to_owned(), json!("***"))]));
    let event = Object::from_iter([("form".to_owned(), json!({ "fields": { "who": "Ada" } }))]);
    let delivery = Some(Delivered {
        subscription_id: "t1".to_owned(),
        dedup_key: "dk_1".to_owned(),
        attempt: 2,
        event,
        work_id: None,
    });
    run.birth.delivery = delivery.clone();
    store.commit(Batch::of_run(run)).await?;
    let mut next = append("r1", 0);
    next.rows = vec![row("{\"open\":1}"), row("{\"pin\":\"***\"}")];
    next.rows[1].private = Some("{\"pin\":\"4711\"}".to_owned());
    store.commit(Batch::of_append(next)).await?;

    let page = store.read(&acme(), &"r1".into(), 0, 10).await?;
    let shown: Vec<_> =
        page.iter().flat_map(|page| &page.events).map(|event| event.payload.as_str()).collect();
    assert_eq!(shown, ["{\"open\":1}", "{\"pin\":\"***\"}"]);
    let opened = store.open(&"r1".into()).await?;
    assert_eq!(opened.as_ref().map(|opened| &opened.birth.inputs), Some(&inputs));
    assert_eq!(opened.as_ref().map(|opened| &opened.birth.delivery), Some(&delivery));
    let folded: Vec<_> = opened
        .iter()
        .flat_map(|opened| &opened.entries)
        .map(|entry| entry.event.payload())
        .collect();
    assert_eq!(folded, [json!({ "open": 1 }), json!({ "pin": "4711" })]);
    let tail = store.tail(&"r1".into(), 1).await?;
    assert!(
        matches!(&tail[..], [entry] if matches!(&entry.event, Event::Other(other) if other.payload["pin"] == "4711"))
    );
    Ok(())
}

pub(crate) async fn a_definition_outlives_its_workflow(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let mut later = new_run("r2");
    later.birth.definition = "digest-of-another".to_owned();
    later.definition = "{\"id\":\"greet\",\"version\":2}".into();
    store.commit(Batch::of_run(later)).await?;
    store.commit(Batch::of_run(new_run("r3"))).await?;
    for (run, definition) in [
        ("r1", "{\"id\":\"greet\"}"),
        ("r2", "{\"id\":\"greet\",\"version\":2}"),
        ("r3", "{\"id\":\"greet\"}"),
    ] {
        let opened = store.open(&run.into()).await?;
        assert_eq!(opened.as_ref().map(|opened| &*opened.definition), Some(definition), "{run}");
    }
    Ok(())
}

pub(crate) async fn a_waiter_wakes_when_the_log_grows(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let run = "r1".into();
    let ((), appended) =
        join(store.changed(&run, 0), store.commit(Batch::of_append(append("r1", 0)))).await;
    appended?;
    // Whoever comes late is not left waiting for the next event.
    store.changed(&run, 0).await;
    let ((), appended) =
        join(store.changed(&run, 1), store.commit(Batch::of_append(append("r1", 1)))).await;
    appended?;
    Ok(())
}
