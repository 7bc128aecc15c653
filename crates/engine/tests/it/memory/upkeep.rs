//! Places that have become crowded: whoever dies, each is tidied once, and those who began before see the past.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Head, Outcome};
use callboard_engine::{
    Activities, Activity, Append, Batch, Call, Clock as _, Due, Filter, Keeper, MemoryAuthor,
    MemoryDraft, MemoryQuery, MemoryRecord, MemoryRow, Place, Recorded, Store, Upkeep, add_memory,
};
use callboard_protocol::{CompactionTrigger, ConsolidationTrigger, RunId, Timestamp};

use super::{NOTES, done, note};
use crate::sim::{Fate, LEASE, ended, host_with, scope};
use crate::simulation::node;
use crate::world::{World, outputs, start, workflow};

/// As many as a place may hold, and six more.
const CROWD: usize = 206;

/// What the host's own nodes do.
#[derive(Debug)]
pub(super) struct Tidier;

#[async_trait]
impl Activity for Tidier {
    async fn perform(&self, call: Call) -> Outcome {
        let keep = call.config["keep"].as_u64().unwrap();
        let upkeep = match call.config["memoryAction"].as_str() {
            Some("consolidate") => Upkeep::Consolidate(ConsolidationTrigger::HostManaged),
            _ => Upkeep::Compact {
                keep: usize::try_from(keep).unwrap(),
                trigger: CompactionTrigger::HostManaged,
            },
        };
        call.memory.tidy(call.config["memoryRef"].as_str().unwrap(), upkeep).await.unwrap();
        done(json!({}))
    }
}

/// A place that is crowded, and a run that began before it was tidied.
async fn crowded() -> (World, RunId) {
    let mut notes: Vec<String> = (0..CROWD).map(|number| format!("note {number}")).collect();
    notes[1] = "NOTE 0!".to_owned();
    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
    let late = node("wait", "core.delay", json!({ "ms": 60_000 }));
    let world = World::remembering(&[
        workflow("fill", &[note("only", &notes)]),
        workflow("look", &[late, note("late", &[])]),
        workflow("now", &[note("now", &[])]),
    ]);
    let (engine, _) = world.host("filler", Fate::Live);
    let run = start(&engine, "fill").await;
    ended(&world.shared, &run).await;
    let early = start(&engine, "look").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.kill();
    (world, early)
}

async fn standing(world: &World) -> Vec<MemoryRecord> {
    let query = MemoryQuery::new(Place::Anywhere, world.clock.now(), usize::MAX);
    world.shared.recall(&scope(), &query).await.unwrap()
}

async fn tidied(fate: Fate) -> (World, RunId, u64) {
    let (world, early) = crowded().await;
    let (first, doomed) = world.host("first", fate);
    let keeper = Keeper::new(first.clone());
    assert_eq!(keeper.tick(world.clock.now()).await.unwrap(), 1, "{fate:?}");
    tokio::select! {
        () = doomed.died.notified() => first.kill(),
        () = tokio::time::sleep(LEASE) => {}
    }
    let (second, _) = world.host("second", Fate::Live);
    tokio::time::sleep(LEASE * 6).await;
    // Nothing has come in since, so there is nothing to do.
    assert_eq!(Keeper::new(second).tick(world.clock.now()).await.unwrap(), 0, "{fate:?}");
    ended(&world.shared, &early).await;
    first.kill();
    (world, early, doomed.appends())
}

async fn upkeep_log(world: &World) -> Vec<Recorded> {
    let filter =
        Filter { workflow: Some("callboard-memory".into()), limit: 10, ..Filter::default() };
    let mut listed = world.shared.list(&scope(), &filter).await.unwrap();
    assert_eq!(listed.len(), 1);
    ended(&world.shared, &listed.remove(0).run_id).await
}

/// A promise fires once, whoever dies between the run and the note that it was kept.
#[tokio::test(start_paused = true)]
async fn a_commitment_fires_once_whoever_dies() {
    for fate in [Fate::Live, Fate::DieBefore(1), Fate::DieAfter(1), Fate::Oversleep(1)] {
        let world =
            World::remembering(&[workflow("promise", &[node("only", "test.promise", json!({}))])]);
        let (engine, _) = world.host("filler", Fate::Live);
        let run = start(&engine, "promise").await;
        ended(&world.shared, &run).await;
        engine.kill();
        let (first, doomed) = world.host("first", fate);
        let before = world.clock.now();
        assert_eq!(Keeper::new(first.clone()).keep_promises(before).await.unwrap(), []);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let now = world.clock.now();
        let promises = Keeper::new(first.clone());
        tokio::select! {
            fired = promises.keep_promises(now) => assert_eq!(fired.unwrap().len(), 1, "{fate:?}"),
            () = doomed.died.notified() => first.kill(),
        }
        let (second, _) = world.host("second", Fate::Live);
        assert_eq!(Keeper::new(second).keep_promises(now).await.unwrap(), [], "{fate:?}");
        tokio::time::sleep(LEASE * 6).await;
        let all = Filter { limit: 100, ..Filter::default() };
        let runs = world.shared.list(&scope(), &all).await.unwrap();
        let told = runs.iter().filter(|run| run.workflow_id.as_str() == "callboard-commitment");
        let fired: Vec<_> = told.map(|run| run.run_id.clone()).collect();
        assert_eq!(fired.len(), 1, "{fate:?}");
        let log = ended(&world.shared, &fired[0]).await;
        assert_eq!(payloads(&log, "commitment.fired").len(), 1, "{fate:?}");
        first.kill();
    }
}

/// Promises something in half a minute.
#[derive(Debug)]
pub(super) struct Promise;

#[async_trait]
impl Activity for Promise {
    async fn perform(&self, call: Call) -> Outcome {
        let due = Some(Due::At(call.now().plus_millis(30_000)));
        let draft = MemoryDraft { due, ..MemoryDraft::new(NOTES, "call back") };
        call.memory.put(0, draft).await.unwrap();
        done(json!({}))
    }
}

fn payloads(log: &[Recorded], kind: &str) -> Vec<Value> {
    let told = log.iter().filter(|event| event.kind == kind);
    told.map(|event| serde_json::from_str(&event.payload).unwrap()).collect()
}

/// M-63, M-64.
#[tokio::test(start_paused = true)]
async fn a_crowded_place_is_tidied_once_whoever_dies() {
    let (_, _, appends) = tidied(Fate::Live).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            let (world, early, _) = tidied(fate).await;
            let log = upkeep_log(&world).await;
            let [consolidated] = &payloads(&log, "agent.memory.consolidated")[..] else {
                panic!("{fate:?}: {log:?}")
            };
            assert_eq!(consolidated["inputCount"], CROWD, "{fate:?}");
            assert_eq!(consolidated["outputCount"], CROWD - 1, "{fate:?}");
            let [compacted] = &payloads(&log, "memory.compacted")[..] else {
                panic!("{fate:?}: {log:?}")
            };
            let sources = CROWD - 1 - 100;
            assert_eq!(compacted["sourceCount"], sources, "{fate:?}");
            assert_eq!(compacted["sourceIds"], Value::Null, "{fate:?}");
            let standing = standing(&world).await;
            assert_eq!(standing.len(), 101, "{fate:?}");
            let output = &standing[0];
            assert_eq!(compacted["outputId"], output.id.as_str(), "{fate:?}");
            assert_eq!(compacted["byteSize"], output.content.len(), "{fate:?}");
            assert_eq!(output.content.lines().count(), sources, "{fate:?}");
            assert!(output.content.contains("note 0") && output.content.contains("note 105"));
            let by = output.author.run_id.as_ref().unwrap();
            assert_eq!(output.tags, [format!("compacted-from:{by}")], "{fate:?}");
            assert_eq!(output.sources.len(), sources, "{fate:?}");
            // Whoever began before sees the past: the newest hundred, none of them put together.
            let log = ended(&world.shared, &early).await;
            let seen = outputs(&log, "late")["seen"].as_array().unwrap().clone();
            assert_eq!((seen.len(), &seen[0]), (100, &json!("note 205")), "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_put_together_is_seen_by_those_who_begin_later() {
    let (world, _, _) = tidied(Fate::Live).await;
    let (engine, _) = world.host("third", Fate::Live);
    let run = start(&engine, "now").await;
    let log = ended(&world.shared, &run).await;
    let seen = outputs(&log, "now")["seen"].as_array().unwrap().clone();
    assert!(seen[0].as_str().unwrap().contains("note 0"), "{}", seen[0]);
    assert_eq!((seen.len(), &seen[1]), (100, &json!("note 205")));
    let history =
        world.shared.memory_history(&scope(), &standing(&world).await[0].sources[0]).await;
    assert_eq!(history.unwrap()[0].memory_ref, NOTES);
}

/// A host that cannot tidy leaves places as they are; the seventeenth has its turn all the same.
#[tokio::test(start_paused = true)]
async fn places_that_stay_crowded_do_not_keep_others_from_their_turn() {
    let world = World::remembering(&[workflow("fill", &[note("only", &[])])]);
    let (engine, _) = world.host("filler", Fate::Live);
    let run = start(&engine, "fill").await;
    ended(&world.shared, &run).await;
    let found = world.shared.find(&scope(), &run).await.unwrap().unwrap();
    let (status, version) = (found.status, found.version);
    let memory = (0..17).flat_map(|place| (0..CROWD).map(move |number| row(place, number)));
    let append = Append {
        run,
        expected: version,
        fence: None,
        rows: Vec::new(),
        head: Head { status, version, wake_at: None, updated_at: world.clock.now() },
        snapshot: None,
        interrupts: None,
        outcome: None,
        children: Vec::new(),
        wakes: None,
    };
    let mut batch = Batch::of_append(append);
    add_memory(&mut batch, &scope(), memory.collect()).unwrap();
    world.shared.commit(batch).await.unwrap();
    let (store, clock) = (world.shared.clone(), world.clock.clone());
    let clumsy = host_with("clumsy", store.clone(), store, clock, &[], Activities::default());
    let keeper = Keeper::new(clumsy);
    for started in [16, 1, 0] {
        assert_eq!(keeper.tick(world.clock.now()).await.unwrap(), started);
        tokio::time::sleep(LEASE).await;
    }
}

fn row(place: usize, number: usize) -> MemoryRow {
    MemoryRow {
        id: format!("mem-{place}-{number}").as_str().into(),
        expected: 0,
        scope_id: format!("place-{place}"),
        memory_ref: NOTES.to_owned(),
        family: None,
        content: format!("note {number}"),
        tags: Vec::new(),
        at: Timestamp::default(),
        expires_at: None,
        author: MemoryAuthor::default(),
        sources: Vec::new(),
        due: None,
        absorbs: Vec::new(),
    }
}
