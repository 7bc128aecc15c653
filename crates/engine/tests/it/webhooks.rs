//! Webhooks in memory and in simulated time: who hears of what, and receivers and hosts that misbehave.

mod callbacks;
mod given;

use std::time::Duration;

use callboard_engine::{
    Care, DeliverError, KeyMode, Letters, RegistrationError, Resent, Scope, TakeRequest, Webhooks,
};

use given::{Receiver, World, durable, fates, id, only, settled};

use crate::sim::{Fate, doomed_store, scope};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn types_tags_tenants_and_modes_decide_who_hears() {
    let world = World::new();
    world.register(scope(), only("every", &["*"])).await;
    world.register(scope(), only("ends", &["run.completed", "run.failed"])).await;
    let mut tagged = only("tagged", &["run.completed"]);
    tagged.tags = vec!["big".to_owned(), "red".to_owned()];
    world.register(scope(), tagged).await;
    let of = |tenant: &str, mode| Scope { tenant: tenant.into(), workspace: None, mode };
    world.register(of("rival", KeyMode::Live), only("rival", &["*"])).await;
    world.register(of("default", KeyMode::Test), only("test", &["*"])).await;
    let ops = Scope { workspace: Some("ops".into()), ..scope() };
    world.register(ops, only("ops", &["run.completed"])).await;

    world.run(|_| ()).await;
    world.run(|order| order.tags = vec!["red".to_owned()]).await;
    world.run(|order| order.owner.workspace = Some("ops".into())).await;
    let heard = |name| world.post.kinds(name);
    let whole = ["run.started", "node.started", "node.completed", "run.completed"];
    assert_eq!(heard("every"), [whole, whole, whole].concat());
    assert_eq!(heard("ends"), ["run.completed"; 3]);
    assert_eq!(heard("tagged"), ["run.completed"]);
    assert_eq!(heard("ops"), ["run.completed"]);
    assert_eq!([heard("rival"), heard("test")].concat(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_happened_before_is_not_told() {
    let world = World::new();
    world.run(|_| ()).await;
    world.register(scope(), only("late", &["*"])).await;
    settled().await;
    assert_eq!(world.post.kinds("late"), [""; 0]);
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("late").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_refused_is_not_registered() {
    let world = World::new();
    world.post.set("inside", Receiver::Refuses);
    let refused = world.courier.register(scope(), only("inside", &["*"])).await;
    let refusal = RegistrationError::Refused(DeliverError::Refused("not public".to_owned()));
    assert_eq!(refused.unwrap_err().to_string(), refusal.to_string());
    let unknown = world.courier.register(scope(), only("fine", &["run.exploded"])).await;
    assert!(matches!(unknown, Err(RegistrationError::UnknownEvent(_))));
    assert!(world.courier.list(&scope()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_hangs_slows_nobody_else() {
    let world = World::new();
    world.post.set("slow", Receiver::Hangs);
    world.register(scope(), only("slow", &["*"])).await;
    world.register(scope(), only("quick", &["*"])).await;
    world.run(|_| ()).await;
    assert_eq!((world.post.kinds("quick").len(), world.post.kinds("slow").len()), (4, 1));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.post.kinds("slow").len(), 4, "each attempt is given up after five seconds");
    assert_eq!(world.post.gaps("slow"), [5, 5, 5]);
    assert_eq!(world.resting().await, ["slow"]);
}

/// A redirect, and an address that was public when it was registered.
#[tokio::test(start_paused = true)]
async fn redirects_and_names_that_moved_inside_are_failed_attempts() {
    for failing in [Receiver::Answers(302), Receiver::Refuses] {
        let world = World::new();
        world.register(scope(), only("hook", &["*"])).await;
        world.post.set("hook", failing);
        world.run(|_| ()).await;
        assert_eq!(world.post.kinds("hook").len(), 4, "one attempt per event");
        assert_eq!(world.resting().await, ["hook"], "{failing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_for_an_hour_probes_and_closes() {
    let world = World::new();
    world.register(scope(), only("hook", &["run.*"])).await;
    world.post.set("hook", Receiver::Answers(500));
    world.run(|_| ()).await;
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("hook").len(), 4);
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("hook").len(), 4, "while it is open, events are skipped");

    tokio::time::sleep(HOUR).await;
    assert_eq!(world.post.kinds("hook").len(), 4, "nothing that was skipped comes later");
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("hook").len(), 5, "one probe fails and opens it again");

    tokio::time::sleep(HOUR).await;
    world.post.set("hook", Receiver::Answers(204));
    world.run(|_| ()).await;
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("hook").len(), 9);
    assert_eq!(world.resting().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_durable_webhook_gets_what_failed_again() {
    let world = World::new();
    world.register(scope(), durable("hook", &["run.completed"])).await;
    world.post.set("hook", Receiver::Answers(500));
    world.run(|_| ()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.post.set("hook", Receiver::Answers(200));
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.post.gaps("hook"), [1, 2]);
    assert_eq!(world.dead_letters("hook").await, []);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_ten_times_is_a_dead_letter() {
    let world = World::new();
    world.register(scope(), durable("hook", &["run.completed"])).await;
    world.post.set("hook", Receiver::Answers(500));
    let run = world.run(|_| ()).await;
    tokio::time::sleep(HOUR * 6).await;
    assert_eq!(world.post.kinds("hook").len(), 10);
    let letter = (run, "run.completed".to_owned(), 10, "answered 500".to_owned());
    assert_eq!(world.dead_letters("hook").await, [letter]);
    world.post.set("hook", Receiver::Answers(200));
    tokio::time::sleep(HOUR).await;
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("hook").len(), 11, "the next event arrives");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_sent_again_or_dropped_once() {
    let world = World::new();
    world.register(scope(), durable("hook", &["run.completed"])).await;
    let id = id("hook");
    world.post.set("hook", Receiver::Answers(500));
    world.run(|_| ()).await;
    tokio::time::sleep(HOUR * 6).await;
    assert_eq!(world.dead_letters("hook").await.len(), 1);
    let tried = world.post.kinds("hook").len();
    let letters = world.courier.dead_letters(&scope(), &id, 9).await.unwrap().unwrap();
    let one = Letters::One(letters[0].id);
    let rival = Scope { tenant: "rival".into(), ..scope() };
    assert_eq!(world.courier.resend(&rival, &id, Letters::All).await.unwrap(), None);
    assert_eq!(world.courier.drop_letters(&rival, &id, Letters::All).await.unwrap(), None);
    world.post.set("hook", Receiver::Answers(200));
    let resent = world.courier.resend(&scope(), &id, one).await.unwrap();
    assert_eq!(resent, Some(Resent::Letters(1)));
    let waiting = world.courier.pending(&scope(), &id, 9).await.unwrap().unwrap();
    assert_eq!(waiting.iter().map(|it| it.planned.attempts).collect::<Vec<_>>(), [0]);
    tokio::time::sleep(HOUR).await;
    assert_eq!(world.post.kinds("hook").len(), tried + 1, "it arrives");
    assert_eq!(world.dead_letters("hook").await, []);
    let again = world.courier.resend(&scope(), &id, Letters::All).await.unwrap();
    assert_eq!(again, Some(Resent::Letters(0)));
    world.post.set("hook", Receiver::Answers(500));
    world.run(|_| ()).await;
    tokio::time::sleep(HOUR * 6).await;
    assert_eq!(world.courier.drop_letters(&scope(), &id, Letters::All).await.unwrap(), Some(1));
    assert_eq!(world.courier.drop_letters(&scope(), &id, Letters::All).await.unwrap(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_failures_loses_a_durable_webhook_nothing() {
    let world = World::new();
    world.register(scope(), durable("hook", &["*"])).await;
    world.post.set("hook", Receiver::Answers(503));
    for _ in 0..6 {
        world.run(|_| ()).await;
        tokio::time::sleep(HOUR / 6).await;
    }
    let asked = world.post.kinds("hook").len();
    assert!(asked < 24, "a receiver that is down is asked seldom, not {asked} times");
    world.post.set("hook", Receiver::Answers(200));
    tokio::time::sleep(HOUR * 2).await;
    let mut arrived = world.post.arrived("hook");
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), 24, "six runs of four events");
    assert_eq!(world.dead_letters("hook").await, []);
}

#[tokio::test(start_paused = true)]
async fn two_hosts_on_one_store_send_everything_once() {
    let world = World::new();
    let _second = world.host("two", world.store.clone());
    world.register(scope(), only("hook", &["*"])).await;
    world.post.set("hook", Receiver::Takes(Duration::from_millis(7)));
    for _ in 0..20 {
        world.run(|_| ()).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mut arrived = world.post.arrived("hook");
    assert_eq!(arrived.len(), 80);
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), 80, "something came twice");
    assert_eq!(world.post.most_at_once("hook"), 1);
}

/// The process dies before or after each of its writes; another one goes on.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_loses_nothing_and_repeats_nothing_settled() {
    for fate in fates() {
        let world = World::silent();
        let doomed = doomed_store(world.store.clone(), fate);
        let _first = world.host("doomed", doomed.clone());
        world.register(scope(), only("hook", &["*"])).await;
        world.run(|_| ()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let heir = doomed_store(world.store.clone(), Fate::Live);
        let _second = world.host("heir", heir.clone());
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.run(|_| ()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;

        let mut arrived = world.post.arrived("hook");
        let count = arrived.len();
        arrived.sort();
        arrived.dedup();
        assert_eq!(arrived.len(), 8, "lost after {fate:?}");
        // Only an attempt whose outcome was never written may be made again.
        let written = doomed.settled_deliveries() + heir.settled_deliveries();
        assert!(written == 8 && count <= 9, "repeated after {fate:?}: {written} of {count}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_secret_shows_up_in_no_debug_output() {
    let world = World::silent();
    let registration = only("hook", &["*"]);
    let mut shown = format!("{registration:?}");
    let secret = registration.secret.reveal().to_owned();
    world.courier.register(scope(), registration).await.unwrap();
    world.run(|_| ()).await;
    world.courier.tick(world.now()).await.unwrap();
    let listed = world.courier.list(&scope()).await.unwrap();
    assert_eq!(listed[0].care, Care::BestEffort);
    shown.push_str(&format!("{listed:?} {:?}", world.courier));
    settled().await;
    let at = world.now();
    let request = TakeRequest { at, counted: at, lease: HOUR, most: 1 };
    let taken = Webhooks::new(world.store.clone()).take_deliveries(&request).await.unwrap();
    assert_eq!(taken.deliveries[0].secret.as_ref().unwrap().reveal(), secret);
    shown.push_str(&format!("{taken:?}"));
    assert!(!shown.contains(&secret), "{shown}");
}

/// There are sixty-four places for attempts, and as many webhooks take one and never give it back by themselves.
#[tokio::test(start_paused = true)]
async fn receivers_that_make_attempts_panic_do_not_use_up_the_places_of_others() {
    let world = World::new();
    for number in 0..64 {
        let name = format!("poison-{number}");
        world.post.set(&name, Receiver::Poisons);
        world.register(scope(), only(&name, &["run.completed"])).await;
    }
    world.run(|_| ()).await;
    world.register(scope(), only("healthy", &["run.completed"])).await;
    world.run(|_| ()).await;
    assert_eq!(world.post.kinds("healthy"), ["run.completed"]);
}
