//! Files of workspaces: no write is lost, doubled or seen too early, whoever dies; turns and forks.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, SecretText};
use callboard_engine::{
    Activities, Activity, Call, Condition, FileDraft, FileError, Files, ForkOrder, KeyMode,
    Overlay, Recorded, Secrets,
};
use callboard_protocol::{FileVersion, ForkMode, Owner, RunId};

use crate::sim::{Fate, ended, scope};
use crate::simulation::{edge, node};
use crate::world::{Second, World, outputs, start, workflow};

/// A node that writes its `files`, a path and a content each, and says what it sees.
#[derive(Debug)]
struct Filer;

#[async_trait]
impl Activity for Filer {
    async fn perform(&self, call: Call) -> Outcome {
        let files = call.config.get("files").and_then(Value::as_array).cloned();
        let secret = call.config.get("secret").and_then(Value::as_str);
        for (ordinal, file) in (0..).zip(files.unwrap_or_default()) {
            let [path, content] = [0, 1].map(|part| file[part].as_str().unwrap_or_default());
            let mut draft = FileDraft::new(path, content);
            if let Some(name) = secret {
                draft.content.push_str(call.secret(&name.into()).await.unwrap().reveal());
            }
            match call.files.put(ordinal, draft, &Condition::Always).await {
                Ok(_) => {}
                Err(FileError::Superseded(_)) => break,
                Err(error) => return error.outcome(),
            }
        }
        let mut seen = Vec::new();
        for FileVersion { path, version } in call.files.list("") {
            let file = call.files.get(&path).await.unwrap().unwrap();
            seen.push(format!("{path}@{version}: {}", file.content.unwrap()));
        }
        Outcome::Done { outputs: json!({ "seen": seen }).as_object().cloned().unwrap() }
    }
}

impl World {
    /// With nodes that write files.
    fn filing(definitions: &[Value]) -> Self {
        Self::new(definitions, || Activities::default().with("test.filer", Arc::new(Filer)))
    }

    /// Every file as it stands, with its version and content.
    async fn standing(&self) -> Vec<String> {
        let mut standing = Vec::new();
        for file in Files::new(self.shared.clone()).list_files(&scope(), "").await.unwrap() {
            let found = Files::new(self.shared.clone())
                .find_file(&scope(), &file.path, None)
                .await
                .unwrap()
                .unwrap();
            standing.push(format!("{}@{}: {}", file.path, file.version, found.content.unwrap()));
        }
        standing
    }
}

fn filer(id: &str, files: &[(&str, &str)]) -> Value {
    node(id, "test.filer", json!({ "files": files }))
}

fn seen(log: &[Recorded], node: &str) -> Value {
    outputs(log, node)["seen"].clone()
}

fn told(log: &[Recorded]) -> Vec<String> {
    let told = log.iter().filter(|event| event.kind == "workspace.updated");
    told.map(|event| event.payload.clone()).collect()
}

fn starts(log: &[Recorded], node: &str) -> Vec<u64> {
    let is = |event: &&Recorded| {
        event.kind == "node.started" && event.node.as_ref().is_some_and(|it| it.as_str() == node)
    };
    log.iter().filter(is).map(|event| event.sequence).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_loses_and_doubles_no_file() {
    let nodes =
        [filer("a", &[("one.md", "1"), ("two.md", "2")]), filer("b", &[("one.md", "1, again")])];
    let definitions = [workflow("writer", &nodes)];
    let (_, appends) =
        World::filing(&definitions).survive("writer", Fate::Live, Second::Afterwards).await;
    assert!(appends > 4, "{appends}");
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            let world = World::filing(&definitions);
            let (log, _) = world.survive("writer", fate, Second::Afterwards).await;
            let standing = ["one.md@2: 1, again", "two.md@1: 2"];
            assert_eq!(world.standing().await, standing, "{fate:?}");
            let payloads = [
                r#"{"path":"one.md","version":1}"#,
                r#"{"path":"two.md","version":1}"#,
                r#"{"path":"one.md","version":2}"#,
            ];
            assert_eq!(told(&log), payloads, "{fate:?}");
            assert_eq!((seen(&log, "a"), seen(&log, "b")), (json!([]), json!([])), "{fate:?}");
        }
    }
}

/// WSR-1.
#[tokio::test(start_paused = true)]
async fn a_secret_that_the_run_resolved_is_not_kept() {
    let mut writes = filer("a", &[("KEYS.md", "the key is ")]);
    writes["config"]["secret"] = json!("crm");
    let world = World::filing(&[workflow("leak", &[writes]), workflow("look", &[filer("a", &[])])]);
    let value = SecretText::new("plain-words-nobody-would-guess".to_owned());
    let (name, at) = ("crm".into(), Default::default());
    Secrets::new(world.shared.clone()).put_secret(&scope(), &name, value.into(), at).await.unwrap();
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "leak").await;
    ended(&world.shared, &run).await;
    assert_eq!(world.standing().await, ["KEYS.md@1: the key is [REDACTED:crm]"]);
}

/// RFC 0059 §D: the snapshot of a run's start, whatever it or anybody else writes.
#[tokio::test(start_paused = true)]
async fn a_run_sees_the_files_that_it_began_with() {
    let wait = node("wait", "core.delay", json!({ "ms": 5_000 }));
    let nodes = [filer("a", &[("mine.md", "new")]), wait, filer("b", &[])];
    let world = World::filing(&[
        workflow("slow", &nodes),
        workflow("quick", &[filer("only", &[("mine.md", "old"), ("theirs.md", "x")])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let first = start(&engine, "quick").await;
    assert_eq!(seen(&ended(&world.shared, &first).await, "only"), json!([]));
    let slow = start(&engine, "slow").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let meanwhile = start(&engine, "quick").await;
    let log = ended(&world.shared, &meanwhile).await;
    assert_eq!(seen(&log, "only"), json!(["mine.md@2: new", "theirs.md@1: x"]));
    let log = ended(&world.shared, &slow).await;
    let began = json!(["mine.md@1: old", "theirs.md@1: x"]);
    assert_eq!((seen(&log, "a"), seen(&log, "b")), (began.clone(), began));
}

/// M-81: what a turn's workers write is seen from the next turn on, whoever dies.
#[tokio::test(start_paused = true)]
async fn a_turn_sees_what_the_turns_before_it_wrote() {
    let next = |worker: &str| json!({ "kind": "next-worker", "nextWorkerIds": [worker] });
    let plan = json!([next("one"), next("two"), { "kind": "terminate" }]);
    let boss = node("boss", "core.orchestrator.supervisor", json!({ "mockDispatchPlan": plan }));
    let mut crew = workflow("crew", &[boss, node("work", "core.dispatch", json!({}))]);
    crew["edges"] = json!([edge("boss", "work"), edge("work", "boss")]);
    let definitions = [
        crew,
        workflow("one", &[filer("in", &[("a.md", "1")])]),
        workflow("two", &[filer("in", &[("a.md", "2"), ("b.md", "1")])]),
    ];
    let (_, appends) =
        World::filing(&definitions).survive("crew", Fate::Live, Second::Afterwards).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal)] {
            let world = World::filing(&definitions);
            let (log, _) = world.survive("crew", fate, Second::Afterwards).await;
            let run = log[0].run.clone();
            let (engine, _) = world.host("reader", Fate::Live);
            let sees = async |version: u64| {
                let seen = engine.files_seen(&scope(), &run, version).await.unwrap();
                seen.iter().map(|it| format!("{}@{}", it.path, it.version)).collect::<Vec<_>>()
            };
            let turns = starts(&log, "boss");
            assert_eq!(turns.len(), 3, "{fate:?}");
            let expected: [&[&str]; 3] = [&[], &["a.md@1"], &["a.md@2", "b.md@1"]];
            for (turn, begins) in turns.iter().enumerate() {
                assert_eq!(sees(begins + 1).await, expected[turn], "turn {turn}, {fate:?}");
                // To its end a turn sees what it saw at its beginning.
                let ends = turns.get(turn + 1).copied().unwrap_or(log.len() as u64);
                assert_eq!(sees(ends).await, expected[turn], "end of turn {turn}, {fate:?}");
            }
            engine.kill();
        }
    }
}

fn fork(source: &RunId, from: u64, mode: ForkMode) -> ForkOrder {
    ForkOrder {
        source: source.clone(),
        from,
        mode,
        owner: Owner { tenant: "default".into(), workspace: None, principal: None },
        key_mode: KeyMode::Live,
        dialect: callboard_protocol::Dialect::V1,
        overlay: Overlay::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_sees_the_files_that_its_source_saw() {
    let child = node("call", "core.subWorkflow", json!({ "workflowId": "child" }));
    let world = World::filing(&[
        workflow("source", &[filer("a", &[("own.md", "x")]), child, filer("b", &[])]),
        workflow("child", &[filer("in", &[])]),
        workflow("change", &[filer("only", &[("old.md", "now")])]),
        workflow("before", &[filer("only", &[("old.md", "then")])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let before = start(&engine, "before").await;
    ended(&world.shared, &before).await;
    let source = start(&engine, "source").await;
    let log = ended(&world.shared, &source).await;
    let change = start(&engine, "change").await;
    ended(&world.shared, &change).await;
    let standing = world.standing().await;
    assert_eq!(standing, ["old.md@2: now", "own.md@1: x"]);
    for from in 0..log.len() as u64 {
        let replay = engine.fork(&scope(), fork(&source, from, ForkMode::Replay), None).await;
        let replayed = ended(&world.shared, &replay.unwrap().run).await;
        assert_eq!(told(&replayed), told(&log), "replayed from {from}");
        assert_eq!(seen(&replayed, "b"), json!(["old.md@1: then"]), "replayed from {from}");
    }
    // A replay writes nothing.
    assert_eq!(world.standing().await, standing);
    let at_call = starts(&log, "call")[0];
    let order = fork(&source, at_call, ForkMode::Branch);
    let branch = engine.fork(&scope(), order, None).await.unwrap().run;
    let branched = ended(&world.shared, &branch).await;
    assert_eq!(seen(&branched, "b"), json!(["old.md@1: then"]));
    // Below a fork it is the past, too.
    let called = branched.iter().find(|event| event.kind == "node.dispatched").unwrap();
    let called: Value = serde_json::from_str(&called.payload).unwrap();
    let child: RunId = called["childRunId"].as_str().unwrap().into();
    let log = ended(&world.shared, &child).await;
    assert_eq!(seen(&log, "in"), json!(["old.md@1: then"]));
}
