//! Memory of runs: no write is lost, doubled or seen too early, whoever dies; families, forks and time.

mod crews;
mod summaries;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass, UPKEEP};
use callboard_engine::{
    Activities, Activity, Call, Clock as _, EngineError, ForkOrder, KeyMode, Lifetime, Memory,
    MemoryDraft, MemoryError, MemoryQuery, MemoryRecord, Overlay, Place, Recorded, Scope,
    SnapshotLoss, Store, Wanted,
};
use callboard_protocol::{Failure, ForkMode, Object, Owner, Remembered, RunId, Timestamp};

use crate::sim::{Fate, ended, order, scope};
use crate::simulation::{edge, node};
use crate::world::{Second, World, outputs, start, workflow};

/// Where the tests remember.
const NOTES: &str = "desk/notes";

/// A node that writes its `notes`, waits, and says what it sees.
#[derive(Debug)]
struct Noter;

#[async_trait]
impl Activity for Noter {
    async fn perform(&self, call: Call) -> Outcome {
        let millis = |key: &str| call.config.get(key).and_then(Value::as_u64);
        let notes = call.config.get("notes").and_then(Value::as_array).cloned();
        let lifetime = millis("ttlMs").map_or(Lifetime::Unset, Lifetime::Millis);
        for (ordinal, note) in (0..).zip(notes.unwrap_or_default()) {
            let content = note.as_str().unwrap_or_default();
            let draft = MemoryDraft { lifetime, ..MemoryDraft::new(NOTES, content) };
            match call.memory.put(ordinal, draft).await {
                Ok(_) => {}
                Err(MemoryError::Superseded(_)) => return done(json!({})),
                Err(error) => return failed(&error),
            }
        }
        call.pause(Duration::from_millis(millis("ms").unwrap_or(0))).await;
        if call.config.get("fails") == Some(&Value::Bool(true)) {
            return failed(&MemoryError::Invalid("as it was told to".to_owned()));
        }
        let seen = call.memory.list(NOTES, Wanted::default()).await.unwrap();
        let contents: Vec<&str> = seen.iter().map(|entry| entry.content.as_str()).collect();
        done(json!({ "seen": contents, "entries": seen }))
    }
}

/// A node that takes the place of the newest note, after a while.
#[derive(Debug)]
struct Rewriter;

#[async_trait]
impl Activity for Rewriter {
    async fn perform(&self, call: Call) -> Outcome {
        let newest = call.memory.list(NOTES, Wanted::default()).await.unwrap().remove(0);
        let found = call.memory.get(NOTES, &newest.id).await.unwrap().unwrap();
        call.pause(Duration::from_secs(1)).await;
        let replaces = Some(Remembered { id: found.id, version: found.version });
        let content = call.inputs.get("by").and_then(Value::as_str).unwrap_or("somebody");
        let draft = MemoryDraft { replaces, ..MemoryDraft::new(NOTES, content) };
        match call.memory.put(0, draft).await {
            Ok(entry) => done(json!({ "kept": entry })),
            Err(error) => failed(&error),
        }
    }
}

fn done(outputs: Value) -> Outcome {
    Outcome::Done { outputs: outputs.as_object().cloned().unwrap() }
}

fn failed(error: &MemoryError) -> Outcome {
    let failure = Failure::new("not_remembered", error.to_string());
    Outcome::Failed { failure, class: RetryClass::Final }
}

impl World {
    /// With nodes that write notes.
    fn remembering(definitions: &[Value]) -> Self {
        Self::new(definitions, || {
            Activities::default()
                .with("test.noter", Arc::new(Noter))
                .with("test.rewriter", Arc::new(Rewriter))
                .with("test.promise", Arc::new(upkeep::Promise))
                .with(UPKEEP, Arc::new(upkeep::Tidier))
        })
    }

    /// Everything that was ever written, oldest first.
    async fn journal(&self) -> Vec<MemoryRecord> {
        let query = MemoryQuery::new(Place::Anywhere, Timestamp::default(), usize::MAX);
        let mut records = Vec::new();
        for entry in self.shared.recall(&scope(), &query).await.unwrap() {
            records.extend(self.shared.memory_history(&scope(), &entry.id).await.unwrap());
        }
        records.sort_by_key(|record| record.position);
        records
    }

    async fn contents(&self) -> Vec<String> {
        self.journal().await.into_iter().map(|record| record.content).collect()
    }
}

fn ids(log: &[Recorded]) -> Vec<String> {
    let written = log.iter().filter(|event| event.kind == "memory.written");
    let id = |event: &Recorded| serde_json::from_str::<Value>(&event.payload).unwrap();
    written.map(|event| id(event)["memoryId"].as_str().unwrap().to_owned()).collect()
}

fn note(id: &str, notes: &[&str]) -> Value {
    node(id, "test.noter", json!({ "notes": notes }))
}

fn child(id: &str, workflow: &str) -> Value {
    node(id, "core.subWorkflow", json!({ "workflowId": workflow, "onChildFailure": "absorb" }))
}

fn family() -> Vec<Value> {
    vec![
        workflow(
            "parent",
            &[note("before", &["p1"]), child("call", "child"), note("after", &["p2", "p3"])],
        ),
        workflow("child", &[note("in", &["c1", "c2"])]),
    ]
}

/// M-58, M-61: the journal and the logs say the same, and every read saw what it had to see.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_loses_and_doubles_no_memory() {
    let (_, appends) =
        World::remembering(&family()).survive("parent", Fate::Live, Second::Afterwards).await;
    assert!(appends > 8, "{appends}");
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            for second in [Second::Afterwards, Second::FromTheStart] {
                let world = World::remembering(&family());
                let (log, _) = world.survive("parent", fate, second).await;
                let case = format!("{fate:?}, {second:?}");
                assert_eq!(world.contents().await, ["p1", "c1", "c2", "p2", "p3"], "{case}");
                assert_eq!(outputs(&log, "before")["seen"], json!(["p1"]), "{case}");
                let after = json!(["p3", "p2", "c2", "c1", "p1"]);
                assert_eq!(outputs(&log, "after")["seen"], after, "{case}");
                let journal = world.journal().await;
                let own = journal.iter().filter(|record| record.content.starts_with('p'));
                let own: Vec<String> = own.map(|record| record.id.to_string()).collect();
                assert_eq!(ids(&log), own, "{case}");
                for event in log.iter().filter(|event| event.kind == "memory.written") {
                    let told: Value = serde_json::from_str(&event.payload).unwrap();
                    let told: BTreeSet<&str> =
                        told.as_object().unwrap().keys().map(String::as_str).collect();
                    assert_eq!(told, BTreeSet::from(["memoryId", "memoryRef", "nodeId"]), "{case}");
                }
            }
        }
    }
}

/// M-55.
#[tokio::test(start_paused = true)]
async fn what_others_write_meanwhile_is_not_seen() {
    let world = World::remembering(&[
        workflow(
            "slow",
            &[
                note("a", &["mine"]),
                node("b", "core.delay", json!({ "ms": 5_000 })),
                note("c", &[]),
            ],
        ),
        workflow("quick", &[note("only", &["theirs"])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let slow = start(&engine, "slow").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let quick = start(&engine, "quick").await;
    let log = ended(&world.shared, &quick).await;
    assert_eq!(outputs(&log, "only")["seen"], json!(["theirs", "mine"]));
    let log = ended(&world.shared, &slow).await;
    assert_eq!(outputs(&log, "c")["seen"], json!(["mine"]));
    let next = start(&engine, "quick").await;
    let log = ended(&world.shared, &next).await;
    assert_eq!(outputs(&log, "only")["seen"], json!(["theirs", "theirs", "mine"]));
}

/// M-60: what a child remembers lives from when the child wrote it.
#[tokio::test(start_paused = true)]
async fn a_childs_entry_expires_by_the_childs_clock() {
    let wrote = node("in", "test.noter", json!({ "notes": ["c"], "ttlMs": 3_600_000 }));
    let world = World::remembering(&[
        workflow("parent", &[child("call", "child"), note("after", &[])]),
        workflow("child", &[node("wait", "core.delay", json!({ "ms": 10_000 })), wrote]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "parent").await;
    let log = ended(&world.shared, &run).await;
    let entry = &outputs(&log, "after")["entries"][0];
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let (created, expires) = (time(&entry["createdAt"]), time(&entry["expiresAt"]));
    assert!(created >= log[0].at.plus_millis(10_000), "{created} after {}", log[0].at);
    assert_eq!(expires, created.plus_millis(3_600_000));
}

/// M-61: what a sibling writes is seen when it has joined, never before.
#[tokio::test(start_paused = true)]
async fn siblings_are_seen_at_the_join() {
    let late = node("look", "test.noter", json!({ "notes": ["b"], "ms": 1_000 }));
    let definitions = [
        json!({ "id": "parent", "name": "parent", "version": "1.0", "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [child("a", "first"), child("b", "second"), note("join", &[])],
            "edges": [edge("a", "join"), edge("b", "join")] }),
        workflow("first", &[node("in", "test.noter", json!({ "notes": ["a"], "ms": 9_000 }))]),
        workflow("second", &[node("wait", "core.delay", json!({ "ms": 3_000 })), late]),
    ];
    let world = World::remembering(&definitions);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "parent").await;
    let log = ended(&world.shared, &run).await;
    assert_eq!(outputs(&log, "join")["seen"], json!(["b", "a"]));
    let second = world.journal().await.into_iter().find(|record| record.content == "b").unwrap();
    let log = ended(&world.shared, &second.author.run_id.unwrap()).await;
    assert_eq!(outputs(&log, "look")["seen"], json!(["b"]));
}

/// A child sees what its parent saw; one that failed leaves nothing to its parent.
#[tokio::test(start_paused = true)]
async fn a_failed_childs_memory_is_not_its_parents() {
    let fails = node("in", "test.noter", json!({ "notes": ["c"], "fails": true }));
    let world = World::remembering(&[
        workflow("parent", &[note("a", &["p"]), child("b", "child"), note("c", &[])]),
        workflow("child", &[note("look", &[]), fails]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "parent").await;
    let log = ended(&world.shared, &run).await;
    assert_eq!(outputs(&log, "c")["seen"], json!(["p"]));
    assert_eq!(outputs(&log, "b")["childStatus"], "failed");
    // It was written all the same, and runs that begin later see it.
    let record = world.journal().await.pop().unwrap();
    let log = ended(&world.shared, &record.author.run_id.unwrap()).await;
    assert_eq!(outputs(&log, "look")["seen"], json!(["p"]));
    let run = start(&engine, "parent").await;
    let log = ended(&world.shared, &run).await;
    assert_eq!(outputs(&log, "a")["seen"], json!(["p", "c", "p"]));
}

/// M-62.
#[tokio::test(start_paused = true)]
async fn an_isolated_child_has_a_memory_of_its_own() {
    let alone = json!({ "workflowId": "child", "memoryScopeIsolation": "isolated" });
    let world = World::remembering(&[
        workflow(
            "parent",
            &[note("a", &["p"]), node("b", "core.subWorkflow", alone), note("c", &[])],
        ),
        workflow("child", &[note("in", &["c"])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "parent").await;
    let log = ended(&world.shared, &run).await;
    assert_eq!(outputs(&log, "c")["seen"], json!(["p"]));
    let record = world.journal().await.pop().unwrap();
    let log = ended(&world.shared, &record.author.run_id.unwrap()).await;
    assert_eq!(outputs(&log, "in")["seen"], json!(["c"]));
}

#[tokio::test(start_paused = true)]
async fn scope_ids_keep_memories_apart() {
    let world = World::remembering(&[workflow("notes", &[note("only", &["x"])])]);
    let (engine, _) = world.host("host", Fate::Live);
    for (scope_id, seen) in
        [(Some("case-7"), 1), (None, 1), (Some("case-7"), 2), (Some("case-8"), 1)]
    {
        let mut order = order("notes", Object::new(), Object::new());
        order.scope_id = scope_id.map(str::to_owned);
        let run = engine.create(order, None).await.unwrap().run;
        let log = ended(&world.shared, &run).await;
        assert_eq!(outputs(&log, "only")["seen"].as_array().unwrap().len(), seen, "{scope_id:?}");
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

/// M-70, M-59: a fork sees the past and nothing newer; a replay tells the same ids and writes nothing.
#[tokio::test(start_paused = true)]
async fn a_fork_sees_what_its_source_saw_there() {
    let world = World::remembering(&[
        workflow("old", &[note("only", &["old"])]),
        workflow("source", &[note("a", &["a"]), child("b", "child"), note("c", &["c"])]),
        workflow("child", &[note("in", &["b"])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let old = start(&engine, "old").await;
    ended(&world.shared, &old).await;
    let source = start(&engine, "source").await;
    let log = ended(&world.shared, &source).await;
    let newer = start(&engine, "old").await;
    ended(&world.shared, &newer).await;
    let written = world.contents().await;
    assert_eq!(written, ["old", "a", "b", "c", "old"]);

    for from in 0..log.len() as u64 {
        let replay = engine.fork(&scope(), fork(&source, from, ForkMode::Replay), None).await;
        let replayed = ended(&world.shared, &replay.unwrap().run).await;
        assert_eq!(ids(&replayed), ids(&log), "replayed from {from}");
        assert_eq!(outputs(&replayed, "c"), outputs(&log, "c"));
    }
    assert_eq!(world.contents().await, written);

    let starts = |node: &str| {
        let is = |event: &&Recorded| {
            event.kind == "node.started"
                && event.node.as_ref().is_some_and(|it| it.as_str() == node)
        };
        log.iter().find(is).unwrap().sequence
    };
    for (node, seen) in [
        ("a", json!(["c", "b", "a", "old"])),
        ("b", json!(["c", "b", "a", "old"])),
        ("c", json!(["c", "b", "a", "old"])),
    ] {
        let order = fork(&source, starts(node), ForkMode::Branch);
        let branch = engine.fork(&scope(), order, None).await.unwrap().run;
        let branched = ended(&world.shared, &branch).await;
        assert_eq!(outputs(&branched, "c")["seen"], seen, "branched at {node}");
        let fresh: BTreeSet<String> = ids(&branched).into_iter().collect();
        assert_eq!(fresh.len(), 2, "branched at {node}");
    }
    // A branch of a replay goes on from what the replay told.
    let replay = engine.fork(&scope(), fork(&source, 0, ForkMode::Replay), None).await.unwrap().run;
    ended(&world.shared, &replay).await;
    let order = fork(&replay, starts("c"), ForkMode::Branch);
    let branch = engine.fork(&scope(), order, None).await.unwrap().run;
    let branched = ended(&world.shared, &branch).await;
    assert_eq!(outputs(&branched, "c")["seen"], json!(["c", "b", "a", "old"]));
}

/// M-70: a fork sees what its source saw there, also when it has expired since; what the fork writes expires as usual.
#[tokio::test(start_paused = true)]
async fn a_fork_sees_what_has_expired_since() {
    let brief = node("a", "test.noter", json!({ "notes": ["brief"], "ttlMs": 10_000 }));
    let world = World::remembering(&[
        workflow("source", &[brief, child("b", "child"), note("c", &[])]),
        workflow("child", &[note("look", &[])]),
        workflow("other", &[note("only", &["newer"])]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let source = start(&engine, "source").await;
    let log = ended(&world.shared, &source).await;
    let written = log.iter().find(|event| event.kind == "memory.written").unwrap();
    let is_b = |event: &&Recorded| event.node.as_ref().is_some_and(|node| node.as_str() == "b");
    let begins = log.iter().find(is_b).unwrap();
    let other = start(&engine, "other").await;
    ended(&world.shared, &other).await;
    let expires = written.at.plus_millis(10_000);
    for wait in [0, 10_000, 60_000] {
        let until = expires.plus_millis(wait).since(world.clock.now());
        tokio::time::sleep(if wait == 0 { until - Duration::from_millis(1) } else { until }).await;
        let order = fork(&source, begins.sequence, ForkMode::Branch);
        let branch = engine.fork(&scope(), order, None).await.unwrap().run;
        let branched = ended(&world.shared, &branch).await;
        assert_eq!(outputs(&branched, "c")["seen"], json!(["brief"]), "{wait}");
        // The fork's child is in the past, too.
        let told = branched.iter().rfind(|event| event.kind == "node.dispatched").unwrap();
        let told: Value = serde_json::from_str(&told.payload).unwrap();
        let below = ended(&world.shared, &told["childRunId"].as_str().unwrap().into()).await;
        assert_eq!(outputs(&below, "look")["seen"], json!(["brief"]), "{wait}");
    }
    // Before it was written, nobody had seen it; what a fork writes itself lives no longer than it says.
    let order = fork(&source, 1, ForkMode::Branch);
    let branch = engine.fork(&scope(), order, None).await.unwrap().run;
    let branched = ended(&world.shared, &branch).await;
    assert_eq!(outputs(&branched, "c")["seen"], json!(["brief"]));
    let own = branched.iter().find(|event| event.kind == "memory.written").unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let order = fork(&branch, own.sequence, ForkMode::Branch);
    let again = engine.fork(&scope(), order, None).await.unwrap().run;
    let again = ended(&world.shared, &again).await;
    assert_eq!(outputs(&again, "c")["seen"].as_array().unwrap().len(), 1);
}

/// M-71: what was let go of is refused, after what is wrong anyway.
#[tokio::test(start_paused = true)]
async fn a_fork_without_its_memory_is_refused() {
    let world = World::remembering(&[workflow("notes", &[note("only", &["x"])])]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "notes").await;
    let log = ended(&world.shared, &run).await;
    assert!(engine.fork(&scope(), fork(&run, 0, ForkMode::Replay), None).await.is_ok());
    assert!(Memory::new(world.shared.clone()).expire_snapshot(&scope(), &run).await.unwrap());
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let refused = engine.fork(&scope(), fork(&run, 1, mode), None).await.unwrap_err();
        assert!(
            matches!(
                &refused,
                EngineError::NoMemorySnapshot {
                    from: 1,
                    reason: SnapshotLoss::RetentionExpired,
                    ..
                }
            ),
            "{refused:?}"
        );
        let beyond = engine.fork(&scope(), fork(&run, log.len() as u64 + 1, mode), None).await;
        assert!(matches!(beyond, Err(EngineError::NoSuchEvent { .. })), "{beyond:?}");
        let stranger = Scope { tenant: "globex".into(), ..scope() };
        let hidden = engine.fork(&stranger, fork(&run, 1, mode), None).await;
        assert!(matches!(hidden, Err(EngineError::UnknownRun(_))), "{hidden:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_who_replace_one_version_one_is_told_so() {
    let world = World::remembering(&[
        workflow("notes", &[note("only", &["x"])]),
        workflow("replace", &[node("only", "test.rewriter", json!({}))]),
    ]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "notes").await;
    ended(&world.shared, &run).await;
    let runs = [start(&engine, "replace").await, start(&engine, "replace").await];
    let mut ends = Vec::new();
    for run in &runs {
        ends.push(ended(&world.shared, run).await.last().unwrap().kind.clone());
    }
    ends.sort();
    assert_eq!(ends, ["run.completed", "run.failed"]);
    let versions: Vec<u64> = world.journal().await.iter().map(|record| record.version).collect();
    assert_eq!(versions, [1, 2]);
}

/// What a run of an older version left: a birth record that says nothing of memory.
#[tokio::test(start_paused = true)]
async fn a_run_from_before_there_was_memory_can_be_forked() {
    let world = World::remembering(&[workflow("notes", &[note("only", &[])])]);
    let (engine, _) = world.host("host", Fate::Live);
    let run = start(&engine, "notes").await;
    let opened = world.shared.open(&run).await.unwrap().unwrap();
    let mut record = serde_json::to_value(&opened.birth).unwrap();
    record.as_object_mut().unwrap().remove("memory");
    let birth: callboard_core::Birth = serde_json::from_value(record).unwrap();
    assert_eq!(birth.memory, callboard_core::MemoryBirth::default());
}
