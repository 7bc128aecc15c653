//! Agents that are not sure.

use std::sync::Arc;

use callboard_core::{Resolution, Via};
use callboard_engine::{Engine, Recorded};
use callboard_protocol::RunId;
use serde_json::{Value, json};

use crate::given::{Script, World, agent_order, kinds, outputs, says, task, told};
use crate::sim::{ended, scope};

fn unsure() -> Script {
    |_| Ok(says(r#"{"queue":"fire","_confidence":0.3}"#))
}

/// A run that waits for an answer.
async fn waiting(world: &World) -> (Engine, RunId) {
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = host.create(agent_order(task(), json!({})), None).await.unwrap().run;
    world.until_asked().await;
    (host, run)
}

async fn answered(world: &World, value: Value) -> Vec<Recorded> {
    let (host, run) = waiting(world).await;
    let resolution =
        Resolution { node: "agent".into(), value, via: Via::Key, by: Some("key:k".into()) };
    host.resolve(&scope(), &run, resolution, None).await.expect("the answer is taken");
    ended(&world.store, &run).await
}

/// A-47.
#[tokio::test(start_paused = true)]
async fn doubt_waits_for_a_person_behind_a_closed_bracket() {
    let world = World::new(unsure()).await;
    let (_host, run) = waiting(&world).await;
    let log = world.log(&run).await;
    let suspended = &told(&log, "node.suspended")[0];
    assert_eq!(suspended["reason"], "low-confidence");
    assert_eq!((&suspended["threshold"], &suspended["observed"]), (&json!(0.7), &json!(0.3)));
    assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "escalated");
    let place = |kind: &str| kinds(&log).iter().position(|it| *it == kind);
    assert!(place("agent.invocation.completed") < place("node.suspended"));
}

#[tokio::test(start_paused = true)]
async fn what_is_sure_enough_goes_on() {
    let world = World::new(|_| Ok(says(r#"{"queue":"fire","_confidence":0.7}"#))).await;
    let log = world.run(task(), json!({})).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let world = World::new(unsure()).await;
    let log = world.run(task(), json!({ "escalationThreshold": 0.3 })).await;
    assert_eq!(kinds(&log).last(), Some(&"run.completed"), "the same is enough");
}

#[tokio::test(start_paused = true)]
async fn an_accepted_proposal_is_the_result_of_a_second_invocation() {
    let world = World::new(unsure()).await;
    let log = answered(&world, json!({ "action": "accept" })).await;
    assert_eq!(Value::from(outputs(&log)), json!({ "queue": "fire" }));
    assert_eq!(world.asked(), 1, "nobody is asked for a turn that is known");
    let after: Vec<&str> = kinds(&log)
        .into_iter()
        .skip_while(|kind| *kind != "node.resumed")
        .filter(|kind| kind.starts_with("agent."))
        .collect();
    let expected = [
        "agent.invocation.started",
        "agent.promptResolved",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
    ];
    assert_eq!(after, expected);
    let ids = told(&log, "agent.invocation.started");
    assert_ne!(ids[0]["invocationId"], ids[1]["invocationId"]);
}

#[tokio::test(start_paused = true)]
async fn another_result_replaces_the_proposal_and_a_rejection_fails() {
    let world = World::new(unsure()).await;
    let log = answered(&world, json!({ "queue": "water" })).await;
    assert_eq!(Value::from(outputs(&log)), json!({ "queue": "water" }));
    let world = World::new(unsure()).await;
    let log = answered(&world, json!({ "action": "reject" })).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "low_confidence_rejected");
    let world = World::new(unsure()).await;
    let log = answered(&world, json!({ "colour": "red" })).await;
    assert_eq!(
        told(&log, "run.failed")[0]["error"]["code"],
        "handoff_return_schema_violation",
        "a person's result is checked too"
    );
}
