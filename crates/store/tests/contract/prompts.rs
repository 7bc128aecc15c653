//! Prompt templates: versions that stay, one for each state, on the shelf of their owner.

use callboard_engine::{KeyMode, Prompts, Scope, StoreError};
use callboard_protocol::PromptTemplate;
use futures_util::future::join_all;
use serde_json::json;

use crate::Subject;

fn template(id: &str, version: &str) -> anyhow::Result<PromptTemplate> {
    let template = json!({ "templateId": id, "version": version, "kind": "system", "text": "Hi" });
    Ok(serde_json::from_value(template)?)
}

fn shelf(tenant: &str, workspace: Option<&str>) -> Scope {
    let workspace = workspace.map(Into::into);
    Scope { tenant: tenant.into(), workspace, mode: KeyMode::Live }
}

pub(crate) async fn every_version_of_a_prompt_stays(mut subject: Subject) -> anyhow::Result<()> {
    let (acme, store) = (shelf("acme", None), Prompts::new(subject.store()?));
    let (one, two, other) =
        (template("w", "1.0.0")?, template("w", "1.1.0")?, template("a", "1.0.0")?);
    store.put_prompt(&acme, one.clone(), 0).await?;
    store.put_prompt(&acme, two.clone(), 1).await?;
    store.put_prompt(&acme, other.clone(), 0).await?;
    drop(store);
    subject.restart().await?;
    let store = Prompts::new(subject.store()?);
    assert_eq!(store.prompt_versions(&acme, "w").await?, [one, two.clone()]);
    assert_eq!(store.newest_prompts(&acme).await?, [other, two]);
    assert!(store.remove_prompt(&acme, "w").await?);
    assert!(!store.remove_prompt(&acme, "w").await?);
    assert!(store.prompt_versions(&acme, "w").await?.is_empty());
    Ok(())
}

pub(crate) async fn of_prompts_put_at_once_one_is_kept(subject: Subject) -> anyhow::Result<()> {
    let (acme, store) = (shelf("acme", None), Prompts::new(subject.store()?));
    let same = template("w", "1.0.0")?;
    let tried = join_all((0..8).map(|_| store.put_prompt(&acme, same.clone(), 0))).await;
    assert_eq!(tried.iter().filter(|tried| tried.is_ok()).count(), 1);
    let late = store.put_prompt(&acme, same, 2).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    Ok(())
}

pub(crate) async fn a_prompt_is_its_shelfs_own(subject: Subject) -> anyhow::Result<()> {
    let store = Prompts::new(subject.store()?);
    let test = Scope { mode: KeyMode::Test, ..shelf("acme", Some("north")) };
    let shelves = [shelf("acme", None), shelf("acme", Some("north")), shelf("other", None), test];
    store.put_prompt(&shelves[1], template("w", "1.0.0")?, 0).await?;
    for (shelf, count) in shelves.iter().zip([0, 1, 0, 0]) {
        assert_eq!(store.prompt_versions(shelf, "w").await?.len(), count, "{shelf:?}");
        assert_eq!(store.newest_prompts(shelf).await?.len(), count, "{shelf:?}");
    }
    for other in [0, 2, 3] {
        assert!(!store.remove_prompt(&shelves[other], "w").await?, "{other}");
    }
    Ok(())
}
