//! Questions on their way to the address that was left with the run, in simulated time.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use callboard_core::{Resolution, Via};
use callboard_engine::{ForkOrder, KeyMode, Order, Overlay, Target, Webhooks};
use callboard_protocol::{ForkMode, Owner, RunId};

use super::given::{Receiver, World, fates, settled};
use crate::sim::{Fate, doomed_store, scope};

const HOUR: Duration = Duration::from_secs(3_600);

/// A run of this workflow whose questions go to `me`.
fn calling(workflow: &str) -> impl FnOnce(&mut Order) {
    let target = Target::Workflow(workflow.into());
    move |order| {
        order.target = target;
        order.callback_url = Some("me".to_owned());
    }
}

async fn answer(world: &World, run: &RunId) {
    let resolution = Resolution {
        node: "a".into(),
        value: json!({ "action": "accept" }),
        by: Some("ann".into()),
        via: Via::Key,
    };
    world.engine.resolve(&scope(), run, resolution, None).await.unwrap();
}

async fn is_anything_on_its_way(world: &World) -> bool {
    let webhooks = Webhooks::new(world.store.clone());
    webhooks.read_unplanned(1).await.unwrap().has_callbacks
}

/// What a callback must not change: the events that it is about, by their ids.
fn questions(bodies: &[Value]) -> BTreeSet<String> {
    bodies.iter().map(|body| body["eventId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_brought_once_with_what_answers_it() {
    let world = World::new();
    let run = world.run(calling("asks")).await;
    let bodies = world.post.bodies("me");
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    let (body, id) = (&bodies[0], format!("{run}:a:0"));
    let token = format!("default/{run}/{id}");
    for (field, expected) in [
        ("type", json!("interrupt.requested")),
        ("runId", json!(run)),
        ("workflowId", json!("asks")),
        ("nodeId", json!("a")),
        ("interruptId", json!(id)),
        ("kind", json!("approval")),
        ("requiresAuth", json!(false)),
        (
            "interrupt",
            json!({ "interruptToken": token, "callbackUrl": format!("/v1/interrupts/{token}") }),
        ),
    ] {
        assert_eq!(body[field], expected, "{field}");
    }
    assert_eq!(body["data"]["title"], "Ship it?");
    assert_eq!(world.courier.list(&scope()).await.unwrap(), [], "it is nobody's webhook");
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.post.bodies("me").len(), 1);
    assert!(!is_anything_on_its_way(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_an_address_calls_nobody() {
    let world = World::new();
    world.run(|order| order.target = Target::Workflow("asks".into())).await;
    assert!(!is_anything_on_its_way(&world).await);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_until_somebody_has_answered() {
    let world = World::new();
    world.post.set("me", Receiver::Answers(503));
    let run = world.run(calling("asks")).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.post.gaps("me"), [1, 2]);
    assert_eq!(questions(&world.post.bodies("me")).len(), 1);
    answer(&world, &run).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.post.bodies("me").len(), 3, "nobody is asked what is settled");
    assert!(!is_anything_on_its_way(&world).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_ten_times_is_given_up() {
    let world = World::new();
    world.post.set("me", Receiver::Refuses);
    world.run(calling("asks")).await;
    tokio::time::sleep(HOUR * 6).await;
    assert_eq!(world.post.bodies("me").len(), 10);
    assert!(!is_anything_on_its_way(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_question_from_below_is_brought_and_a_fork_brings_none() {
    let world = World::new();
    let run = world.run(calling("calls")).await;
    let bodies = world.post.bodies("me");
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(
        (&bodies[0]["workflowId"], &bodies[0]["parentRunId"]),
        (&json!("asks"), &json!(run))
    );
    let child: RunId = bodies[0]["runId"].as_str().unwrap().into();
    for mode in [ForkMode::Branch, ForkMode::Replay] {
        let fork = ForkOrder {
            source: child.clone(),
            from: 0,
            mode,
            owner: Owner { tenant: "default".into(), workspace: None, principal: None },
            key_mode: KeyMode::Live,
            dialect: callboard_protocol::Dialect::V1,
            overlay: Overlay::default(),
        };
        world.engine.fork(&scope(), fork, None).await.unwrap();
        settled().await;
        assert_eq!(world.post.bodies("me").len(), 1, "{mode:?}");
    }
}

/// The process dies before or after each of its writes; another one goes on.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_loses_no_question_and_repeats_none_that_is_settled() {
    for fate in fates() {
        let world = World::silent();
        let doomed = doomed_store(world.store.clone(), fate);
        let _first = world.host("doomed", doomed.clone());
        for _ in 0..2 {
            world.run(calling("asks")).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let heir = doomed_store(world.store.clone(), Fate::Live);
        let _second = world.host("heir", heir.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let bodies = world.post.bodies("me");
        assert_eq!(questions(&bodies).len(), 2, "lost after {fate:?}");
        // Two are on their way at once, so a crash may leave two without their outcome.
        let written = doomed.settled_deliveries() + heir.settled_deliveries();
        assert!(written == 2 && bodies.len() <= 4, "{fate:?}: {written} of {}", bodies.len());
        assert!(!is_anything_on_its_way(&world).await, "{fate:?}");
    }
}
