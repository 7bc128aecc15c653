//! Supervisors whose workers remember: with a crash at any write, each turn sees what the turns before it left.

use serde_json::{Value, json};

use callboard_engine::{Filter, Recorded, Store};

use super::note;
use crate::sim::{Fate, ended, scope};
use crate::simulation::{edge, node};
use crate::world::{Second, World, outputs, workflow};

fn crew(plan: Value, dispatch: Value) -> Vec<Value> {
    let boss = node("boss", "core.orchestrator.supervisor", json!({ "mockDispatchPlan": plan }));
    let mut crew = workflow("parent", &[boss, node("work", "core.dispatch", dispatch)]);
    crew["edges"] = json!([edge("boss", "work"), edge("work", "boss")]);
    let worker = |name: &str| {
        let late = node("late", "test.noter", json!({ "notes": [], "ms": 1_000 }));
        workflow(name, &[note("write", &[name]), late])
    };
    vec![crew, worker("a"), worker("b"), worker("c")]
}

fn next(workers: &[&str]) -> Value {
    json!({ "kind": "next-worker", "nextWorkerIds": workers })
}

/// What each worker saw at its end, by its name.
async fn sights(world: &World) -> Vec<(String, Vec<String>)> {
    let filter = Filter { limit: 100, ..Filter::default() };
    let mut sights = Vec::new();
    for listed in world.shared.list(&scope(), &filter).await.unwrap() {
        if listed.workflow_id.as_str() == "parent" {
            continue;
        }
        let log: Vec<Recorded> = ended(&world.shared, &listed.run_id).await;
        let seen: Vec<String> =
            serde_json::from_value(outputs(&log, "late")["seen"].clone()).unwrap();
        sights.push((listed.workflow_id.to_string(), seen));
    }
    sights.sort();
    sights
}

async fn check(plan: Value, dispatch: Value, written: &[&str], seen: &[(&str, &[&str])]) {
    let definitions = crew(plan, dispatch);
    let (_, appends) =
        World::remembering(&definitions).survive("parent", Fate::Live, Second::Afterwards).await;
    let expected: Vec<(String, Vec<String>)> = seen
        .iter()
        .map(|(name, seen)| {
            ((*name).to_owned(), seen.iter().map(|note| (*note).to_owned()).collect())
        })
        .collect();
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            for second in [Second::Afterwards, Second::FromTheStart] {
                let world = World::remembering(&definitions);
                let (log, _) = world.survive("parent", fate, second).await;
                let case = format!("{fate:?}, {second:?}");
                assert_eq!(log.last().unwrap().kind, "run.completed", "{case}");
                let mut contents = world.contents().await;
                contents.sort();
                assert_eq!(contents, written, "{case}");
                assert_eq!(sights(&world).await, expected, "{case}");
            }
        }
    }
}

/// M-61 across turns.
#[tokio::test(start_paused = true)]
async fn a_later_worker_sees_what_earlier_ones_left() {
    let plan = json!([next(&["a", "b"]), next(&["c"]), { "kind": "terminate" }]);
    let seen: [(&str, &[&str]); 3] = [("a", &["a"]), ("b", &["b", "a"]), ("c", &["c", "b", "a"])];
    check(plan, json!({}), &["a", "b", "c"], &seen).await;
}

/// M-61: workers side by side see nothing of each other, and the turn after them sees both.
#[tokio::test(start_paused = true)]
async fn workers_side_by_side_are_seen_at_their_join() {
    let plan = json!([next(&["a", "b"]), next(&["c"]), { "kind": "terminate" }]);
    let definitions = crew(plan, json!({ "fanOutPolicy": "parallel" }));
    let (_, appends) =
        World::remembering(&definitions).survive("parent", Fate::Live, Second::Afterwards).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal)] {
            let world = World::remembering(&definitions);
            world.survive("parent", fate, Second::Afterwards).await;
            let sights = sights(&world).await;
            assert_eq!(sights[0], ("a".to_owned(), vec!["a".to_owned()]), "{fate:?}");
            assert_eq!(sights[1], ("b".to_owned(), vec!["b".to_owned()]), "{fate:?}");
            let (_, mut last) = sights[2].clone();
            last.sort();
            assert_eq!(last, ["a", "b", "c"], "{fate:?}");
            assert_eq!(world.journal().await.len(), 3, "{fate:?}");
        }
    }
}

/// M-62 for workers.
#[tokio::test(start_paused = true)]
async fn isolated_workers_keep_to_themselves() {
    let plan = json!([next(&["a", "b"]), { "kind": "terminate" }]);
    let alone = json!({ "memoryScopeIsolation": "isolated" });
    check(plan, alone, &["a", "b"], &[("a", &["a"]), ("b", &["b"])]).await;
}
