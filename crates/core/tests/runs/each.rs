//! Nodes that go through a list, and the node that runs the workflow of its input.

use std::sync::Arc;

use callboard_core::{ChildUpdate, Command, Entry, Run};
use callboard_protocol::{Consumption, Failure, RunId, RunStatus};
use serde_json::{Value, json};

use crate::given::{Do, Given, at, given, object};
use crate::story::play;

fn expression(text: &str) -> Value {
    json!({ "type": "expression", "expression": text })
}

/// A node that goes through these items.
fn each(config: Value, items: Value) -> Given {
    let port = json!({ "type": "variable", "variableName": "items" });
    given("n:callboard.each")
        .config("n", config)
        .ports("n", json!({ "items": port }))
        .inputs(json!({ "items": items }))
}

fn body() -> Value {
    json!([
        { "id": "loud", "typeId": "core.openwop.data.string-case",
          "config": { "mode": "upper" }, "inputs": { "text": expression("item.name") } },
        { "typeId": "core.openwop.data.string-format", "inputs": {
            "template": { "type": "static", "value": "{{n}} of {{total}}: {{name}}" },
            "context": expression("{'n': index + 1, 'total': total, 'name': steps.loud.text}"),
        } },
    ])
}

fn outcome(given: &Given) -> Value {
    let played = play(given, &[(0, Do::Start)]);
    match played.count("node.completed") {
        0 => json!({ "failed": played.payload("node.failed")["error"] }),
        _ => played.payload("node.completed")["outputs"].clone(),
    }
}

#[test]
fn a_body_is_computed_for_every_item() {
    let config = json!({ "body": body(), "collect": "text" });
    let items = json!([{ "name": "ann" }, { "name": "bob" }]);
    let expected = json!({ "count": 2, "failures": [], "results": ["1 of 2: ANN", "2 of 2: BOB"] });
    assert_eq!(outcome(&each(config.clone(), items)), expected);
    assert_eq!(
        outcome(&each(config, json!([]))),
        json!({ "count": 0, "failures": [], "results": [] })
    );
}

#[test]
fn an_item_that_fails_fails_the_node_or_is_told_beside_the_others() {
    let items = json!([{ "name": "ann" }, { "name": 7 }]);
    let failed = outcome(&each(json!({ "body": body() }), items.clone()));
    assert_eq!(failed["failed"]["details"]["index"], 1);
    assert_eq!(
        failed["failed"]["message"],
        "item 1: the input text must be a text, and is a number"
    );
    let config = json!({ "body": body(), "collect": "text", "onItemFailure": "collect" });
    let outputs = outcome(&each(config, items));
    assert_eq!(outputs["results"], json!(["1 of 2: ANN", null]));
    assert_eq!(outputs["failures"][0]["index"], 1);
    assert_eq!(outputs["failures"][0]["error"]["code"], "validation_error");
}

#[test]
fn ten_thousand_items_are_one_step_and_a_million_are_refused() {
    let step = json!({ "typeId": "core.openwop.data.number-round", "inputs": { "value": expression("item") } });
    let config = json!({ "body": [step], "collect": "value" });
    let outputs = outcome(&each(config.clone(), (0..10_000).collect()));
    assert_eq!(outputs["count"], 10_000);
    assert_eq!(outputs["results"][9_999], 9_999);
    for flow in [each(config, vec![0; 1_000_000].into()), runs(json!({}), &vec![json!(0); 1_001])] {
        let failed = outcome(&flow);
        assert_eq!(failed["failed"]["code"], "too_many_items", "{failed}");
    }
    let iterator = given("n:core.flow.iterator")
        .ports("n", json!({ "array": { "type": "variable", "variableName": "items" } }))
        .inputs(json!({ "items": vec![0; 100_001] }));
    let message = "the list has 100001 items, and at most 100000 are gone through: take fewer, for example with \
                   core.flow.split-in-batches";
    assert_eq!(outcome(&iterator)["failed"]["message"], message);
}

#[test]
fn what_is_no_list_is_refused_in_words() {
    for config in [json!({ "body": body() }), json!({ "workflowId": "w2" })] {
        let failed = outcome(&each(config, json!("x")));
        assert_eq!(failed["failed"]["message"], "the input items must be a list, and is a text");
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_its_place() {
    let agent = json!({ "body": [{ "typeId": "core.ai.structuredOutput" }] });
    let cases = [
        (json!({}), "nodes.n.config: needs either body or workflowId"),
        (json!({ "body": [] }), "nodes.n.config.body: must have 1 to 16 steps"),
        (
            agent,
            "nodes.n.config.body[0].typeId: core.ai.structuredOutput is not computed from its inputs alone, as the \
             steps of a body are; run a workflow for each item",
        ),
        (
            json!({ "workflowId": "w2", "maxConcurrency": 0 }),
            "nodes.n.config.maxConcurrency: must be from 1 to 16",
        ),
        (
            json!({ "body": body(), "itemAs": "x" }),
            "nodes.n.config.itemAs: is for a workflowId alone",
        ),
    ];
    for (config, message) in cases {
        let refused = each(config, json!([])).plan().expect_err("refused");
        assert_eq!(refused.to_string(), message);
    }
}

/// A node that runs a workflow for each of the items, with a port beside them.
fn runs(config: Value, items: &[Value]) -> Given {
    each(json!({ "workflowId": "w2" }), items.into())
        .config("n", config)
        .ports("n", json!({ "tone": { "type": "static", "value": "kind" } }))
}

/// A run with children, whose log is folded anew after every command.
struct Family {
    run: Run,
    log: Vec<Entry>,
    started: usize,
}

impl Family {
    fn of(given: &Given) -> Self {
        let mut family = Self { run: given.run(), log: Vec::new(), started: 0 };
        family.decide(&Command::Start);
        family
    }

    fn decide(&mut self, command: &Command) {
        self.log.extend(self.run.decide(command, at(0)).expect("a command that is accepted"));
        let (birth, plan) = (Arc::clone(self.run.birth()), Arc::clone(self.run.plan()));
        let rebuilt = Run::replay(birth, plan, &self.log);
        assert_eq!(rebuilt.snapshot(), self.run.snapshot());
        assert_eq!(rebuilt.live_children(), self.run.live_children());
        assert_eq!(rebuilt.child_orders(), self.run.child_orders());
    }

    /// Starts what is owed; answers the inputs of those runs.
    fn start(&mut self) -> Vec<Value> {
        let orders = self.run.child_orders();
        let inputs = orders.iter().map(|order| json!(order.inputs)).collect();
        for order in orders {
            self.started += 1;
            let child = format!("run-{}", self.started).as_str().into();
            let (attempt, workflow) = (order.attempt, order.workflow);
            self.decide(&Command::Dispatch { attempt, child, workflow });
        }
        inputs
    }

    fn hear(&mut self, run: &str, status: RunStatus, outputs: Value) {
        let is_failed = status == RunStatus::Failed;
        self.decide(&Command::UpdateChild(ChildUpdate {
            run: RunId::from(run),
            status,
            outputs: object(outputs),
            error: is_failed.then(|| Failure::new("no_stamp", "there is no stamp left")),
            memory: Vec::new(),
            files: Vec::new(),
            used: Consumption::default(),
        }));
    }

    fn told(&self, kind: &str) -> Value {
        let told = self.log.iter().find(|entry| entry.event.kind() == kind);
        told.expect("it was told").event.payload()
    }
}

#[test]
fn a_workflow_is_run_for_every_item_no_more_than_so_many_at_once() {
    let config = json!({ "indexAs": "place", "maxConcurrency": 2, "collect": "answer" });
    let mut family = Family::of(&runs(config, &[json!("a"), json!("b"), json!("c")]));
    let first = json!({ "item": "a", "place": 0, "tone": "kind" });
    let second = json!({ "item": "b", "place": 1, "tone": "kind" });
    assert_eq!(family.start(), [first, second]);
    assert!(family.run.child_orders().is_empty(), "two at once");
    // The second ends first: the third begins, and the results stay in the order of the items.
    family.hear("run-2", RunStatus::Completed, json!({ "result": { "answer": "B" } }));
    assert_eq!(family.start(), [json!({ "item": "c", "place": 2, "tone": "kind" })]);
    family.hear("run-3", RunStatus::Completed, json!({ "result": { "answer": "C" } }));
    family.hear("run-1", RunStatus::Completed, json!({ "result": { "answer": "A" } }));
    assert_eq!(
        family.told("node.completed")["outputs"],
        json!({ "count": 3, "failures": [], "results": ["A", "B", "C"] })
    );
    assert_eq!(family.run.status(), RunStatus::Completed);
}

#[test]
fn a_run_that_fails_stops_the_others_or_is_told_beside_them() {
    let items = [json!("a"), json!("b"), json!("c")];
    let mut family = Family::of(&runs(json!({ "maxConcurrency": 2 }), &items));
    family.start();
    family.hear("run-2", RunStatus::Failed, json!({}));
    let ending: Vec<_> = family.run.live_children().iter().map(|child| child.must_end).collect();
    assert_eq!(ending, [true], "the first is stopped, the third never begins");
    family.hear("run-1", RunStatus::Cancelled, json!({}));
    let error = family.told("node.failed")["error"].clone();
    assert_eq!(
        (&error["code"], &error["details"]["index"]),
        (&json!("child_run_failed"), &json!(1))
    );
    assert_eq!(error["details"]["childError"]["code"], "no_stamp");

    let mut family = Family::of(&runs(json!({ "onItemFailure": "collect" }), &items));
    family.start();
    family.hear("run-1", RunStatus::Completed, json!({ "result": { "answer": "A" } }));
    family.hear("run-2", RunStatus::Failed, json!({}));
    // Outputs that are too large are not handed over.
    family.hear("run-3", RunStatus::Completed, json!({}));
    let outputs = family.told("node.completed")["outputs"].clone();
    assert_eq!(outputs["results"], json!([{ "answer": "A" }, null, null]));
    assert_eq!(outputs["failures"][0]["error"]["code"], "child_run_failed");
    assert_eq!(outputs["failures"][1]["error"]["code"], "output_too_large");
}

fn invoke(ports: Value) -> Given {
    given("n:core.flow.sub-workflow-invoke").ports("n", ports)
}

fn fixed(value: Value) -> Value {
    json!({ "type": "static", "value": value })
}

#[test]
fn the_workflow_of_an_input_is_run_and_its_outputs_are_the_result() {
    let ports = json!({ "workflowRef": fixed(json!("w2")), "inputs": fixed(json!({ "a": 1 })) });
    let mut family = Family::of(&invoke(ports));
    assert_eq!(family.start(), [json!({ "a": 1 })]);
    let child = given("n:core.identity").ports("n", json!({ "said": fixed(json!("hello")) }));
    let mut child = child.run();
    child.decide(&Command::Start, at(0)).expect("it runs");
    let taken = family.run.harvest(&"n".into(), &child);
    family.hear("run-1", RunStatus::Completed, taken.into());
    assert_eq!(family.told("node.completed")["outputs"], json!({ "result": { "said": "hello" } }));
}

#[test]
fn an_invocation_that_cannot_be_made_fails_in_words() {
    let cases = [
        (json!({}), "the input workflowRef must name a workflow"),
        (json!({ "workflowRef": fixed(json!(7)) }), "the input workflowRef must name a workflow"),
        (
            json!({ "workflowRef": fixed(json!("w2")), "inputs": fixed(json!([])) }),
            "the input inputs must be an object, and is a list",
        ),
        (
            json!({ "workflowRef": fixed(json!("w2@1.0")) }),
            "the input workflowRef asks for a version; this host runs a workflow's newest definition, by its id",
        ),
        (
            json!({ "workflowRef": fixed(json!("w2")), "runOptions": fixed(json!({ "a": 1 })) }),
            "the input runOptions must be empty: a child has its parent's",
        ),
    ];
    for (ports, message) in cases {
        assert_eq!(outcome(&invoke(ports))["failed"]["message"], message);
    }
    let mut family = Family::of(&invoke(json!({ "workflowRef": fixed(json!("w2")) })));
    family.start();
    family.hear("run-1", RunStatus::Failed, json!({}));
    assert_eq!(family.told("node.failed")["error"]["code"], "child_run_failed");
}

/// Runs that are named where everybody can read it are looked up before the run begins.
#[test]
fn a_plan_names_the_workflows_that_it_starts() {
    let named = |flow: &Given| -> Vec<String> {
        let plan = flow.plan().expect("a plan");
        plan.children().map(|(_, workflow)| workflow.to_string()).collect()
    };
    assert_eq!(named(&runs(json!({}), &[])), ["w2"]);
    assert_eq!(named(&invoke(json!({ "workflowRef": fixed(json!("w3")) }))), ["w3"]);
    assert!(named(&each(json!({ "body": body() }), json!([]))).is_empty());
}
