//! What holds for every workflow and whatever happens to its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use callboard_core::{Attempt, Command, Entry, Outcome, RetryClass, Run, spans};
use callboard_protocol::{DrainPolicy, Event, Failure, Object, RunStatus, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::given::{Given, at};
use crate::random::{Act, Case, FOREVER_MS, cases};
use crate::story::{chunk, line, outside};

/// Enough to find what is wrong, few enough to run with every change; the seed makes a failure repeat.
fn config(seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: 128,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(1))]

    /// The log alone rebuilds the run; decisions are deterministic; no run is stuck or spins.
    #[test]
    fn every_history_folds_back_into_its_run(case in cases()) {
        let world = play(&case);
        assert_limits(&case.given, &world.log);
        assert_one_end(&world.log, world.run.status());
        assert_traced(&case.given, &world.log);
        assert_artifacts(&world.log);
    }
}

proptest! {
    #![proptest_config(config(2))]

    /// A crash after any event: what the next holder finds goes on to one end.
    #[test]
    fn every_prefix_of_a_log_can_be_driven_to_one_end(case in cases()) {
        let world = play(&case);
        let stride = world.log.len() / 12 + 1;
        for length in (0..=world.log.len()).step_by(stride) {
            let prefix = &world.log[..length];
            let run = replay(&world.run, prefix);
            let ended = drive(World { run, log: prefix.to_vec(), now: world.now });
            assert_limits(&case.given, &ended.log);
            assert_one_end(&ended.log, ended.run.status());
            assert!(ended.run.status().is_terminal(), "{:#?}", lines(&ended.log));
        }
    }
}

/// Every prefix of a log has the spans of a shorter one and no id twice; an ended run has no open span.
fn assert_traced(given: &Given, log: &[Entry]) {
    let (birth, plan) = (given.birth(), given.plan().expect("a definition that runs"));
    let ids = |log: &[Entry]| -> Vec<String> {
        spans(&birth, &plan, log, &[]).into_iter().map(|span| span.span_id).collect()
    };
    let all = ids(log);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{:#?}", lines(log));
    for length in (0..log.len()).step_by(log.len() / 6 + 1) {
        assert!(all.starts_with(&ids(&log[..length])), "at {length} of {:#?}", lines(log));
    }
    let is_over = log.last().is_some_and(|last| Event::is_terminal(last.event.kind()));
    if is_over {
        let open = spans(&birth, &plan, log, &[]).into_iter().find(|span| span.ended_at.is_none());
        assert_eq!(open, None, "{:#?}", lines(log));
    }
}

/// No artifact is told of twice, and none before its node completed.
fn assert_artifacts(log: &[Entry]) {
    let mut told = BTreeSet::new();
    for (place, entry) in log.iter().enumerate() {
        let Event::ArtifactCreated(artifact) = &entry.event else { continue };
        assert!(told.insert(artifact.artifact_id.clone()), "{:#?}", lines(log));
        let completed = log[..place].iter().any(|earlier| {
            matches!(&earlier.event, Event::NodeCompleted(done) if done.node_id == artifact.node_id)
        });
        assert!(completed, "{:#?}", lines(log));
    }
}

pub(crate) struct World {
    pub(crate) run: Run,
    pub(crate) log: Vec<Entry>,
    now: Timestamp,
}

pub(crate) fn play(case: &Case) -> World {
    let mut world = World { run: case.given.run(), log: Vec::new(), now: at(0) };
    let is_endless = case.given.birth().limits.duration_ms == FOREVER_MS;
    for (delta, act) in &case.acts {
        let moved = world.now.as_millis() + delta;
        world.now = match act {
            Act::Wake => {
                world.run.wakes_at().filter(|wake| *wake < at(1_000_000_000)).unwrap_or(world.now)
            }
            _ => Timestamp::from_millis(moved),
        };
        let Some(command) = command(&world.run, act) else { continue };
        if !world.decide(&command) {
            continue;
        }
        assert_owed(&world, is_endless);
    }
    world
}

impl World {
    /// Decides twice: both must agree, and the log must rebuild what comes out. Says whether it was accepted.
    fn decide(&mut self, command: &Command) -> bool {
        let mut twin = self.run.clone();
        let told = self.run.decide(command, self.now);
        assert_eq!(told, twin.decide(command, self.now), "decide is deterministic");
        let Ok(entries) = told else {
            assert_same(&self.run, &replay(&self.run, &self.log));
            return false;
        };
        for entry in &entries {
            assert_eq!(entry.sequence, self.log.len() as u64, "sequences have no gap");
            assert!(self.log.last().is_none_or(|last| last.at <= entry.at), "time goes on");
            self.log.push(entry.clone());
        }
        assert_same(&self.run, &replay(&self.run, &self.log));
        true
    }
}

fn replay(run: &Run, log: &[Entry]) -> Run {
    Run::replay(Arc::clone(run.birth()), Arc::clone(run.plan()), log)
}

fn assert_same(left: &Run, right: &Run) {
    assert_eq!(left.snapshot(), right.snapshot());
    assert_eq!(left.head(), right.head());
    assert_eq!(left.tasks().collect::<Vec<_>>(), right.tasks().collect::<Vec<_>>());
}

/// Whether a batch was cut: there is more to decide though no time has passed.
fn continues(run: &Run) -> bool {
    let next = run.clone().decide(&Command::Continue, run.head().updated_at);
    next.is_ok_and(|events| !events.is_empty())
}

/// Ended runs owe nothing; running ones have work, a time to wake at, or something to continue.
fn assert_owed(world: &World, is_endless: bool) {
    let run = &world.run;
    let updated_at = run.head().updated_at;
    let continues = continues(run);
    match run.status() {
        RunStatus::Running | RunStatus::Cancelling => {
            let wakes = run.wakes_at().expect("a running run has at least its deadline");
            let is_busy = continues || run.tasks().next().is_some();
            let has_timer = !is_endless || wakes < at(1_000_000_000);
            assert!(is_busy || has_timer, "stuck: {:#?}", lines(&world.log));
            let now = world.now.max(updated_at);
            assert!(continues || wakes > now, "would spin: {:#?}", lines(&world.log));
        }
        RunStatus::Pending => assert!(run.wakes_at().is_some()),
        status => {
            assert_eq!((continues, run.wakes_at()), (false, None), "{status:?}");
            assert_eq!(run.tasks().count(), 0);
            assert_eq!(run.head().wake_at, None);
        }
    }
}

/// What the world does, if the run's state offers it.
fn command(run: &Run, act: &Act) -> Option<Command> {
    let owed: Vec<Attempt> = run.tasks().map(|task| task.attempt).collect();
    let pick = |which: usize| (!owed.is_empty()).then(|| owed[which % owed.len()].clone());
    Some(match act {
        Act::Start => Command::Start,
        Act::Adopt => Command::Adopt,
        Act::Continue | Act::Wake => Command::Continue,
        Act::Done(which) => done(pick(*which)?),
        Act::Fail(which, retryable) => {
            let class = if *retryable { RetryClass::Retryable } else { RetryClass::Final };
            let outcome = Outcome::Failed { failure: Failure::new("broke", "it broke"), class };
            Command::Finish { attempt: pick(*which)?, outcome }
        }
        Act::Tell(which, index) => Command::RecordFacts {
            attempt: pick(*which)?,
            facts: vec![chunk(*index), chunk(index + 1)],
        },
        Act::Late(which) => {
            let mut attempt = pick(*which)?;
            attempt.number += 1;
            done(attempt)
        }
        Act::Cancel => Command::Cancel { reason: None, by: None, parent: None },
        Act::Pause(at_once) => {
            let drain =
                if *at_once { DrainPolicy::Immediate } else { DrainPolicy::DrainCurrentNode };
            Command::Pause { drain, reason: None }
        }
        Act::Resume => Command::Resume { reason: None },
        Act::Write(value, named) => outside("c", (*value).into(), named.then_some("run-9")),
        Act::SetVariable(value) => {
            Command::SetVariables(Object::from_iter([("v0".to_owned(), (*value).into())]))
        }
    })
}

fn done(attempt: Attempt) -> Command {
    Command::Finish {
        attempt,
        outcome: Outcome::Done { outputs: Object::from_iter([("result".to_owned(), true.into())]) },
    }
}

/// A holder that does all that is owed, until the end.
fn drive(mut world: World) -> World {
    world.decide(&Command::Adopt);
    for _ in 0..5_000 {
        let status = world.run.status();
        let owed = world.run.tasks().next().map(|task| task.attempt);
        if status.is_terminal() {
            return world;
        }
        if status == RunStatus::Paused {
            world.decide(&Command::Resume { reason: None });
        } else if continues(&world.run) {
            world.decide(&Command::Continue);
        } else if let Some(attempt) = owed {
            world.decide(&done(attempt));
        } else {
            let wakes = world.run.wakes_at().expect("something to wait for");
            assert!(wakes > world.now.max(world.run.head().updated_at), "spins");
            world.now = wakes;
            world.decide(&Command::Continue);
        }
    }
    panic!("no end: {:#?}", lines(&world.log));
}

/// Never more nodes started than the limit; a breach is told once.
fn assert_limits(given: &Given, log: &[Entry]) {
    let count = |kind: &str| log.iter().filter(|entry| entry.event.kind() == kind).count();
    assert!(count("node.started") as u64 <= given.birth().limits.node_executions);
    assert!(count("cap.breached") <= 1, "{:#?}", lines(log));
    assert!(count("run.started") <= 1);
    // Whatever its rule cannot reach would be swept up at the end; only an unfired trigger may be.
    for entry in log {
        if let Event::NodeSkipped(payload) = &entry.event
            && payload.reason.as_deref() == Some("nothing triggered it")
        {
            let fired = &given.definition["triggers"][0]["nodeId"];
            assert_eq!(fired, payload.node_id.as_str(), "{:#?}", lines(log));
        }
    }
}

/// A visit of a node completes once; at most one terminal event, and nothing behind it.
fn assert_one_end(log: &[Entry], status: RunStatus) {
    let mut visits = BTreeMap::new();
    let mut completed = BTreeSet::new();
    for entry in log {
        match &entry.event {
            Event::NodeStarted(payload) => {
                visits.insert(payload.node_id.clone(), payload.visit);
            }
            Event::NodeCompleted(payload) => {
                let visit = visits.get(&payload.node_id).copied();
                assert!(visit.is_some(), "{} completed unstarted", payload.node_id);
                let is_first = completed.insert((payload.node_id.clone(), visit));
                assert!(is_first, "{} completed twice: {:#?}", payload.node_id, lines(log));
            }
            _ => {}
        }
    }
    let ends = log.iter().filter(|entry| Event::is_terminal(entry.event.kind())).count();
    assert_eq!(ends, usize::from(status.is_terminal()), "{:#?}", lines(log));
    let last = log.last().is_some_and(|entry| Event::is_terminal(entry.event.kind()));
    assert_eq!(last, status.is_terminal(), "{:#?}", lines(log));
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}
