//! Supervisors and those who carry out what they decide. Rows such as M-07 are those of the multi-agent contract.

use std::sync::Arc;

use callboard_core::{Cause, ChildUpdate, Command, Entry, MemoryScope, Resolution, Run, Via};
use callboard_protocol::{Consumption, Failure, RunStatus};
use serde_json::{Value, json};

use crate::given::{Given, at, given, object};
use crate::story::line;

/// A supervisor with a plan, and a node that carries it out, round and round.
pub(crate) fn orchestra(plan: Value, dispatch: Value) -> Given {
    let supervisor = json!({ "mockDispatchPlan": plan, "agentId": "core.test.boss" });
    given("boss:core.orchestrator.supervisor work:dispatch")
        .edges("boss>work work>boss")
        .config("boss", supervisor)
        .config("work", dispatch)
}

fn next(workers: &[&str]) -> Value {
    json!({ "kind": "next-worker", "nextWorkerIds": workers })
}

fn end() -> Value {
    json!({ "kind": "terminate", "reason": "goal-reached" })
}

/// A run whose children are played by the test: `run-a`, `run-b`, in the order of their starts.
pub(crate) struct Played {
    pub(crate) run: Run,
    pub(crate) log: Vec<Entry>,
    started: u8,
}

impl Played {
    pub(crate) fn start(given: &Given) -> Self {
        let mut played = Self { run: given.run(), log: Vec::new(), started: 0 };
        played.decide(&Command::Start);
        played
    }

    pub(crate) fn decide(&mut self, command: &Command) {
        let told = self.run.decide(command, at(1)).expect("a command that is accepted");
        let before = self.log.len();
        self.log.extend(told);
        let (birth, plan) = (Arc::clone(self.run.birth()), Arc::clone(self.run.plan()));
        let fold = |log: &[Entry]| Run::replay(Arc::clone(&birth), Arc::clone(&plan), log);
        // Wherever a crash cuts the batch, the next decide tells the rest of it.
        for cut in before + 1..self.log.len() {
            let rest = fold(&self.log[..cut]).decide(&Command::Continue, at(1));
            assert_eq!(rest.expect("the rest"), self.log[cut..], "cut at {cut}");
        }
        let rebuilt = fold(&self.log);
        assert_eq!(rebuilt.snapshot(), self.run.snapshot());
        assert_eq!(rebuilt.live_children(), self.run.live_children());
        assert_eq!(rebuilt.child_orders(), self.run.child_orders());
    }

    /// Starts every child that is owed.
    pub(crate) fn dispatch(&mut self) {
        while let Some(order) = self.run.child_orders().into_iter().next() {
            let child = format!("run-{}", char::from(b'a' + self.started)).into();
            self.started += 1;
            let (attempt, workflow) = (order.attempt, order.workflow);
            self.decide(&Command::Dispatch { attempt, child, workflow });
        }
    }

    fn hear(&mut self, child: &str, status: RunStatus, outputs: Value) {
        let error = (status == RunStatus::Failed).then(|| Failure::new("broke", "it broke"));
        let news = ChildUpdate {
            run: child.into(),
            status,
            outputs: object(outputs),
            error,
            memory: Vec::new(),
            files: Vec::new(),
            used: Consumption::default(),
        };
        self.decide(&Command::UpdateChild(news));
    }

    pub(crate) fn completes(&mut self, child: &str) {
        self.hear(child, RunStatus::Completed, json!({}));
    }

    pub(crate) fn answer(&mut self, node: &str, value: Value) {
        let resolution =
            Resolution { node: node.into(), value, by: Some("ann".into()), via: Via::Key };
        self.decide(&Command::Resolve(resolution));
    }

    pub(crate) fn refuses(&self, node: &str, value: Value) -> bool {
        let resolution = Resolution { node: node.into(), value, by: None, via: Via::Key };
        self.run.clone().decide(&Command::Resolve(resolution), at(1)).is_err()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.log.iter().map(|entry| line(&entry.event)).collect()
    }

    pub(crate) fn payloads(&self, kind: &str) -> Vec<Value> {
        let of_kind = self.log.iter().filter(|entry| entry.event.kind() == kind);
        of_kind.map(|entry| entry.event.payload()).collect()
    }

    fn phases(&self) -> Vec<String> {
        let told = self.payloads("core.workflowChain.event").into_iter();
        told.map(|payload| {
            let child = payload["childRunId"].as_str().unwrap_or("-");
            format!(
                "{} {} {child}",
                payload["phase"].as_str().expect("a phase"),
                payload["workerId"]
            )
        })
        .collect()
    }

    fn decided(&self) -> Vec<String> {
        let told = self.payloads("runOrchestrator.decided").into_iter();
        told.map(|payload| payload["decision"]["kind"].as_str().expect("a kind").to_owned())
            .collect()
    }

    pub(crate) fn failure(&self) -> String {
        self.run.snapshot().error.map(|error| error.code).unwrap_or_default()
    }
}

/// M-01, M-03, M-20, M-23: one decision a turn, told before its effects; the chain; the end.
#[test]
fn a_loop_goes_on_until_its_supervisor_ends_it() {
    let mut run = Played::start(&orchestra(json!([next(&["w"]), end()]), json!({})));
    run.dispatch();
    run.completes("run-a");
    let expected = [
        "run.started",
        "node.started boss",
        "runOrchestrator.decided boss",
        "node.completed boss",
        "node.started work",
        "core.workflowChain.event work",
        "node.dispatched work",
        "core.workflowChain.event work",
        "callboard.child.changed work",
        "core.workflowChain.event work",
        "node.completed work",
        "node.started boss v1",
        "runOrchestrator.decided boss",
        "node.completed boss",
        "run.completed",
    ];
    assert_eq!(run.kinds(), expected);
    let phases =
        ["dispatch.began \"w\" -", "dispatch.succeeded \"w\" run-a", "child.completed \"w\" run-a"];
    assert_eq!(run.phases(), phases);
    let orchestrator = run.run.snapshot().run_orchestrator.expect("an orchestrator");
    assert_eq!(orchestrator.agent_id, "core.test.boss");
    let outputs = json!({ "childRunId": "run-a", "childStatus": "completed" });
    assert_eq!(run.payloads("node.completed")[1]["outputs"], outputs);
}

/// M-09, M-20: each event of a handoff answers the one before, and the first answers the decision.
#[test]
fn m20_a_handoff_is_a_chain_of_causes() {
    let config = json!({ "outputMapping": { "result": "outcome" } });
    let mut run = Played::start(&orchestra(json!([next(&["w"]), end()]), config));
    run.dispatch();
    run.hear("run-a", RunStatus::Completed, json!({ "result": "done" }));
    let caused: Vec<(String, Option<Cause>)> = run
        .log
        .iter()
        .filter(|entry| entry.cause.is_some())
        .map(|entry| (line(&entry.event), entry.cause.clone()))
        .collect();
    let at = |kind: &str| run.log.iter().position(|entry| entry.event.kind() == kind);
    let decided = at("runOrchestrator.decided").map(|place| Cause::Event(place as u64));
    assert_eq!(caused[0], ("core.workflowChain.event work".to_owned(), decided.clone()));
    assert_eq!(caused[1], ("node.dispatched work".to_owned(), decided));
    let chain: Vec<u64> = run
        .log
        .iter()
        .filter(|entry| entry.event.kind() == "core.workflowChain.event")
        .map(|entry| entry.sequence)
        .collect();
    let causes: Vec<Option<Cause>> =
        chain[1..].iter().map(|place| run.log[*place as usize].cause.clone()).collect();
    let expected: Vec<Option<Cause>> =
        chain[..3].iter().map(|place| Some(Cause::Event(*place))).collect();
    assert_eq!(causes, expected);
    assert_eq!(chain.len(), 4);
}

/// M-02: whoever decided first decides for the whole run.
#[test]
fn m02_a_second_supervisor_cannot_decide() {
    let rival = json!({ "id": "rival", "typeId": "core.orchestrator.supervisor",
        "config": { "agentId": "core.test.rival", "mockDecisions": [end()] } });
    let run = Played::start(&orchestra(json!([next(&["w"])]), json!({})).extra(rival));
    let failed = run.payloads("node.failed");
    assert_eq!(failed[0]["error"]["code"], "validation_error", "{failed:?}");
    assert_eq!(run.decided(), ["next-worker"]);
}

/// M-03, M-04: nothing follows a decision to end, and a script that runs out ends the loop by itself.
#[test]
fn m03_a_supervisor_ends_the_run_once() {
    let run = Played::start(&orchestra(json!([end(), end(), next(&["w"])]), json!({})));
    assert_eq!(
        (run.run.status(), run.decided()),
        (RunStatus::Completed, vec!["terminate".to_owned()])
    );
    let mut run = Played::start(&orchestra(json!([next(&["w"])]), json!({})));
    run.dispatch();
    run.completes("run-a");
    assert_eq!((run.run.status(), run.decided().len()), (RunStatus::Completed, 1));
}

/// M-03: what is still at work when the run is over is cancelled, its children first.
#[test]
fn m03_an_end_takes_what_is_at_work_along() {
    let flow = orchestra(json!([end()]), json!({}))
        .extra(
            json!({ "id": "aside", "typeId": "core.subWorkflow", "config": { "workflowId": "c" } }),
        )
        .extra(json!({ "id": "later", "typeId": "core.delay", "config": { "ms": 5_000 } }));
    let mut run = Played::start(&flow);
    assert_eq!(run.run.status(), RunStatus::Completed, "{:#?}", run.kinds());
    run = Played::start(&orchestra(json!([next(&["w"]), end()]), json!({})).extra(
        json!({ "id": "aside", "typeId": "core.subWorkflow", "config": { "workflowId": "c" } }),
    ));
    run.dispatch();
    run.completes("run-b");
    assert_eq!(run.run.status(), RunStatus::Running, "the child beside is still at work");
    assert!(run.run.live_children()[0].must_end);
    run.hear("run-a", RunStatus::Cancelled, json!({}));
    assert_eq!(run.run.status(), RunStatus::Completed);
    assert!(run.kinds().contains(&"node.cancelled aside".to_owned()));
}

/// M-05, M-06.
#[test]
fn m05_without_a_decision_and_m06_with_too_many_workers_a_dispatch_fails() {
    let alone = given("boss:core.orchestrator.supervisor work:dispatch")
        .config("boss", json!({ "mockDecisions": [end()] }))
        .edges("work>boss");
    assert_eq!(Played::start(&alone).failure(), "no_pending_decision");
    let picky = orchestra(json!([next(&["v", "w"])]), json!({ "fanOutPolicy": "reject" }));
    let run = Played::start(&picky);
    assert_eq!((run.failure().as_str(), run.phases().len()), ("fan_out_unsupported", 0));
}

/// M-07, M-16: one after the other, and what one leaves behind the next one gets.
#[test]
fn m07_workers_work_one_after_the_other() {
    let mapping = json!({
        "perWorkerOutputMappings": { "v": { "shared": "output" } },
        "perWorkerInputMappings": { "w": { "input": "shared" } },
    });
    let mut run = Played::start(&orchestra(json!([next(&["v", "w"]), end()]), mapping));
    assert_eq!(run.run.child_orders().len(), 1);
    run.dispatch();
    run.hear("run-a", RunStatus::Completed, json!({ "shared": "hello" }));
    let order = run.run.child_orders().pop().expect("the second worker");
    assert_eq!((order.workflow.as_str(), &order.inputs["input"]), ("w", &json!("hello")));
    run.dispatch();
    run.completes("run-b");
    let expected = [
        "dispatch.began \"v\" -",
        "dispatch.succeeded \"v\" run-a",
        "child.completed \"v\" run-a",
        "output.harvested \"v\" run-a",
        "dispatch.began \"w\" -",
        "dispatch.succeeded \"w\" run-b",
        "child.completed \"w\" run-b",
    ];
    assert_eq!(run.phases(), expected);
    assert_eq!(run.payloads("core.workflowChain.event")[3]["harvestedKeys"], json!(["shared"]));
    assert_eq!(run.run.status(), RunStatus::Completed);
}

/// M-13, M-15: what is unset stays unset, and a worker's own mapping replaces the common one.
#[test]
fn m15_a_workers_own_mapping_goes_before_the_common_one() {
    let config = json!({ "fanOutPolicy": "parallel", "inputMapping": { "x": "ours", "y": "none" },
        "perWorkerInputMappings": { "w": { "z": "ours" } } });
    let flow = orchestra(json!([next(&["v", "w"])]), config).inputs(json!({ "ours": "Alice" }));
    let run = Played::start(&flow);
    let orders = run.run.child_orders();
    assert_eq!(Value::from(orders[0].inputs.clone()), json!({ "x": "Alice" }));
    assert_eq!(orders[0].unset, ["y"]);
    assert_eq!(Value::from(orders[1].inputs.clone()), json!({ "z": "Alice" }));
}

/// M-14, M-21: a child that failed or was cancelled leaves nothing behind, and its parent fails.
#[test]
fn m21_nothing_is_taken_from_a_child_that_did_not_complete() {
    for (status, phase) in
        [(RunStatus::Failed, "child.failed"), (RunStatus::Cancelled, "child.cancelled")]
    {
        let config = json!({ "outputMapping": { "result": "outcome" } });
        let flow =
            orchestra(json!([next(&["w"]), end()]), config).inputs(json!({ "result": "kept" }));
        let mut run = Played::start(&flow);
        run.dispatch();
        run.hear("run-a", status, json!({}));
        assert_eq!(run.phases()[2], format!("{phase} \"w\" run-a"));
        assert_eq!(run.phases().len(), 3);
        assert!(run.payloads("core.workflowChain.event")[2]["error"]["code"].is_string());
        assert_eq!(run.run.snapshot().variables["result"], "kept");
        assert_eq!(run.failure(), "child_run_failed");
    }
}

/// M-22: a worker that cannot be started, such as one that nobody knows.
#[test]
fn m22_a_worker_that_nobody_knows_fails_without_a_child() {
    let mut run = Played::start(&orchestra(json!([next(&["ghost"]), end()]), json!({})));
    let order = run.run.child_orders().pop().expect("an order");
    let failure = Failure::new("unknown_child_workflow", "there is no workflow ghost");
    let (attempt, workflow) = (order.attempt, order.workflow);
    run.decide(&Command::Undispatch { attempt, workflow, failure });
    assert_eq!(run.phases(), ["dispatch.began \"ghost\" -", "dispatch.failed \"ghost\" -"]);
    assert_eq!(run.failure(), "unknown_child_workflow");
}

/// M-08: a supervisor's question is a conversation here, unless the node wants it plain.
#[test]
fn m08_a_question_of_the_supervisor_goes_to_somebody() {
    let ask = json!([{ "kind": "ask-user", "prompt": "Which colour?" }, end()]);
    let mut run = Played::start(&orchestra(ask.clone(), json!({})));
    assert_eq!(run.run.status(), RunStatus::WaitingApproval);
    assert!(run.kinds().contains(&"conversation.opened work".to_owned()), "{:#?}", run.kinds());
    run.answer("work", json!("blue"));
    assert_eq!(run.run.status(), RunStatus::Completed);
    assert_eq!(run.run.snapshot().variables["work"]["answer"], "blue");
    let mut run = Played::start(&orchestra(ask, json!({ "askUserRouting": "clarification" })));
    assert_eq!(run.run.status(), RunStatus::WaitingInput);
    assert!(run.kinds().contains(&"clarification.requested work".to_owned()));
    run.answer("work", json!({ "answers": { "answer": "red" } }));
    assert_eq!(run.run.status(), RunStatus::Completed);
    assert_eq!(run.run.snapshot().variables["work"]["answer"], "red");
}

/// M-10: more rounds than the node allows.
#[test]
fn m10_a_node_carries_out_no_more_decisions_than_its_cap() {
    let plan = json!([next(&["w"]), next(&["w"]), next(&["w"]), end()]);
    let mut run = Played::start(&orchestra(plan, json!({ "iterationCap": 2 })));
    for child in ["run-a", "run-b"] {
        run.dispatch();
        run.completes(child);
    }
    let breach = run.payloads("cap.breached");
    let expected = json!({ "kind": "node-executions", "limit": 2, "observed": 3, "nodeId": "work",
        "details": { "reason": "dispatch-iterations" } });
    assert_eq!(breach, [expected]);
    assert_eq!(
        (run.run.status(), run.failure().as_str()),
        (RunStatus::Failed, "recursion_limit_exceeded")
    );
}

/// M-83: a supervisor that never comes to an end.
#[test]
fn m83_a_supervisor_takes_no_more_turns_than_the_run_allows() {
    let plan = json!([next(&["w"]), next(&["w"]), next(&["w"])]);
    let mut run = Played::start(&orchestra(plan, json!({})).most_turns(2));
    for child in ["run-a", "run-b"] {
        run.dispatch();
        run.completes(child);
    }
    let expected = json!({ "kind": "loop-iterations", "limit": 2, "observed": 3 });
    assert_eq!(run.payloads("cap.breached"), [expected]);
    let error = run.run.snapshot().error.expect("an error");
    assert_eq!(error.code, "loop_limit_exceeded");
    assert_eq!(Value::from(error.details.expect("details")), json!({ "iteration": 3 }));
}

/// A child that waits for somebody is what its parent shows; the answer is the child's.
#[test]
fn a_waiting_worker_shows_through_its_parent() {
    let mut run = Played::start(&orchestra(json!([next(&["w"]), end()]), json!({})));
    run.dispatch();
    run.hear("run-a", RunStatus::WaitingApproval, json!({}));
    assert_eq!(run.run.status(), RunStatus::WaitingApproval);
    run.hear("run-a", RunStatus::Running, json!({}));
    assert_eq!(run.run.status(), RunStatus::Running);
    run.completes("run-a");
    assert_eq!(run.run.status(), RunStatus::Completed);
}

fn side_by_side(join: Value) -> Played {
    let config = json!({ "fanOutPolicy": "parallel", "joinPolicy": join,
        "outputMapping": { "said": "text" } });
    let mut run = Played::start(&orchestra(json!([next(&["u", "v", "w"]), end()]), config));
    run.dispatch();
    assert_eq!(run.run.live_children().len(), 3);
    run
}

fn joined(run: &Played) -> Value {
    run.payloads("node.completed")[1]["outputs"].clone()
}

/// Whoever ends last has the last word, whatever the order of the starts.
#[test]
fn workers_side_by_side_are_joined_in_the_order_of_their_ends() {
    let mut run = side_by_side(json!({}));
    for child in ["run-c", "run-a", "run-b"] {
        run.hear(child, RunStatus::Completed, json!({ "said": child }));
    }
    let outputs = joined(&run);
    assert_eq!(outputs["mergeOrder"], json!(["run-c", "run-a", "run-b"]));
    assert_eq!(
        (&outputs["joinOutcome"], &outputs["childRunId"]),
        (&json!("satisfied"), &json!("run-b"))
    );
    assert_eq!(
        outputs["children"][0],
        json!({ "workflowId": "u", "childRunId": "run-a", "childStatus": "completed" })
    );
    assert_eq!(run.run.snapshot().variables["said"], "run-b");
    assert_eq!(run.run.status(), RunStatus::Completed);
}

/// Each join says who is still needed; the others are cancelled.
#[test]
fn a_join_stops_those_who_are_not_needed_any_more() {
    let mut run = side_by_side(json!({ "mode": "first" }));
    run.completes("run-b");
    let live = run.run.live_children();
    assert!(live.len() == 2 && live.iter().all(|child| child.must_end), "{live:?}");
    run.hear("run-a", RunStatus::Cancelled, json!({}));
    run.hear("run-c", RunStatus::Cancelled, json!({}));
    assert_eq!(joined(&run)["joinOutcome"], "satisfied");
    assert_eq!(run.run.status(), RunStatus::Completed);
    let mut run = side_by_side(json!({ "onChildFailure": "fail-fast" }));
    run.hear("run-b", RunStatus::Failed, json!({}));
    run.hear("run-a", RunStatus::Cancelled, json!({}));
    assert_eq!(run.run.status(), RunStatus::Running, "one is still to end");
    run.hear("run-c", RunStatus::Cancelled, json!({}));
    assert_eq!((run.run.status(), run.failure().as_str()), (RunStatus::Failed, "join_failed"));
    let mut run = side_by_side(json!({ "mode": "wait-all", "onChildFailure": "collect" }));
    run.hear("run-b", RunStatus::Failed, json!({}));
    run.completes("run-a");
    run.completes("run-c");
    assert_eq!(joined(&run)["joinOutcome"], "partial");
    assert_eq!(joined(&run)["children"][1]["error"]["code"], "broke");
}

/// No more at work than allowed, and nobody is left out.
#[test]
fn workers_wait_for_their_turn() {
    let config = json!({ "fanOutPolicy": "parallel", "maxConcurrency": 2 });
    let mut run = Played::start(&orchestra(json!([next(&["u", "v", "w"]), end()]), config));
    run.dispatch();
    assert_eq!(run.run.live_children().len(), 2);
    run.completes("run-b");
    run.dispatch();
    assert_eq!(run.run.live_children().len(), 2);
    run.completes("run-a");
    run.completes("run-c");
    assert_eq!(run.run.status(), RunStatus::Completed);
}

/// M-11, M-34's twin in definitions: what cannot be carried out is refused with its place.
#[test]
fn m11_a_definition_that_makes_no_sense_is_refused() {
    let plan = |flow: Given| flow.plan().map(|_| ()).expect_err("no plan").to_string();
    let fine = || json!([end()]);
    assert!(plan(given("work:dispatch")).contains("core.orchestrator.supervisor"));
    let wrong = [
        json!({ "fanOutPolicy": "broadcast" }),
        json!({ "workerDispatchModel": "same-run" }),
        json!({ "iterationCap": 0 }),
        json!({ "joinPolicy": { "mode": "wait-all" } }),
        json!({ "maxConcurrency": 2 }),
        json!({ "fanOutPolicy": "parallel", "joinPolicy": { "mode": "quorum" } }),
        json!({ "fanOutPolicy": "parallel", "joinPolicy": { "mode": "first", "quorum": 2 } }),
        json!({ "fanOutPolicy": "parallel", "joinPolicy": { "mode": "any" } }),
        json!({ "memoryScopeIsolation": "shared" }),
        json!({ "askUserRouting": "telepathy" }),
        json!({ "colour": "blue" }),
    ];
    for config in wrong {
        let refused = plan(orchestra(fine(), config.clone()));
        assert!(refused.starts_with("nodes.work.config"), "{config}: {refused}");
    }
    for decisions in [json!([{ "kind": "dance" }]), json!([next(&[])])] {
        let refused = plan(orchestra(decisions.clone(), json!({})));
        assert!(refused.starts_with("nodes.boss.config.mockDispatchPlan[0]"), "{refused}");
    }
    assert!(plan(given("boss:core.orchestrator.supervisor")).contains("needs an agent"));
}

#[test]
fn workers_get_the_memory_that_their_dispatch_says() {
    for (config, scope) in [
        (json!({}), MemoryScope::Inherit),
        (json!({ "memoryScopeIsolation": "inherit" }), MemoryScope::Inherit),
        (json!({ "memoryScopeIsolation": "isolated" }), MemoryScope::Isolated),
    ] {
        let played = Played::start(&orchestra(json!([next(&["a"])]), config));
        let orders = played.run.child_orders();
        assert_eq!(orders.iter().map(|order| order.memory).collect::<Vec<_>>(), [scope]);
    }
}
