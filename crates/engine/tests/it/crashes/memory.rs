//! Memory and files: written by runs and by people, amended, forgotten, promised.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, Call, Condition, Due, FileDraft, FileError, Files, Filter, Keeper,
    Memory, MemoryAuthor, MemoryDraft, MemoryError, MemoryQuery, MemoryRecord, MemoryRow, Place,
    Store,
};
use callboard_protocol::{Object, RunId, Timestamp};

use super::scenario::{Host, Scenario, owner, runs, seconds};
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct Memories;

/// A node that remembers three things, one of which it wants to be reminded of.
#[derive(Debug)]
struct Noter;

#[async_trait]
impl Activity for Noter {
    async fn perform(&self, call: Call) -> Outcome {
        let notes = [("keep", None), ("drop", None), ("promise", Some(Due::At(seconds(10))))];
        for (ordinal, (content, due)) in (0..).zip(notes) {
            let draft = MemoryDraft { due, ..MemoryDraft::new("desk/notes", content) };
            match call.memory.put(ordinal, draft).await {
                Ok(_) => {}
                Err(MemoryError::Superseded(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        Outcome::Done { outputs: Object::new() }
    }
}

/// The newest versions of all entries.
async fn standing(store: &Arc<dyn Store>) -> Vec<MemoryRecord> {
    let query = MemoryQuery::new(Place::Anywhere, Timestamp::default(), usize::MAX);
    Memory::new(Arc::clone(store)).recall(&scope(), &query).await.unwrap()
}

async fn find(host: &Host, content: &str) -> Option<MemoryRecord> {
    standing(&host.store).await.into_iter().find(|entry| entry.content == content)
}

async fn run_of(host: &Host, workflow: &str) -> RunId {
    let filter = Filter { workflow: Some(workflow.into()), limit: 1, ..Filter::default() };
    host.store.list(&scope(), &filter).await.unwrap().remove(0).run_id
}

fn amended(host: &Host, old: MemoryRecord) -> MemoryRow {
    MemoryRow {
        id: old.id,
        expected: old.version,
        scope_id: old.scope_id,
        memory_ref: old.memory_ref,
        family: None,
        content: "kept".to_owned(),
        tags: old.tags,
        at: host.now(),
        expires_at: None,
        author: MemoryAuthor::default(),
        sources: old.sources,
        due: None,
        absorbs: Vec::new(),
    }
}

#[async_trait(?Send)]
impl Scenario for Memories {
    fn definitions(&self) -> Vec<String> {
        vec![workflow("notes", &[node("a", "test.noter", json!({}))]).to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.noter", Arc::new(Noter))
    }

    fn start(&self, host: &Host) {
        Keeper::new(host.engine.clone()).start();
    }

    fn steps(&self) -> usize {
        5
    }

    async fn act(&self, host: &Host, step: usize) {
        let memory = Memory::new(Arc::clone(&host.store));
        match step {
            0 => {
                let order = order("notes", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("notes", create).await;
            }
            1 => host.wait_until(8).await,
            // Whoever got no answer looks first whether it was done.
            2 => {
                if let Some(old) = find(host, "keep").await {
                    memory.amend(&scope(), amended(host, old)).await.unwrap();
                }
            }
            3 => {
                if let Some(entry) = find(host, "drop").await {
                    memory.forget(&scope(), &entry.id).await.unwrap();
                }
            }
            _ => {
                let run = run_of(host, "notes").await;
                memory.expire_snapshot(&scope(), &run).await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let memory = Memory::new(Arc::clone(&store));
        let mut seen = Vec::new();
        for entry in standing(&store).await {
            let versions = memory.history(&scope(), &entry.id).await.unwrap();
            let versions = versions.into_iter().map(|version| (version.version, version.content));
            seen.push(json!(versions.collect::<Vec<_>>()));
        }
        seen.sort_by_key(Value::to_string);
        let listed = runs(&*store).await;
        let filter = Filter { workflow: Some("notes".into()), limit: 9, ..Filter::default() };
        let mut snapshots = Vec::new();
        for run in store.list(&scope(), &filter).await.unwrap() {
            snapshots.push(memory.has_snapshot(&run.run_id).await.unwrap());
        }
        json!([seen, listed.as_array().unwrap().len(), snapshots])
    }
}

pub(super) struct WorkspaceFiles;

#[derive(Debug)]
struct Filer;

#[async_trait]
impl Activity for Filer {
    async fn perform(&self, call: Call) -> Outcome {
        for (ordinal, path) in (0..).zip(["one.md", "two.md"]) {
            let draft = FileDraft::new(path, "by a run");
            match call.files.put(ordinal, draft, &Condition::Always).await {
                Ok(_) => {}
                Err(FileError::Superseded(_)) => break,
                Err(error) => return error.outcome(),
            }
        }
        Outcome::Done { outputs: Object::new() }
    }
}

#[async_trait(?Send)]
impl Scenario for WorkspaceFiles {
    fn definitions(&self) -> Vec<String> {
        vec![workflow("files", &[node("a", "test.filer", json!({}))]).to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.filer", Arc::new(Filer))
    }

    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        let (engine, whose) = (&host.engine, (owner(), scope().mode));
        match step {
            0 => {
                let order = order("files", Object::new(), Object::new());
                let create = async |remember| engine.create(order, Some(remember)).await;
                host.once("files", create).await;
            }
            1 => host.wait_until(8).await,
            2 => {
                let draft = FileDraft::new("one.md", "by a person");
                let put = async |remember| {
                    let change = engine.prepare_file(whose, draft, &Condition::Always).await;
                    engine.change_file(change.unwrap(), Some(remember)).await
                };
                host.once("put", put).await;
            }
            _ => {
                let remove = async |remember| {
                    let change = engine.prepare_removal(whose, "two.md", &Condition::Always).await;
                    engine.change_file(change.unwrap(), Some(remember)).await
                };
                host.once("remove", remove).await;
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let files = Files::new(Arc::clone(&store));
        let mut seen = Vec::new();
        for path in ["one.md", "two.md"] {
            for version in 1..=3 {
                let found = files.find_file(&scope(), path, Some(version)).await.unwrap();
                seen.push(json!([path, version, found.map(|found| found.content)]));
            }
        }
        let listed = files.list_files(&scope(), "").await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|file| (file.path, file.version)).collect();
        json!([seen, listed, runs(&*store).await])
    }
}
