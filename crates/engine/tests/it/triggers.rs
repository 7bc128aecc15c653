//! Deliveries in simulated time: one run for each thing that comes in, whoever dies.

mod given;

use std::time::Duration;

use callboard_core::{Birth, Head};
use callboard_engine::{
    Activities, Append, Batch, NewRun, Row, Store, TriggerDelivery, TriggerError, Triggers,
};
use callboard_protocol::{RunId, RunStatus, SubscriptionState, Timestamp};
use serde_json::{Value, json};

use given::{World, put, subscribe};

use crate::sim::{Fate, SimClock, doomed_store, ended, host_with, scope};

#[tokio::test(start_paused = true)]
async fn a_delivery_starts_one_run_that_its_log_and_its_cause_tell_of() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let subscription = subscribe(&host, "quick", 3).await;
    let first = put(&host, &subscription, "order-1", json!({ "canary": "secret-text" })).await;
    let TriggerDelivery::Started(run) = first.unwrap() else { panic!("not started") };
    let again = put(&host, &subscription, "order-1", json!("other")).await.unwrap();
    assert_eq!(again, TriggerDelivery::Duplicate(run.clone()));
    let log = ended(&world.store, &run).await;
    let told: Vec<Value> = log.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert_eq!(told[1]["type"], "trigger.delivery.attempted");
    assert_eq!(told[0]["causationId"], told[1]["eventId"]);
    let payload = &told[1]["payload"];
    assert_eq!((&payload["outcome"], &payload["attempt"]), (&json!("delivered"), &json!(1)));
    assert_eq!(payload["runId"], run.as_str());
    assert_eq!(payload.as_object().unwrap().len(), 5, "{payload}");
    assert!(
        !told[0].to_string().contains("secret-text") && !payload.to_string().contains("order-1")
    );
    let birth = world.store.open(&run).await.unwrap().unwrap().birth;
    let event = birth.delivery.unwrap().event;
    assert_eq!(event["deliveryId"], told[1]["eventId"]);
    assert_eq!(
        (&event["contentTrust"], &event["dedupKey"]),
        (&json!("untrusted"), &payload["dedupKey"])
    );
    // The run itself can use what came in.
    let completed = told.iter().find(|event| event["type"] == "node.completed").unwrap();
    assert!(completed["payload"].to_string().contains("secret-text"));
}

/// The log says where it tells of its delivery, whatever other builds begin a log with.
#[tokio::test(start_paused = true)]
async fn a_delivery_is_found_where_the_log_tells_of_it() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let subscription = subscribe(&host, "quick", 3).await;
    let first = put(&host, &subscription, "order-1", json!(1)).await;
    let TriggerDelivery::Started(source) = first.unwrap() else { panic!("not started") };
    ended(&world.store, &source).await;
    let opened = world.store.open(&source).await.unwrap().unwrap();
    let run: RunId = "of-another-build".into();
    let entries = opened.entries.iter().take(2);
    let mut rows: Vec<Row> = entries
        .map(|entry| Row {
            at: entry.at,
            kind: entry.event.kind().to_owned(),
            node: None,
            payload: entry.event.payload_text(),
            private: None,
            cause: None,
        })
        .collect();
    rows.insert(
        1,
        Row { kind: "acme.opening".to_owned(), payload: "{}".to_owned(), ..rows[0].clone() },
    );
    let head =
        Head { status: RunStatus::Running, version: 3, wake_at: None, updated_at: rows[0].at };
    world
        .store
        .commit(Batch::of_run(NewRun {
            birth: Birth { run_id: run.clone(), ..opened.birth },
            masked_inputs: None,
            definition: opened.definition,
            head: Head { version: 0, ..head },
            lease: None,
            exclusive: false,
            outcome: None,
        }))
        .await
        .unwrap();
    let append = Append {
        run: run.clone(),
        expected: 0,
        fence: None,
        rows,
        head,
        snapshot: None,
        interrupts: None,
        outcome: None,
        children: Vec::new(),
        wakes: None,
    };
    world.store.commit(Batch::of_append(append)).await.unwrap();
    let store = doomed_store(world.store.clone(), Fate::Live);
    let nothing = Activities::default();
    let reader = host_with("two", store, world.store.clone(), SimClock::new(), &[], nothing);
    let ancestry = reader.ancestry(&scope(), &run).await.unwrap();
    assert_eq!(ancestry.delivery.unwrap().delivery_id.as_str(), "of-another-build-2");
}

/// Dies before or after each of its writes; the sender asks again until it has an answer, at either host.
#[tokio::test(start_paused = true)]
async fn with_two_hosts_nothing_is_lost_and_nothing_starts_twice() {
    for write in 1..=10 {
        for fate in [Fate::DieBefore(write), Fate::DieAfter(write), Fate::Oversleep(write)] {
            let world = World::new();
            let (first, second) = (world.host("first", fate), world.host("second", Fate::Live));
            let subscription = subscribe(&second, "quick", 3).await;
            for number in 0..4 {
                let id = format!("order-{number}");
                // A dead host never answers; its sender gives up and turns to the other.
                let patience = Duration::from_secs(5);
                let asked = put(&first, &subscription, &id, json!(number));
                let answered = tokio::time::timeout(patience, asked).await;
                if !matches!(answered, Ok(Ok(_))) {
                    put(&second, &subscription, &id, json!(number)).await.unwrap();
                }
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            let runs = world.runs("quick").await;
            assert_eq!(runs.len(), 4, "{fate:?}");
            assert!(runs.iter().all(|run| run.status.is_terminal()), "{fate:?}");
        }
    }
}

/// The loop that tries again, with two drivers and a death at each of its writes.
#[tokio::test(start_paused = true)]
async fn what_is_tried_again_starts_once_however_many_look() {
    for write in 1..=6 {
        for fate in [Fate::Live, Fate::DieBefore(write), Fate::DieAfter(write)] {
            let world = World::new();
            world.register("passing").await;
            let keeper = world.host("keeper", Fate::Live);
            let subscription = subscribe(&keeper, "passing", 10).await;
            world.forget("passing").await;
            for number in 0..3 {
                let id = format!("order-{number}");
                let kept = put(&keeper, &subscription, &id, json!(number)).await.unwrap();
                assert_eq!(kept, TriggerDelivery::Waiting);
            }
            let _doomed = world.host("doomed", fate);
            tokio::time::sleep(Duration::from_secs(2)).await;
            world.register("passing").await;
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(world.runs("passing").await.len(), 3, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_start_is_tried_as_often_as_agreed_and_then_given_up_with_its_subscription() {
    for attempts in [1, 3] {
        let world = World::new();
        world.register("passing").await;
        let host = world.host("one", Fate::Live);
        let subscription = subscribe(&host, "passing", attempts).await;
        world.forget("passing").await;
        assert_eq!(
            put(&host, &subscription, "a", json!(1)).await.unwrap(),
            TriggerDelivery::Waiting
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
        let found = host.find(&scope(), &subscription.id).await.unwrap();
        assert_eq!(found.state, SubscriptionState::DeadLettered);
        let letters = host.dead_letters(&scope(), &subscription.id, None, 9).await.unwrap();
        assert_eq!((letters.len(), letters[0].attempts), (1, attempts));
        let told = world.runs("callboard-trigger").await;
        assert_eq!(told.len(), 1, "told of once");
        let log = ended(&world.store, &told[0].run_id).await;
        let kinds: Vec<&str> = log
            .iter()
            .map(|event| event.kind.as_str())
            .filter(|kind| kind.starts_with("trigger."))
            .collect();
        let mut expected = vec!["trigger.delivery.attempted"; attempts as usize];
        expected.push("trigger.subscription.state.changed");
        assert_eq!(kinds, expected);
        // It is terminal: nothing comes in, and nobody resumes it.
        let late = put(&host, &found, "b", json!(2)).await;
        assert!(matches!(late, Err(TriggerError::NotActive(_))), "{late:?}");
        let resumed = host.set_state(&scope(), &found.id, SubscriptionState::Active).await;
        assert!(matches!(resumed, Err(TriggerError::GivenUp)), "{resumed:?}");
        // But a person can play the letter again once its workflow is back.
        let too_soon = host.replay(&scope(), &found.id, &letters[0].id).await;
        assert!(matches!(too_soon, Err(TriggerError::NotYet(_))), "{too_soon:?}");
        world.register("passing").await;
        let run = host.replay(&scope(), &found.id, &letters[0].id).await.unwrap();
        ended(&world.store, &run).await;
        let twice = host.replay(&scope(), &found.id, &letters[0].id).await;
        assert!(matches!(twice, Err(TriggerError::UnknownLetter)), "{twice:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_subscription_takes_nothing_and_tells_of_it() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let subscription = subscribe(&host, "quick", 3).await;
    let paused =
        host.set_state(&scope(), &subscription.id, SubscriptionState::Paused).await.unwrap();
    // Also for whoever read the subscription before.
    for known in [&paused, &subscription] {
        let refused = put(&host, known, "a", json!(1)).await;
        assert!(matches!(refused, Err(TriggerError::NotActive(_))), "{refused:?}");
    }
    let resumed =
        host.set_state(&scope(), &subscription.id, SubscriptionState::Active).await.unwrap();
    let started = put(&host, &resumed, "a", json!(1)).await.unwrap();
    assert!(matches!(started, TriggerDelivery::Started(_)), "a refusal uses nothing up");
    assert_eq!(world.runs("callboard-trigger").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_thing_is_remembered_for_more_than_a_day() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let subscription = subscribe(&host, "quick", 3).await;
    let first = put(&host, &subscription, "a", json!(1)).await.unwrap();
    let TriggerDelivery::Started(run) = first else { panic!("not started") };
    tokio::time::sleep(Duration::from_secs(3 * 86_400)).await;
    let again = put(&host, &subscription, "a", json!(1)).await.unwrap();
    assert_eq!(again, TriggerDelivery::Duplicate(run));
    let triggers = Triggers::new(world.store.clone());
    let waiting = triggers.due_deliveries(Timestamp::from_millis(i64::MAX), 9).await.unwrap();
    assert!(waiting.deliveries.is_empty(), "{waiting:?}");
}

/// Sixty-four are looked at in one tick.
#[tokio::test(start_paused = true)]
async fn deliveries_that_cannot_move_do_not_keep_others_from_their_turn() {
    let world = World::new();
    let bridge = world.quiet("one", Fate::Live);
    for name in ["spoilt", "healthy"] {
        world.register(name).await;
    }
    let spoilt = subscribe(&bridge, "spoilt", 9).await;
    let healthy = subscribe(&bridge, "healthy", 9).await;
    world.forget("spoilt").await;
    world.forget("healthy").await;
    for number in 0..64 {
        put(&bridge, &spoilt, &format!("order-{number}"), json!(number)).await.unwrap();
    }
    put(&bridge, &healthy, "order-64", json!(64)).await.unwrap();
    world.spoil("spoilt").await;
    world.register("healthy").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let now = world.now();
    let refused = world.quiet("full", Fate::FullFor(64)).tick(now).await.unwrap();
    assert_ne!(refused, Some(now), "nothing has moved, and it is looked at again at once");
    assert_eq!(bridge.tick(now).await.unwrap(), Some(now));
    bridge.tick(now).await.unwrap();
    assert_eq!(world.runs("healthy").await.len(), 1);
}
