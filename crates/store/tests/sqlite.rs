//! What the embedded store promises beyond the contract: about its folder, its file, its key and a full disk.

#[path = "sqlite/audit.rs"]
mod audit;
#[path = "sqlite/ended.rs"]
mod ended;
mod given;
#[path = "sqlite/losses.rs"]
mod losses;
#[path = "sqlite/short.rs"]
mod short;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use callboard_core::Delivered;
use callboard_engine::{
    Append, Batch, Care, Circuit, EventFilter, LogPosition, Secret, Store, StoreError, Webhook,
    Webhooks,
};
use callboard_protocol::{Object, RunStatus, Timestamp};
use callboard_store::{OpenError, SqliteStore};
use futures_util::future::join_all;
use rusqlite::Connection;
use serde_json::json;

use given::{acme, append, head, new_run, row};

/// Every file of a folder except the lock, which says nothing.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        files.insert(file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?);
    }
    files.remove("callboard.lock");
    Ok(files)
}

/// A folder whose store was used and closed.
async fn used_folder() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    store.shutdown().await;
    Ok(folder)
}

fn open_error(folder: &Path) -> anyhow::Result<OpenError> {
    match SqliteStore::open(folder) {
        Ok(store) => Err(anyhow::anyhow!("{store:?} opened")),
        Err(error) => Ok(error),
    }
}

fn mode(path: &Path) -> anyhow::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

#[tokio::test]
async fn a_folder_is_made_for_its_owner_alone() -> anyhow::Result<()> {
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("deep/data");
    let store = SqliteStore::open(&folder)?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    assert_eq!(mode(&folder)?, 0o700);
    for name in ["callboard.db", "callboard.db-wal", "callboard.mark", "callboard.lock", "host.key"]
    {
        assert_eq!(mode(&folder.join(name))?, 0o600, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_second_store_in_the_same_folder_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let first = SqliteStore::open(folder.path())?;
    let error = open_error(folder.path())?;
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    assert!(error.to_string().starts_with("another process is using the data folder "), "{error}");
    assert!(error.hint().contains("Stop the other process"));
    first.commit(Batch::of_run(new_run("r1"))).await?;
    drop(first);
    assert!(SqliteStore::open(folder.path())?.find(&acme(), &"r1".into()).await?.is_some());
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_used_is_named() -> anyhow::Result<()> {
    let parent = tempfile::tempdir()?;
    let file = parent.path().join("file");
    fs::write(&file, "not a folder")?;
    let error = open_error(&file.join("data"))?;
    assert!(matches!(error, OpenError::Folder { .. }), "{error:?}");
    assert!(error.to_string().contains("file/data cannot be used"), "{error}");
    Ok(())
}

#[tokio::test]
async fn everything_is_there_after_reopening() -> anyhow::Result<()> {
    let folder = used_folder().await?;
    assert!(!folder.path().join("callboard.db-wal").exists(), "a closed database is one file");
    let store = SqliteStore::open(folder.path())?;
    store.ping().await?;
    assert_eq!(store.check().await?, [""; 0]);
    assert_eq!(store.tail(&"r1".into(), 0).await?.len(), 1);
    store.commit(Batch::of_append(append("r1", 1))).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_killed_process() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    for number in 0..50 {
        let run = format!("r{number}");
        store.commit(Batch::of_run(new_run(&run))).await?;
        store.commit(Batch::of_append(append(&run, 0))).await?;
    }
    // What is on the disk right now is what a killed process would leave behind.
    let found = tempfile::tempdir()?;
    for (name, bytes) in files(folder.path())? {
        if name != "callboard.db-shm" {
            fs::write(found.path().join(name), bytes)?;
        }
    }
    let recovered = SqliteStore::open(found.path())?;
    for number in 0..50 {
        assert_eq!(recovered.tail(&format!("r{number}").into(), 0).await?.len(), 1, "r{number}");
    }
    Ok(())
}

#[tokio::test]
async fn a_closed_store_refuses_politely() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    store.shutdown().await;
    store.shutdown().await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(
        store.commit(Batch::of_run(new_run("r1"))).await,
        Err(StoreError::Unavailable(_))
    ));
    assert!(matches!(store.find(&acme(), &"r1".into()).await, Err(StoreError::Unavailable(_))));
    Ok(())
}

#[tokio::test]
async fn what_was_asked_for_before_the_end_is_done() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    let runs: Vec<String> = (0..100).map(|number| format!("r{number}")).collect();
    let created = join_all(runs.iter().map(|run| store.commit(Batch::of_run(new_run(run)))));
    let (created, ()) = futures_util::future::join(created, store.shutdown()).await;
    drop(store);
    let store = SqliteStore::open(folder.path())?;
    for (run, created) in runs.iter().zip(created) {
        assert_eq!(
            store.find(&acme(), &run.as_str().into()).await?.is_some(),
            created.is_ok(),
            "{run}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_alone() -> anyhow::Result<()> {
    let folder = used_folder().await?;
    let path = folder.path().join("callboard.db");
    let db = Connection::open(&path)?;
    db.execute("INSERT INTO refinery_schema_history SELECT 99, 'later', applied_on, '1' FROM refinery_schema_history LIMIT 1", [])?;
    drop(db);
    let before = files(folder.path())?;
    let error = open_error(folder.path())?;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    assert!(error.hint().contains("Start the newer version again"));
    assert_eq!(files(folder.path())?.get("callboard.db"), before.get("callboard.db"));
    Ok(())
}

#[tokio::test]
async fn a_damaged_database_is_reported_and_left_alone() -> anyhow::Result<()> {
    let whole = fs::read(used_folder().await?.path().join("callboard.db"))?;
    let mut torn_page = whole.clone();
    torn_page[4096..12 * 4096].fill(0xa5);
    let mut torn_header = whole.clone();
    torn_header[..16].fill(0);
    let damages = [
        ("other text", b"this was never a database, only some text".to_vec()),
        ("torn header", torn_header),
        ("cut short", whole[..3 * 4096].to_vec()),
        ("torn pages", torn_page),
    ];
    for (damage, bytes) in damages {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("callboard.db"), &bytes)?;
        let error = open_error(folder.path())?;
        assert!(matches!(error, OpenError::Damaged { .. }), "{damage}: {error:?}");
        assert!(error.hint().starts_with("Nothing was changed."), "{damage}");
        assert!(
            fs::read(folder.path().join("callboard.db"))? == bytes,
            "{damage}: the file was changed"
        );
        assert!(!folder.path().join("host.key").exists(), "{damage}: a key was made");
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_database_is_not_started_anew_over_its_log() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("callboard.db-wal"), "pages that were never moved")?;
    for make_empty in [false, true] {
        if make_empty {
            fs::write(folder.path().join("callboard.db"), "")?;
        }
        let error = open_error(folder.path())?;
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    }
    assert!(folder.path().join("callboard.db-wal").exists());
    Ok(())
}

#[tokio::test]
async fn a_lost_database_is_not_started_anew_beside_its_key() -> anyhow::Result<()> {
    let folder = used_folder().await?;
    let path = folder.path().join("callboard.db");
    for is_emptied in [true, false] {
        match is_emptied {
            true => fs::write(&path, "")?,
            false => fs::remove_file(&path)?,
        }
        let error = open_error(folder.path())?;
        assert!(error.to_string().ends_with("but its key is not"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_first_start_that_died_over_its_key_goes_on() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (key, aside) = (folder.path().join("host.key"), folder.path().join("host.key.new"));
    fs::write(&aside, "half a k")?;
    SqliteStore::open(folder.path())?.commit(Batch::of_run(new_run("r1"))).await?;
    // As it stands after the database is there and before the key is put into its place.
    fs::rename(&key, &aside)?;
    let store = SqliteStore::open(folder.path())?;
    assert!(store.open(&"r1".into()).await?.is_some());
    assert!(key.exists() && !aside.exists());
    Ok(())
}

#[tokio::test]
async fn a_first_start_that_died_is_begun_again() -> anyhow::Result<()> {
    let died = tempfile::tempdir()?;
    let db = Connection::open(died.path().join("callboard.db"))?;
    // Too little memory for the transaction makes SQLite write pages of it before its end.
    db.execute_batch("PRAGMA cache_size = 2; BEGIN; CREATE TABLE half (made BLOB)")?;
    for _ in 0..50 {
        db.execute("INSERT INTO half VALUES (randomblob(4000))", [])?;
    }
    let folder = tempfile::tempdir()?;
    for (name, bytes) in files(died.path())? {
        assert!(!bytes.is_empty(), "{name} must be there for this to mean anything");
        fs::write(folder.path().join(name), bytes)?;
    }
    assert!(folder.path().join("callboard.db-journal").exists());
    let store = SqliteStore::open(folder.path())?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    Ok(())
}

#[test]
fn a_database_of_something_else_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("callboard.db");
    Connection::open(&path)?.execute_batch("CREATE TABLE songs (title TEXT)")?;
    let before = fs::read(&path)?;
    let error = open_error(folder.path())?;
    assert!(error.to_string().ends_with("not one of ours"), "{error}");
    assert!(fs::read(&path)? == before);
    Ok(())
}

#[tokio::test]
async fn another_key_or_none_is_refused() -> anyhow::Result<()> {
    let folder = used_folder().await?;
    let path = folder.path().join("host.key");
    let key = fs::read(&path)?;

    fs::write(&path, "00".repeat(32))?;
    let wrong = open_error(folder.path())?;
    assert!(matches!(wrong, OpenError::WrongKey { .. }), "{wrong:?}");
    assert!(wrong.hint().starts_with("Restore the key"));

    fs::write(&path, "not a key")?;
    let rubbish = open_error(folder.path())?;
    assert!(matches!(rubbish, OpenError::Key { .. }), "{rubbish:?}");

    fs::remove_file(&path)?;
    let missing = open_error(folder.path())?;
    assert!(matches!(missing, OpenError::KeyMissing { .. }), "{missing:?}");
    assert!(!path.exists(), "a new key would hide that the old one is lost");

    fs::write(&path, key)?;
    SqliteStore::open(folder.path())?;
    Ok(())
}

fn webhook() -> Webhook {
    Webhook {
        id: "wh_a".into(),
        scope: acme(),
        url: "https://example.com/".to_owned(),
        events: EventFilter::read(vec!["*".to_owned()]).unwrap_or_else(|error| panic!("{error}")),
        tags: Vec::new(),
        care: Care::BestEffort,
        fingerprint: "01234567".to_owned(),
        created_at: Timestamp::default(),
        since: LogPosition::default(),
        circuit: Circuit::default(),
        dialect: callboard_protocol::Dialect::V1,
    }
}

#[tokio::test]
async fn a_private_value_rests_sealed() -> anyhow::Result<()> {
    const SECRET: &str = "correct horse battery staple";
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let mut run = new_run("r1");
    run.birth.inputs = Object::from_iter([("phrase".to_owned(), json!(SECRET))]);
    run.masked_inputs = Some(Object::new());
    run.birth.delivery = Some(Delivered {
        subscription_id: "t1".to_owned(),
        dedup_key: "dk_1".to_owned(),
        attempt: 1,
        event: Object::from_iter([("form".to_owned(), json!({ "phrase": SECRET }))]),
        work_id: None,
    });
    store.commit(Batch::of_run(run)).await?;
    let mut next = append("r1", 0);
    next.rows = vec![row("{\"phrase\":\"***\"}")];
    next.rows[0].private = Some(json!({ "phrase": SECRET }).to_string());
    store.commit(Batch::of_append(next)).await?;
    let webhooks = Webhooks::new(Arc::clone(&store) as _);
    webhooks.register_webhook(webhook(), Secret::new(SECRET.to_owned())).await?;
    drop(webhooks);

    let is_in = |files: &BTreeMap<String, Vec<u8>>, text: &str| {
        files
            .values()
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    let open = files(folder.path())?;
    assert!(is_in(&open, "***"), "the search would find the mask");
    assert!(!is_in(&open, SECRET));
    drop(store);
    assert!(!is_in(&files(folder.path())?, SECRET));
    let opened = SqliteStore::open(folder.path())?.open(&"r1".into()).await?;
    assert_eq!(opened.map(|opened| opened.birth.inputs["phrase"] == SECRET), Some(true));
    Ok(())
}

/// A run whose birth record takes several pages.
async fn create_large(store: &SqliteStore, number: usize) -> Result<(), StoreError> {
    let mut run = new_run(&format!("large{number}"));
    run.birth.inputs = Object::from_iter([("text".to_owned(), json!("x".repeat(20_000)))]);
    store.commit(Batch::of_run(run)).await
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.limit_pages(60).await?;
    let attempts = join_all((0..30).map(|number| create_large(&store, number))).await;
    assert!(
        attempts.iter().any(|attempt| matches!(attempt, Err(StoreError::Full))),
        "{attempts:?}"
    );
    assert!(
        attempts.iter().all(|attempt| matches!(attempt, Ok(()) | Err(StoreError::Full))),
        "{attempts:?}"
    );

    assert!(store.find(&acme(), &"r1".into()).await?.is_some(), "reads go on");
    store.ping().await?;
    for (number, attempt) in attempts.iter().enumerate() {
        let found = store.find(&acme(), &format!("large{number}").into()).await?;
        assert_eq!(
            found.is_some(),
            attempt.is_ok(),
            "large{number} is there exactly if that was acknowledged"
        );
    }

    store.limit_pages(1_000_000).await?;
    create_large(&store, 99).await?;
    assert_eq!(store.check().await?, [""; 0]);
    drop(store);
    assert!(SqliteStore::open(folder.path())?.find(&acme(), &"large99".into()).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_refusal_leaves_the_rest_of_its_commit_alone() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    let runs: Vec<String> = (0..50).map(|number| format!("r{number}")).collect();
    for run in &runs {
        store.commit(Batch::of_run(new_run(run))).await?;
    }
    let appends = runs.iter().enumerate().map(|(number, run)| {
        let expected = u64::from(number % 3 == 0);
        store.commit(Batch::of_append(Append {
            head: head(RunStatus::Completed, 1, None),
            ..append(run, expected)
        }))
    });
    for (number, result) in join_all(appends).await.into_iter().enumerate() {
        let appended = usize::from(number % 3 != 0);
        assert_eq!(result.is_ok(), appended == 1, "r{number}: {result:?}");
        assert_eq!(
            store.tail(&runs[number].as_str().into(), 0).await?.len(),
            appended,
            "r{number}"
        );
    }
    Ok(())
}

/// Definitions are shared; this one is long, and its runs are the only ones that were born with it.
#[tokio::test]
async fn what_only_removed_runs_needed_makes_the_file_smaller() -> anyhow::Result<()> {
    const LONG: usize = 4 * 1024 * 1024;
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    for (id, definition) in [("old", "long"), ("older", "long"), ("new", "short")] {
        let mut run = new_run(id);
        run.birth.definition = definition.to_owned();
        run.definition = "x".repeat(if definition == "long" { LONG } else { 2 }).into();
        store.commit(Batch::of_run(run)).await?;
        let head = head(RunStatus::Completed, 1, None);
        store.commit(Batch::of_append(Append { head, ..append(id, 0) })).await?;
    }
    let pages = || -> anyhow::Result<(i64, i64)> {
        let db = Connection::open(folder.path().join("callboard.db"))?;
        let definitions = db.query_row("SELECT count(*) FROM definitions", [], |row| row.get(0))?;
        Ok((db.pragma_query_value(None, "page_count", |row| row.get(0))?, definitions))
    };
    let later = Timestamp::from_millis(i64::MAX);
    let (before, _) = pages()?;
    assert_eq!(
        store.remove_ended(&callboard_engine::Removable::before(later), None, 1).await?.len(),
        1
    );
    assert_eq!(pages()?.1, 2, "one run still needs it");
    for _ in 0..6 {
        store.remove_ended(&callboard_engine::Removable::before(later), None, 1).await?;
    }
    let (after, definitions) = pages()?;
    assert_eq!(definitions, 1);
    assert!(after + 1_000 < before, "{before} pages became {after}");
    Ok(())
}
