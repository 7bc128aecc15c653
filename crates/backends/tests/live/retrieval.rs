//! The retriever as a live agent uses it: over the run's files, with what the agent remembers.

use std::sync::Arc;

use callboard_backends::{Egress, Reach, SystemLookup, built_in};
use callboard_engine::{Engine, Recorded, Scope, Store as _};
use serde_json::{Value, json};

use crate::given::{World, agent_order, calls, offered, results, says, task, told};
use crate::sim::scope;

/// Saves a note and a file, and asks for both.
pub(crate) async fn world() -> World {
    let mut world = World::with(
        |request| {
            let note = json!({ "content": "quokkas sleep by day" });
            let file = json!({ "path": "animals.txt", "content": "quokkas eat leaves" });
            let question = json!({ "query": "quokkas" });
            Ok(match results(request) {
                0 => calls(request, &[(&offered(request, "retriever"), question)]),
                1 => calls(request, &[(&offered(request, "save"), note)]),
                2 => calls(request, &[(&offered(request, "write"), file)]),
                3 => calls(request, &[(&offered(request, "retriever"), question)]),
                _ => says(r#"{"queue":"fire"}"#),
            })
        },
        |agent| {
            agent["toolAllowlist"] = json!([
                "openwop:core.memory.save",
                "openwop:core.files.write",
                "openwop:core.rag.retriever-basic",
            ]);
        },
    )
    .await;
    let tools = built_in(&Egress::new(Reach::Public, Arc::new(SystemLookup)));
    world.tools = vec![Arc::new(tools.unwrap())];
    world
}

pub(crate) async fn run(world: &World, host: &Engine, tenant: &str) -> Vec<Recorded> {
    let mut order = agent_order(task(), json!({}));
    order.owner.tenant = tenant.into();
    let run = host.create(order, None).await.unwrap().run;
    let scope = Scope { tenant: tenant.into(), ..scope() };
    loop {
        let page = world.store.read(&scope, &run, 0, usize::MAX).await.unwrap().unwrap();
        if page.status.is_terminal() {
            return page.events;
        }
        world.store.changed(&run, page.version).await;
    }
}

/// What the `place`-th call of a tool found: where, and what.
fn hits(log: &[Recorded], place: usize) -> Vec<(String, String)> {
    let found = told(log, "agent.toolReturned")[place]["outcome"]["hits"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hits = found.as_array().cloned().unwrap_or_default();
    let mut hits: Vec<(String, String)> = hits
        .iter()
        .map(|hit| (text(&hit["source"]).split('/').next().unwrap().to_owned(), text(&hit["text"])))
        .collect();
    hits.sort();
    hits
}

#[tokio::test]
async fn what_an_agent_remembers_is_found_beside_the_files_of_its_run() {
    let mut world = world().await;
    let folder = tempfile::tempdir().unwrap();
    world.settings.workspaces = folder.path().to_owned();
    let host = world.host("host", Arc::clone(&world.store) as _);
    let remembered = ("memory".to_owned(), "quokkas sleep by day".to_owned());
    let written = ("animals.txt".to_owned(), "quokkas eat leaves".to_owned());

    let first = run(&world, &host, "default").await;
    assert_eq!(hits(&first, 0), []);
    assert_eq!(hits(&first, 3), [written.clone(), remembered.clone()]);
    let second = run(&world, &host, "default").await;
    assert_eq!(hits(&second, 0), [remembered], "files belong to their run, notes to the agent");
    let theirs = run(&world, &host, "rival").await;
    assert_eq!(hits(&theirs, 0), [], "and to their tenant");
    assert_eq!(hits(&theirs, 3)[0], written);
}
