//! What every run keeps is stored in a short form: nobody may notice, and what was stored whole is still read.

use callboard_engine::{Append, Batch, Filter, LogPosition, Removable, Row, Store, Within};
use callboard_protocol::{RunId, RunStatus, Timestamp};
use callboard_store::SqliteStore;
use rusqlite::Connection;

use super::given::{acme, append, head, new_run, row};

const RUN: &str = "run_01a1f05c420571e2ac7349160feb2f1f";
const FOLD: &str = r#"{"runId":"run_01a1f05c420571e2ac7349160feb2f1f","workflowId":"greet","status":"completed","owner":{"tenant":"acme"},"createdAt":"2026-11-18T20:32:20.486Z","variables":{},"nodeStates":{"a":{"status":"completed","visit":0,"attempts":1,"startedAt":"2026-11-18T20:32:20.513Z"}},"eventLogSchemaVersion":2,"lastSequence":3}"#;
const PAYLOADS: [(&str, &str); 3] = [
    (
        "node.completed",
        r#"{"nodeId":"a","outputs":{"said":"run_01a1f05c420571e2ac7349160feb2f1f"},"durationMs":0}"#,
    ),
    ("acme.noted", r#"{"nodeId":"a","outputs":{},"durationMs":1}"#),
    ("run.completed", r#"{"outputs":{},"durationMs":12}"#),
];

fn rows() -> Vec<Row> {
    PAYLOADS.map(|(kind, payload)| Row { kind: kind.to_owned(), ..row(payload) }).into()
}

/// A run that has ended, one that goes on, and the child of one.
async fn folder() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;
    for (id, status) in [(RUN, RunStatus::Completed), ("goes-on", RunStatus::Running)] {
        store.commit(Batch::of_run(new_run(id))).await?;
        let (head, snapshot) = (head(status, 3, None), Some(FOLD.to_owned()));
        let ended = Append { head, snapshot, rows: rows(), ..append(id, 0) };
        store.commit(Batch::of_append(ended)).await?;
    }
    let mut child = new_run("child");
    child.birth.parent = Some(serde_json::from_value(serde_json::json!({
        "runId": RUN, "workflowId": "greet", "nodeId": "a", "depth": 1,
    }))?);
    store.commit(Batch::of_run(child)).await?;
    store.shutdown().await;
    Ok(folder)
}

fn texts(folder: &tempfile::TempDir, sql: &str) -> anyhow::Result<Vec<String>> {
    let db = Connection::open(folder.path().join("callboard.db"))?;
    let mut select = db.prepare(sql)?;
    let texts = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(texts)
}

async fn check(folder: &tempfile::TempDir) -> anyhow::Result<()> {
    let store = SqliteStore::open(folder.path())?;
    let run = RunId::from(RUN);
    let found = store.find(&acme(), &run).await?.and_then(|found| found.snapshot);
    assert_eq!(found.as_deref(), Some(FOLD));
    let page = store.read(&acme(), &run, 0, 9).await?.map(|page| page.events).unwrap_or_default();
    let told: Vec<_> =
        page.iter().map(|event| (event.kind.as_str(), event.payload.as_str())).collect();
    assert_eq!(told, PAYLOADS);
    let opened = store.open(&run).await?;
    assert!(
        opened
            .is_some_and(|opened| opened.birth == new_run(RUN).birth && opened.entries.len() == 3)
    );
    assert_eq!(store.list(&acme(), &Filter { limit: 9, ..Filter::default() }).await?.len(), 3);
    let all = store.read_all(&Within::Everywhere, LogPosition(0), 9).await?.events;
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|logged| logged.event.payload.starts_with('{')));
    store.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn what_is_stored_short_is_read_whole_and_what_was_stored_whole_too() -> anyhow::Result<()> {
    let folder = folder().await?;
    let is_short = |text: &String| text.starts_with('\u{1}');
    let births = texts(&folder, "SELECT record FROM births ORDER BY run")?;
    // Retention looks for the parent of the third.
    assert_eq!(births.iter().map(is_short).collect::<Vec<_>>(), [true, true, false]);
    let folds = texts(&folder, "SELECT body FROM snapshots ORDER BY run")?;
    assert_eq!(folds.iter().map(is_short).collect::<Vec<_>>(), [true, false]);
    let payloads = texts(&folder, "SELECT payload FROM events ORDER BY position LIMIT 3")?;
    assert_eq!(payloads.iter().map(is_short).collect::<Vec<_>>(), [true, false, true]);
    check(&folder).await?;

    // As an earlier version left it.
    let db = Connection::open(folder.path().join("callboard.db"))?;
    db.execute("UPDATE snapshots SET body = ?1", [FOLD])?;
    let record = serde_json::to_string(&new_run(RUN).birth)?;
    db.execute("UPDATE births SET record = ?1 WHERE run = 1", [record])?;
    for (sequence, (_, payload)) in (0_i64..).zip(PAYLOADS) {
        db.execute("UPDATE events SET payload = ?2 WHERE sequence = ?1", (sequence, payload))?;
    }
    drop(db);
    check(&folder).await
}

#[tokio::test]
async fn a_run_with_a_short_record_is_removed_in_its_time() -> anyhow::Result<()> {
    let folder = folder().await?;
    let store = SqliteStore::open(folder.path())?;
    let later = Timestamp::from_millis(i64::MAX);
    // Its short record is no obstacle to those that look for parents in others.
    assert_eq!(store.remove_ended(&Removable::before(later), None, 9).await?, [RunId::from(RUN)]);
    Ok(())
}
