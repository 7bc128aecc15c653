//! What is said of a folder in which something went wrong: a second host, a log that was cut off, a row that cannot be read.

use std::fs;
use std::sync::Arc;

use callboard_engine::{Batch, Keys, Store as _, StoredKey};
use callboard_protocol::Timestamp;
use callboard_store::{OpenError, SqliteStore};
use rusqlite::Connection;

use crate::given::{acme, append, new_run};
use crate::open_error;

#[tokio::test]
async fn a_deleted_lock_lets_nobody_in() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let _first = SqliteStore::open(folder.path())?;
    fs::remove_file(folder.path().join("callboard.lock"))?;
    let error = open_error(folder.path())?;
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    Ok(())
}

/// The files as a crash would leave them, with the write-ahead log as long as it is told to be.
fn copy(from: &std::path::Path, log: u64) -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for name in ["callboard.db", "callboard.db-wal", "callboard.mark", "host.key"] {
        fs::copy(from.join(name), folder.path().join(name))?;
    }
    let file = fs::OpenOptions::new().write(true).open(folder.path().join("callboard.db-wal"))?;
    file.set_len(log)?;
    Ok(folder)
}

#[tokio::test]
async fn a_log_that_was_cut_off_is_said_and_kept_in_mind() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    let log = folder.path().join("callboard.db-wal");
    let early = fs::metadata(&log)?.len();
    store.commit(Batch::of_run(new_run("r2"))).await?;
    store.commit(Batch::of_append(append("r2", 0))).await?;
    let whole = fs::metadata(&log)?.len();

    let kept = copy(folder.path(), whole)?;
    assert!(SqliteStore::open(kept.path())?.find(&acme(), &"r2".into()).await?.is_some());
    assert!(!kept.path().join("callboard.lost").exists());

    let cut = copy(folder.path(), early)?;
    let survivor = SqliteStore::open(cut.path())?;
    assert!(survivor.find(&acme(), &"r2".into()).await?.is_none(), "nothing was lost");
    let note = fs::read_to_string(cut.path().join("callboard.lost"))?;
    assert!(note.starts_with("events ") && note.contains(" are missing"), "{note}");
    drop(survivor);
    // Said until somebody has read it, and not again afterwards.
    drop(SqliteStore::open(cut.path())?);
    assert!(cut.path().join("callboard.lost").exists());
    fs::remove_file(cut.path().join("callboard.lost"))?;
    drop(SqliteStore::open(cut.path())?);
    assert!(!cut.path().join("callboard.lost").exists());
    Ok(())
}

fn key(id: &str, byte: u8) -> StoredKey {
    StoredKey {
        id: id.into(),
        name: id.to_owned(),
        tenant: "acme".into(),
        workspace: None,
        scopes: None,
        test: false,
        digest: [byte; 32],
        created_at: Timestamp::default(),
        expires_at: None,
        revoked_at: None,
        made_by: None,
        votes_as: None,
        roles: Default::default(),
        issuer: None,
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_left_out_and_the_others_stay() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let keys = Keys::new(store.clone());
    for (id, byte) in [("good", 1), ("short", 2), ("moved", 3)] {
        keys.put_key(key(id, byte)).await?;
    }
    store.shutdown().await;
    drop((keys, store));
    let db = Connection::open(folder.path().join("callboard.db"))?;
    db.execute("UPDATE records SET body = x'00' WHERE key = 'short'", [])?;
    db.execute("UPDATE records SET body = (SELECT body FROM records WHERE key = 'good') WHERE key = 'moved'", [])?;
    drop(db);
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let keys = Keys::new(store).all_keys().await?;
    assert_eq!(keys.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["good"]);
    Ok(())
}
