//! Agents whose node is ended from outside while they are at something: their story is closed before the node is.

use std::sync::Arc;

use callboard_core::{
    AgentFact, AgentPin, Birth, Command, Entry, Fact, Fork, Invoked, Outcome, RetryClass, Run,
    TaskSource, ToolCalled,
};
use callboard_protocol::{Failure, ForkMode, InvocationSource, Object, RunStatus};
use serde_json::{Value, json};

use crate::given::{at, given};
use crate::story::line;

const CANCEL: Command = Command::Cancel { reason: None, by: None, parent: None };

fn birth() -> Birth {
    let flow = given("a:ai").most_millis(60_000);
    let pin = AgentPin {
        agent_id: "core.test.live".into(),
        version: "1.0.0".into(),
        integrity: None,
        channel: None,
        task: TaskSource::Ports,
        source: InvocationSource::RunApi,
        persona: None,
    };
    Birth { agents: [("a".into(), pin)].into(), ..flow.birth() }
}

fn run_of(birth: Birth) -> Run {
    Run::new(Arc::new(birth), Arc::new(given("a:ai").plan().expect("a plan")))
}

/// A run whose agent has told this, and all that its log says.
fn working(facts: Vec<AgentFact>) -> (Run, Vec<Entry>) {
    let mut run = run_of(birth());
    let mut log = run.decide(&Command::Start, at(0)).expect("a start");
    let attempt = run.tasks().next().expect("an attempt").attempt;
    let facts = [invoked()].into_iter().chain(facts);
    let facts = facts.map(|fact| Fact::Agent { place: 0, fact }).collect();
    log.extend(run.decide(&Command::RecordFacts { attempt, facts }, at(1)).expect("it counts"));
    (run, log)
}

fn invoked() -> AgentFact {
    AgentFact::Invoked(Invoked {
        source: InvocationSource::RunApi,
        model_class: "general".into(),
        model: Some(("acme".into(), "m-1".into())),
        version: "1.0.0".into(),
        channel: None,
        tools: 1,
        memory: false,
    })
}

fn thinks() -> AgentFact {
    AgentFact::Thinking { delta: "hm".into(), verbosity: None }
}

fn calls() -> AgentFact {
    AgentFact::ToolCalled(ToolCalled {
        tool: "mcp:a.b".into(),
        call_id: "c-1".into(),
        inputs: None,
        args_hash: None,
        principal: None,
        transport: "mcp".into(),
    })
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(|entry| line(&entry.event)).collect()
}

fn payload(log: &[Entry], kind: &str) -> Value {
    let found = log.iter().find(|entry| entry.event.kind() == kind);
    found.unwrap_or_else(|| panic!("no {kind}")).event.payload()
}

/// where nobody lets the agent finish.
#[test]
fn a_cancel_closes_a_call_a_thought_and_the_invocation() {
    let ended = ["node.cancelled a", "run.cancelled"];
    for (facts, closed) in [
        (vec![], vec![]),
        (vec![thinks()], vec!["agent.reasoned a"]),
        (vec![calls()], vec!["agent.toolReturned a"]),
    ] {
        let (mut run, told) = working(facts);
        let log = run.decide(&CANCEL, at(5)).expect("a cancel");
        let mut expected = vec!["callboard.cancel.requested"];
        expected.extend(closed);
        expected.push("agent.invocation.completed a");
        expected.extend(ended);
        assert_eq!(lines(&log), expected);
        let (first, last) = (
            payload(&told, "agent.invocation.started"),
            payload(&log, "agent.invocation.completed"),
        );
        assert_eq!(
            last,
            json!({ "invocationId": first["invocationId"], "agentId": "core.test.live", "outcome": "failed" })
        );
    }
}

#[test]
fn what_came_of_a_call_that_nobody_waited_for_is_not_known() {
    let (mut run, _) = working(vec![calls()]);
    let log = run.decide(&CANCEL, at(5)).expect("a cancel");
    let returned = payload(&log, "agent.toolReturned");
    assert_eq!((&returned["callId"], &returned["status"]), (&json!("c-1"), &json!("error")));
    assert_eq!(returned["error"]["code"], "outcome_unknown");
    assert_eq!(returned.get("durationMs"), None);
}

#[test]
fn a_limit_and_a_host_without_the_agent_close_it_too() {
    let (mut run, _) = working(vec![]);
    let log = run.decide(&Command::Continue, at(60_000)).expect("it is late");
    let expected = [
        "cap.breached RunDuration 60000",
        "agent.invocation.completed a",
        "node.cancelled a",
        "run.failed run_timeout",
    ];
    assert_eq!(lines(&log), expected);

    let (mut run, _) = working(vec![]);
    let attempt = run.tasks().next().expect("an attempt").attempt;
    let failure = Failure::new("agent_not_installed", "it is gone");
    let outcome = Outcome::Failed { failure, class: RetryClass::Final };
    let log = run.decide(&Command::Finish { attempt, outcome }, at(5)).expect("it counts");
    let expected = [
        "agent.invocation.completed a",
        "node.failed a agent_not_installed",
        "run.failed agent_not_installed",
    ];
    assert_eq!(lines(&log), expected);
}

#[test]
fn what_was_concluded_is_closed_already_and_what_comes_again_stays_open() {
    use callboard_protocol::InvocationOutcome::Refused;
    let (schema_validated, confidence) = (None, None);
    let (mut run, _) =
        working(vec![AgentFact::Concluded { outcome: Refused, schema_validated, confidence }]);
    let log = run.decide(&CANCEL, at(5)).expect("a cancel");
    assert_eq!(lines(&log), ["callboard.cancel.requested", "node.cancelled a", "run.cancelled"]);

    let (mut run, _) = working(vec![]);
    let attempt = run.tasks().next().expect("an attempt").attempt;
    let failure = Failure::new("rate_limited", "later");
    let outcome = Outcome::Later { until: at(9_000), failure };
    let log = run.decide(&Command::Finish { attempt, outcome }, at(5)).expect("it counts");
    assert_eq!(lines(&log), ["node.retried a #1 +8995"]);
    let log = run.decide(&CANCEL, at(6)).expect("a cancel");
    assert_eq!(lines(&log)[1], "agent.invocation.completed a");
}

/// A source that was cancelled has no end to replay: the replay says so, behind a closed bracket.
#[test]
fn a_replay_of_what_was_cancelled_is_closed_as_well() {
    let (mut run, mut source) = working(vec![calls()]);
    source.extend(run.decide(&CANCEL, at(5)).expect("a cancel"));
    let fork = Fork::of(run.birth(), ForkMode::Replay, 0, source.len() as u64);
    let birth = Birth { run_id: "run-2".into(), fork: Some(fork), ..birth() };
    let mut replay = run_of(birth.clone()).with_source(&source);
    let log = replay.decide(&Command::Continue, at(9_000)).expect("a replay goes on");
    let told = lines(&log);
    let expected = [
        "agent.toolCalled a",
        "agent.toolReturned a",
        "agent.invocation.completed a",
        "node.failed a replay_source_missing",
        "run.failed replay_source_missing",
    ];
    assert_eq!(told[told.len() - expected.len()..], expected);
    assert_eq!(replay.status(), RunStatus::Failed);
    for cut in 0..log.len() {
        let mut next_holder = run_of(birth.clone()).with_source(&source);
        log[..cut].iter().for_each(|entry| next_holder.apply(entry));
        let rest = next_holder.decide(&Command::Continue, at(9_999)).expect("it goes on");
        assert_eq!(lines(&rest), lines(&log[cut..]), "a crash at {cut}");
    }
}

/// An outcome that comes too late moves nothing any more.
#[test]
fn a_cancelled_agent_has_no_last_word() {
    let (mut run, _) = working(vec![thinks()]);
    let attempt = run.tasks().next().expect("an attempt").attempt;
    run.decide(&CANCEL, at(5)).expect("a cancel");
    let facts = vec![Fact::Agent { place: 0, fact: thinks() }];
    assert!(run.decide(&Command::RecordFacts { attempt: attempt.clone(), facts }, at(6)).is_err());
    let outcome = Outcome::Done { outputs: Object::new() };
    assert!(run.decide(&Command::Finish { attempt, outcome }, at(6)).is_err());
}
