//! Replays whose prompts would be others today than those that their source recorded.

use std::sync::Arc;

use callboard_core::{
    AgentFact, Attempt, Birth, Command, Entry, Fact, Fork, Outcome, PromptComparison, Run,
};
use callboard_protocol::{
    Event, ForkMode, NodeId, Object, PromptComposed, PromptKind, PromptLayer, RunStatus,
};
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{Played, line, play};

fn resolved(kind: PromptKind, reference: &str, layer: &str) -> AgentFact {
    let chosen = PromptLayer {
        layer: layer.to_owned(),
        applied: true,
        source: Some(reference.to_owned()),
        reason: None,
    };
    AgentFact::PromptResolved { kind, chain: vec![chosen], resolved: Some(reference.to_owned()) }
}

fn composed(reference: &str, hash: &str) -> AgentFact {
    AgentFact::PromptComposed(PromptComposed {
        node_id: "ask".into(),
        refs: vec![reference.to_owned()],
        kind: "system-only".to_owned(),
        hash: hash.to_owned(),
        composed: None,
        system_prompt: None,
        user_prompt: None,
        variable_bindings: None,
        variable_hashes: None,
        content_trust: None,
    })
}

/// What is told of a prompt for the system and one for the user.
fn both() -> [AgentFact; 4] {
    [
        resolved(PromptKind::System, "prompt:tone", "node"),
        composed("prompt:tone@1.0.0", "sha256:a"),
        resolved(PromptKind::User, "prompt:task", "node"),
        composed("prompt:task@1.0.0", "sha256:b"),
    ]
}

fn source() -> Played {
    let mut source = play(&given("ask:ai after:noop").edges("ask>after"), &[(0, Do::Start)]);
    let attempt = Attempt { node: "ask".into(), visit: 0, number: 0 };
    let facts = both().into_iter().zip([0, 0, 1, 1]);
    let facts = facts.map(|(fact, place)| Fact::Agent { place, fact }).collect();
    let tell = Command::RecordFacts { attempt: attempt.clone(), facts };
    let outcome = Outcome::Done { outputs: Object::new() };
    for command in [tell, Command::Finish { attempt, outcome }] {
        source.log.extend(source.run.decide(&command, at(1_000)).expect("it counts"));
    }
    source
}

/// The events of a log that say what would not be said today.
fn changed(log: &[Entry], today: Option<&[AgentFact]>) -> Vec<u64> {
    let mut comparison = PromptComparison::default();
    let mut changed = Vec::new();
    for entry in log {
        if let Some(node) = comparison.wants(&entry.event) {
            assert_eq!(*node, NodeId::from("ask"));
            comparison.learn(node.clone(), today.map(<[AgentFact]>::to_vec));
        }
        if comparison.differs(&entry.event) {
            changed.push(entry.sequence);
        }
    }
    changed
}

fn replay(source: &Played, prompts: Vec<u64>) -> Run {
    let mut fork = Fork::of(source.run.birth(), ForkMode::Replay, 0, source.log.len() as u64);
    fork.prompts = prompts;
    let birth =
        Birth { run_id: "run-2".into(), fork: Some(fork), ..Birth::clone(source.run.birth()) };
    Run::new(Arc::new(birth), Arc::clone(source.run.plan())).with_source(&source.log)
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

/// M-79.
#[test]
fn a_prompt_that_has_changed_is_told_and_the_recorded_one_is_kept() {
    let source = source();
    let mut today = both();
    today[1] = composed("prompt:tone@1.1.0", "sha256:c");
    today[2] = resolved(PromptKind::User, "prompt:task", "workflow-defaults");
    let changed = changed(&source.log, Some(&today));
    let mut run = replay(&source, changed.clone());
    let log = run.decide(&Command::Continue, at(9_000)).expect("a replay goes on");
    assert_eq!(run.status(), RunStatus::Completed);
    let (told, kept): (Vec<_>, Vec<_>) =
        log.iter().cloned().partition(|entry| entry.event.kind() == "replay.diverged");
    let report = |at: u64, point: &str| {
        json!({
            "sourceRunId": "run-1", "atSequence": at, "originalEventId": format!("run-1-{at}"),
            "divergenceKind": "output", "divergencePoint": point,
        })
    };
    let expected =
        [report(changed[0], "prompt.composed"), report(changed[1], "agent.promptResolved")];
    let told: Vec<_> = told.iter().map(|entry| entry.event.payload()).collect();
    assert_eq!(told, expected);
    let events = |log: &[Entry]| -> Vec<Event> { log.iter().map(|it| it.event.clone()).collect() };
    assert_eq!(events(&kept), events(&source.log), "the recorded facts stand");
    for cut in 0..log.len() {
        let mut next_holder = replay(&source, changed.clone());
        log[..cut].iter().for_each(|entry| next_holder.apply(entry));
        let rest = next_holder.decide(&Command::Continue, at(9_999)).expect("it goes on");
        assert_eq!(lines(&rest), lines(&log[cut..]), "a crash at {cut}");
    }
    let again = Played { run, log, lines: Vec::new() };
    let told = replay(&again, Vec::new()).decide(&Command::Continue, at(9_999));
    assert_eq!(lines(&told.expect("a replay of it")), lines(&again.log));
}

#[test]
fn only_what_would_be_said_otherwise_has_changed() {
    let source = source();
    let place = |event: usize| {
        let is_prompt = |entry: &&Entry| {
            matches!(entry.event, Event::AgentPromptResolved(_) | Event::PromptComposed(_))
        };
        source.log.iter().filter(is_prompt).nth(event).expect("an event").sequence
    };
    let without = |from: usize| both()[..from].to_vec();
    let mut renamed = both().to_vec();
    renamed[0] = resolved(PromptKind::System, "prompt:other", "node");
    let mut other_kind = both().to_vec();
    other_kind[2] = resolved(PromptKind::FewShot, "prompt:task", "node");
    for (today, expected) in [
        (Some(both().to_vec()), vec![]),
        // Nobody can say.
        (None, vec![]),
        (Some(renamed), vec![place(0)]),
        // The template is gone: the node would have failed there.
        (Some(without(1)), vec![place(1)]),
        (Some(without(2)), vec![place(2)]),
        (Some(Vec::new()), vec![place(0)]),
        (Some(other_kind), vec![place(2)]),
    ] {
        assert_eq!(changed(&source.log, today.as_deref()), expected, "{today:?}");
    }
}
