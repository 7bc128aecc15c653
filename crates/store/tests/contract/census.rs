//! What operators watch of a database, counted alike by both.

use callboard_engine::{Batch, Census, Kind, Lease, NewRun, WaitReason, Waiting};
use callboard_protocol::RunStatus;

use crate::Subject;
use crate::given::{append, at, head, new_run};

pub(crate) async fn waiting_runs_are_counted_by_reason(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    let pending =
        |id: &str| NewRun { head: head(RunStatus::Pending, 0, Some(1_000)), ..new_run(id) };
    for id in ["due1", "due2", "later", "child", "ended", "paused"] {
        store.commit(Batch::of_run(pending(id))).await?;
    }
    let lease = Some(Lease { host: "h1".into(), until: at(9_000) });
    store.commit(Batch::of_run(NewRun { lease, ..pending("held") })).await?;
    for (id, status, wake_at) in [
        ("later", RunStatus::Running, Some(60_000)),
        ("child", RunStatus::Running, None),
        ("ended", RunStatus::Completed, None),
        ("paused", RunStatus::Paused, None),
    ] {
        let mut moved = append(id, 0);
        moved.head = head(status, 1, wake_at);
        store.commit(Batch::of_append(moved)).await?;
    }
    let census = counted(&subject, 5_000).await?;
    for (reason, runs) in [
        (WaitReason::NoFreePlace, 2),
        (WaitReason::Timer, 1),
        (WaitReason::Child, 1),
        (WaitReason::Paused, 1),
        (WaitReason::Question, 0),
    ] {
        assert_eq!(census.waiting(reason, &Waiting::default()).0, runs, "{reason:?}: {census:?}");
    }
    assert_eq!(
        census.waiting(WaitReason::Timer, &Waiting::default()).1,
        Some(at(2_000)),
        "since it moved last"
    );
    assert_eq!((census.held(), census.records_of(Kind::WebhookDelivery)), (1, 0));
    assert!(census.bytes > 0 && census.questions.is_empty(), "{census:?}");
    // The holder of the last one is gone.
    let census = counted(&subject, 9_001).await?;
    assert_eq!(
        (census.held(), census.waiting(WaitReason::NoFreePlace, &Waiting::default()).0),
        (0, 3),
        "{census:?}"
    );
    Ok(())
}

async fn counted(subject: &Subject, now: i64) -> anyhow::Result<Census> {
    let gone = || anyhow::anyhow!("the store is closed");
    Ok(match subject {
        Subject::InMemory(_) => anyhow::bail!("simulations are not watched"),
        Subject::Sqlite { store, .. } => {
            store.as_ref().ok_or_else(gone)?.census(at(now), at(now)).await?
        }
        Subject::Postgres { store, .. } => {
            store.as_ref().ok_or_else(gone)?.census(at(now), at(now)).await?
        }
    })
}
