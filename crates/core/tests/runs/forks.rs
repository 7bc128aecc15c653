//! Forks: a replay tells what its source told, whatever happened to it; a branch goes on live.

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Fork, Outcome, Refusal, Resolution, Run, Via, spans};
use callboard_protocol::{DrainPolicy, Event, ForkMode, Object, RunStatus, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given};
use crate::properties::play as play_case;
use crate::random::cases;
use crate::story::{Played, line, play};

/// The birth record of a fork.
fn fork_of(source: &Run, length: usize, from: usize, mode: ForkMode) -> Arc<Birth> {
    let birth = source.birth();
    Arc::new(Birth {
        run_id: "run-2".into(),
        created_at: at(3_000_000),
        fork: Some(Fork::of(birth, mode, from as u64, length as u64)),
        ..Birth::clone(birth)
    })
}

/// A replay before its first own event.
fn rehearsal(source: &Run, log: &[Entry], from: usize) -> Run {
    let birth = fork_of(source, log.len(), from, ForkMode::Replay);
    let mut run = Run::new(birth, Arc::clone(source.plan())).with_source(&log[from..]);
    log[..from].iter().for_each(|entry| run.apply(entry));
    run
}

/// Drives a replay to its end; it needs nothing but to be asked.
fn rehearse(mut run: Run, mut log: Vec<Entry>) -> (Run, Vec<Entry>) {
    for _ in 0..1_000 {
        if run.status().is_terminal() {
            return (run, log);
        }
        assert_eq!(run.tasks().count(), 0, "a replay performs nothing");
        let told = run.decide(&Command::Continue, at(4_000_000)).expect("a replay goes on");
        assert!(!told.is_empty(), "a replay is stuck after {:#?}", lines(&log));
        log.extend(told);
    }
    panic!("no end: {:#?}", lines(&log));
}

fn replay(source: &Run, log: &[Entry], from: usize) -> (Run, Vec<Entry>) {
    rehearse(rehearsal(source, log, from), log[..from].to_vec())
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

/// What two replays must agree in, byte for byte.
fn told(log: &[Entry]) -> Vec<(String, Option<String>, String)> {
    let tell = |entry: &Entry| {
        let node = entry.event.node_id().map(ToString::to_string);
        (entry.event.kind().to_owned(), node, entry.event.payload_text())
    };
    log.iter().map(tell).collect()
}

fn count(log: &[Entry], kind: &str) -> usize {
    log.iter().filter(|entry| entry.event.kind() == kind).count()
}

/// Whether the source came to its end by itself.
fn ran_out(log: &[Entry]) -> bool {
    let ended = log.last().is_some_and(|last| Event::is_terminal(last.event.kind()));
    ended && count(log, "run.cancelled") == 0
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    /// R54, R56: from any event, twice, also when the first holder of the replay dies after any append.
    #[test]
    fn r54_a_replay_from_any_event_tells_the_same(case in cases()) {
        let world = play_case(&case);
        let stride = world.log.len() / 8 + 1;
        for from in (0..world.log.len()).step_by(stride) {
            let (first, log) = replay(&world.run, &world.log, from);
            let (_, again) = replay(&world.run, &world.log, from);
            assert_eq!(told(&log), told(&again));
            assert_eq!(count(&log, "replay.diverged"), 0, "{:#?}", lines(&log));
            if ran_out(&world.log) {
                assert_eq!(told(&log), told(&world.log));
                assert_eq!(first.status(), world.run.status());
            }
            let cut = from + (log.len() - from) / 2;
            let mut next_holder = rehearsal(&world.run, &world.log, from);
            log[from..cut].iter().for_each(|entry| next_holder.apply(entry));
            let (_, recovered) = rehearse(next_holder, log[..cut].to_vec());
            assert_eq!(told(&recovered), told(&log), "a crash at {cut}");
        }
    }
}

fn effect() -> Given {
    given("wait:delay effect:core.conformance.side-effect")
        .edges("wait>effect")
        .config("wait", json!({ "ms": 30_000 }))
}

/// R55: what the source never did is not done by its replay either.
#[test]
fn r55_an_effect_that_never_happened_fails_closed() {
    let source = play(&effect(), &[(0, Do::Start), (10, Do::Cancel)]);
    let (run, log) = replay(&source.run, &source.log, 0);
    let expected = [
        "run.started",
        "node.started wait",
        "node.completed wait",
        "node.started effect",
        "node.failed effect replay_source_missing",
        "run.failed replay_source_missing",
    ];
    assert_eq!(lines(&log), expected);
    assert_eq!(run.status(), RunStatus::Failed);
    let waited = log[2].at.since(log[1].at).as_millis();
    assert_eq!(waited, 30_000, "time jumps, and the log says so");
}

/// R55: the second round of a loop is another execution; the first one's outcome does not stand for it.
#[test]
fn r55_outcomes_belong_to_one_execution() {
    let flow = given("effect:core.conformance.side-effect wait:delay")
        .edges("effect>wait wait>effect:any_success")
        .config("wait", json!({ "ms": 3_000 }))
        .top(json!({ "settings": { "maxLoopbackIterations": 2 } }));
    let steps = [(0, Do::Start), (5, Do::Done("effect", json!({ "sent": 1 }))), (9, Do::Cancel)];
    let source = play(&flow, &steps);
    let (_, log) = replay(&source.run, &source.log, 0);
    assert!(lines(&log).contains(&"node.completed effect".to_owned()));
    let failed = lines(&log).iter().filter(|line| line.starts_with("node.failed effect")).count();
    assert_eq!((count(&log, "node.completed"), failed), (2, 1), "{:#?}", lines(&log));
}

/// R56: what comes out differently is told with its place, and the replay goes on.
#[test]
fn r56_a_divergence_is_told_and_the_replay_goes_on() {
    let flow = given("a:identity b:ai")
        .edges("a>b")
        .ports("a", json!({ "x": { "type": "static", "value": "new" } }));
    let mut source = play(&flow, &[(0, Do::Start), (5, Do::Done("b", json!({ "text": "hello" })))]);
    let place = source.log.iter().position(|entry| entry.event.kind() == "node.completed");
    let place = place.expect("a completed node");
    if let Event::NodeCompleted(payload) = &mut source.log[place].event {
        payload.outputs.insert("x".into(), json!("old"));
    }
    let (run, log) = replay(&source.run, &source.log, 0);
    let report = log.iter().find(|entry| entry.event.kind() == "replay.diverged");
    assert_eq!(
        report.expect("a report").event.payload(),
        json!({ "sourceRunId": "run-1", "atSequence": place, "originalEventId": format!("run-1-{place}"),
            "divergenceKind": "output", "divergencePoint": "node.completed" })
    );
    assert_eq!(count(&log, "replay.diverged"), 1, "{:#?}", lines(&log));
    assert_eq!(run.status(), RunStatus::Completed);
    assert_eq!(run.snapshot().variables["x"], "new", "pure nodes are computed anew");
    let seen = &spans(run.birth(), run.plan(), &log, &[])[0].attributes;
    assert_eq!(
        (&seen["openwop.replay.source_run_id"], &seen["openwop.replay.diverged"]),
        (&json!("run-1"), &json!(true)),
        "R76"
    );
    assert_eq!(run.snapshot().variables["b"]["text"], "hello", "outcomes are taken over");
}

/// R56: an event that no longer happens is passed over, one that nobody recorded is told too.
#[test]
fn r56_missing_and_surplus_events_are_told() {
    let flow = given("a:noop b:noop").edges("a>b");
    let source = play(&flow, &[(0, Do::Start)]);
    let mut padded = source.log.clone();
    let skipped = Entry { event: padded[2].event.clone(), ..padded[3].clone() };
    padded.insert(3, skipped);
    let (run, log) = replay(&source.run, &padded, 0);
    assert!(count(&log, "replay.diverged") > 0, "{:#?}", lines(&log));
    assert_eq!(run.status(), RunStatus::Completed);
    let shorter: Vec<Entry> =
        source.log.iter().filter(|entry| entry.sequence != 3).cloned().collect();
    let (run, log) = replay(&source.run, &shorter, 0);
    assert!(count(&log, "replay.diverged") > 0, "{:#?}", lines(&log));
    assert_eq!(run.status(), RunStatus::Completed);
}

fn gate() -> Played {
    let flow = given("gate:approvalGate after:noop").edges("gate>after");
    let mut source = play(&flow, &[(0, Do::Start)]);
    let answer = Command::Resolve(Resolution {
        node: "gate".into(),
        value: json!({ "action": "accept" }),
        by: Some("user:1".into()),
        via: Via::Key,
    });
    let told = source.run.decide(&answer, at(60_000)).expect("an answer");
    source.log.extend(told);
    source
}

/// R57, F36: a question that was answered is not asked again; ids and times are those of then.
#[test]
fn r57_answers_are_taken_over_with_their_ids_and_times() {
    let source = gate();
    let (run, log) = replay(&source.run, &source.log, 0);
    assert_eq!(told(&log), told(&source.log));
    let times = |log: &[Entry]| log.iter().map(|entry| entry.at).collect::<Vec<Timestamp>>();
    assert_eq!(times(&log), times(&source.log));
    assert_eq!(run.status(), RunStatus::Completed);
}

/// R55: nobody is asked in a replay, and nobody can answer, pause or stop its course but by cancelling it.
#[test]
fn a_question_that_nobody_answered_fails_closed() {
    let flow = given("gate:approvalGate");
    let source = play(&flow, &[(0, Do::Start)]);
    let mut run = rehearsal(&source.run, &source.log, 0);
    let answer = Command::Resolve(Resolution {
        node: "gate".into(),
        value: json!({ "action": "accept" }),
        by: None,
        via: Via::Key,
    });
    let refused = run.decide(&answer, at(0));
    assert_eq!(refused, Err(Refusal::NoInterrupt { node: "gate".into() }));
    let pause = Command::Pause { drain: DrainPolicy::Immediate, reason: None };
    assert!(matches!(run.decide(&pause, at(0)), Err(Refusal::CannotPause { .. })));
    let (run, log) = rehearse(run, Vec::new());
    assert_eq!(run.status(), RunStatus::Failed);
    assert!(lines(&log).contains(&"node.failed gate replay_source_missing".to_owned()));
    let mut cancelled = rehearsal(&source.run, &source.log, 2);
    let told =
        cancelled.decide(&Command::Cancel { reason: None, by: None, parent: None }, at(5_000_000));
    assert_eq!(told.expect("a cancel").last().expect("an end").event.kind(), "run.cancelled");
}

/// Forked while its source was being cancelled, or cancelled itself: a replay has no child to wait for.
#[test]
fn a_cancelled_replay_waits_for_no_child() {
    let flow = given("call:subWorkflow").config("call", json!({ "workflowId": "child" }));
    let mut source = play(&flow, &[(0, Do::Start)]);
    let order = source.run.child_orders().pop().expect("a child is owed");
    let (attempt, workflow) = (order.attempt, order.workflow);
    let dispatch = Command::Dispatch { attempt, child: "run-child".into(), workflow };
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    for command in [&dispatch, &cancel] {
        let told = source.run.decide(command, at(1)).expect("a command that is accepted");
        source.log.extend(told);
    }
    assert_eq!(source.run.status(), RunStatus::Cancelling, "the source waits for its child");
    let (run, _) = replay(&source.run, &source.log, source.log.len());
    assert_eq!(run.status(), RunStatus::Cancelled);
    let mut run = rehearsal(&source.run, &source.log, source.log.len() - 1);
    run.decide(&cancel, at(5_000_000)).expect("a cancel");
    assert_eq!(run.status(), RunStatus::Cancelled);
}

/// F59: pauses and takeovers are history; a replay stops for neither.
#[test]
fn f59_pauses_are_no_pauses_in_a_replay() {
    let flow = given("wait:delay say:ai").edges("wait>say").config("wait", json!({ "ms": 5_000 }));
    let steps = [
        (0, Do::Start),
        (1_000, Do::Pause(DrainPolicy::Immediate)),
        (90_000, Do::Resume),
        (95_000, Do::Continue),
        (95_500, Do::Adopt),
        (96_000, Do::Done("say", json!({ "text": "hi" }))),
    ];
    let source = play(&flow, &steps);
    assert_eq!(source.run.status(), RunStatus::Completed);
    let (run, log) = replay(&source.run, &source.log, 0);
    assert_eq!(told(&log), told(&source.log));
    assert_eq!(run.status(), RunStatus::Completed);
    let paused = play(&flow, &steps[..2]);
    let (run, log) = replay(&paused.run, &paused.log, 0);
    assert_eq!(count(&log, "run.paused"), 0, "{:#?}", lines(&log));
    assert_eq!(run.status(), RunStatus::Failed, "it goes on to what the source never did");
}

/// R54: a limit that ended the source in the middle of a drain ends its replay there too.
#[test]
fn a_run_that_ended_in_a_drain_is_replayed_to_that_end() {
    let drain = Do::Pause(DrainPolicy::DrainCurrentNode);
    let source = play(&given("say:ai").most_millis(600), &[(0, Do::Start), (600, drain)]);
    assert_eq!(source.run.status(), RunStatus::Failed);
    let (run, log) = replay(&source.run, &source.log, 0);
    assert_eq!(told(&log), told(&source.log));
    assert_eq!(run.status(), RunStatus::Failed);
}

fn branch(source: &Run, log: &[Entry], from: usize) -> Run {
    let birth = fork_of(source, log.len(), from, ForkMode::Branch);
    let mut run = Run::new(birth, Arc::clone(source.plan()));
    log[..from].iter().for_each(|entry| run.apply(entry));
    run
}

/// A branch off the end of a log, four seconds later.
fn branch_for_a_while(source: &Run, log: &[Entry], millis: i64) -> (Run, Vec<Entry>) {
    let (mut run, mut log) = (branch(source, log, log.len()), log.to_vec());
    for (later, command) in [(0, Command::Branch), (4_000, Command::Continue)] {
        log.extend(run.decide(&command, at(millis + later)).expect("a branch goes on"));
    }
    (run, log)
}

/// R58: a branch keeps its history, performs what was under way anew and goes on under its own id.
#[test]
fn r58_a_branch_goes_on_live() {
    let flow = given("a:noop say:ai").edges("a>say").most_millis(1_000);
    let source = play(&flow, &[(0, Do::Start), (5, Do::Done("say", json!({ "text": "then" })))]);
    let mut run = branch(&source.run, &source.log, 4);
    assert_eq!(run.head().version, 4);
    let mut log = source.log[..4].to_vec();
    log.extend(run.decide(&Command::Branch, at(3_000_000)).expect("a branch"));
    assert_eq!(lines(&log)[4..], ["run.resumed", "node.started say #1"]);
    let attempt = run.tasks().next().expect("performed anew").attempt;
    let outcome = Outcome::Done { outputs: Object::from_iter([("text".to_owned(), json!("now"))]) };
    log.extend(run.decide(&Command::Finish { attempt, outcome }, at(3_000_500)).expect("an end"));
    assert_eq!(run.status(), RunStatus::Completed, "time between the two did not pass for it");
    assert_eq!(run.snapshot().variables["say"]["text"], "now");
    assert_eq!(count(&log, "cap.breached"), 0);
}

/// Ids and times are made from the source's run and clock, so a replay makes the same.
#[test]
fn a_replay_of_computed_nodes_tells_the_same_from_every_place() {
    let flow = given(
        "n:core.openwop.data.datetime-now u:core.openwop.data.uuid w:core.flow.wait l:core.obs.log",
    )
    .edges("n>u u>w w>l")
    .config("w", json!({ "mode": "duration", "seconds": 5 }))
    .ports("l", json!({ "message": { "type": "connection", "nodeId": "u", "outputKey": "uuid" } }));
    let played = play(&flow, &[(0, Do::Start), (5_000, Do::Continue)]);
    assert_eq!(played.lines.last().map(String::as_str), Some("run.completed"));
    for from in 0..played.log.len() {
        let (_, log) = replay(&played.run, &played.log, from);
        assert_eq!(told(&log), told(&played.log), "from {from}: {:#?}", lines(&log));
    }
}

/// R54, R58: time that did not pass for a branch did not pass for what is forked off it either.
#[test]
fn forks_of_a_branch_know_where_it_left_its_source() {
    let flow = given("a:delay b:delay").edges("a>b").most_millis(10_000);
    let flow = flow.config("a", json!({ "ms": 4_000 })).config("b", json!({ "ms": 4_000 }));
    let source = play(&flow, &[(0, Do::Start), (1_000, Do::Cancel)]);
    let (first, log) = branch_for_a_while(&source.run, &source.log[..2], 3_000_000);
    assert_eq!(lines(&log)[2..], ["run.resumed", "node.completed a", "node.started b"]);
    let (second, log) = branch_for_a_while(&first, &log, 6_000_000);
    assert_eq!(second.status(), RunStatus::Completed, "{:#?}", lines(&log));
    for from in 0..log.len() {
        let (_, again) = replay(&second, &log, from);
        assert_eq!(told(&again), told(&log), "from {from}");
    }
}

/// R58: an open question comes along, with what is left of its time.
#[test]
fn a_branch_can_answer_what_its_source_still_asks() {
    let flow = given("gate:approvalGate").config("gate", json!({ "timeoutMs": 10_000 }));
    let source = play(&flow, &[(0, Do::Start)]);
    let mut run = branch(&source.run, &source.log, source.log.len() - 1);
    run.decide(&Command::Branch, at(3_000_000)).expect("a branch");
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    let asked: Value = run.interrupts().next().expect("a question").data;
    assert_eq!(asked["artifactId"], "gate");
    run.decide(&Command::Continue, at(3_009_999)).expect("in time");
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    run.decide(&Command::Continue, at(3_010_000)).expect("too late");
    assert_eq!(run.status(), RunStatus::Failed);
}
