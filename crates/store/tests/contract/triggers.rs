//! Trigger subscriptions: what comes in is kept once, with its run or without, and settled once.

use callboard_engine::{
    Arrival, ArrivalState, DeadReason, Kept, KeyMode, Scope, Settled, SigningSecret,
    SigningSecrets, StoreError, Subscription, SubscriptionBody, Verification,
};
use callboard_protocol::{Object, RetryPolicy, SubscriptionState, Timestamp, TriggerSource};
use futures_util::future::join_all;

use crate::Subject;
use crate::given::{acme, at, new_run};

fn subscription(id: &str) -> Subscription {
    Subscription {
        id: id.to_owned(),
        place: Scope { workspace: Some("ops".into()), ..acme() },
        source: TriggerSource::Webhook,
        workflow: "greet".into(),
        roster_id: Some("host:sally".into()),
        state: SubscriptionState::Active,
        version: 1,
        body: SubscriptionBody {
            dedup: true,
            retry: RetryPolicy::default(),
            verification: Verification::Required,
            mapping: Object::new(),
            fingerprint: Some("abc".to_owned()),
            principal: None,
            created_at: at(1),
            updated_at: at(1),
        },
    }
}

fn secrets() -> SigningSecrets {
    let secret = |text: &str| SigningSecret::new(text.to_owned());
    SigningSecrets {
        current: Some(secret("whsec_new")),
        previous: Some((secret("whsec_old"), at(50))),
    }
}

fn arrival(id: &str, key: &str, state: ArrivalState) -> Arrival {
    Arrival {
        id: id.to_owned(),
        subscription: "t1".to_owned(),
        place: subscription("t1").place,
        dedup_key: key.to_owned(),
        attempts: 1,
        state,
        received_at: at(5),
        event: Some("{\"canary\":1}".to_owned()),
        error: Some("no workflow".to_owned()),
        version: 1,
    }
}

fn waiting(due_at: i64) -> ArrivalState {
    ArrivalState::Waiting { due_at: at(due_at) }
}

fn delivered(run: &str) -> ArrivalState {
    ArrivalState::Delivered { run: run.into(), at: at(9) }
}

fn dead(reason: DeadReason, millis: i64) -> ArrivalState {
    ArrivalState::Dead { reason, at: at(millis) }
}

pub(crate) async fn a_subscription_is_kept_changed_and_seen_in_its_scope_only(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    let again = store.add_subscription(subscription("t1"), SigningSecrets::default()).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    let mut paused = subscription("t1");
    paused.state = SubscriptionState::Paused;
    paused.version = 2;
    store.change_subscription(paused.clone(), 1, None, Some(new_run("r1"))).await?;
    let late = store.change_subscription(paused.clone(), 1, None, Some(new_run("r2"))).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(store.subscription(&acme(), "t1").await?, Some(paused.clone()));
    assert_eq!(store.subscriptions(&acme()).await?, [paused]);
    assert!(store.find(&acme(), &"r1".into()).await?.is_some());
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    for stranger in [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
        Scope { workspace: Some("lab".into()), ..acme() },
    ] {
        assert_eq!(store.subscription(&stranger, "t1").await?, None);
        assert!(store.subscriptions(&stranger).await?.is_empty());
    }
    Ok(())
}

pub(crate) async fn secrets_come_back_only_to_who_opens_a_subscription(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let first = SigningSecrets {
        current: Some(SigningSecret::new("whsec_old".to_owned())),
        previous: None,
    };
    store.add_subscription(subscription("t1"), first.clone()).await?;
    assert_eq!(store.open_subscription("t1").await?.map(|(_, secrets)| secrets), Some(first));
    let changed = Subscription { version: 2, ..subscription("t1") };
    store.change_subscription(changed.clone(), 1, Some(secrets()), None).await?;
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(store.open_subscription("t1").await?, Some((changed, secrets())));
    assert_eq!(store.open_subscription("t2").await?, None);
    Ok(())
}

pub(crate) async fn an_arrival_and_its_run_are_kept_once(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    let tried = join_all((0..8).map(|index| {
        let run = format!("r{index}");
        let one = arrival(&format!("d{index}"), "key", delivered(&run));
        store.keep_arrival(one, Some(new_run(&run)))
    }))
    .await;
    let kept: Vec<usize> = (0..8).filter(|index| matches!(tried[*index], Ok(Kept::New))).collect();
    assert_eq!(kept.len(), 1, "{tried:?}");
    for (index, tried) in tried.into_iter().enumerate() {
        let run = store.find(&acme(), &format!("r{index}").into()).await?;
        assert_eq!(run.is_some(), kept == [index], "r{index}");
        if kept != [index] {
            let Kept::Known(first) = tried? else { anyhow::bail!("not known") };
            assert_eq!(first.state, delivered(&format!("r{}", kept[0])));
        }
    }
    subject.restart()?;
    let store = subject.ports()?;
    let again = store.keep_arrival(arrival("d9", "key", waiting(1)), None).await?;
    assert!(matches!(again, Kept::Known(_)), "{again:?}");
    Ok(())
}

pub(crate) async fn an_inactive_subscription_keeps_nothing(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    let paused = Subscription { state: SubscriptionState::Paused, ..subscription("t1") };
    store.add_subscription(paused, SigningSecrets::default()).await?;
    let refused =
        store.keep_arrival(arrival("d1", "k", delivered("r1")), Some(new_run("r1"))).await?;
    assert_eq!(refused, Kept::NotActive(SubscriptionState::Paused));
    assert!(store.find(&acme(), &"r1".into()).await?.is_none());
    assert_eq!(store.arrival(&acme(), "t1", "d1").await?, None);
    Ok(())
}

pub(crate) async fn a_settlement_takes_what_it_was_decided_on(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    for (id, due_at) in [("d1", 20), ("d2", 10), ("d3", 40)] {
        store.keep_arrival(arrival(id, id, waiting(due_at)), None).await?;
    }
    let due = store.due_arrivals(at(30), 9).await?;
    let ids: Vec<&str> = due.arrivals.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, due.next), (vec!["d2", "d1"], Some(at(40))));
    assert_eq!(due.arrivals[1], arrival("d1", "d1", waiting(20)));
    let mut one = arrival("d1", "d1", delivered("r1"));
    one.version = 2;
    let settled =
        |run: &str| Settled { arrival: one.clone(), run: Some(new_run(run)), buries: false };
    store.settle_arrival(settled("r1"), 1).await?;
    let late = store.settle_arrival(settled("r2"), 1).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    assert_eq!(store.arrival(&acme(), "t1", "d1").await?, Some(one));
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert_eq!(store.arrival(&stranger, "t1", "d1").await?, None);
    Ok(())
}

pub(crate) async fn giving_up_takes_the_subscription_and_what_waits_with_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    store.keep_arrival(arrival("d1", "a", waiting(10)), None).await?;
    store.keep_arrival(arrival("d2", "b", waiting(20)), None).await?;
    let mut given_up = arrival("d1", "a", dead(DeadReason::RetriesExhausted, 30));
    given_up.version = 2;
    let settled = Settled { arrival: given_up, run: Some(new_run("told")), buries: true };
    store.settle_arrival(settled, 1).await?;
    let found = store.subscription(&acme(), "t1").await?;
    assert_eq!(found.map(|found| found.state), Some(SubscriptionState::DeadLettered));
    assert!(store.due_arrivals(at(99), 9).await?.arrivals.is_empty());
    let letters = store.dead_arrivals(&acme(), "t1", at(0), None, 9).await?;
    assert_eq!(letters.len(), 2);
    assert!(store.find(&acme(), &"told".into()).await?.is_some());
    Ok(())
}

pub(crate) async fn refused_posts_are_kept_within_bounds_and_dead_letters_read_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    for number in 1..=5 {
        let state = dead(DeadReason::VerificationFailed, number);
        let refused =
            Arrival { event: None, ..arrival(&format!("d{number}"), &number.to_string(), state) };
        store.note_refused(refused, 3).await?;
    }
    let page = async |after: Option<(Timestamp, String)>, limit| -> anyhow::Result<Vec<String>> {
        let found = store.dead_arrivals(&acme(), "t1", at(0), after, limit).await?;
        Ok(found.into_iter().map(|one| one.id).collect())
    };
    assert_eq!(page(None, 9).await?, ["d5", "d4", "d3"]);
    assert_eq!(page(None, 1).await?, ["d5"]);
    assert_eq!(page(Some((at(5), "d5".to_owned())), 9).await?, ["d4", "d3"]);
    let recent = store.dead_arrivals(&acme(), "t1", at(5), None, 9).await?;
    assert_eq!(recent.len(), 1);
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert!(store.dead_arrivals(&stranger, "t1", at(0), None, 9).await?.is_empty());
    Ok(())
}

pub(crate) async fn old_arrivals_are_forgotten(subject: Subject) -> anyhow::Result<()> {
    let store = subject.ports()?;
    store.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    store.keep_arrival(arrival("d1", "a", delivered("r1")), Some(new_run("r1"))).await?;
    store.keep_arrival(arrival("d2", "b", waiting(1)), None).await?;
    store.keep_arrival(arrival("d3", "c", dead(DeadReason::RetriesExhausted, 8)), None).await?;
    store.forget_arrivals(at(9), at(8)).await?;
    for id in ["d1", "d2", "d3"] {
        assert!(store.arrival(&acme(), "t1", id).await?.is_some(), "{id}");
    }
    store.forget_arrivals(at(10), at(9)).await?;
    assert_eq!(store.arrival(&acme(), "t1", "d1").await?, None);
    assert!(store.arrival(&acme(), "t1", "d2").await?.is_some());
    assert_eq!(store.arrival(&acme(), "t1", "d3").await?, None);
    Ok(())
}
