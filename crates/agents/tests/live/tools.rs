//! Tools that a model calls, or would like to.

use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{Message, ModelRequest, RatePolicy, StopReason, ToolHooks, Turn};
use callboard_engine::{Order, Scope, Store as _, Target};
use callboard_protocol::{EventId, RunId};
use serde_json::{Value, json};

use crate::given::{
    COUNT, POST, SECRET_DOOR, Script, World, agent_order, calls, kinds, offered, payload, results,
    says, task, told, workflow,
};
use crate::sim::{ended, scope};

fn answers() -> Turn {
    says(r#"{"queue":"fire"}"#)
}

async fn play(script: Script) -> (World, Vec<callboard_engine::Recorded>) {
    let world = World::new(script).await;
    let log = world.run(task(), json!({})).await;
    (world, log)
}

/// A-55, A-60.
#[tokio::test(start_paused = true)]
async fn a_call_and_its_return_are_a_pair() {
    let (world, log) = play(|request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": 7 }))])),
        _ => Ok(answers()),
    })
    .await;
    let called = log.iter().find(|event| event.kind == "agent.toolCalled").unwrap();
    let returned = log.iter().find(|event| event.kind == "agent.toolReturned").unwrap();
    let doc = serde_json::to_value(returned).unwrap();
    assert_eq!(doc["causationId"], EventId::of(&called.run, called.sequence).as_str());
    assert_eq!(doc["contentTrust"], "untrusted");
    let said = log.iter().find(|event| event.kind == "output.chunk").expect("the model speaks");
    assert_eq!(serde_json::to_value(said).unwrap()["contentTrust"], "untrusted");
    let (called, returned) = (payload(called), payload(returned));
    assert_eq!(called["callId"], returned["callId"]);
    assert_eq!(called["toolName"], COUNT);
    assert_eq!(called["transport"], "native");
    assert_eq!(called["principal"], "key:k");
    assert_eq!(called["argsHash"].as_str().map(str::len), Some(64));
    assert_eq!(returned["outcome"], json!({ "counted": 7 }));
    assert_eq!((&returned["status"], returned["durationMs"].is_u64()), (&json!("ok"), true));
    assert_eq!(world.made.lock().unwrap().len(), 1);
    let asked = world.model.asked.lock().unwrap();
    let reply = serde_json::to_string(&asked[1].messages).unwrap();
    assert!(reply.contains("<UNTRUSTED>"), "{reply}");
}

/// A-43, S-09.
#[tokio::test(start_paused = true)]
async fn a_tool_outside_the_allowlist_is_neither_called_nor_told() {
    let (world, log) = play(|request| match results(request) {
        0 => Ok(calls(request, &[("conformance-disallowed-tool", json!({}))])),
        _ => Ok(answers()),
    })
    .await;
    assert_eq!(told(&log, "agent.toolCalled"), [Value::Null; 0]);
    assert_eq!(world.made.lock().unwrap().len(), 0);
    assert_eq!(kinds(&log).last(), Some(&"run.completed"), "the model is told, and goes on");
}

/// A-43: the host has it, and other agents may use it.
#[tokio::test(start_paused = true)]
async fn a_tool_that_is_another_agents_is_not_called_by_any_of_its_names() {
    let script: Script = |request| match results(request) {
        0 => Ok(calls(request, &[(POST, json!({})), ("openwop_test_post", json!({}))])),
        _ => Ok(answers()),
    };
    let world = World::with(script, |agent| agent["toolAllowlist"] = json!([COUNT])).await;
    let log = world.run(task(), json!({})).await;
    assert_eq!(told(&log, "agent.toolCalled"), [Value::Null; 0]);
    assert_eq!(world.made.lock().unwrap().len(), 0);
    let asked = world.model.asked.lock().unwrap();
    let offered: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["openwop_test_count"]);
    assert_eq!(results(&asked[1]), 2, "each call is answered with the reason");
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
}

/// A-62, where an agent works.
#[tokio::test(start_paused = true)]
async fn a_tool_that_is_used_too_often_is_limited_and_not_called() {
    let script: Script = |request| match results(request) {
        done @ 0..2 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": done }))])),
        2 => Ok(calls(request, &[(&offered(request, "post"), json!({}))])),
        _ => Ok(answers()),
    };
    let mut world = World::new(script).await;
    world.hooks = Arc::new(ToolHooks::new(RatePolicy { calls_per_minute: 1 }));
    let log = world.run(task(), json!({})).await;
    let returned = told(&log, "agent.toolReturned");
    let statuses: Vec<&Value> = returned.iter().map(|told| &told["status"]).collect();
    assert_eq!(statuses, ["ok", "rate_limited", "ok"], "one principal, one tool");
    assert!(returned[1].get("durationMs").is_none(), "{}", returned[1]);
    assert_eq!(returned[1]["error"]["details"]["scope"], "tool");
    assert_eq!(world.made.lock().unwrap().len(), 2);
}

/// A-61.
#[tokio::test(start_paused = true)]
async fn a_tool_whose_scope_nobody_holds_is_forbidden_and_not_called() {
    let (world, log) = play(|request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "door"), json!({}))])),
        _ => Ok(answers()),
    })
    .await;
    let returned = &told(&log, "agent.toolReturned")[0];
    assert_eq!(returned["status"], "forbidden");
    assert!(returned.get("durationMs").is_none(), "{returned}");
    assert_eq!(returned["error"]["details"]["requiredScopes"], json!(["doors:open"]));
    assert_eq!(told(&log, "agent.toolCalled")[0]["toolName"], SECRET_DOOR);
    assert_eq!(world.made.lock().unwrap().len(), 0);
    // RFC 0049: what a principal was not allowed stands in the log.
    let decided = &told(&log, "authorization.decided")[0];
    assert_eq!((&decided["allowed"], &decided["action"]), (&json!(false), &json!("doors:open")));
    assert_eq!(decided["resource"], SECRET_DOOR);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_or_is_called_wrongly_is_the_models_to_deal_with() {
    let (world, log) = play(|request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": "seven" }))])),
        1 => Ok(calls(request, &[(&offered(request, "count"), json!({ "fail": "no paper" }))])),
        _ => Ok(answers()),
    })
    .await;
    let returned = told(&log, "agent.toolReturned");
    assert_eq!(returned.len(), 1, "arguments that do not fit are no call");
    assert_eq!(returned[0]["status"], "error");
    assert_eq!(returned[0]["error"]["code"], "tool_failed");
    assert_eq!(world.made.lock().unwrap().len(), 1);
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_only_ever_calls_tools_is_stopped() {
    let (world, log) =
        play(|request| Ok(calls(request, &[(&offered(request, "count"), json!({}))]))).await;
    assert_eq!(told(&log, "run.failed")[0]["error"]["code"], "tool_rounds_exceeded");
    assert_eq!(world.made.lock().unwrap().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_the_host_lacks_is_a_warning() {
    let script: Script = |_| Ok(answers());
    let world = World::with(script, |agent| {
        agent["toolAllowlist"] = json!(["openwop:core.nowhere"]);
    })
    .await;
    let log = world.run(task(), json!({})).await;
    let noted = &told(&log, "log.appended")[0];
    assert_eq!(noted["fields"]["code"], "tool_unresolvable");
    assert_eq!(told(&log, "agent.invocation.started")[0]["toolSurfaceCount"], 0);
}

/// A-59.
#[tokio::test(start_paused = true)]
async fn a_run_that_an_agent_sends_off_belongs_to_its_tenant() {
    let script: Script = |request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "errand"), json!({}))])),
        _ => Ok(answers()),
    };
    let world = World::with(script, |agent| {
        agent["toolAllowlist"] = json!(["openwop:workflow.errand"]);
    })
    .await;
    let host = world.host("host", Arc::clone(&world.store) as _);
    let mut order = agent_order(task(), json!({}));
    order.owner.tenant = "rival".into();
    let run = host.create(order, None).await.unwrap().run;
    let rival = Scope { tenant: "rival".into(), ..scope() };
    let log = loop {
        let page = world.store.read(&rival, &run, 0, usize::MAX).await.unwrap().unwrap();
        if page.status.is_terminal() {
            break page.events;
        }
        world.store.changed(&run, page.version).await;
    };
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let sent = told(&log, "agent.toolReturned")[0]["outcome"]["runId"].clone();
    let sent = sent.as_str().expect("a run").into();
    assert!(world.store.read(&rival, &sent, 0, 1).await.unwrap().is_some());
    assert!(world.store.read(&scope(), &sent, 0, 1).await.unwrap().is_none());
}

/// An agent that may have `desk`, whose agent is itself, and `slow` run.
async fn orderer(script: Script) -> World {
    let mut world = World::with(script, |agent| {
        agent["toolAllowlist"] = json!(["openwop:workflow.desk", "openwop:workflow.slow"]);
    })
    .await;
    let mut slow = workflow("slow", &["wait"]);
    slow["nodes"] = json!([{
        "id": "wait", "typeId": "core.delay", "name": "wait", "position": { "x": 0, "y": 0 },
        "config": { "ms": 5_000 }, "inputs": {},
    }]);
    world.definitions.push(slow);
    world
}

/// What the agent is asked when a run of its own asks it.
fn is_below(request: &ModelRequest) -> bool {
    matches!(&request.messages[0], Message::User { text } if text.contains("below"))
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_an_agent_calls_is_a_child_whose_use_its_parent_counts() {
    let script: Script = |request| match (is_below(request), results(request)) {
        (false, 0) => {
            let words = json!({ "text": "below" });
            Ok(calls(request, &[(&offered(request, "desk"), words)]))
        }
        _ => Ok(answers()),
    };
    let world = orderer(script).await;
    let log = world.run(task(), json!({})).await;
    let child = told(&log, "node.dispatched")[0]["childRunId"].clone();
    assert_eq!(told(&log, "agent.toolReturned")[0]["outcome"]["runId"], child);
    let changed = told(&log, "callboard.child.changed");
    assert_eq!((changed.len(), &changed[0]["status"]), (1, &json!("completed")));
    assert_eq!(changed[0]["used"]["tokens"], 15, "{}", changed[0]);
    let order = kinds(&log);
    let place = |kind: &str| order.iter().position(|it| *it == kind);
    assert!(place("callboard.child.changed") < place("agent.toolReturned"), "{order:?}");
    let child: RunId = child.as_str().unwrap().into();
    let birth = world.store.open(&child).await.unwrap().unwrap().birth;
    assert_eq!(birth.parent.as_ref().map(|link| &link.run_id), Some(&log[0].run));
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_fails_or_takes_long_says_so() {
    let script: Script = |request| match (is_below(request), results(request)) {
        (true, _) => Ok(Turn { stop: StopReason::Refusal, ..says("no") }),
        (false, 0) => {
            let words = json!({ "text": "below" });
            let slow = (&*offered(request, "slow"), json!({}));
            Ok(calls(request, &[(&offered(request, "desk"), words), slow]))
        }
        _ => Ok(answers()),
    };
    let mut world = orderer(script).await;
    world.settings.tool_timeout = Duration::from_secs(1);
    let log = world.run(task(), json!({})).await;
    let returned = told(&log, "agent.toolReturned");
    assert_eq!(returned[0]["error"]["code"], "tool_failed", "{returned:?}");
    assert!(returned[0]["error"]["message"].as_str().unwrap().contains("envelope_refusal"));
    assert_eq!(returned[1]["error"]["code"], "tool_unanswered", "{returned:?}");
    let slow = told(&log, "node.dispatched")[1]["childRunId"].as_str().unwrap().to_owned();
    assert!(returned[1]["error"]["message"].as_str().unwrap().contains(&slow));
    assert_eq!(kinds(&log).last(), Some(&"run.completed"));
    let slow = ended(&world.store, &slow.as_str().into()).await;
    assert_eq!(kinds(&slow).last(), Some(&"run.completed"), "it goes on");
}

/// A-63.
#[tokio::test(start_paused = true)]
async fn a_node_names_tools_for_its_agent_and_brings_none_along() {
    for (tools, offered, code) in [
        (json!([{ "name": COUNT, "kind": "host" }]), 1, None),
        (json!([{ "name": "mcp:not.allowed", "kind": "mcp" }]), 0, None),
        (
            json!([{ "name": COUNT, "kind": "host", "handler": "() => 1" }]),
            3,
            Some("INVALID_TOOL_DECLARATION"),
        ),
    ] {
        let mut world = World::new(|_| Ok(answers())).await;
        let mut definition = workflow("declaring", &["agent"]);
        definition["nodes"][0]["config"]["tools"] = tools;
        world.definitions.push(definition);
        let host = world.host("host", Arc::clone(&world.store) as _);
        let order = agent_order(task(), json!({}));
        let order = Order { target: Target::Workflow("declaring".into()), ..order };
        let run = host.create(order, None).await.unwrap().run;
        let log = ended(&world.store, &run).await;
        assert_eq!(told(&log, "agent.invocation.started")[0]["toolSurfaceCount"], offered);
        let failed = told(&log, "node.failed");
        assert_eq!(failed.first().map(|it| it["error"]["code"].clone()), code.map(Value::from));
        assert_eq!(world.asked(), usize::from(code.is_none()));
    }
}
