//! Work that is left to a coding agent: begun once, resumed where a crash cut it off, never begun again in silence.

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_engine::Recorded;

use crate::given::{World, agent_order, outputs, says, task, told};
use crate::sim::{Fate, doomed_store};

fn by(kind: &str) -> Value {
    json!({ "ai": { "provider": "cli", "model": kind } })
}

async fn under(fate: Fate, kind: &str) -> (World, Vec<Recorded>, u64) {
    let world = World::new(|_| Ok(says("nobody asks me"))).await;
    let (log, appends) = world.survive(agent_order(task(), by(kind)), fate).await;
    (world, log, appends)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_begins_nothing_twice() {
    let (world, whole, appends) = under(Fate::Live, "named").await;
    assert_eq!(outputs(&whole), *json!({ "queue": "fire" }).as_object().unwrap());
    assert_eq!(*world.coder.begun.lock().unwrap(), ["fresh", "resume s-1"]);
    assert_eq!(world.asked(), 0);
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate, "named").await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            let begun = world.coder.begun.lock().unwrap().clone();
            assert!(!begun[1..].contains(&"fresh".to_owned()), "{fate:?}: {begun:?}");
            assert!(begun.len() <= 3, "{fate:?}: {begun:?}");
            for kind in ["agent.invocation.started", "agent.decided", "provider.usage"] {
                assert_eq!(told(&log, kind).len(), told(&whole, kind).len(), "{fate:?}: {kind}");
            }
            let ids = |kind: &str| -> Vec<Value> {
                let mut ids: Vec<Value> =
                    told(&log, kind).into_iter().map(|mut it| it["callId"].take()).collect();
                ids.sort_by_key(Value::to_string);
                ids
            };
            assert_eq!(ids("agent.toolCalled"), ids("agent.toolReturned"), "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_about_work_that_nobody_can_find_again() {
    // The claim of the first task is on disk; the session is not.
    let mut at = 1;
    let (world, asked) = loop {
        let world = World::new(|_| Ok(says("nobody asks me"))).await;
        let doomed = doomed_store(Arc::clone(&world.store), Fate::DieBefore(at));
        let first = world.host("first", Arc::clone(&doomed) as _);
        let run = first.create(agent_order(task(), by("nameless")), None).await.unwrap().run;
        doomed.died.notified().await;
        first.kill();
        let begun = world.coder.begun.lock().unwrap().len();
        if begun > 0 {
            world.host("second", Arc::clone(&world.store) as _);
            break (world, run);
        }
        at += 1;
    };
    let question = loop {
        let log = world.log(&asked).await;
        if let Some(question) = told(&log, "interrupt.requested").pop() {
            break question;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert_eq!(question["data"]["customKind"], "callboard.outcome-unknown");
    assert_eq!(*world.coder.begun.lock().unwrap(), ["fresh"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_held_to_its_list_gets_no_work() {
    let (world, log, _) = under(Fate::Live, "loose").await;
    let failed = told(&log, "run.failed").pop().unwrap();
    assert_eq!(failed["error"]["code"], "capability_not_provided");
    assert_eq!(failed["error"]["message"], "loose: it does what it likes");
    assert_eq!(told(&log, "agent.invocation.completed")[0]["outcome"], "failed");
    assert!(world.coder.begun.lock().unwrap().is_empty());
}
