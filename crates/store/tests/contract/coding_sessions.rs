//! Session files of coding agents: kept while their run lasts, for whom it belongs to, by whoever holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_engine::{
    Append, Batch, Claim, ClaimOrigin, ClaimRequest, CodingSessions, Lease, NewRun, Store,
};
use callboard_protocol::{RunStatus, Tenant};

use crate::Subject;
use crate::given::{append, at, head, new_run};

/// A run that its creator holds.
async fn held_run(store: &dyn Store) -> anyhow::Result<Claim> {
    let lease = Some(Lease { host: "h1".into(), until: at(60_000) });
    store.commit(Batch::of_run(NewRun { lease, ..new_run("r1") })).await?;
    let (run, host) = ("r1".into(), "h1".into());
    Ok(Claim { run, host, epoch: Claim::FIRST_EPOCH, origin: ClaimOrigin::Free })
}

async fn kept(
    sessions: &CodingSessions,
    tenant: &str,
    home: &str,
) -> anyhow::Result<Option<String>> {
    Ok(sessions.kept_session(&tenant.into(), &"r1".into(), home).await?)
}

pub(crate) async fn a_session_is_kept_until_its_run_is_over(
    subject: Subject,
) -> anyhow::Result<()> {
    let (acme, globex): (Tenant, Tenant) = ("acme".into(), "globex".into());
    let (store, sessions) = (subject.store()?, CodingSessions::new(subject.store()?));
    let claim = held_run(&*store).await?;
    for (tenant, files) in [(&acme, "first"), (&acme, "second"), (&globex, "theirs")] {
        sessions.keep_session(tenant, &claim, "home-1", files.to_owned()).await?;
    }
    let nobody = Claim { run: "nobody".into(), ..claim.clone() };
    sessions.keep_session(&acme, &nobody, "home-1", "x".to_owned()).await?;
    assert_eq!(kept(&sessions, "acme", "home-1").await?.as_deref(), Some("second"));
    assert_eq!(kept(&sessions, "acme", "home-2").await?, None);
    assert_eq!(kept(&sessions, "globex", "home-1").await?, None);
    assert_eq!(sessions.forget_sessions().await?, 0, "the run goes on");
    let end = Append { head: head(RunStatus::Completed, 1, None), ..append("r1", 0) };
    store.commit(Batch::of_append(end)).await?;
    assert_eq!(sessions.forget_sessions().await?, 1);
    assert_eq!(kept(&sessions, "acme", "home-1").await?, None);
    sessions.keep_session(&acme, &claim, "home-1", "late".to_owned()).await?;
    let late = kept(&sessions, "acme", "home-1").await?;
    assert_eq!(late, None, "a run that is over keeps nothing");
    Ok(())
}

pub(crate) async fn a_session_of_a_past_holder_is_not_kept(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let acme: Tenant = "acme".into();
    let (store, sessions) = (subject.store()?, CodingSessions::new(subject.store()?));
    let past = held_run(&*store).await?;
    sessions.keep_session(&acme, &past, "home-1", "first".to_owned()).await?;
    drop((store, sessions));
    subject.restart().await?;
    let (store, sessions) = (subject.store()?, CodingSessions::new(subject.store()?));
    let (at, until) = (at(70_000), at(90_000));
    let request = ClaimRequest {
        host: "h2".into(),
        at,
        lapsed_at: at,
        until,
        most: 1,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    let present = store.claim(&request).await?.claims.remove(0);
    sessions.keep_session(&acme, &present, "home-1", "second".to_owned()).await?;
    sessions.keep_session(&acme, &past, "home-1", "overslept".to_owned()).await?;
    assert_eq!(kept(&sessions, "acme", "home-1").await?.as_deref(), Some("second"));
    Ok(())
}
