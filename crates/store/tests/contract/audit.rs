//! The audit log: one chain, written with what it tells of.

use std::sync::Arc;

use callboard_core::SecretText;
use callboard_engine::{
    AuditFact, AuditLog, AuditQuery, Batch, CHECKPOINT_ENTRIES, Expected, Key, KeyOrder, Kind,
    RecordChange, Secrets, Store, SystemClock, audited,
};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, at};

fn kept(subject: &Subject) -> anyhow::Result<(Arc<dyn Store>, AuditLog)> {
    let store = audited(subject.store()?, Arc::new(SystemClock));
    Ok((store.clone(), AuditLog::new(store)))
}

fn refused(subject: &str) -> AuditFact {
    AuditFact::new(acme(), "request.refused", subject)
}

pub(crate) async fn entries_follow_each_other_and_are_covered(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, log) = kept(&subject)?;
    // More than a checkpoint covers, and than a page holds, in few transactions.
    for _ in 0..6 {
        let facts = (0..200).map(|number| refused(&number.to_string())).collect();
        store.commit(Batch { facts, ..Batch::default() }).await?;
    }
    let walked = log.verify(&acme().realm(), 0, 5000).await?;
    assert!(walked.chain_valid && walked.anomalies.is_empty(), "{walked:?}");
    let covered: Vec<u64> = walked.checkpoints.iter().map(|it| it.at_sequence).collect();
    assert_eq!(covered, [CHECKPOINT_ENTRIES]);
    for (from, to, checkpoints) in [(1, 999, 0), (900, 1000, 1), (1001, 1200, 0), (5000, 6000, 0)] {
        let walked = log.verify(&acme().realm(), from, to).await?;
        assert!(walked.chain_valid, "{from} to {to}: {walked:?}");
        assert_eq!(walked.checkpoints.len(), checkpoints, "{from} to {to}");
    }
    assert_eq!(log.newest(&acme().realm()).await?, Some(1200));
    Ok(())
}

pub(crate) async fn many_writers_make_one_chain(subject: Subject) -> anyhow::Result<()> {
    let (store, log) = kept(&subject)?;
    let secrets = Secrets::new(store);
    let put = async |number: usize| {
        let value = SecretText::new("value".to_owned()).into();
        let name = format!("s{number}").into();
        secrets.put_secret(&acme(), &name, value, at(1)).await.map(drop)
    };
    for done in join_all((0..16).map(put)).await {
        done?;
    }
    let query = AuditQuery { order: KeyOrder::Ascending, after: None, limit: 100 };
    assert_eq!(log.entries(&acme(), &query).await?.len(), 16);
    assert!(log.verify(&acme().realm(), 0, 100).await?.chain_valid);
    Ok(())
}

/// And an entry that is there already is neither written again nor taken away.
pub(crate) async fn a_change_that_is_refused_leaves_no_entry(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, log) = kept(&subject)?;
    let key = Key::of(["acme", "live", "nowhere"]);
    let put = RecordChange::put(Kind::Secret, key, acme(), &"x")?.expecting(Expected::Present);
    assert!(store.commit(Batch::of_records([put])).await.is_err());
    assert_eq!(log.newest(&acme().realm()).await?, Some(0));
    log.note(refused("a")).await?;
    let entry = Key::of(["acme", "live", "00000000000000000001"]);
    if !matches!(subject, Subject::InMemory(_)) {
        let changed = RecordChange::put(Kind::AuditEntry, entry.clone(), acme(), &"x")?;
        assert!(store.commit(Batch::of_records([changed])).await.is_err());
        let gone = RecordChange::delete(Kind::AuditEntry, entry);
        assert!(store.commit(Batch::of_records([gone])).await.is_err());
    }
    assert!(log.verify(&acme().realm(), 0, 100).await?.chain_valid);
    Ok(())
}
