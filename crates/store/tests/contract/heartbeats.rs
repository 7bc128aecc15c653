//! Heartbeats: looked at when they are due, moved by one at a time, with the run that a change starts.

use callboard_engine::{Heartbeat, HeartbeatState, Heartbeats, KeyMode, Probe, Scope, StoreError};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, at, new_run};
use crate::roster::entry;

fn heartbeat(id: &str, wake_at: Option<i64>) -> Heartbeat {
    Heartbeat {
        id: id.into(),
        place: acme(),
        workflow: "greet".into(),
        roster_id: None,
        version: 1,
        wake_at: wake_at.map(at),
        state: HeartbeatState {
            probe: Probe::Http { url: "https://example.com/".to_owned() },
            interval_sec: 60,
            enabled: true,
            principal: Some("key:k".into()),
            created_at: at(1_000),
            observed: None,
            last: None,
            changed_at: None,
            last_run: None,
        },
    }
}

pub(crate) async fn a_heartbeat_is_due_when_it_says_and_seen_by_its_own(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = Heartbeats::new(subject.store()?);
    for (id, wake_at) in [("b", Some(3_000)), ("a", Some(2_000)), ("c", None), ("d", Some(9_000))] {
        store.add_heartbeat(heartbeat(id, wake_at)).await?;
    }
    let taken = store.add_heartbeat(heartbeat("a", None)).await;
    assert!(matches!(taken, Err(StoreError::Moved { .. })), "{taken:?}");
    let theirs = Scope { tenant: "globex".into(), ..acme() };
    store.add_heartbeat(Heartbeat { place: theirs.clone(), ..heartbeat("a", None) }).await?;
    drop(store);
    subject.restart().await?;
    let store = Heartbeats::new(subject.store()?);
    let ids = |found: &[Heartbeat]| found.iter().map(|it| it.id.to_string()).collect::<Vec<_>>();
    let due = store.due_heartbeats(at(3_000), 10).await?;
    assert_eq!((ids(&due.heartbeats), due.next), (vec!["a".into(), "b".into()], Some(at(9_000))));
    assert_eq!(due.heartbeats[0], heartbeat("a", Some(2_000)));
    assert_eq!(ids(&store.due_heartbeats(at(3_000), 1).await?.heartbeats), ["a"]);
    assert_eq!(ids(&store.heartbeats(&acme()).await?), ["a", "b", "c", "d"]);
    assert_eq!(ids(&store.heartbeats(&theirs).await?), ["a"]);
    assert_eq!(store.heartbeat(&theirs, &"b".into()).await?, None);
    let test = Scope { mode: KeyMode::Test, ..acme() };
    assert_eq!(store.heartbeat(&test, &"b".into()).await?, None);
    assert!(!store.remove_heartbeat(&theirs, &"b".into()).await?);
    assert!(store.remove_heartbeat(&theirs, &"a".into()).await?);
    assert_eq!(store.heartbeats(&acme()).await?.len(), 4);
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &[]), at(1)).await?;
    let hers = Heartbeat { roster_id: Some("host:a".into()), ..heartbeat("hers", None) };
    store.add_heartbeat(hers).await?;
    subject.roster()?.dismiss(&acme(), &"host:a".into()).await?;
    assert_eq!(store.heartbeat(&acme(), &"hers".into()).await?, None, "it goes with its member");
    Ok(())
}

pub(crate) async fn a_look_and_its_run_are_kept_once_or_not_at_all(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = Heartbeats::new(subject.store()?);
    store.add_heartbeat(heartbeat("a", Some(2_000))).await?;
    let next = heartbeat("a", Some(62_000));
    let tried = join_all((0..8).map(|index| {
        let run = new_run(&format!("r{index}"));
        store.advance_heartbeat(next.clone(), Some(run))
    }))
    .await;
    let kept: Vec<usize> = (0..8).filter(|index| tried[*index].is_ok()).collect();
    assert_eq!(kept.len(), 1, "{tried:?}");
    for index in 0..8 {
        let found = subject.store()?.find(&acme(), &format!("r{index}").into()).await?;
        assert_eq!(found.is_some(), kept.contains(&index), "r{index}");
    }
    assert_eq!(
        store.heartbeat(&acme(), &"a".into()).await?,
        Some(Heartbeat { version: 2, ..next })
    );
    Ok(())
}
