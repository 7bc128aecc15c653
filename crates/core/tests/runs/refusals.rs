//! Replays whose model refuses where its source's did not, or the other way.

use std::sync::Arc;

use callboard_core::{
    AgentFact, Attempt, Birth, Command, Entry, Fact, Fork, Outcome, RefusalDivergence, RetryClass,
    Run, model_turns,
};
use callboard_protocol::{
    EnvelopeKind, EnvelopeRefusal, Failure, ForkMode, Object, ProviderUsage, RunStatus,
};
use serde_json::json;

use crate::given::{Do, at, given};
use crate::story::{Played, line, play};

fn used() -> AgentFact {
    AgentFact::Used(ProviderUsage {
        provider: "mock".into(),
        model: "m".into(),
        input_tokens: 1,
        output_tokens: 1,
        total_tokens: None,
        cost_estimate_usd: None,
        currency: None,
        cache_hit: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        node_id: None,
        trace_id: None,
    })
}

fn refused() -> AgentFact {
    AgentFact::Refused(EnvelopeRefusal {
        node_id: "ask".into(),
        provider: "mock".into(),
        model: "m".into(),
        safety_category: None,
    })
}

/// A model is asked twice; the second time it answers, or refuses. Somebody else works beside it, and goes on
/// whatever comes of it.
fn source(kind: EnvelopeKind) -> Played {
    let flow = given("ask:ai beside:ai after:noop").edges("ask>after:all_complete");
    let mut source = play(&flow, &[(0, Do::Start)]);
    let attempt = Attempt { node: "ask".into(), visit: 0, number: 0 };
    let mut facts = vec![(0, used()), (1, used())];
    let mut outcome = Outcome::Done { outputs: Object::new() };
    if kind == EnvelopeKind::Refusal {
        facts.push((0, refused()));
        let failure = Failure::new("envelope_refusal", "the model declined to answer");
        outcome = Outcome::Failed { failure, class: RetryClass::Final };
    }
    let facts = facts.into_iter().map(|(place, fact)| Fact::Agent { place, fact }).collect();
    let tell = Command::RecordFacts { attempt: attempt.clone(), facts };
    for command in [tell, Command::Finish { attempt, outcome }] {
        let told = source.run.decide(&command, at(1_000)).expect("it counts");
        source.log.extend(told);
    }
    let attempt = Attempt { node: "beside".into(), visit: 0, number: 0 };
    let outcome = Outcome::Done { outputs: Object::new() };
    let told = source.run.decide(&Command::Finish { attempt, outcome }, at(2_000));
    source.log.extend(told.expect("it counts"));
    source
}

fn replay(source: &Played, today: &[EnvelopeKind]) -> Run {
    let mut fork = Fork::of(source.run.birth(), ForkMode::Replay, 0, source.log.len() as u64);
    fork.refusal = RefusalDivergence::between(&model_turns(&source.log), today);
    let birth =
        Birth { run_id: "run-2".into(), fork: Some(fork), ..Birth::clone(source.run.birth()) };
    Run::new(Arc::new(birth), Arc::clone(source.run.plan())).with_source(&source.log)
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

fn end(log: &[Entry]) -> Vec<String> {
    let is_report = |entry: &Entry| entry.event.kind() == "replay.divergedAtRefusal";
    let place = log.iter().position(is_report).expect("a report");
    lines(&log[place + 1..])
}

/// M-76, S-25.
#[test]
fn a_replay_ends_at_the_turn_that_has_become_a_refusal_or_is_none_any_more() {
    use EnvelopeKind::{Refusal, Valid};
    for (was, today, at_turn) in [
        (Valid, vec![Refusal], 0),
        (Valid, vec![Valid, Refusal], 1),
        (Refusal, vec![Valid, Valid], 1),
        (Refusal, vec![Refusal], 0),
    ] {
        let source = source(was);
        let turn = model_turns(&source.log).swap_remove(at_turn);
        let mut run = replay(&source, &today);
        let log = run.decide(&Command::Continue, at(9_000)).expect("a replay goes on");
        let report = log.iter().find(|entry| entry.event.kind() == "replay.divergedAtRefusal");
        let expected = json!({
            "sourceRunId": "run-1", "atSequence": turn.at, "nodeId": "ask",
            "originalEventId": format!("run-1-{}", turn.at),
            "originalEnvelopeKind": turn.kind, "replayEnvelopeKind": turn.kind.other(),
        });
        assert_eq!(report.expect("a report").event.payload(), expected);
        assert_eq!(
            end(&log),
            [
                "node.failed ask replay_diverged_at_refusal",
                "node.cancelled beside",
                "run.failed replay_diverged_at_refusal"
            ]
        );
        assert_eq!(run.status(), RunStatus::Failed);
        for cut in 0..log.len() {
            let mut next_holder = replay(&source, &today);
            log[..cut].iter().for_each(|entry| next_holder.apply(entry));
            let rest = next_holder.decide(&Command::Continue, at(9_999)).expect("it goes on");
            assert_eq!(lines(&rest), lines(&log[cut..]), "a crash at {cut}");
        }
        let again = Played { run, log, lines: Vec::new() };
        let mut second = replay(&again, &[]);
        let told = second.decide(&Command::Continue, at(9_999)).expect("a replay of it");
        assert_eq!(lines(&told), lines(&again.log), "a replay of that replay tells the same");
    }
}

#[test]
fn the_same_kinds_of_answers_are_no_divergence() {
    use EnvelopeKind::{Refusal, Valid};
    for (was, today) in
        [(Valid, vec![Valid, Valid]), (Refusal, vec![Valid, Refusal]), (Refusal, Vec::new())]
    {
        let source = source(was);
        let mut run = replay(&source, &today);
        let log = run.decide(&Command::Continue, at(9_000)).expect("a replay goes on");
        assert_eq!(lines(&log), lines(&source.log), "{today:?}");
    }
}
