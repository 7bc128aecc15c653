//! The bracket around an invocation, the same whoever asked.

use std::sync::Arc;

use callboard_agents::Price;
use callboard_engine::{Order, Target};
use serde_json::{Value, json};

use crate::given::{
    AGENT, World, agent_order, calls, kinds, offered, outputs, results, says, task, told,
};
use crate::sim::{ended, scope};

fn sorts() -> crate::given::Script {
    |_| Ok(says(r#"{"queue":"fire","_confidence":0.95}"#))
}

/// A-40, A-42, A-50, A-87.
#[tokio::test(start_paused = true)]
async fn a_run_of_an_agent_is_bracketed_and_holds_nothing_that_was_said_in_its_brackets() {
    let world = World::new(sorts()).await;
    let log = world.run(task(), json!({})).await;
    let expected = [
        "run.started",
        "node.started",
        "agent.invocation.started",
        "agent.promptResolved",
        "prompt.composed",
        "output.chunk",
        "output.chunk",
        "provider.usage",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
        "node.completed",
        "run.completed",
    ];
    assert_eq!(kinds(&log), expected);
    assert_eq!(Value::from(outputs(&log)), json!({ "queue": "fire" }));
    let started = &told(&log, "agent.invocation.started")[0];
    let completed = &told(&log, "agent.invocation.completed")[0];
    assert_eq!(started["invocationId"], completed["invocationId"]);
    assert_eq!(started["source"], "run-api");
    assert_eq!(started["resolvedProvider"], "puppet");
    assert_eq!(started["resolvedAgentVersion"], "1.0.0");
    assert_eq!(started["toolSurfaceCount"], 3);
    assert_eq!(completed["outcome"], "completed");
    assert_eq!(completed["schemaValidated"], true);
    assert_eq!(completed["confidence"], 0.95);
    let banned =
        ["prompt", "result", "body", "input", "output", "apiKey", "secret", "credentials", "token"];
    for key in banned {
        assert!(started.get(key).is_none() && completed.get(key).is_none(), "{key}");
    }
    let usage = &told(&log, "provider.usage")[0];
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(10), &json!(5)));
    assert!(told(&log, "agent.promptResolved")[0].to_string().contains("agent-intrinsic"));
    assert!(!log.iter().any(|event| event.payload.contains("Sort it.")), "no prompt in the log");
}

/// A-41.
#[tokio::test(start_paused = true)]
async fn all_three_ways_to_an_agent_tell_the_same() {
    let mut stories = Vec::new();
    for target in [
        Target::Agent(AGENT.into()),
        Target::Workflow("desk".into()),
        Target::Mentioned(AGENT.into()),
    ] {
        let world = World::new(sorts()).await;
        let host = world.host("host", Arc::clone(&world.store) as _);
        let order = Order { target, ..agent_order(task(), json!({})) };
        let run = host.create(order, None).await.unwrap().run;
        let log = ended(&world.store, &run).await;
        let source = told(&log, "agent.invocation.started")[0]["source"].clone();
        stories.push((source, kinds(&log).into_iter().map(str::to_owned).collect::<Vec<_>>()));
    }
    let sources: Vec<&Value> = stories.iter().map(|(source, _)| source).collect();
    assert_eq!(sources, ["run-api", "workflow-node", "chat-mention"]);
    assert!(stories.windows(2).all(|pair| pair[0].1 == pair[1].1), "{stories:?}");
}

/// A-48, A-49.
#[tokio::test(start_paused = true)]
async fn the_runs_own_wish_beats_the_class() {
    let world = World::new(sorts()).await;
    let log = world.run(task(), json!({ "ai": { "model": "two" } })).await;
    assert_eq!(told(&log, "agent.invocation.started")[0]["resolvedModel"], "two");
    assert_eq!(world.model.asked.lock().unwrap()[0].model.to_string(), "puppet/two");
    let world = World::new(sorts()).await;
    let log = world.run(task(), json!({ "ai": { "provider": "nobody", "model": "x" } })).await;
    let completed = &told(&log, "agent.invocation.completed")[0];
    assert_eq!(completed["outcome"], "failed");
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "no_model_available");
    assert_eq!(world.asked(), 0);
}

/// A-44.
#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_fit_reaches_no_model() {
    let world = World::new(sorts()).await;
    let log = world.run(json!({ "txt": "?" }), json!({})).await;
    let agents: Vec<&str> =
        kinds(&log).into_iter().filter(|kind| kind.starts_with("agent.")).collect();
    assert_eq!(agents, ["agent.invocation.started", "agent.invocation.completed"]);
    assert_eq!(told(&log, "node.failed")[0]["error"]["code"], "handoff_task_schema_violation");
    assert_eq!(world.asked(), 0);
}

/// A-56, A-57.
#[tokio::test(start_paused = true)]
async fn thinking_is_told_in_pieces_and_closed_or_not_told_at_all() {
    let script: crate::given::Script = |_| {
        Ok(callboard_agents::Turn { thinking: "It burns.".into(), ..says(r#"{"queue":"fire"}"#) })
    };
    let world = World::new(script).await;
    let log = world.run(task(), json!({})).await;
    let deltas = told(&log, "agent.reasoning.delta");
    let told_of: Vec<&Value> = deltas.iter().map(|delta| &delta["sequence"]).collect();
    assert_eq!(told_of, [0, 1]);
    let pieces: String = deltas.iter().filter_map(|delta| delta["delta"].as_str()).collect();
    assert_eq!(pieces, "It burns.");
    assert_eq!(told(&log, "agent.reasoned")[0]["reasoning"], "It burns.");
    let world = World::new(script).await;
    let log = world.run(task(), json!({ "reasoningVerbosity": "off" })).await;
    let is_thought = |kind: &&str| kind.starts_with("agent.reason");
    assert_eq!(kinds(&log).into_iter().filter(is_thought).count(), 0);
}

/// A-70: what the log names is what the model is told.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_the_run_names_goes_before_the_agents_own() {
    let world = World::new(sorts()).await;
    let log = world
        .run(task(), json!({ "promptOverrides": { "system": "prompt:callboard.brief" } }))
        .await;
    let resolved = &told(&log, "agent.promptResolved")[0]["resolved"];
    assert!(resolved.as_str().is_some_and(|it| it.starts_with("prompt:callboard.brief")));
    let system = world.model.asked.lock().unwrap()[0].system.clone().unwrap();
    assert!(system.contains("as few words") && !system.contains("Sort it."), "{system}");
    let world = World::new(sorts()).await;
    let nowhere = json!({ "promptOverrides": { "system": "prompt:nobody.wrote-this" } });
    let log = world.run(task(), nowhere).await;
    assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "failed");
    assert_eq!(world.asked(), 0, "another prompt in its place would be a lie");
}

/// A-87: the operator's price is what a call costs, and the run costs what its calls did.
#[tokio::test(start_paused = true)]
async fn a_run_costs_what_its_calls_cost() {
    let mut world = World::new(|request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "count"), json!({}))])),
        _ => Ok(says(r#"{"queue":"fire"}"#)),
    })
    .await;
    world.prices = world.prices.with("puppet/one".parse().unwrap(), Price::usual(1_000.0, 2_000.0));
    let host = world.host("host", Arc::clone(&world.store) as _);
    let run = host.create(agent_order(task(), json!({})), None).await.unwrap().run;
    let log = ended(&world.store, &run).await;
    let costs: Vec<Value> = told(&log, "provider.usage")
        .into_iter()
        .map(|usage| usage["costEstimateUsd"].clone())
        .collect();
    assert_eq!(costs, [0.02, 0.02]);
    let snapshot = host.snapshot(&scope(), &run).await.unwrap().expect("a run");
    let snapshot: Value = serde_json::from_str(&snapshot.json).unwrap();
    let cost = &snapshot["metrics"]["openwopCost"];
    assert_eq!((&cost["usd"], &cost["provider"]), (&json!(0.04), &json!("puppet")));
    assert_eq!(cost["tokens"], json!({ "input": 20, "output": 10 }));
}
