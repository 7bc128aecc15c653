//! Requests that must happen once: idempotent ones, and runs that must be alone in their scope.

use callboard_engine::{Append, Batch, Filter, NewRun, Outcome, Store, StoreError};
use callboard_protocol::RunStatus;
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, append, at, head, new_run};

/// An outcome under one key, good until 10,000.
fn outcome(body: &str) -> Outcome {
    Outcome {
        key: [1; 32],
        request: [2; 32],
        status: 201,
        body: body.to_owned(),
        expires_at: at(10_000),
    }
}

fn create_once(id: &str) -> NewRun {
    NewRun { outcome: Some(outcome(id)), ..new_run(id) }
}

async fn count_runs(store: &dyn Store) -> Result<usize, StoreError> {
    Ok(store.list(&acme(), &Filter { limit: 100, ..Filter::default() }).await?.len())
}

fn already_done<T>(result: &Result<T, StoreError>) -> Option<&Outcome> {
    match result {
        Err(StoreError::AlreadyDone(outcome)) => Some(outcome),
        _ => None,
    }
}

pub(crate) async fn a_repeated_create_gets_the_first_outcome(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(create_once("r1"))).await?;
    let again = store.commit(Batch::of_run(create_once("r2"))).await;
    assert_eq!(already_done(&again), Some(&outcome("r1")));
    assert_eq!(count_runs(store).await?, 1);
    assert_eq!(store.outcome(&[1; 32], at(9_999)).await?, Some(outcome("r1")));
    assert_eq!(store.outcome(&[1; 32], at(10_000)).await?, None);
    assert_eq!(store.outcome(&[9; 32], at(0)).await?, None);
    Ok(())
}

pub(crate) async fn parallel_creates_with_one_key_make_one_run(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let results = join_all(
        (0..10).map(|number| store.commit(Batch::of_run(create_once(&format!("r{number}"))))),
    )
    .await;
    let first = store.outcome(&[1; 32], at(1_000)).await?;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|result| already_done(result) == first.as_ref()).count(), 9);
    assert_eq!(count_runs(store).await?, 1);
    Ok(())
}

pub(crate) async fn a_repeated_append_changes_nothing(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store
        .commit(Batch::of_append(Append { outcome: Some(outcome("cancelled")), ..append("r1", 0) }))
        .await?;
    let again = store
        .commit(Batch::of_append(Append { outcome: Some(outcome("again")), ..append("r1", 1) }))
        .await;
    assert_eq!(already_done(&again), Some(&outcome("cancelled")));
    assert_eq!(store.tail(&"r1".into(), 0).await?.len(), 1);

    // A refused append leaves no outcome behind either.
    let refused = Outcome { key: [3; 32], ..outcome("refused") };
    let stale =
        store.commit(Batch::of_append(Append { outcome: Some(refused), ..append("r1", 0) })).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert_eq!(store.outcome(&[3; 32], at(0)).await?, None);
    Ok(())
}

pub(crate) async fn an_outcome_can_be_kept_alone(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_outcome(outcome("not found"), at(1_000))).await?;
    let again = store.commit(Batch::of_outcome(outcome("again"), at(9_999))).await;
    assert_eq!(already_done(&again), Some(&outcome("not found")));
    assert_eq!(
        already_done(&store.commit(Batch::of_run(create_once("r1"))).await),
        Some(&outcome("not found"))
    );
    assert_eq!(count_runs(store).await?, 0);
    Ok(())
}

pub(crate) async fn an_expired_outcome_is_replaced(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    store.commit(Batch::of_outcome(outcome("old"), at(1_000))).await?;
    let next = Outcome { expires_at: at(20_000), ..outcome("new") };
    store.commit(Batch::of_outcome(next.clone(), at(10_000))).await?;
    assert_eq!(store.outcome(&[1; 32], at(10_000)).await?, Some(next));
    let mut late = create_once("r1");
    late.birth.created_at = at(20_000);
    store.commit(Batch::of_run(late)).await?;
    assert_eq!(count_runs(store).await?, 1);
    Ok(())
}

pub(crate) async fn an_exclusive_scope_holds_one_active_run(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let scoped = |id: &str, scope: &str| {
        let mut run = NewRun { exclusive: true, ..new_run(id) };
        run.birth.scope_id = Some(scope.to_owned());
        run
    };
    store.commit(Batch::of_run(scoped("r1", "invoice"))).await?;
    let busy = store.commit(Batch::of_run(scoped("r2", "invoice"))).await;
    assert!(
        matches!(&busy, Err(StoreError::ScopeBusy { active }) if active.as_str() == "r1"),
        "{busy:?}"
    );

    // Another scope, tenant or mode is not in the way, nor is a run that did not ask to be alone.
    store.commit(Batch::of_run(scoped("other-scope", "order"))).await?;
    let mut other_tenant = scoped("other-tenant", "invoice");
    other_tenant.birth.owner.tenant = "globex".into();
    store.commit(Batch::of_run(other_tenant)).await?;
    let mut other_mode = scoped("other-mode", "invoice");
    other_mode.birth.test = true;
    store.commit(Batch::of_run(other_mode)).await?;
    store.commit(Batch::of_run(NewRun { exclusive: true, ..new_run("no-scope") })).await?;
    store.commit(Batch::of_run(NewRun { exclusive: true, ..new_run("no-scope-either") })).await?;

    store
        .commit(Batch::of_append(Append {
            head: head(RunStatus::Failed, 1, None),
            ..append("r1", 0)
        }))
        .await?;
    store.commit(Batch::of_run(scoped("r3", "invoice"))).await?;
    store.commit(Batch::of_run(NewRun { exclusive: false, ..scoped("r4", "invoice") })).await?;
    Ok(())
}
