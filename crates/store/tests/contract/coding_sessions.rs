//! Session files of coding agents: kept while their run lasts, for whom it belongs to.

use callboard_engine::Append;
use callboard_protocol::{RunStatus, Tenant};

use crate::given::{append, head, new_run};
use crate::{Ports, Subject};

async fn kept(store: &dyn Ports, tenant: &str, home: &str) -> anyhow::Result<Option<String>> {
    Ok(store.kept_session(&tenant.into(), &"r1".into(), home).await?)
}

pub(crate) async fn a_session_is_kept_until_its_run_is_over(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (acme, globex): (Tenant, Tenant) = ("acme".into(), "globex".into());
    let run = "r1".into();
    let store = subject.ports()?;
    store.create(new_run("r1")).await?;
    for (tenant, files) in [(&acme, "first"), (&acme, "second"), (&globex, "theirs")] {
        store.keep_session(tenant, &run, "home-1", files.to_owned()).await?;
    }
    store.keep_session(&acme, &"nobody".into(), "home-1", "x".to_owned()).await?;
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(kept(store, "acme", "home-1").await?.as_deref(), Some("second"));
    assert_eq!(kept(store, "acme", "home-2").await?, None);
    assert_eq!(kept(store, "globex", "home-1").await?, None);
    assert_eq!(store.forget_sessions().await?, 0, "the run goes on");
    let end = Append { head: head(RunStatus::Completed, 1, None), ..append("r1", 0) };
    store.append(end).await?;
    assert_eq!(store.forget_sessions().await?, 1);
    assert_eq!(kept(store, "acme", "home-1").await?, None);
    store.keep_session(&acme, &run, "home-1", "late".to_owned()).await?;
    assert_eq!(kept(store, "acme", "home-1").await?, None, "a run that is over keeps nothing");
    Ok(())
}
