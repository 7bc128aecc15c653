//! Child runs that an activity orders: what holds for every child holds for them, after a crash of any host.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass};
use callboard_engine::{
    Acting, Activities, Activity, Call, EffectId, Filter, KeyMode, Recorded, Roster, Store, SubRun,
    SubRunError,
};
use callboard_protocol::{Failure, Object, RunId, RunStatus};

use crate::families::{fates, story};
use crate::roster::member;
use crate::sim::{Fate, LEASE, ended, order, scope};
use crate::simulation::node;
use crate::world::{World, start, workflow};

/// Has the workflow of its config run, and waits for it for as long as its config says.
#[derive(Debug)]
struct Orderer;

#[async_trait]
impl Activity for Orderer {
    async fn perform(&self, call: Call) -> Outcome {
        match order_run(&call).await {
            Ok(outputs) => Outcome::Done { outputs },
            Err(SubRunError::Refused(failure)) => {
                Outcome::Failed { failure, class: RetryClass::Final }
            }
            Err(error) => {
                let failure = Failure::new("internal_error", error.to_string());
                Outcome::Failed { failure, class: RetryClass::Final }
            }
        }
    }
}

async fn order_run(call: &Call) -> Result<Object, SubRunError> {
    let workflow = call.config["workflow"].as_str().unwrap().into();
    let effect = EffectId::new(&call.tenant, &call.run, &call.attempt, 0, "workflow");
    let sub_run = || SubRun { effect: &effect, workflow: &workflow, inputs: Object::new() };
    let run = call.start_sub_run(sub_run()).await?;
    assert_eq!(call.start_sub_run(sub_run()).await?, run, "one call is one run");
    let waits = call.config.get("waitMs").and_then(Value::as_u64).unwrap_or(u64::MAX / 2);
    let ended = tokio::select! {
        ended = call.sub_run_result(&run) => json!(ended?.status),
        () = call.pause(Duration::from_millis(waits.min(86_400_000))) => json!("goes on"),
    };
    Ok(Object::from_iter([("run".to_owned(), json!(run)), ("ended".to_owned(), ended)]))
}

fn activities() -> Activities {
    Activities::default().with("test.orderer", Arc::new(Orderer))
}

/// A run that orders one which takes a while, `waitMs` of which it waits for.
fn world(config: Value) -> World {
    let mut config = config;
    config["workflow"] = json!("below");
    let wait = node("wait", "core.delay", json!({ "ms": 50_000 }));
    let above = [node("order", "test.orderer", config)];
    World::new(&[workflow("above", &above), workflow("below", &[wait])], activities)
}

async fn child_of(world: &World, parent: &RunId) -> RunId {
    loop {
        let run = world.shared.open(parent).await.unwrap().unwrap();
        let told = run.entries.iter().find_map(|entry| match &entry.event {
            callboard_protocol::Event::NodeDispatched(told) => Some(told.child_run_id.clone()),
            _ => None,
        });
        match told {
            Some(child) => return child,
            None => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn last(log: &[Recorded]) -> (String, Value) {
    let last = log.last().unwrap();
    (last.kind.clone(), serde_json::from_str(&last.payload).unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_ordered_run_is_below_the_run_that_ordered_it_and_pays_from_its_budget() {
    let world = world(json!({}));
    let (engine, _) = world.host("one", Fate::Live);
    let sally = member("host:sally-1", &["above"]);
    Roster::new(world.shared.clone())
        .hire(KeyMode::Live, sally.clone(), engine.clock().now())
        .await
        .unwrap();
    let budget = json!({ "maxCostUsd": 1.5, "modelDeny": ["dear-*"] });
    let mut order =
        order("above", Object::new(), Object::from_iter([("budget".to_owned(), budget)]));
    order.acting = Some(Acting::by_hand(sally.clone()));
    let above = engine.create(order, None).await.unwrap().run;
    let birth = world.shared.open(&child_of(&world, &above).await).await.unwrap().unwrap().birth;
    assert_eq!(birth.charged_to, Some(sally.roster_id));
    let budget = birth.budget.clone().unwrap();
    assert_eq!(budget.limits.max_cost_usd, Some(1.5));
    assert_eq!(budget.model_deny, ["dear-*"]);
    let link = birth.parent.clone().unwrap();
    assert_eq!((link.run_id, link.node_id.as_str(), link.depth), (above.clone(), "order", 1));
    assert_eq!(link.cause.as_str(), "core.subWorkflow");
    let (kind, end) = last(&ended(&world.shared, &above).await);
    assert_eq!((kind.as_str(), &end["outputs"]["ended"]), ("run.completed", &json!("completed")));
    let log = world.shared.read(&scope(), &above, 0, usize::MAX).await.unwrap().unwrap().events;
    let changed = log.iter().filter(|event| event.kind == "callboard.child.changed").count();
    assert_eq!(changed, 1, "the run knows how its child ended before it goes on");
}

/// The host that has recorded the cancel is lost at once; whoever comes next ends both.
#[tokio::test(start_paused = true)]
async fn cancelling_a_run_cancels_what_it_ordered_also_when_no_host_watches() {
    // A run that still waits for its child, and one that has left it to itself.
    for waits in [60_000, 1_000] {
        let world = World::new(
            &[
                workflow(
                    "above",
                    &[
                        node(
                            "order",
                            "test.orderer",
                            json!({ "workflow": "below", "waitMs": waits }),
                        ),
                        node("after", "core.delay", json!({ "ms": 600_000 })),
                    ],
                ),
                workflow("below", &[node("wait", "core.delay", json!({ "ms": 300_000 }))]),
            ],
            activities,
        );
        let (first, _) = world.host("first", Fate::Live);
        let above = start(&first, "above").await;
        let below = child_of(&world, &above).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        first.kill();
        // One that only records the cancel and is gone before it drives anything.
        let (second, _) = world.host("second", Fate::Live);
        second.cancel(&scope(), &above, None, None, None).await.unwrap();
        second.kill();
        tokio::time::sleep(LEASE * 4).await;
        let (_third, _) = world.host("third", Fate::Live);
        assert_eq!(last(&ended(&world.shared, &above).await).0, "run.cancelled");
        let (kind, end) = last(&ended(&world.shared, &below).await);
        assert_eq!((kind.as_str(), &end["parentRunId"]), ("run.cancelled", &json!(above)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_ordered_outlives_a_run_that_completes_without_it() {
    let world = world(json!({ "waitMs": 1_000 }));
    let (engine, _) = world.host("one", Fate::Live);
    let above = start(&engine, "above").await;
    let below = child_of(&world, &above).await;
    let (kind, end) = last(&ended(&world.shared, &above).await);
    assert_eq!((kind.as_str(), &end["outputs"]["ended"]), ("run.completed", &json!("goes on")));
    assert_eq!(last(&ended(&world.shared, &below).await).0, "run.completed");
}

/// Depth is counted by the host; no caller can write it.
#[tokio::test(start_paused = true)]
async fn runs_that_order_themselves_stop_at_the_depth_of_all_children() {
    let itself = [node("order", "test.orderer", json!({ "workflow": "itself" }))];
    let world = World::new(&[workflow("itself", &itself)], activities);
    let (engine, _) = world.host("one", Fate::Live);
    let mut wished = order("itself", Object::new(), Object::new());
    wished.metadata = Some(Object::from_iter([("callboard.errandDepth".to_owned(), json!(100))]));
    let top = engine.create(wished, None).await.unwrap().run;
    ended(&world.shared, &top).await;
    let filter = Filter { limit: 100, ..Filter::default() };
    let runs = world.shared.list(&scope(), &filter).await.unwrap();
    assert_eq!(runs.len(), 17, "the first and sixteen below it");
    let failed = runs.iter().filter(|run| run.status == RunStatus::Failed).count();
    assert_eq!(failed, 1, "the deepest was refused, and the others took note of that");
}

async fn under(fate: Fate) -> (Vec<Vec<String>>, u64) {
    let world = world(json!({}));
    let (first, doomed) = world.host("first", fate);
    let above = start(&first, "above").await;
    tokio::select! {
        () = doomed.died.notified() => first.kill(),
        _ = ended(&world.shared, &above) => {}
        () = tokio::time::sleep(LEASE * 2) => {}
    }
    let _second = world.host("second", Fate::Live);
    ended(&world.shared, &above).await;
    tokio::time::sleep(LEASE * 4).await;
    first.kill();
    let filter = Filter { limit: 100, ..Filter::default() };
    let mut stories = Vec::new();
    for listed in world.shared.list(&scope(), &filter).await.unwrap() {
        stories.push(story(&ended(&world.shared, &listed.run_id).await));
    }
    stories.sort();
    (stories, doomed.appends())
}

#[tokio::test(start_paused = true)]
async fn an_ordered_run_is_started_once_whatever_crashes() {
    let (undisturbed, appends) = under(Fate::Live).await;
    assert_eq!(undisturbed.len(), 2);
    for fate in fates(appends) {
        assert_eq!(under(fate).await.0, undisturbed, "{fate:?}");
    }
}
