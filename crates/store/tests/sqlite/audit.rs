//! Rows of the audit log that somebody has changed behind the host's back.

use std::sync::Arc;

use callboard_engine::{AuditFact, AuditLog, AuditVerification, Batch, SystemClock, audited};
use callboard_store::SqliteStore;
use rusqlite::Connection;

use crate::given::acme;

const ENTRY: &str = "kind = 'audit-entry' AND key LIKE '%000";

/// Ten and then a thousand entries, with one checkpoint; a hand in the file; and what is said of it then.
async fn tampered(sql: &[String]) -> anyhow::Result<AuditVerification> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let kept = audited(store.clone(), Arc::new(SystemClock));
    for many in [10, 1000] {
        let fact = |number: i32| AuditFact::new(acme(), "request.refused", number);
        let facts = (0..many).map(fact).collect();
        kept.commit(Batch { facts, ..Batch::default() }).await?;
    }
    store.shutdown().await;
    drop((kept, store));
    let db = Connection::open(folder.path().join("callboard.db"))?;
    db.execute_batch("DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_removed;")?;
    for statement in sql {
        assert_ne!(db.execute(statement, [])?, 0, "{statement} changed nothing");
    }
    drop(db);
    let store = Arc::new(SqliteStore::open(folder.path())?);
    Ok(AuditLog::new(store).verify(&acme().realm(), 0, 10_000).await?)
}

fn named(walked: &AuditVerification) -> Vec<u64> {
    walked.anomalies.iter().map(|it| it.at_seq).collect()
}

/// Gives the row of one sequence the body of another.
fn copied(to: u64, from: u64) -> String {
    format!(
        "UPDATE records SET body = (SELECT body FROM records WHERE {ENTRY}{from:04}') WHERE {ENTRY}{to:04}'"
    )
}

#[tokio::test]
async fn a_row_that_was_changed_dropped_or_moved_is_named() -> anyhow::Result<()> {
    let untouched = tampered(&[]).await?;
    assert!(untouched.chain_valid && untouched.checkpoints.len() == 1, "{untouched:?}");
    let changed =
        tampered(&[format!("UPDATE records SET body = x'00' WHERE {ENTRY}0007'")]).await?;
    assert_eq!((changed.chain_valid, named(&changed)), (false, vec![7]));
    let dropped = tampered(&[format!("DELETE FROM records WHERE {ENTRY}0500'")]).await?;
    assert_eq!((dropped.chain_valid, named(&dropped)), (false, vec![500]));
    let last = tampered(&[format!("DELETE FROM records WHERE {ENTRY}1010'")]).await?;
    assert_eq!((last.chain_valid, named(&last)), (false, vec![1010]));
    let moved = tampered(&[copied(3, 4)]).await?;
    assert_eq!((moved.chain_valid, named(&moved)), (false, vec![3]));
    Ok(())
}

#[tokio::test]
async fn neither_the_end_of_the_chain_nor_a_checkpoint_can_be_taken_away() -> anyhow::Result<()> {
    let delete = |kind: &str| vec![format!("DELETE FROM records WHERE kind = 'audit-{kind}'")];
    let headless = tampered(&delete("head")).await?;
    assert!(!headless.chain_valid && !headless.anomalies.is_empty(), "{headless:?}");
    let unsigned = tampered(&delete("checkpoint")).await?;
    assert!(!unsigned.chain_valid && !unsigned.checkpoints_valid, "{unsigned:?}");
    let spoiled = "UPDATE records SET body = x'00' WHERE kind = 'audit-checkpoint'".to_owned();
    let spoiled = tampered(&[spoiled]).await?;
    assert_eq!((spoiled.checkpoints_valid, named(&spoiled)), (false, vec![1000]));
    Ok(())
}
