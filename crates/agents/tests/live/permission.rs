//! A coding agent that asks before it does something which is not on its list.

use std::sync::Arc;

use serde_json::{Value, json};

use callboard_core::{Resolution, Via};
use callboard_engine::{Engine, Recorded};
use callboard_protocol::RunId;

use crate::given::{World, agent_order, outputs, says, task, told};
use crate::sim::{Fate, doomed_store, ended, scope};

fn asking() -> Value {
    json!({ "ai": { "provider": "cli", "model": "asking" } })
}

/// An answer that a dying host could not take is given again to the next.
async fn answer(host: &Engine, run: &RunId, action: &str) {
    let value = json!({ "action": action });
    let by = Some("key:k".into());
    let resolution = Resolution { node: "agent".into(), value, via: Via::Key, by };
    let _ = host.resolve(&scope(), run, resolution, None).await;
}

/// Somebody answers whatever is asked, on a host that is lost once.
async fn attended(fate: Fate, action: &str) -> (World, Vec<Recorded>, u64) {
    let world = World::new(|_| Ok(says("nobody asks me"))).await;
    let doomed = doomed_store(Arc::clone(&world.store), fate);
    let mut host = world.host("first", Arc::clone(&doomed) as _);
    let run = host.create(agent_order(task(), asking()), None).await.unwrap().run;
    let mut is_doomed = fate != Fate::Live;
    loop {
        tokio::select! {
            biased;
            () = doomed.died.notified(), if is_doomed => {
                host.kill();
                host = world.host("second", Arc::clone(&world.store) as _);
                is_doomed = false;
            }
            log = ended(&world.store, &run) => return (world, log, doomed.appends()),
            () = async { world.until_asked().await; answer(&host, &run, action).await } => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_question_is_an_approval_and_its_answer_goes_on_with_the_session() {
    let (world, log, _) = attended(Fate::Live, "accept").await;
    assert_eq!(outputs(&log), *json!({ "queue": "fire" }).as_object().unwrap());
    assert_eq!(*world.coder.begun.lock().unwrap(), ["fresh", "resume s-1", "resume s-1"]);
    assert_eq!(*world.coder.allowed.lock().unwrap(), 2);
    let asked = told(&log, "interrupt.requested");
    assert_eq!(asked.len(), 2);
    for (asked, tool) in asked.iter().zip(["edit", "delete"]) {
        assert_eq!(
            (&asked["kind"], &asked["data"]["artifactData"]["tool"]),
            (&json!("approval"), &json!(tool))
        );
        let title = format!("asking asks for permission: {tool} notes.md");
        assert_eq!(asked["data"]["title"], title);
    }
    for kind in ["agent.invocation.started", "agent.decided", "provider.usage"] {
        assert_eq!(told(&log, kind).len(), 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_is_told_to_the_agent_and_ends_nothing() {
    let (world, log, _) = attended(Fate::Live, "reject").await;
    assert_eq!(outputs(&log), *json!({ "queue": "fire" }).as_object().unwrap());
    assert_eq!(*world.coder.allowed.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_uses_no_permission_twice() {
    let (_, whole, appends) = attended(Fate::Live, "accept").await;
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = attended(fate, "accept").await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            let begun = world.coder.begun.lock().unwrap().clone();
            assert!(!begun[1..].contains(&"fresh".to_owned()), "{fate:?}: {begun:?}");
            let asked = told(&log, "interrupt.requested").len();
            assert!((2..=4).contains(&asked), "{fate:?}: asked {asked} times");
            let allowed = *world.coder.allowed.lock().unwrap();
            assert!(allowed <= asked, "{fate:?}: {allowed} of {asked}");
            for kind in ["agent.invocation.started", "agent.decided"] {
                assert_eq!(told(&log, kind).len(), 1, "{fate:?}: {kind}");
            }
        }
    }
}
