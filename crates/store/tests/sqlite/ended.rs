//! Runs that have ended are kept in memory once they were read: nobody may notice.

use callboard_engine::{Append, Batch, Scope, Store};
use callboard_protocol::{RunId, RunStatus, Timestamp};
use callboard_store::SqliteStore;

use super::given::{acme, append, head, new_run};

/// A folder with an ended run, opened anew: what was written before is known from reading alone.
async fn with_an_ended_run() -> anyhow::Result<(tempfile::TempDir, SqliteStore, RunId)> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    for id in ["ended", "newest"] {
        store.commit(Batch::of_run(new_run(id))).await?;
        let (head, snapshot) = (head(RunStatus::Completed, 1, None), Some("{}".to_owned()));
        store.commit(Batch::of_append(Append { head, snapshot, ..append(id, 0) })).await?;
    }
    store.shutdown().await;
    drop(store);
    let store = SqliteStore::open(folder.path())?;
    Ok((folder, store, "ended".into()))
}

#[tokio::test]
async fn a_run_that_was_read_is_still_nobody_elses() -> anyhow::Result<()> {
    let (_folder, store, run) = with_an_ended_run().await?;
    for _ in 0..2 {
        let found = store.find(&acme(), &run).await?.map(|found| (found.version, found.snapshot));
        assert_eq!(found, Some((1, Some("{}".to_owned()))));
        let stranger = Scope { tenant: "stranger".into(), ..acme() };
        assert!(store.find(&stranger, &run).await?.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn what_was_read_is_gone_when_the_run_is() -> anyhow::Result<()> {
    let (_folder, store, run) = with_an_ended_run().await?;
    assert!(store.find(&acme(), &run).await?.is_some());
    let later = Timestamp::from_millis(i64::MAX);
    assert_eq!(
        store.remove_ended(&callboard_engine::Removable::before(later), None, 10).await?,
        std::slice::from_ref(&run)
    );
    assert!(store.find(&acme(), &run).await?.is_none());
    Ok(())
}

/// The engine appends to no run that has ended; a store does not know that.
#[tokio::test]
async fn what_was_read_is_read_again_after_an_append() -> anyhow::Result<()> {
    let (_folder, store, run) = with_an_ended_run().await?;
    assert!(store.find(&acme(), &run).await?.is_some());
    let head = head(RunStatus::Completed, 2, None);
    store.commit(Batch::of_append(Append { head, ..append("ended", 1) })).await?;
    let found = store.find(&acme(), &run).await?.map(|found| (found.version, found.snapshot));
    assert_eq!(found, Some((2, None)));
    Ok(())
}
