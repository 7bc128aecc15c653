//! The summary that a completed run leaves in memory where its definition asks for one.

use serde_json::{Value, json};

use callboard_core::Plan;
use callboard_engine::Recorded;
use callboard_protocol::ForkMode;

use super::{fork, ids, note};
use crate::sim::{Fate, ended, order, scope};
use crate::simulation::node;
use crate::world::{Second, World, start, workflow};

const DIARY: &str = "desk/diary";
const PIN: &str = "hunter2-hunter2";

/// Ends with what a variable holds that readers may not see.
fn summarised() -> Value {
    let mut last = node("last", "core.identity", json!({}));
    last["inputs"] = json!({
        "pin": { "type": "variable", "variableName": "pin" },
        "said": { "type": "expression", "expression": "'all ' ~ 'done'" },
    });
    let mut definition = workflow("parent", &[note("first", &["n"]), last]);
    definition["variables"] =
        json!([{ "name": "pin", "type": "string", "sensitive": true, "defaultValue": PIN }]);
    definition["metadata"] = json!({ "memorySummary": DIARY });
    definition
}

fn kinds(log: &[Recorded]) -> Vec<&str> {
    log.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_completed_run_leaves_one_summary_after_a_crash_at_any_append() {
    let definitions = [summarised()];
    let (_, appends) =
        World::remembering(&definitions).survive("parent", Fate::Live, Second::Afterwards).await;
    for ordinal in 1..=appends {
        for fate in [Fate::DieBefore(ordinal), Fate::DieAfter(ordinal), Fate::Oversleep(ordinal)] {
            let world = World::remembering(&definitions);
            let (log, _) = world.survive("parent", fate, Second::FromTheStart).await;
            let kinds = kinds(&log);
            assert_eq!(kinds[kinds.len() - 2..], ["memory.written", "run.completed"], "{fate:?}");
            let journal = world.journal().await;
            let summary: Vec<_> = journal.iter().filter(|it| it.memory_ref == DIARY).collect();
            let [summary] = summary[..] else { panic!("{fate:?}: {summary:?}") };
            assert_eq!(ids(&log).last().unwrap(), summary.id.as_str(), "{fate:?}");
            assert_eq!(summary.author.run_id.as_ref(), Some(&log[0].run));
            assert_eq!(summary.tags, ["run-summary", "workflow:parent"]);
            let begins = format!("Run {} of workflow parent completed.", log[0].run);
            assert!(summary.content.starts_with(&begins), "{}", summary.content);
            assert!(summary.content.contains("all done"), "{}", summary.content);
            assert!(!summary.content.contains(PIN), "{}", summary.content);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_is_not_asked_leaves_none() {
    let mut failing = workflow("failing", &[node("f", "test.noter", json!({ "fails": true }))]);
    failing["metadata"] = json!({ "memorySummary": DIARY });
    let world = World::remembering(&[failing, workflow("silent", &[note("only", &[])])]);
    let (engine, _) = world.host("host", Fate::Live);
    for (name, end) in [("failing", "run.failed"), ("silent", "run.completed")] {
        let run = start(&engine, name).await;
        let log = ended(&world.shared, &run).await;
        assert_eq!(log.last().unwrap().kind, end);
        assert_eq!(ids(&log), [""; 0], "{name}");
    }
    assert_eq!(world.contents().await, [""; 0]);
}

/// A replay repeats its source's event and remembers nothing; a branch is a run of its own.
#[tokio::test(start_paused = true)]
async fn a_replay_leaves_no_summary_and_a_branch_its_own() {
    let world = World::remembering(&[summarised()]);
    let (engine, _) = world.host("host", Fate::Live);
    let source = engine.create(order("parent", Default::default(), Default::default()), None);
    let source = source.await.unwrap().run;
    let log = ended(&world.shared, &source).await;
    let replay = engine.fork(&scope(), fork(&source, 0, ForkMode::Replay), None).await.unwrap();
    let replayed = ended(&world.shared, &replay.run).await;
    assert_eq!(kinds(&replayed), kinds(&log));
    assert_eq!(ids(&replayed), ids(&log));
    assert_eq!(world.journal().await.len(), 2);
    let last = log.len() as u64 - 2;
    let branch = engine.fork(&scope(), fork(&source, last, ForkMode::Branch), None).await.unwrap();
    let branched = ended(&world.shared, &branch.run).await;
    assert_ne!(ids(&branched).last(), ids(&log).last());
    assert_eq!(world.journal().await.len(), 3);
}

#[test]
fn a_definition_that_names_no_memory_is_refused() {
    for name in ["", "../x", "a\nb"] {
        let mut definition = summarised();
        definition["metadata"]["memorySummary"] = json!(name);
        let refused = Plan::parse(definition.to_string().as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("memorySummary"), "{refused}");
    }
}
