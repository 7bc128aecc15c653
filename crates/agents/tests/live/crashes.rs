//! A crash at every write of a loop of five calls: the same result, and nothing that is known is paid for again.

use std::collections::BTreeMap;

use callboard_engine::Recorded;
use serde_json::{Value, json};

use crate::given::{
    Script, World, agent_order, calls, kinds, offered, outputs, results, says, task, told,
};
use crate::sim::Fate;

/// Two tools, one after the other, between three turns.
fn five_calls() -> Script {
    |request| match results(request) {
        done @ 0..2 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": done }))])),
        _ => Ok(says(r#"{"queue":"fire","_confidence":1}"#)),
    }
}

async fn under(fate: Fate) -> (World, Vec<Recorded>, u64) {
    let world = World::new(five_calls()).await;
    let (log, appends) = world.survive(agent_order(task(), json!({})), fate).await;
    (world, log, appends)
}

/// What must be in every log, however often its host died.
fn facts(log: &[Recorded]) -> BTreeMap<&str, Vec<Value>> {
    let kinds = [
        "agent.invocation.started",
        "agent.promptResolved",
        "prompt.composed",
        "agent.toolCalled",
        "agent.decided",
        "provider.usage",
        "agent.invocation.completed",
    ];
    let mut facts: BTreeMap<&str, Vec<Value>> =
        kinds.into_iter().map(|kind| (kind, told(log, kind))).collect();
    let mut returned = told(log, "agent.toolReturned");
    for event in &mut returned {
        event["durationMs"] = json!(0);
    }
    facts.insert("agent.toolReturned", returned);
    facts
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_changes_nothing_that_counts() {
    let (_, whole, appends) = under(Fate::Live).await;
    assert!(appends > 10, "{appends}");
    let mut repeated = 0;
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate).await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            assert_eq!(facts(&log), facts(&whole), "{fate:?}");
            // A call whose outcome was not recorded may be made once more, but only that one.
            assert!(world.asked() <= 4, "{fate:?}: {} turns", world.asked());
            let made = world.made.lock().unwrap().clone();
            assert!(made.len() <= 3, "{fate:?}: {made:?}");
            // Whatever went out again is told as such, with the key under which it went out before.
            let again = told(&log, "log.appended");
            let again: Vec<&Value> =
                again.iter().filter(|it| it["fields"]["code"] == "call_sent_again").collect();
            assert!(world.asked() + made.len() - 5 <= again.len(), "{fate:?}: {again:?}");
            for it in &again {
                assert!(it["fields"]["idempotencyKey"].is_string(), "{it}");
                let is_model = it["fields"]["to"] == "puppet/one";
                assert_eq!(it["fields"].get("mayHaveUsed").is_some(), is_model, "{it}");
            }
            repeated += world.asked() + made.len() - 5;
        }
    }
    assert!(repeated > 0, "no crash was in the middle of a call");
}

/// A-51, and the tokens of A-87.
#[tokio::test(start_paused = true)]
async fn a_replay_asks_nobody_and_tells_the_same_at_the_same_times() {
    let (world, source, _) = under(Fate::Live).await;
    let (asked, made) = (world.asked(), world.made.lock().unwrap().len());
    let log = world.replay(&source).await;
    assert_eq!(kinds(&log), kinds(&source));
    for (ours, theirs) in log.iter().zip(&source) {
        assert_eq!((ours.at, &ours.payload), (theirs.at, &theirs.payload), "{}", ours.kind);
    }
    assert_eq!((world.asked(), world.made.lock().unwrap().len()), (asked, made));
}
