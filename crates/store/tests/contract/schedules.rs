//! Schedules: a slot moves its schedule on together with its run, once.

use callboard_engine::{
    KeyMode, MissedFire, Overlap, Schedule, ScheduleFilter, ScheduleState, Scope, StoreError,
    Timing,
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
            timing: Timing::Cron { cron: "0 9 * * *".to_owned(), timezone: "UTC".to_owned() },
            overlap: Overlap::Queue,
            missed: MissedFire::Skip,
            enabled: true,
            principal: Some("key_1".into()),
            created_at: at(1),
            updated_at: at(2),
            next_slot: wake_at.map(at),
            queued: Some(at(3)),
            last_run: None,
            last_turn: None,
        },
    }
}

fn later(schedule: &Schedule, wake_at: i64) -> Schedule {
    let version = schedule.version + 1;
    Schedule { version, wake_at: Some(at(wake_at)), ..schedule.clone() }
}

fn everything() -> ScheduleFilter {
    ScheduleFilter { limit: 100, ..ScheduleFilter::default() }
}

pub(crate) async fn a_schedule_is_kept_changed_and_removed_in_its_scope_only(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let first = schedule("s1", Some(10));
    subject.ports()?.add_schedule(first.clone()).await?;
    let again = subject.ports()?.add_schedule(first.clone()).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(store.schedule(&acme(), &"s1".into()).await?, Some(first.clone()));
    let strangers = [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
        Scope { workspace: Some("lab".into()), ..acme() },
    ];
    for stranger in &strangers {
        assert_eq!(store.schedule(stranger, &"s1".into()).await?, None);
        assert!(store.schedules(stranger, &everything()).await?.is_empty());
        assert!(!store.remove_schedule(stranger, &"s1".into()).await?);
    }
    let mut changed = later(&first, 20);
    changed.inputs = Object::new();
    changed.roster_id = None;
    store.change_schedule(changed.clone(), 1).await?;
    let late = store.change_schedule(later(&first, 30), 1).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    assert_eq!(store.schedule(&acme(), &"s1".into()).await?, Some(changed));
    assert!(store.remove_schedule(&first.place, &"s1".into()).await?);
    assert_eq!(store.schedule(&acme(), &"s1".into()).await?, None);
    Ok(())
}

pub(crate) async fn due_schedules_come_in_order_and_no_more_than_asked_for(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    for (id, wake_at) in [("s1", Some(30)), ("s2", Some(10)), ("s3", None), ("s4", Some(50))] {
        store.add_schedule(schedule(id, wake_at)).await?;
    }
    let due = store.due_schedules(at(9), 10).await?;
    assert_eq!((due.schedules.len(), due.next), (0, Some(at(10))));
    let due = store.due_schedules(at(30), 10).await?;
    let ids: Vec<&str> = due.schedules.iter().map(|schedule| schedule.id.as_str()).collect();
    assert_eq!((ids, due.next), (vec!["s2", "s1"], Some(at(50))));
    assert_eq!(store.due_schedules(at(30), 1).await?.schedules.len(), 1);
    assert_eq!(store.due_schedules(at(60), 10).await?.next, None);
    Ok(())
}

pub(crate) async fn a_slot_and_its_run_are_written_together(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let first = schedule("s1", Some(10));
    store.add_schedule(first.clone()).await?;
    let second = later(&first, 20);
    store.advance_schedule(second.clone(), 1, Some((at(10), new_run("r1")))).await?;
    // A run that cannot be written leaves the schedule where it was.
    let third = later(&second, 30);
    let twice = store.advance_schedule(third.clone(), 2, Some((at(20), new_run("r1")))).await;
    assert!(matches!(twice, Err(StoreError::Conflict { .. })), "{twice:?}");
    assert_eq!(store.schedule(&acme(), &"s1".into()).await?, Some(second));
    // And a slot may pass without one.
    store.advance_schedule(third.clone(), 2, None).await?;
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(store.schedule(&acme(), &"s1".into()).await?, Some(third));
    assert!(store.find(&acme(), &"r1".into()).await?.is_some());
    Ok(())
}

pub(crate) async fn of_many_who_fire_a_slot_one_does(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let first = schedule("s1", Some(10));
    store.add_schedule(first.clone()).await?;
    let tried = join_all((0..8).map(|index| {
        let run = new_run(&format!("r{index}"));
        store.advance_schedule(later(&first, 20), 1, Some((at(10), run)))
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
    let store = subject.ports()?;
    let first = schedule("s1", Some(10));
    store.add_schedule(first.clone()).await?;
    let second = later(&first, 10);
    store.advance_schedule(second.clone(), 1, Some((at(10), new_run("r1")))).await?;
    let again = store.advance_schedule(later(&second, 20), 2, Some((at(10), new_run("r2")))).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    Ok(())
}

pub(crate) async fn declared_schedules_follow_their_definition(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let declared = |id: &str, wake_at| Schedule {
        place: acme(),
        trigger: Some("nightly".to_owned()),
        ..schedule(id, Some(wake_at))
    };
    let (place, greet) = (acme(), "greet".into());
    store.add_schedule(schedule("own", Some(5))).await?;
    let both = vec![declared("t1", 10), declared("t2", 20)];
    store.put_workflow(&place, &greet, "{}".into(), both, at(1)).await?;
    // Registered again, one stays as it is and the other goes.
    let again = vec![declared("t1", 99), declared("t3", 30)];
    store.put_workflow(&place, &greet, "{}".into(), again, at(2)).await?;
    let shown = store.schedules(&acme(), &everything()).await?;
    let shown: Vec<_> = shown.iter().map(|one| (one.id.as_str(), one.wake_at)).collect();
    assert_eq!(shown, [("own", Some(at(5))), ("t1", Some(at(10))), ("t3", Some(at(30)))]);
    let elsewhere = [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { workspace: Some("north".into()), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
    ];
    for other in &elsewhere {
        store.declare_schedules(other, &greet, Vec::new()).await?;
        store.put_workflow(other, &greet, "{}".into(), Vec::new(), at(3)).await?;
        store.delete_workflow(other, &greet).await?;
    }
    assert_eq!(store.schedules(&acme(), &everything()).await?.len(), 3);
    store.delete_workflow(&place, &greet).await?;
    let left = store.schedules(&acme(), &everything()).await?;
    assert_eq!(left.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["own"]);
    Ok(())
}

pub(crate) async fn a_list_of_schedules_is_read_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    for id in ["s1", "s2", "s3"] {
        store.add_schedule(schedule(id, None)).await?;
    }
    let nobody = Schedule { roster_id: None, workflow: "other".into(), ..schedule("s4", None) };
    store.add_schedule(nobody).await?;
    let page = |after: Option<&str>, limit| ScheduleFilter {
        after: after.map(Into::into),
        limit,
        ..ScheduleFilter::default()
    };
    let names =
        |found: Vec<Schedule>| found.into_iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(store.schedules(&acme(), &page(None, 2)).await?), ["s1", "s2"]);
    assert_eq!(names(store.schedules(&acme(), &page(Some("s2"), 9)).await?), ["s3", "s4"]);
    let sallys = ScheduleFilter { roster_id: Some("host:sally".into()), ..everything() };
    assert_eq!(names(store.schedules(&acme(), &sallys).await?), ["s1", "s2", "s3"]);
    let others = ScheduleFilter { workflow: Some("other".into()), ..everything() };
    assert_eq!(names(store.schedules(&acme(), &others).await?), ["s4"]);
    Ok(())
}
