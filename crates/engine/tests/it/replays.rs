//! R54–R57, F59: every run of every shipped fixture, replayed twice from each of its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{InterruptView, Outcome, Resolution, Via};
use callboard_engine::{
    Activities, Activity, Call, Engine, EngineError, Filter, ForkOrder, InMemoryStore, InboxFilter,
    KeyMode, Overlay, Recorded, Store,
};
use callboard_protocol::{
    DrainPolicy, Event, ForkMode, InterruptKind, NodeId, Object, Owner, RunId,
};

use crate::sim::{
    Chatter, Fate, SimClock, doomed_store, ended, fixtures, host_with, open_questions, order, scope,
};

/// Simulated, and longer than the longest fixture: reached only by a run that is stuck.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Longer than any fixture may take.
const LATER: Duration = Duration::from_secs(600);
/// Into the middle of those fixtures that take any time at all.
const MIDDLE: Duration = Duration::from_millis(150);

/// An outward call that is counted.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

#[async_trait]
impl Activity for Counted {
    async fn perform(&self, call: Call) -> Outcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        Chatter.perform(call).await
    }
}

/// What befalls a source while it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Pause,
    Cancel,
    /// Nothing, but much later somebody branches off its middle, and then off that branch's end.
    Branch,
}

struct World {
    store: Arc<InMemoryStore>,
    engine: Engine,
    calls: Arc<AtomicUsize>,
}

impl World {
    fn new(definitions: &[String]) -> Self {
        let store = Arc::new(InMemoryStore::default());
        let calls = Arc::new(AtomicUsize::new(0));
        let performed = Activities::default();
        let performed = performed.with("core.ai.callPrompt", Arc::new(Counted(calls.clone())));
        let living = doomed_store(store.clone(), Fate::Live);
        let clock = SimClock::new();
        let engine = host_with("host", living, store.clone(), clock, definitions, performed);
        Self { store, engine, calls }
    }

    /// Runs a fixture to its end, with somebody who answers what is asked.
    async fn run(&self, fixture: &str, meanwhile: Meanwhile) {
        let order = order(fixture, inputs(fixture), configurable(fixture));
        let run = self.engine.create(order, None).await.unwrap().run;
        tokio::time::sleep(MIDDLE).await;
        match meanwhile {
            Meanwhile::Nothing | Meanwhile::Branch => {}
            Meanwhile::Pause => self.pause(&run).await,
            Meanwhile::Cancel => {
                self.engine.cancel(&scope(), &run, None, None, None).await.unwrap();
            }
        }
        let attended = tokio::time::timeout(PATIENCE, self.attend(&run)).await;
        assert!(attended.is_ok(), "{fixture} with {meanwhile:?} is stuck");
        if meanwhile == Meanwhile::Branch {
            let log = ended(&self.store, &run).await;
            let first = self.branch(&run, log.len() as u64 / 2).await;
            let log = ended(&self.store, &first).await;
            self.branch(&first, log.len() as u64 - 1).await;
        }
    }

    /// That time did not pass for the branch: what its source could do within its limits, it can.
    async fn branch(&self, source: &RunId, from: u64) -> RunId {
        tokio::time::sleep(LATER).await;
        let branch = self.fork(source, from, ForkMode::Branch).await;
        let attended = tokio::time::timeout(PATIENCE, self.attend(&branch)).await;
        assert!(attended.is_ok(), "a branch of {source} from {from} is stuck");
        let end = |log: Vec<Recorded>| log.last().map(|last| last.kind.clone());
        let (own, original) = (ended(&self.store, &branch).await, ended(&self.store, source).await);
        assert_eq!(end(own), end(original), "a branch of {source} from {from}");
        branch
    }

    async fn pause(&self, run: &RunId) {
        match self.engine.pause(&scope(), run, DrainPolicy::Immediate, None, None).await {
            Ok(_) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.engine.resume(&scope(), run, None, None).await.unwrap();
            }
            // It has ended already, or it waits for somebody.
            Err(EngineError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn attend(&self, run: &RunId) {
        let filter = InboxFilter { limit: usize::MAX, ..InboxFilter::default() };
        loop {
            tokio::select! {
                _ = ended(&self.store, run) => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            for item in self.store.inbox(&scope(), &filter).await.unwrap() {
                let answer = Resolution {
                    node: item.interrupt.node.clone(),
                    value: answer_to(&item.interrupt),
                    by: None,
                    via: Via::Delegate,
                };
                self.engine.resolve(&scope(), &item.run, answer, None).await.unwrap();
            }
        }
    }

    /// Every run with its log, children included.
    async fn logs(&self) -> Vec<(RunId, Vec<Recorded>)> {
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        let mut logs = Vec::new();
        for listed in self.store.list(&scope(), &filter).await.unwrap() {
            let log = ended(&self.store, &listed.run_id).await;
            logs.push((listed.run_id, log));
        }
        logs
    }

    async fn fork(&self, source: &RunId, from: u64, mode: ForkMode) -> RunId {
        let order = ForkOrder {
            source: source.clone(),
            from,
            mode,
            owner: Owner { tenant: "default".into(), workspace: None, principal: None },
            key_mode: KeyMode::Live,
            dialect: callboard_protocol::Dialect::V1,
            overlay: Overlay::default(),
        };
        self.engine.fork(&scope(), order, None).await.unwrap().run
    }

    async fn replay(&self, source: &RunId, from: u64) -> Vec<Recorded> {
        let fork = self.fork(source, from, ForkMode::Replay).await;
        let ended = tokio::time::timeout(PATIENCE, ended(&self.store, &fork)).await;
        ended.unwrap_or_else(|_| panic!("a replay of {source} from {from} is stuck"))
    }

    /// Whoever follows a run's state sees in the end what its snapshot says.
    async fn check_stream(&self, log: &[Recorded], what: &str) {
        let run = &log[0].run;
        let seen = self.engine.snapshot(&scope(), run).await.unwrap().unwrap();
        let mut watcher = self.engine.watch(&scope(), run).await.unwrap().unwrap();
        let streamed = watcher.advance_to(log.len() as u64).await.unwrap();
        let seen: Value = serde_json::from_str(&seen.json).unwrap();
        assert_eq!(serde_json::to_value(streamed).unwrap(), seen, "{what}");
    }
}

fn answer_to(asked: &InterruptView) -> Value {
    match asked.kind {
        InterruptKind::Approval => {
            json!({ "action": "accept", "voter": format!("voter-{}", asked.votes.len()) })
        }
        InterruptKind::LowConfidence => json!({ "action": "accept" }),
        InterruptKind::Clarification => {
            let questions = asked.data["questions"].as_array().into_iter().flatten();
            let answers = questions.map(|question| {
                (question["id"].as_str().unwrap_or_default().to_owned(), json!("blue"))
            });
            json!({ "answers": Object::from_iter(answers) })
        }
        InterruptKind::ExternalEvent => asked.data["correlation"].clone(),
        InterruptKind::Custom
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => json!({}),
    }
}

fn inputs(fixture: &str) -> Object {
    let inputs = match fixture {
        "conformance-identity" => json!({ "payload": { "deep": [1, { "x": null }] } }),
        "conformance-idempotent" => json!({ "nonce": "n" }),
        _ => json!({}),
    };
    inputs.as_object().cloned().unwrap()
}

fn configurable(fixture: &str) -> Object {
    let options = match fixture {
        "conformance-cap-breach" => json!({ "recursionLimit": 3 }),
        "conformance-run-duration-breach" => json!({ "runTimeoutMs": 1_000 }),
        _ => json!({}),
    };
    options.as_object().cloned().unwrap()
}

/// What two replays must agree in, to the byte.
fn told(log: &[Recorded]) -> Vec<(&str, Option<&NodeId>, &str)> {
    log.iter()
        .map(|event| (event.kind.as_str(), event.node.as_ref(), event.payload.as_str()))
        .collect()
}

async fn replays_from_everywhere(definitions: &[String], fixture: &str, meanwhile: Meanwhile) {
    let world = World::new(definitions);
    world.run(fixture, meanwhile).await;
    let sources = world.logs().await;
    let (calls, mut forks) = (world.calls.load(Ordering::Relaxed), 0);
    for (source, log) in &sources {
        let is_cancelled = log.last().is_some_and(|last| last.kind == "run.cancelled");
        for from in 0..log.len() as u64 {
            let what = format!("{fixture} with {meanwhile:?}, {source} from {from}");
            let (first, second) =
                (world.replay(source, from).await, world.replay(source, from).await);
            forks += 2;
            assert_eq!(told(&first), told(&second), "{what}");
            if !is_cancelled {
                assert_eq!(told(&first), told(log), "{what}");
            }
            assert!(first.iter().all(|event| event.kind != "replay.diverged"), "{what}: {first:?}");
            assert!(first.last().is_some_and(|last| Event::is_terminal(&last.kind)), "{what}");
            if meanwhile == Meanwhile::Branch {
                world.check_stream(&first, &what).await;
            }
        }
        assert_eq!(
            *log,
            ended(&world.store, source).await,
            "{fixture}: R58, a source is only read"
        );
    }
    assert_eq!(world.calls.load(Ordering::Relaxed), calls, "{fixture}: a replay called somebody");
    assert_eq!(
        world.logs().await.len(),
        sources.len() + forks,
        "{fixture}: a replay started a run"
    );
    assert_eq!(open_questions(&world.store).await, [""; 0], "{fixture}: a replay asked somebody");
    world.engine.kill();
}

#[tokio::test(start_paused = true)]
async fn r54_every_fixture_replays_alike_from_each_of_its_events() {
    let Some(folder) = fixtures() else {
        eprintln!("skipped: the protocol's fixtures are not beside the project");
        return;
    };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let definitions: Vec<String> =
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let world = World::new(&definitions);
    let fixtures = world.engine.catalog().fixtures();
    world.engine.kill();
    assert!(fixtures.len() >= 30, "too few of the fixtures are run here: {fixtures:?}");
    for fixture in &fixtures {
        let (nothing, pause) = (Meanwhile::Nothing, Meanwhile::Pause);
        for meanwhile in [nothing, pause, Meanwhile::Cancel, Meanwhile::Branch] {
            replays_from_everywhere(&definitions, fixture.as_str(), meanwhile).await;
        }
    }
}
