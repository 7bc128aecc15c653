//! For whom a run is: told once, right after the start, and never decided again.

use std::sync::Arc;

use callboard_core::{Birth, Command, Entry, Fork, Run};
use callboard_protocol::{DrainPolicy, ForkMode, RosterRunInitiated};
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{check, line, play};

fn sally() -> RosterRunInitiated {
    RosterRunInitiated {
        roster_id: "host:sally-1".into(),
        persona: "Sally".into(),
        agent_id: "vendor.acme.desk.writer".into(),
        workflow_id: "w".into(),
        trigger_source: "schedule".into(),
        trigger_subscription_id: None,
    }
}

const TOLD: &str = "roster.run.initiated";

#[test]
fn it_is_told_right_after_the_start() {
    let expected = ["run.started", TOLD, "node.started a", "node.completed a", "run.completed"];
    let played = check(&given("a:noop").made_for(sally()), &[(0, Do::Start)], &expected);
    assert_eq!(
        played.payload(TOLD),
        json!({ "rosterId": "host:sally-1", "persona": "Sally", "agentId": "vendor.acme.desk.writer",
            "workflowId": "w", "triggerSource": "schedule" })
    );
}

#[test]
fn a_run_that_is_nobodys_tells_nothing_of_it() {
    let played = play(&given("a:noop"), &[(0, Do::Start)]);
    assert!(!played.lines.iter().any(|line| line == TOLD), "{:?}", played.lines);
}

/// Whoever asks first something else of a pending run does not make it nobody's.
#[test]
fn whatever_begins_a_run_tells_it_first() {
    let flow = given("a:ai").made_for(sally());
    check(&flow, &[(0, Do::Cancel)], &["run.started", TOLD, "run.cancelled"]);
    let paused = Do::Pause(DrainPolicy::Immediate);
    check(&flow, &[(0, paused)], &["run.started", TOLD, "run.paused"]);
    let adopted = ["run.started", TOLD, "node.started a", "run.resumed", "node.started a #1"];
    check(&flow, &[(0, Do::Adopt), (1, Do::Adopt)], &adopted);
}

/// A new holder finds a log that was cut anywhere.
#[test]
fn a_log_that_was_cut_after_its_start_is_finished() {
    let whole = play(&given("a:noop").made_for(sally()), &[(0, Do::Start)]);
    for command in [Command::Continue, Command::Adopt] {
        let (birth, plan) = (whole.run.birth().clone(), whole.run.plan().clone());
        let mut run = Run::replay(birth, plan, &whole.log[..1]);
        let told = run.decide(&command, at(5)).expect("it goes on");
        let lines: Vec<String> = told.iter().map(|entry| line(&entry.event)).collect();
        assert_eq!(lines.first().map(String::as_str), Some(TOLD), "{command:?}: {lines:?}");
        assert_eq!(lines.iter().filter(|line| *line == TOLD).count(), 1, "{lines:?}");
    }
}

/// Drives a fork to its end and answers its whole log.
fn fork(source: &Run, log: &[Entry], from: usize, mode: ForkMode) -> Vec<Entry> {
    let birth = Birth {
        run_id: "run-2".into(),
        fork: Some(Fork::of(source.birth(), mode, from as u64, log.len() as u64)),
        ..Birth::clone(source.birth())
    };
    let mut run = Run::new(Arc::new(birth), source.plan().clone());
    if mode == ForkMode::Replay {
        run = run.with_source(&log[from..]);
    }
    let mut own = log[..from].to_vec();
    own.iter().for_each(|entry| run.apply(entry));
    let first = if mode == ForkMode::Branch { Command::Branch } else { Command::Continue };
    own.extend(run.decide(&first, at(1_000)).expect("a fork begins"));
    while !run.status().is_terminal() {
        own.extend(run.decide(&Command::Continue, at(1_000)).expect("a fork goes on"));
    }
    own
}

/// Wherever a fork leaves its source, it is for whom its source was, whatever became of the member.
#[test]
fn replays_and_branches_keep_it_once_and_in_its_place() {
    let source = play(&given("a:noop").made_for(sally()), &[(0, Do::Start)]);
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        for from in 0..source.log.len() {
            let log = fork(&source.run, &source.log, from, mode);
            let told: Vec<&Entry> = log.iter().filter(|entry| entry.event.kind() == TOLD).collect();
            assert_eq!(told.len(), 1, "{mode:?} from {from}: {log:#?}");
            assert_eq!(told[0].sequence, 1, "{mode:?} from {from}");
            assert_eq!(told[0].event, source.log[1].event, "{mode:?} from {from}");
            let diverged = log.iter().any(|entry| entry.event.kind() == "replay.diverged");
            assert!(!diverged, "{mode:?} from {from}: {log:#?}");
        }
    }
}
