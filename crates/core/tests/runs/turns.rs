//! The turns of a supervisor: how they are counted, what each of them sees, and where it goes on after a question.
//! Rows such as M-80 are those of the multi-agent contract.

use std::sync::Arc;

use callboard_core::{AgentFact, AgentPin, Birth, Command, Fact, Outcome, Run, TaskSource};
use callboard_protocol::{FileVersion, MemoryWritten, Remembered, RunStatus};
use serde_json::{Value, json};

use crate::given::{Given, at, given, object};
use crate::orchestration::{Played, orchestra};

fn next(worker: &str) -> Value {
    json!({ "kind": "next-worker", "nextWorkerIds": [worker] })
}

fn end() -> Value {
    json!({ "kind": "terminate" })
}

fn iterations(run: &Played) -> Vec<Value> {
    let decided = run.payloads("runOrchestrator.decided").into_iter();
    decided.map(|payload| payload["iteration"].clone()).collect()
}

/// M-80: from one, by one, in every turn; below version 5 nothing is said.
#[test]
fn m80_turns_are_counted_from_one() {
    let plan = json!([next("w"), next("w"), next("w"), end()]);
    for (model, expected) in [(5, json!([1, 2, 3, 4])), (4, json!([null, null, null, null]))] {
        let mut run = Played::start(&orchestra(plan.clone(), json!({})).model(model));
        for child in ["run-a", "run-b", "run-c"] {
            run.dispatch();
            run.completes(child);
        }
        assert_eq!(run.run.status(), RunStatus::Completed);
        assert_eq!(json!(iterations(&run)), expected, "model {model}");
    }
}

/// M-82: a turn that asks goes on as the same turn, and one that was adjusted is still that turn.
#[test]
fn m82_an_answer_resumes_the_turn_that_asked() {
    let mut unsure = next("w");
    unsure["confidence"] = json!(0.2);
    let plan = json!([next("w"), unsure, next("w"), end()]);
    let accept = json!({ "action": "accept" });
    let adjust = json!({ "action": "edit-accept", "decision": next("v") });
    for (answer, expected) in [(accept, json!([1, 2, 3, 4])), (adjust, json!([1, 2, 2, 3, 4]))] {
        let mut run = Played::start(&orchestra(plan.clone(), json!({})).model(5));
        run.dispatch();
        run.completes("run-a");
        assert_eq!(run.run.status(), RunStatus::WaitingApproval);
        assert_eq!(json!(iterations(&run)), json!([1, 2]));
        // Time and takeovers move no turn that waits.
        run.decide(&Command::Continue);
        run.decide(&Command::Adopt);
        assert_eq!(json!(iterations(&run)), json!([1, 2]));
        run.answer("boss", answer);
        for child in ["run-b", "run-c"] {
            run.dispatch();
            run.completes(child);
        }
        assert_eq!((run.run.status(), json!(iterations(&run))), (RunStatus::Completed, expected));
    }
}

/// A supervisor that an installed agent performs.
fn live(model: u32) -> (Given, Birth) {
    let flow =
        given("boss:core.orchestrator.supervisor work:dispatch").edges("boss>work work>boss");
    let agent = json!({ "agent": { "agentId": "core.test.live" } });
    let flow = flow.model(model).node("boss", agent);
    let pin = AgentPin {
        agent_id: "core.test.live".into(),
        version: "1.0.0".into(),
        integrity: None,
        channel: None,
        task: TaskSource::Ports,
        source: callboard_protocol::InvocationSource::default(),
        persona: None,
    };
    let birth = Birth { agents: [("boss".into(), pin)].into(), ..flow.birth() };
    (flow, birth)
}

fn written(id: &str) -> MemoryWritten {
    MemoryWritten {
        memory_ref: "desk".into(),
        memory_id: id.into(),
        version: 1,
        node_id: Some("boss".into()),
        agent_id: None,
        tags: Vec::new(),
    }
}

/// M-81: what a turn remembers is for the next one, also when the turn is made again after a crash.
#[test]
fn m81_a_turn_does_not_see_what_it_remembers() {
    let (flow, birth) = live(5);
    let plan = Arc::new(flow.plan().expect("a plan"));
    let mut run = Run::new(Arc::new(birth), plan);
    run.decide(&Command::Start, at(0)).expect("a start");
    let sees = |run: &Run| -> Vec<String> {
        let view = run.memory_of_turn(&"boss".into()).expect("a turn");
        view.also.into_iter().map(|version| version.id.to_string()).collect()
    };
    let attempt = |run: &Run| run.tasks().next().expect("an attempt").attempt;
    let tell =
        Command::RecordFacts { attempt: attempt(&run), facts: vec![Fact::Memory(written("m1"))] };
    run.decide(&tell, at(1)).expect("a fact");
    assert_eq!(sees(&run), [""; 0]);
    assert_eq!(run.memory_view().also, [Remembered { id: "m1".into(), version: 1 }]);
    run.decide(&Command::Adopt, at(2)).expect("a takeover");
    assert_eq!(sees(&run), [""; 0]);
    let decided = Outcome::Done { outputs: object(next("w")) };
    run.decide(&Command::Finish { attempt: attempt(&run), outcome: decided }, at(3)).expect("one");
    let order = run.child_orders().remove(0);
    let child = Command::Dispatch {
        attempt: order.attempt,
        child: "run-a".into(),
        workflow: order.workflow,
    };
    run.decide(&child, at(4)).expect("a child");
    let news = callboard_core::ChildUpdate {
        used: callboard_protocol::Consumption::default(),
        run: "run-a".into(),
        status: RunStatus::Completed,
        outputs: object(json!({})),
        error: None,
        memory: vec![Remembered { id: "m2".into(), version: 1 }],
        files: Vec::new(),
    };
    let told = run.decide(&Command::UpdateChild(news), at(5)).expect("news");
    let kinds: Vec<&str> = told.iter().map(|entry| entry.event.kind()).collect();
    assert_eq!(kinds.last(), Some(&"node.started"), "{kinds:?}");
    assert_eq!(sees(&run), ["m1", "m2"]);
    assert_eq!(run.memory_of_turn(&"work".into()), None);
}

/// M-81: what a turn writes is for the next one, also when the turn is made again after a crash.
#[test]
fn m81_a_turn_does_not_see_the_files_that_it_writes() {
    let (flow, birth) = live(5);
    let file = |path: &str, version| FileVersion { path: path.into(), version };
    let birth = Birth { files: vec![file("a.md", 3)], ..birth };
    let mut run = Run::new(Arc::new(birth), Arc::new(flow.plan().expect("a plan")));
    run.decide(&Command::Start, at(0)).expect("a start");
    let attempt = |run: &Run| run.tasks().next().expect("an attempt").attempt;
    let facts = vec![Fact::File(file("a.md", 4)), Fact::File(file("b.md", 1))];
    let tell = |run: &Run| Command::RecordFacts { attempt: attempt(run), facts: facts.clone() };
    assert_eq!(run.decide(&tell(&run), at(1)).expect("facts").len(), 2);
    run.decide(&Command::Adopt, at(2)).expect("a takeover");
    // Telling it again tells nothing.
    assert_eq!(run.decide(&tell(&run), at(2)).expect("nothing").len(), 0);
    assert_eq!(run.files_seen(), [file("a.md", 3)]);
    assert_eq!(run.snapshot().workspace, [file("a.md", 3)]);
    let decided = Outcome::Done { outputs: object(next("w")) };
    run.decide(&Command::Finish { attempt: attempt(&run), outcome: decided }, at(3)).expect("one");
    let order = run.child_orders().remove(0);
    let child = Command::Dispatch {
        attempt: order.attempt,
        child: "run-a".into(),
        workflow: order.workflow,
    };
    run.decide(&child, at(4)).expect("a child");
    assert_eq!(run.files_seen(), [file("a.md", 3)]);
    let news = callboard_core::ChildUpdate {
        used: callboard_protocol::Consumption::default(),
        run: "run-a".into(),
        status: RunStatus::Completed,
        outputs: object(json!({})),
        error: None,
        memory: Vec::new(),
        files: vec![file("b.md", 2), file("c.md", 1)],
    };
    run.decide(&Command::UpdateChild(news), at(5)).expect("news");
    let all = [file("a.md", 4), file("b.md", 2), file("c.md", 1)];
    assert_eq!(run.files_seen(), all);
    assert_eq!(run.files_left(), all);
    // What the run began with stays what it began with.
    assert_eq!(run.snapshot().workspace, [file("a.md", 3)]);
}

/// M-84: however often an agent talks to its model and its tools, it is one turn.
#[test]
fn m84_rounds_within_a_turn_are_no_turns() {
    let (flow, birth) = live(5);
    let birth =
        Birth { limits: callboard_core::RunLimits { loop_iterations: 1, ..birth.limits }, ..birth };
    let mut run = Run::new(Arc::new(birth), Arc::new(flow.plan().expect("a plan")));
    run.decide(&Command::Start, at(0)).expect("a start");
    let attempt = run.tasks().next().expect("an attempt").attempt;
    for place in 0..5 {
        let fact = AgentFact::Reasoned { reasoning: format!("round {place}"), verbosity: None };
        let tell = Command::RecordFacts {
            attempt: attempt.clone(),
            facts: vec![Fact::Agent { place, fact }],
        };
        run.decide(&tell, at(1)).expect("a fact");
    }
    let outcome = Outcome::Done { outputs: object(end()) };
    let told = run.decide(&Command::Finish { attempt, outcome }, at(2)).expect("an end");
    let decided = told.iter().find(|entry| entry.event.kind() == "runOrchestrator.decided");
    assert_eq!(decided.expect("a decision").event.payload()["iteration"], 1);
    assert_eq!(run.status(), RunStatus::Completed);
}
