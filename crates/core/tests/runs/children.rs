//! Runs within runs: what is started with what, what is shown meanwhile, and what an end comes to.

use std::sync::Arc;

use callboard_core::{Birth, ChildOrder, ChildUpdate, Command, Entry, Plan, Run};
use callboard_protocol::{Consumption, DrainPolicy, Failure, RunId, RunStatus};
use serde_json::{Value, json};

use crate::given::{Given, at, given, object};
use crate::story::line;

/// A parent whose one child is to run `child`.
fn parent(config: Value) -> Given {
    given("call:subWorkflow after:noop")
        .edges("call>after")
        .config("call", json!({ "workflowId": "child" }))
        .config("call", config)
}

/// A parent run that has dispatched its child `run-child`.
struct Family {
    run: Run,
    log: Vec<Entry>,
}

fn family(given: &Given) -> Family {
    let mut family = Family { run: given.run(), log: Vec::new() };
    family.decide(0, &Command::Start);
    let order = family.order();
    let command = Command::Dispatch {
        attempt: order.attempt,
        child: "run-child".into(),
        workflow: order.workflow,
    };
    family.decide(1, &command);
    family
}

impl Family {
    fn decide(&mut self, millis: i64, command: &Command) {
        let told = self.run.decide(command, at(millis)).expect("a command that is accepted");
        self.log.extend(told);
        let (birth, plan) = (Arc::clone(self.run.birth()), Arc::clone(self.run.plan()));
        let rebuilt = Run::replay(birth, plan, &self.log);
        assert_eq!(rebuilt.snapshot(), self.run.snapshot());
        assert_eq!(rebuilt.head(), self.run.head());
        assert_eq!(rebuilt.live_children(), self.run.live_children());
    }

    fn order(&self) -> ChildOrder {
        self.run.child_orders().pop().expect("a child is owed")
    }

    fn hear(&mut self, status: RunStatus, outputs: Value, error: Option<Failure>) {
        let run: RunId = "run-child".into();
        let news = ChildUpdate {
            run,
            status,
            outputs: object(outputs),
            error,
            memory: Vec::new(),
            files: Vec::new(),
            used: Consumption::default(),
        };
        self.decide(50, &Command::UpdateChild(news));
    }

    fn lines(&self) -> Vec<String> {
        self.log.iter().map(|entry| line(&entry.event)).collect()
    }

    fn variable(&self, name: &str) -> Value {
        self.run.snapshot().variables.get(name).cloned().unwrap_or(Value::Null)
    }
}

/// A child's fold with these variables.
fn child(variables: Value, inputs: Value, unset: &[&str]) -> Run {
    let given = given("n:noop").top(json!({ "variables": variables })).inputs(inputs);
    let birth =
        Birth { unset: unset.iter().map(|name| (*name).to_owned()).collect(), ..given.birth() };
    Run::new(Arc::new(birth), Arc::new(given.plan().expect("a child")))
}

/// F43, F48: the parent's log has the call alone, and its outputs name the child and its end.
#[test]
fn f43_a_call_ends_with_its_child() {
    let mut family = family(&parent(json!({})));
    assert_eq!(family.run.status(), RunStatus::Running);
    assert_eq!(family.run.tasks().count(), 0, "nobody is held");
    assert!(family.run.head().wake_at > Some(at(1_000_000)), "only the deadline wakes it");
    family.hear(RunStatus::Completed, json!({}), None);
    let expected = [
        "run.started",
        "node.started call",
        "node.dispatched call",
        "callboard.child.changed call",
        "node.completed call",
        "node.started after",
        "node.completed after",
        "run.completed",
    ];
    assert_eq!(family.lines(), expected);
    let outputs = json!({ "childRunId": "run-child", "childStatus": "completed" });
    assert_eq!(family.log[4].event.payload()["outputs"], outputs);
    let listed = serde_json::to_value(family.run.snapshot().child_runs).expect("JSON");
    assert_eq!(listed[0]["runId"], "run-child");
    assert_eq!(listed[0]["status"], "completed");
}

/// F44: inputs go down by the child's names; what the parent has not set is unset there too.
#[test]
fn f44_inputs_are_mapped_once_and_override_defaults() {
    let flow = parent(json!({ "inputMapping": { "theirs": "ours", "none": "nothing" } }))
        .top(json!({ "variables": [{ "name": "ours", "type": "string", "defaultValue": "v" }] }));
    let mut run = flow.run();
    run.decide(&Command::Start, at(0)).expect("a start");
    let order = run.child_orders().pop().expect("an order");
    assert_eq!(Value::from(order.inputs.clone()), json!({ "theirs": "v" }));
    assert_eq!(order.unset, ["none"]);
    let defaults = json!([{ "name": "theirs", "type": "string", "defaultValue": "baked-in" },
        { "name": "none", "type": "string", "defaultValue": "baked-in" }]);
    let variables = child(defaults, order.inputs.into(), &["none"]).snapshot().variables;
    assert_eq!(Value::from(variables), json!({ "theirs": "v" }));
}

/// F44: outputs come up by the parent's names, from a completed child alone; what it lacks changes nothing.
#[test]
fn f44_outputs_are_taken_from_a_completed_child() {
    let mapping = json!({ "outputMapping": { "ours": "theirs", "kept": "missing" } });
    let flow = parent(mapping).inputs(json!({ "kept": "as it was" }));
    let mut family = family(&flow);
    let ended = child(json!([]), json!({ "theirs": { "deep": [1] } }), &[]);
    let harvest = family.run.harvest(&"call".into(), &ended);
    assert_eq!(Value::from(harvest.clone()), json!({ "ours": { "deep": [1] } }));
    family.hear(RunStatus::Completed, harvest.into(), None);
    assert_eq!(family.variable("ours"), json!({ "deep": [1] }));
    assert_eq!(family.variable("kept"), json!("as it was"));
}

/// F45: a child's failure is the call's, unless it is to be absorbed.
#[test]
fn f45_a_failed_child_fails_its_parent_unless_absorbed() {
    let broke = || Some(Failure::new("broke", "it broke"));
    let mut strict = family(&parent(json!({})));
    strict.hear(RunStatus::Failed, json!({}), broke());
    assert_eq!(strict.run.status(), RunStatus::Failed);
    let error = strict.run.snapshot().error.expect("an error");
    assert_eq!(error.code, "child_run_failed");
    assert!(error.message.contains("it broke"), "{}", error.message);
    let mut lenient = family(&parent(json!({ "onChildFailure": "absorb" })));
    lenient.hear(RunStatus::Failed, json!({}), broke());
    assert_eq!(lenient.run.status(), RunStatus::Completed);
    assert_eq!(lenient.variable("call")["childStatus"], "failed");
    let mut alone = family(&parent(json!({})));
    alone.hear(RunStatus::Cancelled, json!({}), None);
    assert_eq!(
        alone.run.status(),
        RunStatus::Failed,
        "a child that was cancelled alone has failed"
    );
}

/// F46: while the child waits for somebody, its parent shows the same; news that are none change nothing.
#[test]
fn f46_a_parent_mirrors_its_waiting_child() {
    let mut family = family(&parent(json!({})));
    family.hear(RunStatus::WaitingApproval, json!({}), None);
    assert_eq!(family.run.status(), RunStatus::WaitingApproval);
    let snapshot = family.run.snapshot();
    assert_eq!(snapshot.current_node_id, Some("call".into()));
    assert_eq!(snapshot.child_runs[0].status, RunStatus::WaitingApproval);
    let before = family.log.len();
    family.hear(RunStatus::WaitingApproval, json!({}), None);
    assert_eq!(family.log.len(), before);
    family.hear(RunStatus::Running, json!({}), None);
    assert_eq!(family.run.status(), RunStatus::Running);
}

/// F47: the child ends first, then the parent; one that is not to follow is left alone.
#[test]
fn f47_a_cancel_takes_the_child_along() {
    let cancel = Command::Cancel { reason: Some("enough".into()), by: None, parent: None };
    let mut with = family(&parent(json!({})));
    with.decide(10, &cancel);
    assert_eq!(with.run.status(), RunStatus::Cancelling);
    assert!(with.run.live_children()[0].must_end);
    assert!(with.run.owes_children(), "the run does not rest before that");
    with.hear(RunStatus::Cancelled, json!({}), None);
    assert_eq!(with.run.status(), RunStatus::Cancelled);
    let mut without = family(&parent(json!({ "propagateCancellation": false })));
    without.decide(10, &cancel);
    assert_eq!(without.run.status(), RunStatus::Cancelled);
}

/// F47: the cascade tells whose it was, a direct cancel does not.
#[test]
fn f47_only_a_cascade_names_the_parent() {
    for (parent, expected) in [(Some("run-0".into()), json!("run-0")), (None, Value::Null)] {
        let mut run = given("wait:delay").config("wait", json!({ "ms": 9_000 })).run();
        run.decide(&Command::Start, at(0)).expect("a start");
        let cancel = Command::Cancel { reason: None, by: None, parent };
        let told = run.decide(&cancel, at(5)).expect("a cancel");
        assert_eq!(told.last().expect("an end").event.payload()["parentRunId"], expected);
    }
}

/// A pause does not stop a child, and what it comes to is heard afterwards.
#[test]
fn a_pause_neither_stops_nor_repeats_a_child() {
    let mut family = family(&parent(json!({})));
    family.decide(10, &Command::Pause { drain: DrainPolicy::DrainCurrentNode, reason: None });
    assert_eq!(family.run.status(), RunStatus::Paused);
    assert!(family.run.live_children().is_empty(), "nothing is heard during a pause");
    family.decide(20, &Command::Resume { reason: None });
    assert!(family.run.child_orders().is_empty(), "a child is started once");
    family.hear(RunStatus::Completed, json!({}), None);
    assert_eq!(family.run.status(), RunStatus::Completed);
}

/// What is sensitive on one side crosses only where it stays so.
#[test]
fn a_sensitive_value_crosses_only_to_where_it_stays_hidden() {
    let secret = |name: &str, sensitive: bool| json!([{ "name": name, "type": "string", "sensitive": sensitive }]);
    for (down, up, shown) in [(true, true, "hunter2-hunter2"), (false, false, "[REDACTED]")] {
        let mut variables = secret("ours", true);
        let list = variables.as_array_mut().expect("a list");
        list.extend(secret("taken", up).as_array().expect("a list").clone());
        let mapping =
            json!({ "inputMapping": { "theirs": "ours" }, "outputMapping": { "taken": "theirs" } });
        let flow = parent(mapping)
            .top(json!({ "variables": variables }))
            .inputs(json!({ "ours": "hunter2-hunter2" }));
        let mut run = flow.run();
        run.decide(&Command::Start, at(0)).expect("a start");
        let order = run.child_orders().pop().expect("an order");
        let below = given("n:noop").top(json!({ "variables": secret("theirs", down) }));
        let plan = below.plan().expect("a child");
        assert_eq!(run.handed_down(&order, &plan)["theirs"], shown);
        let ended = child(secret("theirs", true), json!({ "theirs": "hunter2-hunter2" }), &[]);
        assert_eq!(run.harvest(&"call".into(), &ended)["taken"], shown);
    }
}

/// What cannot be carried out is refused with its place.
#[test]
fn a_call_that_makes_no_sense_is_refused() {
    let plan = |flow: Given| flow.plan().map(|_: Plan| ()).expect_err("no plan").to_string();
    let nameless = given("call:subWorkflow");
    assert!(plan(nameless).starts_with("nodes.call.config: missing field `workflowId`"));
    assert!(plan(parent(json!({ "waitForCompletion": false }))).contains("waitForCompletion"));
    assert!(plan(parent(json!({ "onChildFailure": "shrug" }))).contains("nodes.call.config"));
    let writes = parent(json!({ "outputMapping": { "c": "x" } }))
        .top(json!({ "channels": { "c": { "reducer": "append" } } }));
    assert!(plan(writes).contains("is a channel"));
}

/// A limit that breaks takes the child along as a cancel does.
#[test]
fn a_run_that_takes_too_long_ends_its_child_first() {
    let flow = parent(json!({})).most_millis(100);
    assert_eq!(flow.birth().limits.duration_ms, 100);
    let mut family = family(&flow);
    family.decide(200, &Command::Continue);
    assert!(family.run.live_children()[0].must_end);
    assert!(!family.run.status().is_terminal());
    family.hear(RunStatus::Cancelled, json!({}), None);
    let error = family.run.snapshot().error.expect("an error");
    assert_eq!((family.run.status(), error.code.as_str()), (RunStatus::Failed, "run_timeout"));
}
