//! Trigger subscriptions: what comes in is kept once, with its run or without, and settled once.

use callboard_engine::{
    DeadReason, InboundDelivery, InboundState, Keeping, KeyMode, Scope, SigningSecret,
    SigningSecrets, StoreError, Subscription, SubscriptionBody, Terms, Triggers, Verification,
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
            terms: Terms::default(),
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
        earlier: vec![(secret("whsec_old"), at(50))],
    }
}

fn delivery(id: &str, key: &str, state: InboundState) -> InboundDelivery {
    InboundDelivery {
        id: id.to_owned(),
        subscription: "t1".to_owned(),
        place: subscription("t1").place,
        dedup_key: key.to_owned(),
        attempts: 1,
        state,
        received_at: at(5),
        event: Some("{\"canary\":1}".to_owned()),
        error: Some("no workflow".to_owned()),
        files: Vec::new(),
        version: 1,
    }
}

fn waiting(due_at: i64) -> InboundState {
    InboundState::Waiting { due_at: at(due_at) }
}

fn delivered(run: &str) -> InboundState {
    InboundState::Delivered { run: run.into(), at: at(9) }
}

fn dead(reason: DeadReason, millis: i64) -> InboundState {
    InboundState::Dead { reason, at: at(millis) }
}

pub(crate) async fn a_subscription_is_kept_changed_and_seen_in_its_scope_only(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    let again = triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await;
    assert!(matches!(again, Err(StoreError::Moved { .. })), "{again:?}");
    let mut paused = subscription("t1");
    paused.state = SubscriptionState::Paused;
    paused.version = 2;
    triggers.change_subscription(paused.clone(), 1, None, Some(new_run("r1"))).await?;
    let late = triggers.change_subscription(paused.clone(), 1, None, Some(new_run("r2"))).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    drop((store, triggers));
    subject.restart().await?;
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    assert_eq!(triggers.subscription(&acme(), "t1").await?, Some(paused.clone()));
    assert_eq!(triggers.subscriptions(&acme()).await?, [paused]);
    assert!(store.find(&acme(), &"r1".into()).await?.is_some());
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    for stranger in [
        Scope { tenant: "globex".into(), ..acme() },
        Scope { mode: KeyMode::Test, ..acme() },
        Scope { workspace: Some("lab".into()), ..acme() },
    ] {
        assert_eq!(triggers.subscription(&stranger, "t1").await?, None);
        assert!(triggers.subscriptions(&stranger).await?.is_empty());
    }
    Ok(())
}

pub(crate) async fn secrets_come_back_only_to_who_opens_a_subscription(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    let first = SigningSecrets {
        current: Some(SigningSecret::new("whsec_old".to_owned())),
        earlier: Vec::new(),
    };
    triggers.add_subscription(subscription("t1"), first.clone()).await?;
    assert_eq!(triggers.open_subscription("t1").await?.map(|(_, secrets)| secrets), Some(first));
    let changed = Subscription { version: 2, ..subscription("t1") };
    triggers.change_subscription(changed.clone(), 1, Some(secrets()), None).await?;
    drop((store, triggers));
    subject.restart().await?;
    let triggers = Triggers::new(subject.store()?);
    assert_eq!(triggers.open_subscription("t1").await?, Some((changed, secrets())));
    assert_eq!(triggers.open_subscription("t2").await?, None);
    Ok(())
}

pub(crate) async fn a_delivery_and_its_run_are_kept_once(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    let tried = join_all((0..8).map(|index| {
        let run = format!("r{index}");
        let one = delivery(&format!("d{index}"), "key", delivered(&run));
        triggers.keep_delivery(one, Some(new_run(&run)))
    }))
    .await;
    let kept: Vec<usize> =
        (0..8).filter(|index| matches!(tried[*index], Ok(Keeping::New))).collect();
    assert_eq!(kept.len(), 1, "{tried:?}");
    for (index, tried) in tried.into_iter().enumerate() {
        let run = store.find(&acme(), &format!("r{index}").into()).await?;
        assert_eq!(run.is_some(), kept == [index], "r{index}");
        if kept != [index] {
            let Keeping::Known(first) = tried? else { anyhow::bail!("not known") };
            assert_eq!(first.state, delivered(&format!("r{}", kept[0])));
        }
    }
    drop((store, triggers));
    subject.restart().await?;
    let triggers = Triggers::new(subject.store()?);
    let again = triggers.keep_delivery(delivery("d9", "key", waiting(1)), None).await?;
    assert!(matches!(again, Keeping::Known(_)), "{again:?}");
    Ok(())
}

pub(crate) async fn an_inactive_subscription_keeps_nothing(subject: Subject) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    let paused = Subscription { state: SubscriptionState::Paused, ..subscription("t1") };
    triggers.add_subscription(paused, SigningSecrets::default()).await?;
    let refused =
        triggers.keep_delivery(delivery("d1", "k", delivered("r1")), Some(new_run("r1"))).await?;
    assert_eq!(refused, Keeping::NotActive(SubscriptionState::Paused));
    assert!(store.find(&acme(), &"r1".into()).await?.is_none());
    assert_eq!(triggers.delivery(&acme(), "t1", "d1").await?, None);
    Ok(())
}

pub(crate) async fn a_settlement_takes_what_it_was_decided_on(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    for (id, due_at) in [("d1", 20), ("d2", 10), ("d3", 40)] {
        triggers.keep_delivery(delivery(id, id, waiting(due_at)), None).await?;
    }
    let due = triggers.due_deliveries(at(30), 9).await?;
    let ids: Vec<&str> = due.deliveries.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, due.next), (vec!["d2", "d1"], Some(at(40))));
    assert_eq!(due.deliveries[1], delivery("d1", "d1", waiting(20)));
    let mut one = delivery("d1", "d1", delivered("r1"));
    one.version = 2;
    triggers.settle_delivery(&one, 1, Some(new_run("r1"))).await?;
    let late = triggers.settle_delivery(&one, 1, Some(new_run("r2"))).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    assert!(store.find(&acme(), &"r2".into()).await?.is_none());
    assert_eq!(triggers.delivery(&acme(), "t1", "d1").await?, Some(one));
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert_eq!(triggers.delivery(&stranger, "t1", "d1").await?, None);
    Ok(())
}

pub(crate) async fn giving_up_takes_the_subscription_and_what_waits_with_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, triggers) = (subject.store()?, Triggers::new(subject.store()?));
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    triggers.keep_delivery(delivery("d1", "a", waiting(10)), None).await?;
    triggers.keep_delivery(delivery("d2", "b", waiting(20)), None).await?;
    let mut given_up = delivery("d1", "a", dead(DeadReason::RetriesExhausted, 30));
    given_up.version = 2;
    triggers.give_up(&given_up, 1, new_run("told")).await?;
    let late = triggers.give_up(&given_up, 1, new_run("late")).await;
    assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
    let found = triggers.subscription(&acme(), "t1").await?;
    assert_eq!(found.map(|found| found.state), Some(SubscriptionState::DeadLettered));
    assert!(triggers.due_deliveries(at(99), 9).await?.deliveries.is_empty());
    let letters = triggers.dead_letters(&acme(), "t1", at(0), None, 9).await?;
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().all(|letter| letter.event.is_some()), "somebody may replay them");
    let (letter, at_nine) = (&letters[0], at(9));
    assert_eq!(triggers.dead_letter(&acme(), "t1", &letter.id).await?.as_ref(), Some(letter));
    triggers.redeliver(letter, at_nine, new_run("again")).await?;
    let twice = triggers.redeliver(letter, at_nine, new_run("twice")).await;
    assert!(matches!(twice, Err(StoreError::Moved { .. })), "{twice:?}");
    assert_eq!(triggers.dead_letter(&acme(), "t1", &letter.id).await?, None);
    let known = triggers.delivery(&acme(), "t1", &letter.dedup_key).await?;
    assert_eq!(known.map(|known| known.state), Some(delivered("again")));
    assert!(store.find(&acme(), &"told".into()).await?.is_some());
    Ok(())
}

pub(crate) async fn refused_posts_are_kept_within_bounds_and_dead_letters_read_page_by_page(
    subject: Subject,
) -> anyhow::Result<()> {
    let triggers = Triggers::new(subject.store()?);
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    for number in 1..=5 {
        let of = subscription("t1");
        triggers.note_refused(&of, format!("d{number}"), at(number), 3).await?;
    }
    let unfit = delivery("d0", "k", dead(DeadReason::RetriesExhausted, 4));
    triggers.keep_delivery(unfit, None).await?;
    let page = async |after: Option<(Timestamp, String)>, limit| -> anyhow::Result<Vec<String>> {
        let found = triggers.dead_letters(&acme(), "t1", at(0), after, limit).await?;
        Ok(found.into_iter().map(|one| one.id).collect())
    };
    assert_eq!(page(None, 9).await?, ["d5", "d4", "d0", "d3"]);
    assert_eq!(page(None, 1).await?, ["d5"]);
    assert_eq!(page(Some((at(5), "d5".to_owned())), 9).await?, ["d4", "d0", "d3"]);
    assert_eq!(page(Some((at(4), "d4".to_owned())), 1).await?, ["d0"]);
    let recent = triggers.dead_letters(&acme(), "t1", at(5), None, 9).await?;
    assert_eq!(recent.len(), 1);
    let stranger = Scope { tenant: "globex".into(), ..acme() };
    assert!(triggers.dead_letters(&stranger, "t1", at(0), None, 9).await?.is_empty());
    Ok(())
}

pub(crate) async fn what_a_paused_subscription_keeps_waiting_is_due_once_it_is_active(
    subject: Subject,
) -> anyhow::Result<()> {
    let triggers = Triggers::new(subject.store()?);
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    triggers.add_subscription(subscription("t2"), SigningSecrets::default()).await?;
    triggers.keep_delivery(delivery("d1", "a", waiting(10)), None).await?;
    let other =
        InboundDelivery { subscription: "t2".to_owned(), ..delivery("d2", "b", waiting(20)) };
    triggers.keep_delivery(other, None).await?;
    let paused = Subscription { state: SubscriptionState::Paused, ..subscription("t1") };
    triggers.change_subscription(paused.clone(), 1, None, None).await?;
    let due = async |most| -> anyhow::Result<Vec<String>> {
        let due = triggers.due_deliveries(at(30), most).await?.deliveries;
        Ok(due.into_iter().map(|one| one.id).collect())
    };
    assert!(due(1).await?.is_empty());
    assert_eq!(due(1).await?, ["d2"], "what waits for nothing keeps nobody from its turn");
    let active = Subscription { state: SubscriptionState::Active, ..paused };
    triggers.change_subscription(active, 2, None, None).await?;
    assert_eq!(due(9).await?, ["d1", "d2"]);
    assert!(triggers.remove_subscription(&acme(), "t1").await?);
    assert_eq!(due(9).await?, ["d2"]);
    assert_eq!(triggers.delivery(&acme(), "t1", "a").await?, None);
    Ok(())
}

pub(crate) async fn old_deliveries_are_forgotten(subject: Subject) -> anyhow::Result<()> {
    const DAY: i64 = 86_400_000;
    let triggers = Triggers::new(subject.store()?);
    triggers.add_subscription(subscription("t1"), SigningSecrets::default()).await?;
    triggers.keep_delivery(delivery("d1", "a", delivered("r1")), Some(new_run("r1"))).await?;
    triggers.keep_delivery(delivery("d2", "b", waiting(1)), None).await?;
    let state = dead(DeadReason::RetriesExhausted, 8);
    triggers.keep_delivery(delivery("d3", "c", state), None).await?;
    let kept = async |millis| -> anyhow::Result<(Vec<&str>, bool)> {
        triggers.due_deliveries(at(millis), 9).await?;
        let mut kept = Vec::new();
        for key in ["a", "b", "c"] {
            kept.extend(triggers.delivery(&acme(), "t1", key).await?.map(|_| key));
        }
        Ok((kept, triggers.dead_letter(&acme(), "t1", "d3").await?.is_some()))
    };
    assert_eq!(kept(7 * DAY + 8).await?, (vec!["a", "b", "c"], true));
    assert_eq!(kept(7 * DAY + 9).await?, (vec!["b", "c"], true));
    assert_eq!(kept(30 * DAY + 7).await?, (vec!["b", "c"], true));
    assert_eq!(kept(30 * DAY + 8).await?, (vec!["b"], false));
    Ok(())
}
