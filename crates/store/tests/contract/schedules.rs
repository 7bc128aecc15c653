//! Schedules: a slot moves its schedule on together with its run, once.

use callboard_engine::{
    KeyMode, MissedFire, Overlap, Schedule, ScheduleFilter, ScheduleState, Schedules, Scope,
    StoreError, Timing,
};
use callboard_protocol::Object;
use futures_util::future::join_all;
use serde_json::json;

use crate::Subject;
use crate::given::{acme, at, new_run};

fn schedule(id: &str, wake_at: Option<i64>) -> Schedule {
    Schedule {
        id: id.into(),
        place: Scope { workspace: Some("ops".into()), ..acme() },
        workflow: "greet".into(),
        roster_id: Some("host:sally".into()),
        trigger: None,
        inputs: Object::from_iter([("secret".to_owned(), json!("hush"))]),
        version: 1,
        wake_at: wake_at.map(at),
        state: ScheduleState {
            priority: callboard_core::Priority::Normal,
            timing: Timing::Cron { cron: "0 9 * * *".to_owned(), timezone: "UTC".to_owned() },
            overlap: Overlap::Queue,
            missed: MissedFire::Skip,
            enabled: true,
            principal: Some("key_1".into()),
            created_at: at(1),
            updated_at: at(2),
            next_slot: wake_at.map(at),
            queued: Some(at(3)),
            fired_through: None,
            last_run: None,
            last_turn: None,
        },
    }
}

fn later(schedule: &Schedule, wake_at: i64) -> Schedule {
    Schedule { wake_at: Some(at(wake_at)), ..schedule.clone() }
}

async fn kept(schedules: &Schedules, id: &str) -> anyhow::Result<Schedule> {
    let found = schedules.schedule(&acme(), &id.into()).await?;
    found.ok_or_else(|| anyhow::anyhow!("no schedule {id}"))
}

fn everything() -> ScheduleFilter {
    ScheduleFilter { limit: 100, ..ScheduleFilter::default() }
}

pub(crate) async fn a_schedule_is_kept_changed_and_removed_in_its_scope_only(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let first = schedule("s1", Some(10));
    let schedules = Schedules::new(subject.store()?);
    schedules.add_schedule(first.clone()).await?;
    let again = schedules.add_schedule(first.clone()).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    drop(schedules);
    subject.restart().await?;
    let schedules = Schedules::new(subject.store()?);
    assert_eq!(kept(&schedules, "s1").await?, first);
    let strangers = [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
        Scope { workspace: Some("lab".into()), ..acme() },
    ];
    for stranger in &strangers {
        assert_eq!(schedules.schedule(stranger, &"s1".into()).await?, None);
        assert!(schedules.schedules(stranger, &everything()).await?.is_empty());
        assert!(!schedules.remove_schedule(stranger, &"s1".into()).await?);
    }
    let mut changed = later(&first, 20);
    changed.inputs = Object::new();
    changed.roster_id = None;
    schedules.change_schedule(changed.clone()).await?;
    let late = schedules.change_schedule(later(&first, 30)).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    assert_eq!(kept(&schedules, "s1").await?, Schedule { version: 2, ..changed });
    assert!(schedules.remove_schedule(&first.place, &"s1".into()).await?);
    assert!(!schedules.remove_schedule(&first.place, &"s1".into()).await?);
    assert_eq!(schedules.schedule(&acme(), &"s1".into()).await?, None);
    Ok(())
}

pub(crate) async fn due_schedules_come_in_order_and_no_more_than_asked_for(
    subject: Subject,
) -> anyhow::Result<()> {
    let schedules = Schedules::new(subject.store()?);
    for (id, wake_at) in [("s1", Some(30)), ("s2", Some(10)), ("s3", None), ("s4", Some(50))] {
        schedules.add_schedule(schedule(id, wake_at)).await?;
    }
    let due = schedules.due_schedules(at(9), 10).await?;
    assert_eq!((due.schedules.len(), due.next), (0, Some(at(10))));
    let due = schedules.due_schedules(at(30), 10).await?;
    let ids: Vec<&str> = due.schedules.iter().map(|schedule| schedule.id.as_str()).collect();
    assert_eq!((ids, due.next), (vec!["s2", "s1"], Some(at(50))));
    assert_eq!(schedules.due_schedules(at(30), 1).await?.schedules.len(), 1);
    assert_eq!(schedules.due_schedules(at(60), 10).await?.next, None);
    Ok(())
}

pub(crate) async fn a_slot_and_its_run_are_written_together(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let schedules = Schedules::new(subject.store()?);
    schedules.add_schedule(schedule("s1", Some(10))).await?;
    let second = later(&kept(&schedules, "s1").await?, 20);
    schedules.advance_schedule(second, Some((at(10), new_run("r1")))).await?;
    let second = kept(&schedules, "s1").await?;
    assert_eq!((second.version, second.wake_at), (2, Some(at(20))));
    // A run that cannot be written leaves the schedule where it was.
    let third = later(&second, 30);
    let twice = schedules.advance_schedule(third.clone(), Some((at(20), new_run("r1")))).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert_eq!(kept(&schedules, "s1").await?, second);
    // And a slot may pass without one.
    schedules.advance_schedule(third, None).await?;
    drop(schedules);
    subject.restart().await?;
    let third = kept(&Schedules::new(subject.store()?), "s1").await?;
    assert_eq!((third.version, third.wake_at), (3, Some(at(30))));
    assert!(subject.store()?.find(&acme(), &"r1".into()).await?.is_some());
    Ok(())
}

pub(crate) async fn of_many_who_fire_a_slot_one_does(subject: Subject) -> anyhow::Result<()> {
    let (store, schedules) = (subject.store()?, Schedules::new(subject.store()?));
    let first = schedule("s1", Some(10));
    schedules.add_schedule(first.clone()).await?;
    let tried = join_all((0..8).map(|index| {
        let run = new_run(&format!("r{index}"));
        schedules.advance_schedule(later(&first, 20), Some((at(10), run)))
    }))
    .await;
    assert_eq!(tried.iter().filter(|tried| tried.is_ok()).count(), 1, "{tried:?}");
    for (index, tried) in tried.iter().enumerate() {
        let run = store.find(&acme(), &format!("r{index}").into()).await?;
        assert_eq!(run.is_some(), tried.is_ok(), "r{index}");
    }
    Ok(())
}

/// Somebody who set a schedule back, or a clock that was, must not fire a slot again.
pub(crate) async fn a_slot_that_fired_does_not_fire_under_a_later_version(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, schedules) = (subject.store()?, Schedules::new(subject.store()?));
    let first = schedule("s1", Some(10));
    schedules.add_schedule(first.clone()).await?;
    schedules.advance_schedule(later(&first, 10), Some((at(10), new_run("r1")))).await?;
    let second = kept(&schedules, "s1").await?;
    let again = schedules.advance_schedule(later(&second, 20), Some((at(10), new_run("r2")))).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    // By a clock that was put back, slots that lie ahead have not fired.
    let mut ahead = second;
    ahead.state.next_slot = Some(at(10));
    schedules.advance_schedule(ahead, None).await?;
    let third = later(&kept(&schedules, "s1").await?, 20);
    schedules.advance_schedule(third, Some((at(10), new_run("r3")))).await?;
    assert!(store.find(&acme(), &"r3".into()).await?.is_some());
    Ok(())
}

pub(crate) async fn declared_schedules_follow_their_definition(
    subject: Subject,
) -> anyhow::Result<()> {
    let schedules = Schedules::new(subject.store()?);
    let declared = |id: &str, wake_at| Schedule {
        place: acme(),
        trigger: Some("nightly".to_owned()),
        ..schedule(id, Some(wake_at))
    };
    let (place, greet) = (acme(), "greet".into());
    schedules.add_schedule(schedule("own", Some(5))).await?;
    let both = vec![declared("t1", 10), declared("t2", 20)];
    let both = schedules.declaring(&place, &greet, both).await?;
    subject.workflows()?.put_workflow(&place, &greet, "{}", both, at(1)).await?;
    // Registered again, one stays as it is and the other goes.
    let again = vec![declared("t1", 99), declared("t3", 30)];
    let again = schedules.declaring(&place, &greet, again).await?;
    subject.workflows()?.put_workflow(&place, &greet, "{}", again, at(2)).await?;
    let shown = schedules.schedules(&acme(), &everything()).await?;
    let shown: Vec<_> = shown.iter().map(|one| (one.id.as_str(), one.wake_at)).collect();
    assert_eq!(shown, [("own", Some(at(5))), ("t1", Some(at(10))), ("t3", Some(at(30)))]);
    let elsewhere = [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { workspace: Some("north".into()), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
    ];
    for other in &elsewhere {
        schedules.declare_schedules(other, &greet, Vec::new()).await?;
    }
    assert_eq!(schedules.schedules(&acme(), &everything()).await?.len(), 3);
    let none = schedules.declaring(&place, &greet, Vec::new()).await?;
    subject.workflows()?.delete_workflow(&place, &greet, none).await?;
    let left = schedules.schedules(&acme(), &everything()).await?;
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["own"]);
    Ok(())
}

pub(crate) async fn a_list_of_schedules_is_read_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let schedules = Schedules::new(subject.store()?);
    for id in ["s1", "s2", "s3"] {
        schedules.add_schedule(schedule(id, None)).await?;
    }
    let nobody = Schedule { roster_id: None, workflow: "other".into(), ..schedule("s4", None) };
    schedules.add_schedule(nobody).await?;
    let page = |after: Option<&str>, limit| ScheduleFilter {
        after: after.map(Into::into),
        limit,
        ..ScheduleFilter::default()
    };
    let names =
        |found: Vec<Schedule>| found.into_iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(schedules.schedules(&acme(), &page(None, 2)).await?), ["s1", "s2"]);
    assert_eq!(names(schedules.schedules(&acme(), &page(Some("s2"), 9)).await?), ["s3", "s4"]);
    let sallys = ScheduleFilter { roster_id: Some("host:sally".into()), ..everything() };
    assert_eq!(names(schedules.schedules(&acme(), &sallys).await?), ["s1", "s2", "s3"]);
    let others = ScheduleFilter { workflow: Some("other".into()), ..everything() };
    assert_eq!(names(schedules.schedules(&acme(), &others).await?), ["s4"]);
    let neither = ScheduleFilter { roster_id: sallys.roster_id, ..others };
    assert!(schedules.schedules(&acme(), &neither).await?.is_empty());
    Ok(())
}
