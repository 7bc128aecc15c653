//! Who is asked where somebody is not sure. Rows such as M-30 are those of the multi-agent contract.

use callboard_core::{AgentPin, Birth, Cause, Command, Outcome, Run, TaskSource};
use callboard_protocol::RunStatus;
use serde_json::{Value, json};

use crate::given::{Given, at, given, object};
use crate::orchestration::{Played, orchestra};

const ESCALATED: &str = "core.workflowChain.confidence-escalated";

fn unsure(confidence: Value) -> Given {
    let mut decision = json!({ "kind": "next-worker", "nextWorkerIds": ["w", "v"] });
    decision["confidence"] = confidence;
    orchestra(json!([decision]), json!({}))
}

/// M-30, M-31, M-35: what nobody is sure of is told, then asked, and not done.
#[test]
fn m30_an_unsure_decision_is_escalated_before_anything_happens() {
    let run = Played::start(&unsure(json!(0.3)));
    let expected = [
        "run.started",
        "node.started boss",
        "runOrchestrator.decided boss",
        "core.workflowChain.confidence-escalated boss",
        "interrupt.requested boss",
        "approval.requested boss",
        "node.suspended boss",
    ];
    assert_eq!(run.kinds(), expected);
    assert_eq!(run.run.status(), RunStatus::WaitingApproval);
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": ["w", "v"], "confidence": 0.3 });
    let told = json!({ "confidence": 0.3, "floor": 0.5, "escalationKind": "escalate",
        "parentRunId": "run-1", "workerId": "w", "originalDecision": decision });
    assert_eq!(run.payloads(ESCALATED), [told]);
    assert_eq!(run.log[3].cause, Some(Cause::Event(2)), "it answers the decision");
    let asked = &run.payloads("interrupt.requested")[0]["data"];
    assert_eq!(asked["actions"], json!(["accept", "reject", "edit-accept"]));
    let proposal = json!({ "agentId": "core.test.boss", "threshold": 0.5, "observed": 0.3,
        "decision": decision });
    assert_eq!(asked["artifactData"], proposal);
}

/// M-31: a decision to end names no worker.
#[test]
fn m31_an_unsure_end_is_escalated_too() {
    let run =
        Played::start(&orchestra(json!([{ "kind": "terminate", "confidence": 0.2 }]), json!({})));
    assert_eq!(run.run.status(), RunStatus::WaitingApproval);
    assert_eq!(run.payloads(ESCALATED)[0].get("workerId"), None);
}

/// M-32, M-33, and what is no number from 0 to 1.
#[test]
fn m32_silence_and_enough_are_not_escalated() {
    for stated in [json!(null), json!(0.5), json!(1), json!(-0.3), json!("0.3"), json!(7)] {
        let run = Played::start(&unsure(stated.clone()));
        assert!(run.payloads(ESCALATED).is_empty(), "{stated}");
        assert_eq!(run.run.child_orders().len(), 1, "{stated}");
    }
    let asks = json!([{ "kind": "ask-user", "prompt": "?" }]);
    assert!(Played::start(&orchestra(asks, json!({}))).payloads(ESCALATED).is_empty());
}

/// M-36: a floor above the protocol's is the one that counts, and is told.
#[test]
fn m36_a_stricter_floor_counts() {
    let run = Played::start(&unsure(json!(0.6)).floor(0.8));
    assert_eq!(run.payloads(ESCALATED)[0]["floor"], json!(0.8));
    assert!(Played::start(&unsure(json!(0.6))).payloads(ESCALATED).is_empty());
}

#[test]
fn an_accepted_decision_is_carried_out_and_not_asked_about_again() {
    let mut run = Played::start(&unsure(json!(0.3)));
    run.answer("boss", json!({ "action": "accept" }));
    assert_eq!(run.payloads("runOrchestrator.decided").len(), 1);
    assert_eq!(run.payloads(ESCALATED).len(), 1);
    assert_eq!(run.run.child_orders()[0].workflow.as_str(), "w");
}

#[test]
fn a_decision_is_replaced_under_the_same_name_and_not_asked_about_again() {
    for key in ["decision", "editedArtifactData"] {
        let mut run = Played::start(&unsure(json!(0.3)));
        let other = json!({ "kind": "next-worker", "nextWorkerIds": ["x"], "confidence": 0.1 });
        run.answer("boss", json!({ "action": "edit-accept", key: other }));
        let decided = run.payloads("runOrchestrator.decided");
        assert_eq!((decided.len(), &decided[1]["decision"]), (2, &other));
        assert_eq!(decided[1]["agentId"], "core.test.boss");
        assert_eq!(run.payloads(ESCALATED).len(), 1);
        assert_eq!(run.run.child_orders()[0].workflow.as_str(), "x");
    }
}

#[test]
fn a_rejected_decision_is_not_carried_out() {
    let mut run = Played::start(&unsure(json!(0.3)));
    run.answer("boss", json!({ "action": "reject", "feedback": "no" }));
    assert_eq!(run.run.status(), RunStatus::Failed);
    assert_eq!(run.run.snapshot().error.expect("an error").code, "approval_rejected");
    assert!(run.payloads("core.workflowChain.event").is_empty());
}

#[test]
fn an_answer_that_is_no_decision_is_refused() {
    let run = Played::start(&unsure(json!(0.3)));
    for answer in [
        json!({ "action": "edit-accept" }),
        json!({ "action": "edit-accept", "decision": { "kind": "dance" } }),
        json!({ "action": "edit-accept", "decision": { "kind": "next-worker", "nextWorkerIds": [] } }),
        json!({ "action": "shrug" }),
    ] {
        assert!(run.refuses("boss", answer.clone()), "{answer}");
    }
    let held = Played::start(&held(json!(0.5)));
    assert!(held.refuses("boss", json!({ "kind": "dance" })));
    assert!(held.refuses("boss", json!("later")));
    assert!(held.refuses("boss", json!({ "action": "accept", "kind": "terminate" })));
}

fn held(confidence: Value) -> Given {
    orchestra(json!([]), json!({})).config(
        "boss",
        json!({ "mockConfidence": confidence, "agentId": "core.test.boss",
            "mockPendingDecision": { "kind": "next-worker", "nextWorkerIds": ["w"] } }),
    )
}

/// M-38: the decision is held until somebody ratifies it, and told once.
#[test]
fn m38_a_supervisor_that_is_not_sure_of_itself_decides_nothing() {
    let mut run = Played::start(&held(json!(0.5)));
    assert_eq!(run.run.status(), RunStatus::WaitingApproval);
    assert!(run.payloads("runOrchestrator.decided").is_empty());
    let suspended = &run.payloads("node.suspended")[0];
    for (key, value) in [
        ("kind", json!("low-confidence")),
        ("reason", json!("low-confidence")),
        ("agentId", json!("core.test.boss")),
        ("threshold", json!(0.7)),
        ("observed", json!(0.5)),
    ] {
        assert_eq!(suspended[key], value, "{key}");
    }
    run.answer("boss", json!({ "action": "accept" }));
    let decided = run.payloads("runOrchestrator.decided");
    let ratified = json!({ "agentId": "core.test.boss",
        "decision": { "kind": "next-worker", "nextWorkerIds": ["w"] } });
    assert_eq!(decided, [ratified]);
    assert!(Played::start(&held(json!(0.7))).payloads("node.suspended").is_empty());
    let mut run = Played::start(&held(json!(0.5)));
    run.answer("boss", json!({ "kind": "terminate", "confidence": 0.1 }));
    assert_eq!(run.run.status(), RunStatus::Completed, "a ratified end is not escalated");
    let mut run = Played::start(&held(json!(0.5)));
    run.answer("boss", json!({ "action": "reject" }));
    assert_eq!(run.run.snapshot().error.expect("an error").code, "low_confidence_rejected");
}

fn mock(config: Value) -> Given {
    given("agent:core.conformance.mock-agent")
        .node("agent", json!({ "agent": { "agentId": "core.test.agent" } }))
        .config("agent", config)
}

/// M-39, M-40: an agent that is not sure asks; how sure it must be is the run's to say.
#[test]
fn m39_an_unsure_agent_suspends_after_it_decided() {
    let decision = json!({ "mockDecision": { "decision": { "kind": "stub" }, "confidence": 0.5 } });
    let mut run = Played::start(&mock(decision.clone()));
    let expected = [
        "run.started",
        "node.started agent",
        "agent.decided agent",
        "interrupt.requested agent",
        "node.suspended agent",
    ];
    assert_eq!(run.kinds(), expected);
    let data = json!({ "agentId": "core.test.agent", "threshold": 0.7, "observed": 0.5,
        "decision": { "kind": "stub" } });
    assert_eq!(run.payloads("interrupt.requested")[0]["data"], data);
    run.answer("agent", json!({ "kind": "better" }));
    assert_eq!(run.run.status(), RunStatus::Completed);
    assert_eq!(run.payloads("agent.decided")[1]["decision"], json!({ "kind": "better" }));
    let lenient = mock(decision).options(json!({ "escalationThreshold": 0.4 }));
    assert_eq!(Played::start(&lenient).run.status(), RunStatus::Completed);
}

#[test]
fn a_mock_agent_tells_what_it_is_configured_to() {
    let run = Played::start(&mock(json!({
        "mockReasoning": { "summary": "s", "streamChunks": ["a ", "b"] },
        "mockToolCalls": [
            { "toolId": "x:echo", "arguments": { "n": 1 }, "result": null },
            { "toolId": "x:fail", "error": { "error": "broke", "message": "it broke" } },
        ],
        "mockHandoff": { "toAgentId": "core.test.other", "reason": "why" },
        "mockDecision": { "decision": 1, "confidence": 1 },
    })));
    let expected = [
        "run.started",
        "node.started agent",
        "agent.reasoning.delta agent",
        "agent.reasoning.delta agent",
        "agent.reasoned agent",
        "agent.toolCalled agent",
        "agent.toolReturned agent",
        "agent.toolCalled agent",
        "agent.toolReturned agent",
        "agent.handoff agent",
        "agent.decided agent",
        "node.completed agent",
        "run.completed",
    ];
    assert_eq!(run.kinds(), expected);
    assert_eq!(run.payloads("agent.reasoned")[0]["reasoning"], "a b");
    let (called, returned) = (run.payloads("agent.toolCalled"), run.payloads("agent.toolReturned"));
    assert_eq!(called[0]["callId"], returned[0]["callId"]);
    assert_ne!(called[0]["callId"], called[1]["callId"]);
    for place in [6, 8] {
        assert_eq!(run.log[place].cause, Some(Cause::Event(place as u64 - 1)));
    }
    assert_eq!(
        (&returned[0]["outcome"], &returned[1]["error"]["code"]),
        (&json!(null), &json!("broke"))
    );
    let silent = json!({ "mockToolCalls": [{ "toolId": "x:y" }] });
    assert!(mock(silent).plan().is_err(), "a call that comes to nothing is no call");
}

/// What an installed agent that supervises comes to is a decision, judged as any other.
#[test]
fn an_agents_result_is_a_decision() {
    let flow = orchestra(json!([]), json!({})).node(
        "boss",
        json!({ "config": {},
        "agent": { "agentId": "core.test.live" } }),
    );
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
    let mut run = Run::new(birth.into(), flow.plan().expect("a plan").into());
    run.decide(&Command::Start, at(0)).expect("a start");
    let finish = |run: &Run, outputs: Value| Command::Finish {
        attempt: run.tasks().next().expect("an attempt").attempt,
        outcome: Outcome::Done { outputs: object(outputs) },
    };
    let mut wrong = run.clone();
    let nonsense = finish(&wrong, json!({ "text": "hello" }));
    wrong.decide(&nonsense, at(1)).expect("an outcome");
    assert_eq!(wrong.snapshot().error.expect("an error").code, "validation_error");
    let unsure = finish(&run, json!({ "kind": "terminate", "confidence": 0.1 }));
    run.decide(&unsure, at(1)).expect("an outcome");
    assert_eq!((run.status(), run.tasks().count()), (RunStatus::WaitingApproval, 0));
    assert_eq!(run.snapshot().run_orchestrator.expect("one").agent_id, "core.test.live");
}
