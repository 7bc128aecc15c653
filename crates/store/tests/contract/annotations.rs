//! What people say of runs: kept in order beside their run, visible where the run is.

use callboard_engine::{Annotated, Annotations, Batch, KeyMode, Scope};
use callboard_protocol::{Actor, Annotation, AnnotationTarget, Signal, SignalKind};

use crate::Subject;
use crate::given::{acme, at, new_run};

const MOST: usize = 10;

fn flag(run: &str, id: &str) -> Annotation {
    Annotation {
        annotation_id: id.to_owned(),
        target: AnnotationTarget {
            run_id: run.into(),
            event_id: None,
            node_id: Some("ask".into()),
        },
        signal: Signal { kind: SignalKind::Flag, rating: None, label: None, correction: None },
        actor: Actor { principal_ref: "key:one".into() },
        note: Some("look again".to_owned()),
        created_at: at(5),
    }
}

pub(crate) async fn annotations_are_kept_beside_their_run(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (runs, store) = (subject.port()?, Annotations::new(subject.store()?));
    runs.commit(Batch::of_run(new_run("r1"))).await?;
    runs.commit(Batch::of_run(new_run("r2"))).await?;
    assert_eq!(store.annotations(&acme(), &"r1".into()).await?, Some(Vec::new()));
    for id in ["b", "a"] {
        assert_eq!(store.annotate(&acme(), flag("r1", id), MOST).await?, Annotated::Kept);
    }
    drop(store);
    subject.restart().await?;
    let (runs, store) = (subject.port()?, Annotations::new(subject.store()?));
    let kept = store.annotations(&acme(), &"r1".into()).await?;
    assert_eq!(kept, Some(vec![flag("r1", "b"), flag("r1", "a")]));
    assert_eq!(store.annotations(&acme(), &"r2".into()).await?, Some(Vec::new()));
    // The log knows nothing of it.
    let page = runs.read(&acme(), &"r1".into(), 0, 10).await?;
    assert_eq!(page.map(|page| page.events.len()), Some(0));
    Ok(())
}

pub(crate) async fn annotations_stay_in_their_tenant_workspace_and_mode(
    subject: Subject,
) -> anyhow::Result<()> {
    let (runs, store) = (subject.port()?, Annotations::new(subject.store()?));
    runs.commit(Batch::of_run(new_run("r1"))).await?;
    store.annotate(&acme(), flag("r1", "a"), MOST).await?;
    for scope in [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { workspace: Some("sales".into()), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
    ] {
        assert_eq!(store.annotations(&scope, &"r1".into()).await?, None);
        let refused = store.annotate(&scope, flag("r1", "b"), MOST).await?;
        assert_eq!(refused, Annotated::UnknownRun);
    }
    assert_eq!(store.annotations(&acme(), &"r0".into()).await?, None);
    assert_eq!(store.annotations(&acme(), &"r1".into()).await?.map(|kept| kept.len()), Some(1));
    Ok(())
}

pub(crate) async fn a_run_takes_only_so_many_annotations(subject: Subject) -> anyhow::Result<()> {
    let (runs, store) = (subject.port()?, Annotations::new(subject.store()?));
    runs.commit(Batch::of_run(new_run("r1"))).await?;
    for (id, expected) in
        [("a", Annotated::Kept), ("b", Annotated::Kept), ("c", Annotated::TooMany)]
    {
        assert_eq!(store.annotate(&acme(), flag("r1", id), 2).await?, expected);
    }
    assert_eq!(store.annotations(&acme(), &"r1".into()).await?.map(|kept| kept.len()), Some(2));
    Ok(())
}
