//! Runs that a node of another run starts: what holds for the sender holds for them.

use std::time::Duration;

use serde_json::json;

use callboard_core::Attempt;
use callboard_engine::{Acting, Activities, EffectId, Engine, Errand, KeyMode, Roster as _, Store};
use callboard_protocol::{NodeId, Object, RunId};

use crate::roster::member;
use crate::sim::{Fate, ended, order, scope};
use crate::simulation::node;
use crate::world::{World, workflow};

fn world() -> World {
    let nodes = [node("wait", "core.delay", json!({ "ms": 50_000 }))];
    World::new(&[workflow("sender", &nodes), workflow("sent", &nodes)], Activities::default)
}

async fn send(engine: &Engine, run: &RunId) -> RunId {
    let (node, workflow): (NodeId, _) = ("wait".into(), "sent".into());
    let attempt = Attempt { node: node.clone(), visit: 1, number: 1 };
    let effect = EffectId::new(&scope().tenant, run, &attempt, 0, "workflow");
    let inputs = Object::new();
    let errand = Errand { run, node: &node, effect: &effect, workflow: &workflow, inputs };
    engine.send(errand).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn whoever_pays_for_the_sender_pays_for_what_it_sends_and_no_more() {
    let world = world();
    let (engine, _) = world.host("one", Fate::Live);
    let sally = member("host:sally-1", &["sender"]);
    world.shared.hire(KeyMode::Live, sally.clone(), engine.clock().now()).await.unwrap();
    let budget = json!({ "maxCostUsd": 1.5, "modelDeny": ["dear-*"] });
    let configurable = Object::from_iter([("budget".to_owned(), budget)]);
    let mut order = order("sender", Object::new(), configurable);
    order.acting = Some(Acting::by_hand(sally.clone()));
    let sender = engine.create(order, None).await.unwrap().run;
    let sent = send(&engine, &sender).await;
    assert_eq!(send(&engine, &sender).await, sent);
    let birth = world.shared.open(&sent).await.unwrap().unwrap().birth;
    assert_eq!(birth.charged_to, Some(sally.roster_id));
    let budget = birth.budget.unwrap();
    assert_eq!(budget.limits.max_cost_usd, Some(1.5));
    assert_eq!(budget.model_deny, ["dear-*"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_cancelled_with_its_sender_and_outlives_any_other_end() {
    for is_cancelled in [true, false] {
        let world = world();
        let (engine, _) = world.host("one", Fate::Live);
        let order = order("sender", Object::new(), Object::new());
        let sender = engine.create(order, None).await.unwrap().run;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let sent = send(&engine, &sender).await;
        if is_cancelled {
            engine.cancel(&scope(), &sender, None, None, None).await.unwrap();
        }
        ended(&world.shared, &sender).await;
        let log = ended(&world.shared, &sent).await;
        let end = if is_cancelled { "run.cancelled" } else { "run.completed" };
        assert_eq!(log.last().unwrap().kind, end);
    }
}
