//! One workflow over many items: what a decision gives to each worker alone (RFC 0126).

use callboard_core::Command;
use serde_json::{Value, json};

use crate::orchestration::{Played, orchestra};

fn each(workers: &[&str], inputs: Value) -> Value {
    json!([{ "kind": "next-worker", "nextWorkerIds": workers, "nextWorkerInputs": inputs }])
}

fn inputs(run: &Played) -> Vec<Value> {
    let orders = run.run.child_orders();
    orders.into_iter().map(|order| Value::from(order.inputs)).collect()
}

#[test]
fn each_worker_gets_its_own_input_over_what_is_mapped() {
    let config = json!({ "fanOutPolicy": "parallel",
        "inputMapping": { "contact": "someone", "region": "where", "note": "none" } });
    let plan = each(&["w", "w"], json!([{ "contact": "c-1" }, { "contact": "c-2", "note": "n" }]));
    let flow = orchestra(plan, config).inputs(json!({ "someone": "nobody", "where": "us" }));
    let mut run = Played::start(&flow);
    let expected = [
        json!({ "contact": "c-1", "region": "us" }),
        json!({ "contact": "c-2", "region": "us", "note": "n" }),
    ];
    assert_eq!(inputs(&run), expected);
    let orders = run.run.child_orders();
    assert_eq!((&orders[0].unset[..], orders[1].unset.len()), (&["note".to_owned()][..], 0));
    // The first child belongs to the first of two workers that are called the same.
    let (attempt, workflow) = (orders[0].attempt.clone(), orders[0].workflow.clone());
    run.decide(&Command::Dispatch { attempt, child: "run-a".into(), workflow });
    assert_eq!(inputs(&run), expected[1..]);
}

#[test]
fn one_after_the_other_each_still_gets_its_own() {
    let plan = each(&["w", "w"], json!([{ "i": 1 }, { "i": 2 }]));
    let mut run = Played::start(&orchestra(plan, json!({})));
    assert_eq!(inputs(&run), [json!({ "i": 1 })]);
    run.dispatch();
    run.completes("run-a");
    assert_eq!(inputs(&run), [json!({ "i": 2 })]);
}

#[test]
fn with_more_or_fewer_inputs_than_workers_nobody_is_given_work() {
    for given in [json!([]), json!([{ "i": 1 }]), json!([{}, {}, {}])] {
        let run = Played::start(&orchestra(each(&["w", "w"], given), json!({})));
        assert_eq!(run.failure(), "validation_error");
        assert!(run.payloads("core.workflowChain.event").is_empty());
        assert!(run.run.child_orders().is_empty());
    }
}

/// What was decided is what a replay reads: nothing about it is found out again.
#[test]
fn the_decision_is_told_with_what_it_gives() {
    let given = json!([{ "i": 1 }, { "i": 2 }]);
    let run = Played::start(&orchestra(each(&["w", "w"], given.clone()), json!({})));
    let told = run.payloads("runOrchestrator.decided");
    assert_eq!(told[0]["decision"]["nextWorkerInputs"], given);
}

#[test]
fn a_workers_own_input_is_no_secret_of_its_parent() {
    let plan = each(&["w", "w"], json!([{ "key": "plain" }, {}]));
    let config = json!({ "fanOutPolicy": "parallel", "inputMapping": { "key": "hidden" } });
    let variable = json!({ "name": "hidden", "type": "string", "sensitive": true });
    let flow = orchestra(plan, config)
        .top(json!({ "variables": [variable] }))
        .inputs(json!({ "hidden": "s3cret" }));
    let run = Played::start(&flow);
    let child = crate::given::given("a:noop").plan().expect("a plan");
    let orders = run.run.child_orders();
    assert_eq!(run.run.handed_down(&orders[0], &child)["key"], "plain");
    assert_ne!(run.run.handed_down(&orders[1], &child)["key"], "s3cret");
}
