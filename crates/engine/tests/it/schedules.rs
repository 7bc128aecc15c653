//! Schedules in simulated time: one run for each slot, whoever dies and however many hosts look.

mod given;

use std::time::Duration;

use callboard_engine::{
    BookError, KeyMode, MissedFire, Overlap, Roster, Schedules, Timing, TurnOutcome,
    declared_schedules,
};
use callboard_protocol::{AgentRosterEntry, Owner, Timestamp};
use serde_json::json;

use given::{World, every_five_seconds, nap, once_at};

use crate::roster::member;
use crate::sim::{Fate, scope};

const FIVE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn every_slot_starts_one_run_that_says_which() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let schedule = host.add(every_five_seconds("quick")).await.unwrap();
    nap(FIVE * 4).await;
    let fired = world.fired().await;
    let slots = world.slots(&schedule, 4);
    assert_eq!(fired.iter().map(|fired| fired.slot).collect::<Vec<_>>(), slots);
    for fired in &fired {
        assert_eq!(fired.schedule, schedule.id.to_string());
        let late = fired.created_at.since(fired.slot);
        assert!(late < Duration::from_secs(1), "{late:?} late");
        assert_eq!(fired.owner.principal, Some("key_1".into()));
    }
}

/// Dies before or after each of its writes, or sleeps through its lease; a second host is there all the time.
#[tokio::test(start_paused = true)]
async fn with_two_hosts_no_slot_is_lost_and_none_fires_twice() {
    let mut fates: Vec<Fate> = vec![Fate::Live];
    for write in 1..=12 {
        fates.extend([Fate::DieBefore(write), Fate::DieAfter(write), Fate::Oversleep(write)]);
    }
    for fate in fates {
        let world = World::new();
        let first = world.host("first", fate);
        let _second = world.host("second", Fate::Live);
        let new = every_five_seconds("quick");
        let schedule = world.quiet.add(new).await.unwrap();
        first.wake();
        nap(FIVE * 8).await;
        let mut slots: Vec<Timestamp> =
            world.fired().await.into_iter().map(|fired| fired.slot).collect();
        slots.sort();
        assert_eq!(slots, world.slots(&schedule, 8), "{fate:?}");
    }
}

/// The heir comes a minute after the death: what was missed is one run at most, and nothing is doubled.
#[tokio::test(start_paused = true)]
async fn after_a_time_without_hosts_there_is_one_catch_up_at_most() {
    for write in 1..=6 {
        for fate in [Fate::DieBefore(write), Fate::DieAfter(write)] {
            for missed in [MissedFire::Skip, MissedFire::FireOnce, MissedFire::FireAll] {
                let world = World::new();
                let doomed = world.host("doomed", fate);
                let mut new = every_five_seconds("quick");
                new.missed = missed;
                world.quiet.add(new).await.unwrap();
                doomed.wake();
                nap(Duration::from_secs(63)).await;
                let before = world.fired().await.len();
                let _heir = world.host("heir", Fate::Live);
                nap(Duration::from_secs(2)).await;
                let fired = world.fired().await;
                let wanted = usize::from(missed != MissedFire::Skip);
                // A slot that comes due in these two seconds is not caught up with.
                let caught = fired.iter().filter(|fired| fired.is_catch_up).count();
                assert_eq!(caught, wanted, "{fate:?} {missed:?}");
                assert!(fired.len() <= before + caught + 1, "{fate:?} {missed:?}");
                nap(FIVE * 4).await;
                let mut slots: Vec<Timestamp> =
                    world.fired().await.into_iter().map(|fired| fired.slot).collect();
                let count = slots.len();
                slots.sort();
                slots.dedup();
                assert_eq!(slots.len(), count, "{fate:?} {missed:?}: a slot fired twice");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn overlap_decides_what_a_slot_does_while_the_last_run_goes_on() {
    for (overlap, expected) in [
        // The slow workflow takes twelve seconds, slots are five apart.
        (Overlap::Skip, vec![0, 3, 6]),
        (Overlap::Allow, (0..8).collect()),
        (Overlap::Queue, vec![0, 1, 3, 5]),
        (Overlap::Cancel, (0..8).collect()),
    ] {
        let world = World::new();
        let host = world.host("one", Fate::Live);
        let mut new = every_five_seconds("slow");
        new.overlap = overlap;
        let schedule = host.add(new).await.unwrap();
        nap(FIVE * 8 + Duration::from_secs(1)).await;
        let slots = world.slots(&schedule, 8);
        let fired = world.fired().await;
        let fired_slots: Vec<usize> = fired
            .iter()
            .filter_map(|fired| slots.iter().position(|slot| *slot == fired.slot))
            .collect();
        assert_eq!(fired_slots, expected, "{overlap:?}");
        let cancelled = fired.iter().filter(|fired| fired.status == "cancelled").count();
        assert_eq!(cancelled, if overlap == Overlap::Cancel { 7 } else { 0 }, "{overlap:?}");
    }
}

/// Whoever owns the workflow is paused: nothing takes the place of the run that goes on.
#[tokio::test(start_paused = true)]
async fn a_slot_that_fires_nothing_cancels_nothing() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let mut new = every_five_seconds("slow");
    new.overlap = Overlap::Cancel;
    let schedule = host.add(new).await.unwrap();
    nap(FIVE).await;
    let owner = AgentRosterEntry { enabled: false, ..member("host:sally-1", &["slow"]) };
    Roster::new(world.store.clone()).hire(KeyMode::Live, owner, world.now()).await.unwrap();
    nap(FIVE * 4).await;
    let fired = world.fired().await;
    assert_eq!(fired.iter().map(|fired| fired.status).collect::<Vec<_>>(), ["completed"]);
    let kept = host.find(&scope(), &schedule.id).await.unwrap();
    let outcome = kept.state.last_turn.map(|turn| turn.outcome);
    assert!(matches!(outcome, Some(TurnOutcome::Skipped { .. })), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_fires_nothing_and_resumes_without_catching_up() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let schedule = host.add(every_five_seconds("quick")).await.unwrap();
    let set = |enabled| callboard_engine::ScheduleChange {
        enabled: Some(enabled),
        ..callboard_engine::ScheduleChange::default()
    };
    host.change(&scope(), &schedule.id, set(false)).await.unwrap();
    nap(FIVE * 10).await;
    assert!(world.fired().await.is_empty());
    host.change(&scope(), &schedule.id, set(true)).await.unwrap();
    nap(FIVE).await;
    assert_eq!(world.fired().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_single_run_starts_at_its_time_and_never_again() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let at = world.now().plus(FIVE);
    let schedule = host.add(once_at("quick", at)).await.unwrap();
    nap(FIVE * 3).await;
    let fired = world.fired().await;
    assert_eq!(fired.iter().map(|fired| fired.slot).collect::<Vec<_>>(), [at]);
    let kept = host.find(&scope(), &schedule.id).await.unwrap();
    assert_eq!((kept.wake_at, kept.slots(world.now(), 9)), (None, Ok(Vec::new())));
    let past = host.add(once_at("quick", at)).await;
    assert!(matches!(past, Err(BookError::Timing(_))), "{past:?}");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_whose_workflow_is_gone_says_so_and_goes_on() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    world.register(&owner, "passing").await;
    let schedule = host.add(every_five_seconds("passing")).await.unwrap();
    world.forget(&owner, "passing").await;
    nap(FIVE).await;
    let kept = host.find(&scope(), &schedule.id).await.unwrap();
    let outcome = kept.state.last_turn.map(|turn| turn.outcome);
    let failed = TurnOutcome::Failed { why: "no workflow passing".to_owned() };
    assert_eq!(outcome, Some(failed));
    world.register(&owner, "passing").await;
    nap(FIVE).await;
    assert_eq!(world.fired().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_schedules_of_one_moment_all_start() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let at = world.now().plus(Duration::from_secs(60));
    for _ in 0..10_000 {
        host.add(once_at("quick", at)).await.unwrap();
    }
    nap(Duration::from_secs(120)).await;
    assert_eq!(world.fired().await.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_brings_no_flood() {
    let world = World::new();
    let host = world.quiet.clone();
    let schedule = host.add(every_five_seconds("quick")).await.unwrap();
    let start = world.now();
    host.tick(start).await.unwrap();
    host.tick(start.plus(FIVE)).await.unwrap();
    assert_eq!(world.fired().await.len(), 1);
    host.tick(start.plus(Duration::from_secs(36_003))).await.unwrap();
    assert_eq!(world.fired().await.len(), 2);
    // And one that is set right again comes to the slots that lie ahead of it, each once.
    host.tick(start).await.unwrap();
    assert_eq!(world.fired().await.len(), 2);
    for _ in 0..2 {
        host.tick(start.plus(FIVE)).await.unwrap();
        assert_eq!(world.fired().await.len(), 3);
    }
    let found = host.find(&scope(), &schedule.id).await.unwrap();
    assert_eq!(found.state.next_slot, world.slots(&schedule, 2).last().copied());
}

#[tokio::test(start_paused = true)]
async fn a_definition_declares_schedules_of_its_own() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    let trigger = json!({ "id": "often", "type": "schedule",
        "config": { "cron": "*/5 * * * * *", "timezone": "Europe/Berlin", "missedFirePolicy": "skip" } });
    world.register_with(&owner, "declared", std::slice::from_ref(&trigger)).await;
    nap(FIVE * 2).await;
    assert_eq!(world.fired().await.len(), 2);
    // Registered again as it is, it goes on; without the trigger, it stops.
    world.register_with(&owner, "declared", &[trigger]).await;
    nap(FIVE).await;
    assert_eq!(world.fired().await.len(), 3);
    world.register_with(&owner, "declared", &[]).await;
    nap(FIVE * 4).await;
    assert_eq!(world.fired().await.len(), 3);
    let _kept = host;
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_the_definition_lost_on_another_host_is_forgotten_when_it_is_due() {
    let world = World::new();
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    let plan = world.plan(
        "quick",
        &[json!({ "id": "often", "type": "schedule",
        "config": { "cron": "*/5 * * * * *" } })],
    );
    let declared = declared_schedules(&plan, &owner, scope().mode, world.now()).unwrap();
    let schedules = Schedules::new(world.store.clone());
    schedules.declare_schedules(&scope(), &"quick".into(), declared).await.unwrap();
    // The definition that the hosts loaded under this name has no such trigger.
    let host = world.host("one", Fate::Live);
    nap(FIVE * 2).await;
    assert!(world.fired().await.is_empty());
    let filter = callboard_engine::ScheduleFilter { limit: 9, ..Default::default() };
    assert!(host.list(&scope(), &filter).await.unwrap().is_empty());
}

#[test]
fn timings_are_stored_in_words_that_stay() {
    let cron = Timing::Cron { cron: "0 9 * * *".to_owned(), timezone: "UTC".to_owned() };
    let kept = serde_json::to_value(&cron).unwrap();
    assert_eq!(kept, json!({ "kind": "cron", "cron": "0 9 * * *", "timezone": "UTC" }));
    assert_eq!(serde_json::from_value::<Timing>(kept).unwrap(), cron);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_whose_definition_cannot_be_read_says_so_and_goes_on() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    let owner = Owner { tenant: "default".into(), workspace: None, principal: None };
    let trigger =
        json!({ "id": "often", "type": "schedule", "config": { "cron": "*/5 * * * * *" } });
    world.register_with(&owner, "passing", &[trigger]).await;
    let schedule = host.add(every_five_seconds("passing")).await.unwrap();
    world.spoil(&owner, "passing").await;
    nap(FIVE).await;
    let filter = callboard_engine::ScheduleFilter { limit: 9, ..Default::default() };
    let kept = host.list(&scope(), &filter).await.unwrap();
    assert_eq!(kept.len(), 2, "one of its own, one that it declares");
    for kept in kept {
        let outcome = kept.state.last_turn.map(|turn| turn.outcome);
        assert!(matches!(outcome, Some(TurnOutcome::Failed { .. })), "{outcome:?}");
        assert!(kept.wake_at.is_some_and(|at| at > world.now()));
    }
    world.register(&owner, "passing").await;
    nap(FIVE).await;
    assert_eq!(world.fired().await[0].schedule, schedule.id.to_string());
}

/// A night of full disk must not become thousands of runs in the morning.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_one_turn_at_most() {
    let world = World::new();
    let host = world.host("one", Fate::FullFor(60));
    world.quiet.add(every_five_seconds("quick")).await.unwrap();
    host.wake();
    nap(Duration::from_secs(70)).await;
    let fired = world.fired().await;
    assert!((1..=3).contains(&fired.len()), "{} runs", fired.len());
    let late = fired.iter().map(|fired| fired.created_at.since(fired.slot)).max();
    assert!(late <= Some(FIVE), "{late:?} late");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_back_silences_no_schedule() {
    let world = World::new();
    let host = world.host("one", Fate::Live);
    host.add(every_five_seconds("quick")).await.unwrap();
    nap(FIVE * 2).await;
    assert_eq!(world.fired().await.len(), 2);
    world.clock.step(-26 * 3_600_000);
    nap(FIVE * 4).await;
    assert_eq!(world.fired().await.len(), 6);
    // A host that comes afterwards finds what the other one left.
    let later = World { clock: crate::sim::SimClock::new(), ..world };
    later.clock.step(-52 * 3_600_000);
    let _heir = later.host("heir", Fate::Live);
    nap(FIVE * 2).await;
    assert!(later.fired().await.len() >= 8);
}
