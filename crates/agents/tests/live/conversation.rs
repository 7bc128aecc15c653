//! Agents that keep up a conversation: a run's next invocation hears what was said in those before it.

use std::sync::Arc;

use callboard_agents::Message;
use callboard_core::WIDEST_WINDOW;
use callboard_engine::{KeyMode, Order, Recorded, Target};
use callboard_protocol::{Owner, Timestamp};
use serde_json::{Value, json};

use crate::given::{AGENT, Script, World, agent_order, says, task, told};
use crate::sim::{Fate, doomed_store, ended};

fn talking(agent: &mut Value) {
    agent["memoryShape"] = json!({ "conversation": true });
}

/// Answers with how much it has heard.
fn counting() -> Script {
    |request| Ok(says(&format!(r#"{{"queue":"{}","_confidence":1}}"#, request.messages.len())))
}

/// The same agent three times, one after the other.
fn talk() -> Value {
    let node = |id: &str| {
        json!({
            "id": id, "typeId": "core.identity", "name": id, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": { "text": { "type": "variable", "variableName": "text" } },
            "agent": { "agentId": AGENT },
        })
    };
    let edge = |from: &str, to: &str| json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to });
    json!({
        "id": "talk", "name": "talk", "version": "1.0", "variables": [], "triggers": [],
        "metadata": {}, "settings": {}, "nodes": [node("a"), node("b"), node("c")],
        "edges": [edge("a", "b"), edge("b", "c")],
    })
}

async fn under(fate: Fate) -> (World, Vec<Recorded>, u64) {
    within(WIDEST_WINDOW, fate).await
}

async fn within(window: u64, fate: Fate) -> (World, Vec<Recorded>, u64) {
    let mut world = World::with(counting(), talking).await;
    world.limits.transcript_window = window;
    let doomed = doomed_store(Arc::clone(&world.store), fate);
    let first = world.host("first", Arc::clone(&doomed) as _);
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    let talk = talk().to_string();
    let registered =
        first.catalog().register(&owner, KeyMode::Live, talk.as_bytes(), Timestamp::default());
    registered.await.unwrap();
    let order = Order { target: Target::Workflow("talk".into()), ..agent_order(task(), json!({})) };
    let run = first.create(order, None).await.unwrap().run;
    if fate != Fate::Live {
        tokio::select! {
            () = doomed.died.notified() => {}
            _ = ended(&world.store, &run) => {}
        }
        first.kill();
        world.host("second", Arc::clone(&world.store) as _);
    }
    let log = ended(&world.store, &run).await;
    (world, log, doomed.appends())
}

fn decisions(log: &[Recorded]) -> Vec<Value> {
    told(log, "agent.decided").into_iter().map(|event| event["decision"]["queue"].clone()).collect()
}

fn text(message: &Message) -> &str {
    match message {
        Message::User { text } | Message::Assistant { text, .. } => text,
        Message::Tool { result } => &result.content,
    }
}

#[tokio::test(start_paused = true)]
async fn each_invocation_hears_those_before_it_in_its_run_alone() {
    let (world, log, _) = under(Fate::Live).await;
    assert_eq!(decisions(&log), ["1", "3", "5"]);
    let asked = world.model.asked.lock().unwrap().clone();
    let heard: Vec<&str> = asked[2].messages.iter().map(text).collect();
    assert!([0, 2, 4].iter().all(|&place| heard[place].contains("printer")), "{heard:?}");
    assert_eq!((heard[1], heard[3]), (r#"{"queue":"1"}"#, r#"{"queue":"3"}"#));
    assert_eq!(told(&log, "agent.invocation.started")[0]["memoryBound"], json!(true));

    let host = world.host("third", Arc::clone(&world.store) as _);
    let order = Order { target: Target::Workflow("talk".into()), ..agent_order(task(), json!({})) };
    let run = host.create(order, None).await.unwrap().run;
    assert_eq!(decisions(&ended(&world.store, &run).await), ["1", "3", "5"]);
}

/// Three invocations of one agent, each of which would hear all of those before it.
#[tokio::test(start_paused = true)]
async fn a_window_shows_the_last_exchanges_alone() {
    let (world, log, _) = within(1, Fate::Live).await;
    assert_eq!(decisions(&log), ["1", "3", "3"]);
    let asked = world.model.asked.lock().unwrap().clone();
    let heard: Vec<&str> = asked[2].messages.iter().map(text).collect();
    // The answer of the second, not of the first.
    assert_eq!(heard[1], r#"{"queue":"3"}"#, "{heard:?}");
    let (_, log, _) = within(2, Fate::Live).await;
    assert_eq!(decisions(&log), ["1", "3", "5"]);
}

/// A run keeps the window that it was born with, whoever goes on with it.
#[tokio::test(start_paused = true)]
async fn a_crash_does_not_move_the_window() {
    let (_, _, appends) = within(1, Fate::Live).await;
    for place in 1..=appends {
        let (_, log, _) = within(1, Fate::DieAfter(place)).await;
        assert_eq!(decisions(&log), ["1", "3", "3"], "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_neither_loses_nor_repeats_an_exchange() {
    let (_, calm, appends) = under(Fate::Live).await;
    for place in 0..appends {
        for fate in [Fate::DieBefore(place), Fate::DieAfter(place)] {
            let (_, log, _) = under(fate).await;
            assert_eq!(decisions(&log), decisions(&calm), "{fate:?}");
            assert_eq!(told(&log, "memory.written").len(), 3, "{fate:?}");
        }
    }
}
