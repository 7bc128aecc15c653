//! Files of workspaces: written with the log that tells of them or not at all, in versions that stay.

use std::sync::Arc;

use anyhow::Context as _;
use callboard_engine::{
    Batch, FileRecord, FileRow, Files, KeyMode, MAX_FILES, NewRun, Scope, Store, StoreError,
};
use callboard_protocol::FileVersion;

use crate::Subject;
use crate::given::{acme, append, at, new_run};

fn row(path: &str, expected: u64, content: &str) -> FileRow {
    FileRow {
        path: path.to_owned(),
        expected,
        content: Some(content.to_owned()),
        content_type: "text/markdown".to_owned(),
        at: at(2_000),
        write: format!("{path}@{expected}"),
    }
}

fn removal(path: &str, expected: u64) -> FileRow {
    FileRow { content: None, ..row(path, expected, "") }
}

/// Writes with the next append of a run.
async fn write(
    store: &Arc<dyn Store>,
    run: &str,
    expected: u64,
    files: Vec<FileRow>,
) -> Result<(), StoreError> {
    let opened = store.open(&run.into()).await?;
    let owner = opened.map_or_else(acme, |run| Scope::of(&run.birth));
    let records = Files::new(Arc::clone(store)).changes(&owner, &run.into(), files).await?;
    store.commit(Batch { records, ..Batch::of_append(append(run, expected)) }).await
}

async fn listed(
    store: &Arc<dyn Store>,
    owner: &Scope,
    prefix: &str,
) -> anyhow::Result<Vec<String>> {
    let files = Files::new(Arc::clone(store)).list_files(owner, prefix).await?;
    assert!(files.iter().all(|file| file.content.is_none() && !file.is_removed), "{files:?}");
    Ok(files.iter().map(|file| format!("{} {}", file.path, file.version)).collect())
}

async fn content(
    store: &Arc<dyn Store>,
    path: &str,
    version: Option<u64>,
) -> anyhow::Result<String> {
    let found = Files::new(Arc::clone(store)).find_file(&acme(), path, version).await?;
    Ok(match found {
        None => "nothing".to_owned(),
        Some(FileRecord { is_removed: true, .. }) => "removed".to_owned(),
        Some(file) => file.content.unwrap_or_default(),
    })
}

pub(crate) async fn what_a_run_writes_is_kept_with_its_log(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let handle = subject.store()?;
    let store = &handle;
    assert_eq!(listed(store, &acme(), "").await?, [""; 0]);
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let stale = write(store, "r1", 7, vec![row("a.md", 0, "lost")]).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert_eq!(listed(store, &acme(), "").await?, [""; 0]);
    let rows = vec![row("b/two.md", 0, "two"), row("a.md", 0, "one")];
    write(store, "r1", 0, rows).await?;
    write(store, "r1", 1, vec![row("a.md", 1, "one, again")]).await?;
    drop(handle);
    subject.restart().await?;
    let handle = subject.store()?;
    let store = &handle;
    assert_eq!(listed(store, &acme(), "").await?, ["a.md 2", "b/two.md 1"]);
    assert_eq!(listed(store, &acme(), "b/").await?, ["b/two.md 1"]);
    assert_eq!(listed(store, &acme(), "_").await?, [""; 0]);
    assert_eq!(content(store, "a.md", None).await?, "one, again");
    assert_eq!(content(store, "a.md", Some(1)).await?, "one");
    assert_eq!(content(store, "a.md", Some(3)).await?, "nothing");
    let found = Files::new(Arc::clone(store))
        .find_file(&acme(), "a.md", Some(2))
        .await?
        .context("a file")?;
    assert_eq!((found.content_type.as_str(), found.written_at), ("text/markdown", at(2_000)));
    Ok(())
}

pub(crate) async fn a_person_writes_together_with_a_run(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    Files::new(Arc::clone(store)).put_file(row("a.md", 0, "one"), new_run("r1")).await?;
    assert!(store.find(&acme(), &"r1".into()).await?.is_some());
    let late = Files::new(Arc::clone(store)).put_file(row("a.md", 0, "late"), new_run("r2")).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    // And a run that cannot be written takes the file with it.
    let twice = Files::new(Arc::clone(store)).put_file(row("a.md", 1, "two"), new_run("r1")).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert_eq!(content(store, "a.md", None).await?, "one");
    Ok(())
}

pub(crate) async fn a_file_that_has_moved_on_is_not_written(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![row("a.md", 0, "one")]).await?;
    for expected in [0, 2] {
        let moved = write(store, "r1", 1, vec![row("a.md", expected, "late")]).await;
        assert!(matches!(moved, Err(StoreError::Moved { .. })), "{moved:?}");
    }
    // The log has not grown either.
    write(store, "r1", 1, vec![row("a.md", 1, "two")]).await?;
    assert_eq!(content(store, "a.md", None).await?, "two");
    Ok(())
}

pub(crate) async fn a_removed_file_leaves_its_versions(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    Files::new(Arc::clone(store)).put_file(row("a.md", 0, "one"), new_run("r1")).await?;
    Files::new(Arc::clone(store)).put_file(removal("a.md", 1), new_run("r2")).await?;
    assert_eq!(listed(store, &acme(), "").await?, [""; 0]);
    assert_eq!(content(store, "a.md", None).await?, "removed");
    assert_eq!(content(store, "a.md", Some(1)).await?, "one");
    // Whoever writes it anew goes on counting.
    Files::new(Arc::clone(store)).put_file(row("a.md", 2, "three"), new_run("r3")).await?;
    assert_eq!(listed(store, &acme(), "").await?, ["a.md 3"]);
    Ok(())
}

fn owned(id: &str, tenant: &str, workspace: Option<&str>, test: bool) -> NewRun {
    let mut run = new_run(id);
    run.birth.owner.tenant = tenant.into();
    run.birth.owner.workspace = workspace.map(Into::into);
    run.birth.test = test;
    run
}

/// WCT-1: nobody sees more than their own, not even whoever belongs to no workspace.
pub(crate) async fn files_are_their_owners_alone(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    let owners = [
        ("acme", None, false),
        ("acme", Some("ops"), false),
        ("acme", Some("lab"), false),
        ("acme", None, true),
        ("rival", None, false),
    ];
    for (index, (tenant, workspace, test)) in owners.into_iter().enumerate() {
        let run = owned(&format!("r{index}"), tenant, workspace, test);
        Files::new(Arc::clone(store))
            .put_file(row("same.md", 0, &format!("of {index}")), run)
            .await?;
    }
    for (index, (tenant, workspace, test)) in owners.into_iter().enumerate() {
        let owner = Scope {
            tenant: tenant.into(),
            workspace: workspace.map(Into::into),
            mode: KeyMode::of(test),
        };
        assert_eq!(listed(store, &owner, "").await?, ["same.md 1"], "{owner:?}");
        let found = Files::new(Arc::clone(store))
            .find_file(&owner, "same.md", None)
            .await?
            .context("a file")?;
        assert_eq!(found.content.as_deref(), Some(format!("of {index}").as_str()), "{owner:?}");
    }
    Ok(())
}

pub(crate) async fn a_workspace_holds_so_many_files_and_no_more(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let files = (0..MAX_FILES).map(|index| row(&format!("f{index}"), 0, "")).collect();
    write(store, "r1", 0, files).await?;
    let more = write(store, "r1", 1, vec![row("more", 0, "")]).await;
    assert!(matches!(more, Err(StoreError::Moved { .. })), "{more:?}");
    // What is there can be changed, and what is removed makes room.
    write(store, "r1", 1, vec![row("f0", 1, "changed")]).await?;
    write(store, "r1", 2, vec![removal("f1", 1)]).await?;
    write(store, "r1", 3, vec![row("more", 0, "")]).await?;
    let back = write(store, "r1", 4, vec![row("f1", 2, "")]).await;
    assert!(matches!(back, Err(StoreError::Moved { .. })), "{back:?}");
    Ok(())
}

pub(crate) async fn a_write_is_found_by_its_run(subject: Subject) -> anyhow::Result<()> {
    let store = &subject.store()?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    write(store, "r1", 0, vec![row("a.md", 0, "one")]).await?;
    let found = Files::new(Arc::clone(store)).file_of_write(&"r1".into(), "a.md@0").await?;
    assert_eq!(found, Some(FileVersion { path: "a.md".into(), version: 1 }));
    for (run, name) in [("r1", "a.md@1"), ("r2", "a.md@0")] {
        assert_eq!(
            Files::new(Arc::clone(store)).file_of_write(&run.into(), name).await?,
            None,
            "{run} {name}"
        );
    }
    Ok(())
}
