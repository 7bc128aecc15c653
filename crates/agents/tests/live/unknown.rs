//! A call of a tool whose outcome a crash left unknown: whatever a person says of it, the call is paired and the run goes on.

use std::sync::Arc;

use callboard_agents::Message;
use callboard_core::{Resolution, Via};
use callboard_engine::{Engine, Recorded, Store as _};
use callboard_protocol::RunId;
use serde_json::{Value, json};

use crate::given::{
    Script, World, agent_order, calls, offered, outputs, payload, results, says, task, told,
};
use crate::order::{brackets, follow};
use crate::sim::{Fate, doomed_store, open_questions, scope};

/// A tool that writes, between two turns.
fn posts() -> Script {
    |request| match results(request) {
        0 => Ok(calls(request, &[(&offered(request, "post"), json!({ "n": 7 }))])),
        _ => Ok(says(r#"{"queue":"fire"}"#)),
    }
}

/// What came of a run whose first host met its fate, and whether somebody was asked.
struct Ended {
    world: World,
    log: Vec<Recorded>,
    appends: u64,
    was_asked: bool,
}

async fn under(fate: Fate, answer: &Value) -> Ended {
    let world = World::new(posts()).await;
    let doomed = doomed_store(Arc::clone(&world.store), fate);
    let first = world.host("first", Arc::clone(&doomed) as _);
    let run = first.create(agent_order(task(), json!({})), None).await.unwrap().run;
    let lived = tokio::select! {
        () = doomed.died.notified() => None,
        ended = answered(&world, &first, &run, answer) => Some(ended),
    };
    let (log, was_asked) = match lived {
        Some(ended) => ended,
        None => {
            first.kill();
            let second = world.host("second", Arc::clone(&world.store) as _);
            answered(&world, &second, &run, answer).await
        }
    };
    Ended { world, log, appends: doomed.appends(), was_asked }
}

async fn answered(
    world: &World,
    host: &Engine,
    run: &RunId,
    answer: &Value,
) -> (Vec<Recorded>, bool) {
    let mut was_asked = false;
    loop {
        let page = world.store.read(&scope(), run, 0, usize::MAX).await.unwrap().unwrap();
        if page.status.is_terminal() {
            return (page.events, was_asked);
        }
        if !open_questions(&world.store).await.is_empty() {
            let by = Some("key:k".into());
            let value = answer.clone();
            let resolution = Resolution { node: "agent".into(), value, via: Via::Key, by };
            host.resolve(&scope(), run, resolution, None).await.expect("the answer is taken");
            was_asked = true;
            continue;
        }
        world.store.changed(run, page.version).await;
    }
}

/// The returns of a run that was asked about its call, for every way in which that can come about.
async fn asked_about(answer: Value) -> Vec<Ended> {
    let appends = under(Fate::Live, &answer).await.appends;
    let mut asked = Vec::new();
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let ended = under(fate, &answer).await;
            for bracket in brackets(&ended.log) {
                follow(&bracket, false);
            }
            let (called, returned) =
                (told(&ended.log, "agent.toolCalled"), told(&ended.log, "agent.toolReturned"));
            assert_eq!((called.len(), returned.len()), (1, 1), "{fate:?}");
            assert_eq!(called[0]["callId"], returned[0]["callId"], "{fate:?}");
            if ended.was_asked {
                asked.push(ended);
            }
        }
    }
    assert!(!asked.is_empty(), "nobody was ever asked");
    asked
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_that_a_tool_answered_is_what_it_answered() {
    let forms = [
        json!({ "id": "p-1" }),
        json!("posted"),
        json!(7),
        Value::Null,
        // As a kept result looks like from inside.
        json!({ "status": "error" }),
    ];
    for form in forms {
        for ended in asked_about(json!({ "action": "done", "result": form })).await {
            let returned = &told(&ended.log, "agent.toolReturned")[0];
            assert_eq!((&returned["status"], &returned["outcome"]), (&json!("ok"), &form));
            assert_eq!(outputs(&ended.log)["queue"], "fire");
            // The model reads the person's word as the tool's.
            let asked = ended.world.model.asked.lock().unwrap();
            let Some(Message::Tool { result }) = asked.last().unwrap().messages.last() else {
                panic!("the model has seen no result");
            };
            let said = form.as_str().map_or_else(|| form.to_string(), str::to_owned);
            assert!(result.content.contains(&said), "{}", result.content);
        }
    }
    // A result may be left out: it was done, and that is all.
    for ended in asked_about(json!({ "action": "done" })).await {
        assert_eq!(outputs(&ended.log)["queue"], "fire");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_person_gives_up_has_returned_so_and_the_run_fails() {
    for ended in asked_about(json!({ "action": "fail" })).await {
        let returned = &told(&ended.log, "agent.toolReturned")[0];
        assert_eq!(returned["error"]["code"], "outcome_unknown");
        assert_eq!(returned["status"], "error");
        let end = payload(ended.log.last().unwrap());
        assert_eq!(end["error"]["code"], "outcome_unknown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_person_has_repeated_returns_once() {
    for ended in asked_about(json!({ "action": "repeat" })).await {
        let returned = &told(&ended.log, "agent.toolReturned")[0];
        assert_eq!(returned["outcome"], json!({ "counted": 7 }));
        assert_eq!(outputs(&ended.log)["queue"], "fire");
        assert!(ended.world.made.lock().unwrap().len() <= 2);
    }
}
