//! Tools that come and go while an invocation lasts: each call keeps its place, and nothing known is paid for again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::{PromptLibrary, Tool, ToolDescriptor, ToolSpec, Toolbox, built_in_prompts};
use callboard_engine::{Recorded, Scope};
use callboard_protocol::{PromptTemplate, Timestamp};

use crate::given::{
    Script, World, agent_order, calls, offered, outputs, results, says, task, told,
};
use crate::sim::{Fate, doomed_store, ended, scope};

const LOOK: &str = "mcp:crm.look";

/// A server that can be taken away.
#[derive(Debug)]
struct Server {
    is_there: AtomicBool,
    tool: Arc<dyn Tool>,
}

#[async_trait]
impl Toolbox for Server {
    async fn find(&self, _: &Scope, name: &str) -> Option<Arc<dyn Tool>> {
        let is_found = name == LOOK && self.is_there.load(Ordering::Relaxed);
        is_found.then(|| Arc::clone(&self.tool))
    }

    async fn list(&self, _: &Scope) -> Vec<ToolDescriptor> {
        Vec::new()
    }
}

/// The server's tool, then one that is always there, between three turns.
fn script() -> Script {
    |request| match results(request) {
        0 => Ok(calls(request, &[("mcp_crm_look", json!({ "n": 1 }))])),
        1 => Ok(calls(request, &[(&offered(request, "count"), json!({ "n": 2 }))])),
        _ => Ok(says(r#"{"queue":"fire","_confidence":1}"#)),
    }
}

fn with_look(agent: &mut Value) {
    agent["toolAllowlist"].as_array_mut().unwrap().push(json!(LOOK));
}

/// A run whose server changes sides when its first host dies.
async fn under(fate: Fate, is_there_first: bool) -> (World, Vec<Recorded>, u64) {
    let mut world = World::with(script(), with_look).await;
    let tool = world.counter(LOOK);
    let server = Arc::new(Server { is_there: AtomicBool::new(is_there_first), tool });
    world.tools.push(Arc::clone(&server) as _);
    let doomed = doomed_store(Arc::clone(&world.store), fate);
    let first = world.host("first", Arc::clone(&doomed) as _);
    let run = first.create(agent_order(task(), json!({})), None).await.unwrap().run;
    if fate != Fate::Live {
        tokio::select! {
            () = doomed.died.notified() => {}
            _ = ended(&world.store, &run) => {}
        }
        first.kill();
        server.is_there.store(!is_there_first, Ordering::Relaxed);
        world.host("second", Arc::clone(&world.store) as _);
    }
    let log = ended(&world.store, &run).await;
    (world, log, doomed.appends())
}

/// The names of the tools that the model was told of, turn by turn.
fn offers(world: &World) -> Vec<Vec<String>> {
    let asked = world.model.asked.lock().unwrap();
    let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    asked.iter().map(|request| names(&request.tools)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_lost_with_its_host_moves_no_call_to_another_place() {
    let (_, whole, appends) = under(Fate::Live, true).await;
    let mut missed = 0;
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate, true).await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            assert_eq!(told(&log, "provider.usage").len(), 3, "{fate:?}");
            // The call in the gap may be made once more, and no other.
            assert!(world.asked() <= 4, "{fate:?}: {} turns", world.asked());
            assert_eq!(
                told(&log, "agent.toolCalled").len(),
                told(&log, "agent.toolReturned").len()
            );
            let returned = told(&log, "agent.toolReturned");
            let offers = offers(&world);
            assert!(offers.windows(2).all(|pair| pair[0] == pair[1]), "{fate:?}: {offers:?}");
            if returned.iter().any(|it| it["error"]["code"] == "tool_unavailable") {
                assert_eq!(returned.len(), 2, "{fate:?}: {returned:?}");
                missed += 1;
            }
        }
    }
    assert!(missed > 0, "the server was never missed");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_is_not_offered_to_an_invocation_that_began_without_it() {
    let (_, whole, appends) = under(Fate::Live, false).await;
    for at in 1..=appends {
        for fate in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (world, log, _) = under(fate, false).await;
            assert_eq!(outputs(&log), outputs(&whole), "{fate:?}");
            assert!(world.asked() <= 4, "{fate:?}: {} turns", world.asked());
            let offers = offers(&world);
            assert!(offers.windows(2).all(|pair| pair[0] == pair[1]), "{fate:?}: {offers:?}");
        }
    }
}

/// A template that is edited while a run waits is for the runs that begin afterwards.
#[tokio::test(start_paused = true)]
async fn an_invocation_keeps_the_templates_that_it_began_with() {
    let world = World::new(script()).await;
    let library = PromptLibrary::new(Arc::clone(&world.store) as _, built_in_prompts());
    let template = |version: &str| -> PromptTemplate {
        let words = format!("Say {version}.");
        let id = "desk.words";
        let template =
            json!({ "templateId": id, "version": version, "kind": "system", "text": words });
        serde_json::from_value(template).unwrap()
    };
    let at = Timestamp::from_millis(0);
    library.create(&scope(), template("1.0.0"), None, at).await.unwrap();
    let doomed = doomed_store(Arc::clone(&world.store), Fate::DieAfter(8));
    let first = world.host("first", Arc::clone(&doomed) as _);
    let configurable = json!({ "promptOverrides": { "system": "prompt:desk.words" } });
    let run = first.create(agent_order(task(), configurable), None).await.unwrap().run;
    doomed.died.notified().await;
    first.kill();
    let asked = world.asked();
    assert!(asked > 0, "the host died before it asked");
    library.update(&scope(), template("1.1.0"), at).await.unwrap();
    world.host("second", Arc::clone(&world.store) as _);
    let log = ended(&world.store, &run).await;
    assert_eq!(outputs(&log)["queue"], "fire", "{:?}", log.last());
    assert!(world.asked() > asked, "the host died after it had asked");
    let said: Vec<_> =
        world.model.asked.lock().unwrap().iter().map(|it| it.system.clone().unwrap()).collect();
    assert!(said.iter().all(|words| words.contains("Say 1.0.0.")), "{said:?}");
}
