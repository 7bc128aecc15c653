//! Questions that nodes ask: events in order, answers that count, quorum, deadlines, loops, and any cut of the log.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_core::{
    Birth, Command, Confidence, Entry, Plan, Refusal, Resolution, Run, RunLimits, SpanCode, Via,
    spans,
};
use callboard_protocol::{DrainPolicy, ENGINE_VERSION, Object, Owner, RunStatus, Timestamp};

const START: i64 = 1_700_000_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START + seconds * 1_000)
}

fn run_of(nodes: Value, edges: Value, settings: Value) -> Run {
    let source = json!({
        "id": "w", "name": "w", "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": settings,
    });
    let plan = Arc::new(Plan::parse(source.to_string().as_bytes()).unwrap());
    let birth = Birth {
        run_id: "run_1".into(),
        workflow_id: "w".into(),
        definition: "d".into(),
        owner: Owner { tenant: "t".into(), workspace: None, principal: None },
        test: false,
        inputs: Object::new(),
        configurable: Object::new(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        created_at: at(0),
        engine_version: ENGINE_VERSION,
        forced_engine_version: None,
        limits: RunLimits {
            node_executions: 100,
            duration_ms: 31_536_000_000,
            loop_iterations: 100,
            confidence_floor: Confidence::FLOOR,
            execution_model: 3,
            transcript_window: 100,
        },
        parent: None,
        unset: Vec::new(),
        fork: None,
        agents: std::collections::BTreeMap::new(),
        memory: callboard_core::MemoryBirth::default(),
        attribution: None,
        principal_scope: None,
        files: Vec::new(),
        stamp: None,
        delivery: None,
        from_outside: false,
        budget: None,
        charged_to: None,
        trace: None,
    };
    Run::new(Arc::new(birth), plan)
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
}

fn edge(from: &str, to: &str, rule: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to, "triggerRule": rule })
}

fn gate(config: Value) -> Run {
    run_of(json!([node("gate", "core.approvalGate", config)]), json!([]), json!({ "timeout": 0 }))
}

fn answer(node: &str, value: Value) -> Command {
    Command::Resolve(Resolution {
        node: node.into(),
        value,
        by: Some("key:one".into()),
        via: Via::Delegate,
    })
}

fn kinds(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.event.kind()).collect()
}

/// F28, F31, R27: the gate's events in order, the status while it waits, and who decided.
#[test]
fn an_approval_asks_waits_and_goes_on() {
    let mut run = gate(json!({ "title": "Ship it?", "actions": ["accept", "reject"] }));
    let asked = run.decide(&Command::Start, at(0)).unwrap();
    assert_eq!(
        kinds(&asked),
        [
            "run.started",
            "node.started",
            "interrupt.requested",
            "approval.requested",
            "node.suspended"
        ]
    );
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    assert_eq!(run.snapshot().current_node_id, Some("gate".into()));
    assert_eq!(run.attempts().count(), 0, "nobody is held while it waits");
    let answered = run.decide(&answer("gate", json!({ "action": "accept" })), at(9)).unwrap();
    assert_eq!(
        kinds(&answered),
        [
            "approval.received",
            "interrupt.resolved",
            "node.resumed",
            "node.completed",
            "run.completed"
        ]
    );
    assert_eq!(answered[0].event.payload()["decidedBy"], json!("key:one"));
    assert_eq!(answered[1].event.payload()["interruptId"], asked[4].event.payload()["interruptId"]);
}

/// F29, F30: what an answer must have, and that a wrong one leaves the question open.
#[test]
fn an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
    let mut run = gate(json!({ "actions": ["accept", "reject", "refine", "edit-accept", "ask"] }));
    run.decide(&Command::Start, at(0)).unwrap();
    for value in [
        json!({ "action": "maybe" }),
        json!({ "action": "refine" }),
        json!({ "action": "refine", "refineFeedback": { "text": "no scope" } }),
        json!({ "action": "edit-accept" }),
        json!({ "action": "ask" }),
        json!({}),
        json!("accept"),
        json!(null),
    ] {
        let refused = run.decide(&answer("gate", value.clone()), at(1));
        assert!(matches!(refused, Err(Refusal::InvalidAnswer { .. })), "{value}: {refused:?}");
    }
    let unknown = run.decide(&answer("nowhere", json!({ "action": "accept" })), at(1));
    assert!(matches!(unknown, Err(Refusal::NoInterrupt { .. })));
    let asked =
        run.decide(&answer("gate", json!({ "action": "ask", "question": "why?" })), at(2)).unwrap();
    assert_eq!(kinds(&asked), ["callboard.ask"]);
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    let edited = json!({ "action": "edit-accept", "editedArtifactData": { "text": "better" } });
    run.decide(&answer("gate", edited), at(3)).unwrap();
    assert_eq!(run.snapshot().variables["gate"]["editedArtifactData"]["text"], json!("better"));
}

/// §7.6: a rejection fails the node, follows `any_failed` edges, and fails the run where there is none.
#[test]
fn a_rejection_follows_the_edges_for_failures() {
    let nodes = json!([
        node("gate", "core.approvalGate", json!({})),
        node("no", "core.noop", json!({})),
        node("yes", "core.noop", json!({})),
    ]);
    let edges = json!([edge("gate", "no", "any_failed"), edge("gate", "yes", "all_success")]);
    let mut run = run_of(nodes, edges, json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    let events = run
        .decide(&answer("gate", json!({ "action": "reject", "feedback": "no" })), at(1))
        .unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
    let failed = events.iter().find(|entry| entry.event.kind() == "node.failed").unwrap();
    assert_eq!(failed.event.payload()["error"]["code"], json!("approval_rejected"));

    let mut alone = gate(json!({}));
    alone.decide(&Command::Start, at(0)).unwrap();
    alone.decide(&answer("gate", json!({ "action": "reject" })), at(1)).unwrap();
    assert_eq!(alone.snapshot().error.unwrap().code, "approval_rejected");
}

/// F34: three of three accept; two of three reject by majority; the same voter counts once.
#[test]
fn a_quorum_counts_people_and_not_clicks() {
    let quorum = || {
        gate(json!({ "requiredApprovals": 3, "rejectionPolicy": "majority", "approversList": [] }))
    };
    let vote =
        |voter: &str, action: &str| answer("gate", json!({ "action": action, "voter": voter }));
    let mut run = quorum();
    run.decide(&Command::Start, at(0)).unwrap();
    for voter in ["ann", "ann", "bob"] {
        let events = run.decide(&vote(voter, "accept"), at(1)).unwrap();
        assert_eq!(kinds(&events), ["callboard.vote"]);
        assert_eq!(run.status(), RunStatus::WaitingApproval);
    }
    run.decide(&vote("cho", "accept"), at(2)).unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
    let mut run = quorum();
    run.decide(&Command::Start, at(0)).unwrap();
    run.decide(&vote("ann", "reject"), at(1)).unwrap();
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    run.decide(&vote("bob", "reject"), at(1)).unwrap();
    assert_eq!(run.status(), RunStatus::Failed);
}

#[test]
fn only_listed_approvers_decide() {
    let mut run = gate(json!({ "approversList": ["ann"] }));
    run.decide(&Command::Start, at(0)).unwrap();
    let stranger =
        run.decide(&answer("gate", json!({ "action": "accept", "voter": "eve" })), at(1));
    assert!(matches!(stranger, Err(Refusal::NotAnApprover { .. })));
    run.decide(&answer("gate", json!({ "action": "accept", "voter": "ann" })), at(1)).unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
}

/// `prompt-injection-decidedby-host-only`: who decided is who came, whatever the answer says of itself.
#[test]
fn nobody_decides_under_a_name_that_is_not_theirs() {
    let said = |value: Value, via: Via| {
        Command::Resolve(Resolution { node: "gate".into(), value, by: Some("key:one".into()), via })
    };
    let asked = |config: Value| {
        let mut run = gate(config);
        run.decide(&Command::Start, at(0)).unwrap();
        run
    };
    let claimed = json!({ "action": "accept", "decidedBy": "ann" });
    let mut run = asked(json!({ "approversList": ["ann"] }));
    for via in [Via::Key, Via::Delegate] {
        let refused = run.decide(&said(claimed.clone(), via), at(1));
        assert!(matches!(refused, Err(Refusal::NotAnApprover { .. })), "{refused:?}");
    }
    let named = json!({ "action": "accept", "voter": "ann" });
    let refused = run.decide(&said(named.clone(), Via::Key), at(1));
    assert!(matches!(refused, Err(Refusal::NotADelegate { .. })), "{refused:?}");
    let told = run.decide(&said(named, Via::Delegate), at(1)).unwrap();
    assert_eq!(told[0].event.payload()["decidedBy"], "key:one/ann");
    assert_eq!(told[1].event.payload()["resolvedBy"], "key:one/ann");
    let mut run = asked(json!({ "approversList": ["key:two"] }));
    let another = json!({ "action": "accept", "voter": "key:two" });
    let refused = run.decide(&said(another, Via::Delegate), at(1));
    assert!(matches!(refused, Err(Refusal::InvalidAnswer { .. })), "{refused:?}");
    let mut run = asked(json!({}));
    let told = run.decide(&said(claimed, Via::Key), at(1)).unwrap();
    assert_eq!(told[0].event.payload()["decidedBy"], "key:one");
}

/// A link is one voice, however many names its holder knows.
#[test]
fn a_link_counts_once_in_a_quorum() {
    let mut run = gate(json!({ "requiredApprovals": 2 }));
    run.decide(&Command::Start, at(0)).unwrap();
    let interrupt_id = run.interrupts().next().unwrap().id;
    let click = |value: Value| {
        Command::Resolve(Resolution {
            node: "gate".into(),
            value,
            by: Some("link:1".into()),
            via: Via::Token { interrupt_id: interrupt_id.clone() },
        })
    };
    for _ in 0..2 {
        run.decide(&click(json!({ "action": "accept" })), at(1)).unwrap();
        assert_eq!(run.status(), RunStatus::WaitingApproval);
    }
    let refused = run.decide(&click(json!({ "action": "accept", "voter": "bob" })), at(1));
    assert!(matches!(refused, Err(Refusal::NotADelegate { .. })), "{refused:?}");
}

/// F32: answers as a map or as a list, every question answered, and logged as a map.
#[test]
fn a_clarification_takes_its_answers_in_both_shapes() {
    for value in [
        json!({ "answers": { "q1": "blue" } }),
        json!({ "answers": [{ "id": "q1", "answer": "blue" }] }),
    ] {
        let config = json!({ "questions": [{ "id": "q1", "question": "colour?" }] });
        let mut run =
            run_of(json!([node("ask", "core.clarificationGate", config)]), json!([]), json!({}));
        let asked = run.decide(&Command::Start, at(0)).unwrap();
        assert!(kinds(&asked).contains(&"clarification.requested"));
        assert_eq!(run.status(), RunStatus::WaitingInput);
        let empty = run.decide(&answer("ask", json!({ "answers": {} })), at(1));
        assert!(matches!(empty, Err(Refusal::InvalidAnswer { .. })));
        let events = run.decide(&answer("ask", value), at(1)).unwrap();
        assert_eq!(events[0].event.payload()["answers"], json!({ "q1": "blue" }));
        assert_eq!(run.status(), RunStatus::Completed);
    }
}

/// F33: an event must carry what the run waits for.
#[test]
fn an_external_event_is_correlated() {
    let config = json!({ "kind": "external-event", "data": { "eventType": "paid", "correlation": { "order": 7 } } });
    let mut run = run_of(json!([node("wait", "core.interrupt", config)]), json!([]), json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    assert_eq!(run.status(), RunStatus::WaitingExternal);
    let foreign = run.decide(&answer("wait", json!({ "order": 8 })), at(1));
    assert!(matches!(foreign, Err(Refusal::Uncorrelated { .. })));
    run.decide(&answer("wait", json!({ "eventPayload": { "order": 7, "sum": 3 } })), at(1))
        .unwrap();
    assert_eq!(run.snapshot().variables["wait"]["sum"], json!(3));
}

/// F41: a custom question is answered with anything, judged by its own schema where it has one.
#[test]
fn a_custom_question_is_judged_by_its_schema() {
    let config = json!({
        "kind": "custom", "data": { "customKind": "rating" }, "resumeSchema": { "type": "integer", "minimum": 1 },
    });
    let mut run = run_of(json!([node("rate", "core.interrupt", config)]), json!([]), json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    assert!(matches!(
        run.decide(&answer("rate", json!(0)), at(1)),
        Err(Refusal::InvalidAnswer { .. })
    ));
    run.decide(&answer("rate", json!(4)), at(1)).unwrap();
    assert_eq!(run.snapshot().variables["rate"], json!({ "value": 4 }));
}

/// F40: nobody answers; a gate counts as rejected, another question fails its node. The deadline is the log's.
#[test]
fn a_deadline_fails_closed() {
    let mut run = gate(json!({ "timeoutMs": 1_500 }));
    run.decide(&Command::Start, at(0)).unwrap();
    assert_eq!(run.wakes_at(), Some(Timestamp::from_millis(START + 1_500)));
    assert!(run.decide(&Command::Continue, at(1)).unwrap().is_empty());
    let events = run.decide(&Command::Continue, at(2)).unwrap();
    assert_eq!(
        kinds(&events),
        ["approval.received", "interrupt.resolved", "node.resumed", "node.failed", "run.failed"]
    );
    assert_eq!(events[0].event.payload()["action"], json!("timeout"));
    assert_eq!(events[1].event.payload()["reason"], json!("timeout"));
    let config = json!({ "kind": "custom", "data": { "customKind": "x" }, "timeoutMs": 1_000 });
    let mut run = run_of(json!([node("x", "core.interrupt", config)]), json!([]), json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    run.decide(&Command::Continue, at(1)).unwrap();
    assert_eq!(run.snapshot().error.unwrap().code, "interrupt_timeout");
}

/// F35, F38, F39: one answer counts; a link is for one question; some gates want a key.
#[test]
fn a_question_is_answered_once_and_by_those_who_may() {
    let mut run = gate(json!({ "profile": "openwop-interrupt-auth-required" }));
    run.decide(&Command::Start, at(0)).unwrap();
    let id = run.interrupts().next().unwrap().id;
    let by_link = |interrupt_id: String| {
        Command::Resolve(Resolution {
            node: "gate".into(),
            value: json!({ "action": "accept" }),
            by: None,
            via: Via::Token { interrupt_id },
        })
    };
    assert!(matches!(run.decide(&by_link(id), at(1)), Err(Refusal::KeyRequired { .. })));
    assert!(matches!(
        run.decide(&by_link("other".into()), at(1)),
        Err(Refusal::AlreadyResolved { .. })
    ));
    run.decide(&answer("gate", json!({ "action": "accept" })), at(1)).unwrap();
    assert!(matches!(
        run.decide(&answer("gate", json!({ "action": "accept" })), at(1)),
        Err(Refusal::Ended { .. })
    ));
}

/// F37: a loop that comes back to a gate asks anew, under another key.
#[test]
fn coming_back_to_a_gate_asks_anew() {
    let nodes = json!([
        node("gate", "core.approvalGate", json!({})),
        node("revise", "core.noop", json!({}))
    ]);
    let edges =
        json!([edge("gate", "revise", "any_failed"), edge("revise", "gate", "any_success")]);
    let mut run = run_of(nodes, edges, json!({ "maxLoopbackIterations": 2 }));
    run.decide(&Command::Start, at(0)).unwrap();
    let first = run.interrupts().next().unwrap();
    run.decide(&answer("gate", json!({ "action": "reject" })), at(1)).unwrap();
    let second = run.interrupts().next().unwrap();
    assert_ne!(first.key, second.key);
    assert_ne!(first.id, second.id);
    run.decide(&answer("gate", json!({ "action": "accept" })), at(2)).unwrap();
    assert_eq!(run.status(), RunStatus::Completed, "the loop was left where it may be");
}

/// F42, R50: cancel closes the question; a pause of a waiting run is refused and keeps it.
#[test]
fn cancel_closes_the_question_and_pause_keeps_it() {
    let mut run = gate(json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    let pause = Command::Pause { drain: DrainPolicy::Immediate, reason: None };
    let refused = run.decide(&pause, at(1));
    assert!(matches!(
        refused,
        Err(Refusal::CannotPause { status: RunStatus::WaitingApproval, .. })
    ));
    assert_eq!(run.interrupts().count(), 1);
    run.decide(&Command::Cancel { reason: None, by: None, parent: None }, at(1)).unwrap();
    assert_eq!(run.status(), RunStatus::Cancelled);
    assert_eq!(run.interrupts().count(), 0);
}

/// Other branches go on while one waits; the run waits only when nothing else moves.
#[test]
fn other_branches_go_on_while_one_waits() {
    let nodes = json!([
        node("gate", "core.approvalGate", json!({})),
        node("sleep", "core.delay", json!({ "ms": 5_000 })),
        node("join", "core.noop", json!({})),
    ]);
    let edges = json!([edge("gate", "join", "all_success"), edge("sleep", "join", "all_success")]);
    let mut run = run_of(nodes, edges, json!({}));
    run.decide(&Command::Start, at(0)).unwrap();
    assert_eq!(run.status(), RunStatus::Running);
    assert_eq!(run.interrupts().count(), 1);
    run.decide(&Command::Continue, at(5)).unwrap();
    assert_eq!(run.status(), RunStatus::WaitingApproval);
    run.decide(&answer("gate", json!({ "action": "accept" })), at(6)).unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
}

/// F36: a log cut anywhere is finished by the next decide, without asking twice.
#[test]
fn any_cut_of_the_log_goes_on_without_asking_twice() {
    let mut run = gate(json!({ "requiredApprovals": 2 }));
    let mut log = run.decide(&Command::Start, at(0)).unwrap();
    for voter in ["ann", "bob"] {
        log.extend(
            run.decide(&answer("gate", json!({ "action": "accept", "voter": voter })), at(1))
                .unwrap(),
        );
    }
    for cut in 1..log.len() {
        let mut again = Run::replay(run.birth().clone(), run.plan().clone(), &log[..cut]);
        let mut whole = log[..cut].to_vec();
        whole.extend(again.decide(&Command::Continue, at(1)).unwrap());
        for voter in ["ann", "bob"] {
            if let Ok(more) =
                again.decide(&answer("gate", json!({ "action": "accept", "voter": voter })), at(1))
            {
                whole.extend(more);
            }
        }
        assert_eq!(again.status(), RunStatus::Completed, "cut at {cut}");
        let asked = kinds(&whole).iter().filter(|kind| **kind == "interrupt.requested").count();
        assert_eq!(asked, 1, "cut at {cut}");
    }
}

/// The question is a span of its own, under its node, until it is answered.
#[test]
fn a_question_is_a_span_until_it_has_its_answer() {
    let mut run = gate(json!({ "title": "?" }));
    let mut log = run.decide(&Command::Start, at(1)).unwrap();
    let seen = |run: &Run, log: &[Entry]| spans(run.birth(), run.plan(), log, &[]);
    let open = seen(&run, &log);
    let question = open.iter().find(|span| span.name == "openwop.interrupt").unwrap();
    assert_eq!(question.ended_at, None);
    assert_eq!(question.attributes["openwop.interrupt_kind"], "approval");
    assert_eq!(question.attributes["openwop.interrupt_count"], 1);
    let node = open.iter().find(|span| span.name == "openwop.node.core.approvalGate").unwrap();
    assert_eq!(question.parent_span_id.as_ref(), Some(&node.span_id));
    log.extend(run.decide(&answer("gate", json!({ "action": "accept" })), at(9)).unwrap());
    let closed = seen(&run, &log);
    let question = closed.iter().find(|span| span.name == "openwop.interrupt").unwrap();
    assert_eq!((question.ended_at, question.status.code), (Some(at(9)), SpanCode::Ok));
}
