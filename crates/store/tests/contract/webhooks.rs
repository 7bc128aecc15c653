//! Webhooks: who hears of what, which deliveries are on their way, who makes them.

use std::time::Duration;

use callboard_engine::{
    Append, Batch, Callback, Care, Circuit, Delivery, EventFilter, Fate, KeyMode, Kind,
    LogPosition, Others, Plan, Planned, RecordQuery, Row, Scope, Secret, Settlement, Store,
    TakeRequest, Webhook, Webhooks, Within,
};
use callboard_protocol::{RunId, RunStatus, Timestamp, WebhookId};

use crate::Subject;
use crate::given::{acme, append, at, head, new_run, row};

fn webhook(id: &str) -> Webhook {
    Webhook {
        id: id.into(),
        scope: acme(),
        url: "https://example.com/hook?token=t".to_owned(),
        events: EventFilter::read(vec!["*".to_owned()]).unwrap_or_else(|error| panic!("{error}")),
        tags: vec!["nightly".to_owned()],
        care: Care::Durable,
        fingerprint: "01234567".to_owned(),
        created_at: at(500),
        since: LogPosition::default(),
        circuit: Circuit::default(),
        dialect: callboard_protocol::Dialect::V1,
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// Circuits are made by the engine alone; this is how one reads in the database.
fn circuit(json: &str) -> anyhow::Result<Circuit> {
    Ok(serde_json::from_str(json)?)
}

/// A webhook and a run with so many events after it.
async fn listening(store: &dyn Store, webhooks: &Webhooks, events: u64) -> anyhow::Result<()> {
    webhooks.register_webhook(webhook("wh_a"), secret("s3cret")).await?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    for expected in 0..events {
        store.commit(Batch::of_append(append("r1", expected))).await?;
    }
    Ok(())
}

/// Plans every unplanned event for one webhook; answers how many there were.
async fn plan_all(webhooks: &Webhooks, id: &str, now: Timestamp) -> anyhow::Result<usize> {
    let unplanned = webhooks.read_unplanned(100).await?;
    let deliveries: Vec<Planned> =
        unplanned.events.iter().map(|event| Planned::of(&id.into(), event)).collect();
    let count = deliveries.len();
    let plan = Plan { from: unplanned.cursor, to: unplanned.until, at: now, deliveries };
    anyhow::ensure!(webhooks.plan_deliveries(plan).await?, "somebody else planned");
    Ok(count)
}

async fn take(webhooks: &Webhooks, now: i64) -> anyhow::Result<Vec<Delivery>> {
    Ok(webhooks.take_deliveries(&asked_at(now, now)).await?.deliveries)
}

/// A second is what whoever takes a delivery has for it.
fn asked_at(now: i64, counted: i64) -> TakeRequest {
    TakeRequest { at: at(now), counted: at(counted), lease: Duration::from_secs(1), most: 10 }
}

async fn take_one(webhooks: &Webhooks, now: i64) -> anyhow::Result<Delivery> {
    let mut taken = take(webhooks, now).await?;
    anyhow::ensure!(taken.len() == 1, "{} deliveries", taken.len());
    taken.pop().ok_or_else(|| anyhow::anyhow!("none"))
}

fn settled(now: i64, fate: Fate) -> Settlement {
    Settlement { at: at(now), fate, circuit: Circuit::default(), others: Others::Wait }
}

fn dead(reason: &str) -> Fate {
    Fate::Dead { reason: reason.to_owned() }
}

async fn reasons(webhooks: &Webhooks, since: i64) -> anyhow::Result<Vec<(u64, String)>> {
    let letters = webhooks.dead_letters(&acme(), &"wh_a".into(), (at(since), None), 10).await?;
    let letters = letters.unwrap_or_default();
    Ok(letters.into_iter().map(|letter| (letter.sequence, letter.reason)).collect())
}

pub(crate) async fn a_webhook_is_seen_and_removed_in_its_scope_only(
    subject: Subject,
) -> anyhow::Result<()> {
    let webhooks = Webhooks::new(subject.store()?);
    let own = Scope { workspace: Some("sales".into()), mode: KeyMode::Test, ..acme() };
    let stored = Webhook { scope: own.clone(), ..webhook("wh_a") };
    webhooks.register_webhook(stored.clone(), secret("s")).await?;
    let id = WebhookId::from("wh_a");
    for foreign in [
        Scope { tenant: "globex".into(), ..own.clone() },
        Scope { workspace: Some("support".into()), ..own.clone() },
        Scope { mode: KeyMode::Live, ..own.clone() },
    ] {
        assert_eq!(webhooks.webhooks(&foreign).await?, [], "{foreign:?}");
        assert_eq!(
            webhooks.dead_letters(&foreign, &id, (at(0), None), 10).await?,
            None,
            "{foreign:?}"
        );
        assert!(!webhooks.remove_webhook(&foreign, &id).await?, "{foreign:?}");
    }
    assert_eq!(webhooks.webhooks(&own).await?, std::slice::from_ref(&stored));
    let whole_tenant = Scope { workspace: None, ..own.clone() };
    assert_eq!(webhooks.webhooks(&whole_tenant).await?, [stored]);
    assert_eq!(webhooks.dead_letters(&own, &id, (at(0), None), 10).await?, Some(Vec::new()));
    assert!(webhooks.remove_webhook(&own, &id).await?);
    assert!(!webhooks.remove_webhook(&own, &id).await?);
    Ok(())
}

pub(crate) async fn where_nobody_listens_nothing_is_read(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    let unplanned = webhooks.read_unplanned(10).await?;
    assert!(unplanned.webhooks.is_empty() && unplanned.events.is_empty(), "{unplanned:?}");
    Ok(())
}

pub(crate) async fn a_new_webhook_hears_of_what_comes_after_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_append(append("r1", 0))).await?;
    webhooks.register_webhook(webhook("wh_a"), secret("s")).await?;
    assert!(webhooks.read_unplanned(10).await?.events.is_empty(), "nobody listened to the first");
    store.commit(Batch::of_append(append("r1", 1))).await?;
    webhooks.register_webhook(webhook("wh_b"), secret("s")).await?;
    let unplanned = webhooks.read_unplanned(10).await?;
    let event = unplanned.events.first().map(|event| event.position).unwrap_or_default();
    let hears: Vec<bool> = unplanned.webhooks.iter().map(|webhook| event > webhook.since).collect();
    assert_eq!((unplanned.events.len(), hears), (1, vec![true, false]));
    Ok(())
}

pub(crate) async fn events_come_in_the_order_of_commits_with_what_decides_who_hears(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    webhooks.register_webhook(webhook("wh_a"), secret("s")).await?;
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let mut other = new_run("r2");
    other.birth.owner.tenant = "globex".into();
    other.birth.owner.workspace = Some("ops".into());
    other.birth.test = true;
    other.birth.tags = vec!["nightly".to_owned(), "big".to_owned()];
    store.commit(Batch::of_run(other)).await?;
    for (run, expected) in [("r2", 0), ("r1", 0), ("r2", 1)] {
        store.commit(Batch::of_append(append(run, expected))).await?;
    }
    let unplanned = webhooks.read_unplanned(2).await?;
    let shown: Vec<(&str, bool, usize)> = unplanned
        .events
        .iter()
        .map(|event| {
            let scope = &event.place;
            (scope.tenant.as_str(), scope.mode == KeyMode::Test, event.tags.len())
        })
        .collect();
    assert_eq!(shown, [("globex", true, 2), ("acme", false, 0)]);
    assert_eq!(unplanned.events[0].place.workspace, Some("ops".into()));
    assert_eq!(unplanned.events[0].event.kind, "acme.noted");
    assert!(unplanned.events[0].position < unplanned.events[1].position);
    Ok(())
}

pub(crate) async fn a_plan_is_made_once(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 2).await?;
    let unplanned = webhooks.read_unplanned(1).await?;
    let event = unplanned.events[0].position;
    let deliveries = vec![Planned::of(&"wh_a".into(), &unplanned.events[0])];
    let plan = Plan { from: unplanned.cursor, to: event, at: at(1), deliveries };
    assert!(webhooks.plan_deliveries(plan.clone()).await?);
    assert!(!webhooks.plan_deliveries(plan).await?, "the cursor has moved on");
    let rest = webhooks.read_unplanned(10).await?;
    assert_eq!((rest.cursor, rest.events.len()), (event, 1));
    let first = take_one(&webhooks, 10).await?;
    webhooks.settle_delivery(&first, &settled(11, Fate::Gone)).await?;
    assert!(take(&webhooks, 12).await?.is_empty(), "what has arrived is not sent again");
    Ok(())
}

pub(crate) async fn a_removed_webhook_gets_nothing_more(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 1).await?;
    let id = WebhookId::from("wh_a");
    webhooks.register_webhook(webhook("wh_b"), secret("s")).await?;
    assert_eq!(plan_all(&webhooks, "wh_a", at(1)).await?, 1);
    let taken = take_one(&webhooks, 10).await?;
    assert!(webhooks.remove_webhook(&acme(), &id).await?);
    assert!(!webhooks.settle_delivery(&taken, &settled(11, Fate::Gone)).await?);
    store.commit(Batch::of_append(append("r1", 1))).await?;
    assert_eq!(plan_all(&webhooks, "wh_a", at(12)).await?, 1, "the event was read");
    assert!(take(&webhooks, 10_000).await?.is_empty());
    Ok(())
}

pub(crate) async fn two_hosts_never_take_the_same_delivery(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 2).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let first = take_one(&webhooks, 10).await?;
    assert_eq!(first.event.sequence, 0);
    assert!(take(&webhooks, 11).await?.is_empty(), "one at a time for each webhook");
    assert!(webhooks.settle_delivery(&first, &settled(12, Fate::Gone)).await?);
    assert_eq!(take_one(&webhooks, 13).await?.event.sequence, 1);
    Ok(())
}

pub(crate) async fn a_lost_lease_settles_nothing(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 1).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let overslept = take_one(&webhooks, 10).await?;
    let early = webhooks.take_deliveries(&asked_at(500, 500)).await?;
    assert_eq!((early.deliveries.len(), early.next), (0, Some(at(1_010))));
    let successor = take_one(&webhooks, 1_010).await?;
    assert_eq!(successor.event, overslept.event);
    assert!(!webhooks.settle_delivery(&overslept, &settled(1_011, Fate::Gone)).await?);
    assert!(webhooks.settle_delivery(&successor, &settled(1_012, Fate::Gone)).await?);
    assert!(!webhooks.settle_delivery(&successor, &settled(1_013, Fate::Gone)).await?);
    Ok(())
}

pub(crate) async fn a_clock_that_was_put_forward_makes_nobody_deliver_twice(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 1).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let taken = take_one(&webhooks, 10).await?;
    let put_forward = webhooks.take_deliveries(&asked_at(90_000, 500)).await?;
    assert_eq!((put_forward.deliveries.len(), put_forward.next), (0, Some(at(90_510))));
    assert!(webhooks.settle_delivery(&taken, &settled(90_100, Fate::Gone)).await?, "it is theirs");

    store.commit(Batch::of_append(append("r1", 1))).await?;
    plan_all(&webhooks, "wh_a", at(90_200)).await?;
    webhooks.take_deliveries(&asked_at(90_200, 700)).await?;
    assert_eq!(webhooks.take_deliveries(&asked_at(91_800, 1_699)).await?.deliveries.len(), 0);
    let late = webhooks.take_deliveries(&asked_at(91_900, 1_700)).await?;
    assert_eq!(late.deliveries.len(), 1, "whoever took it is lost");
    Ok(())
}

pub(crate) async fn a_new_process_takes_what_the_last_one_held(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 2).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let first = take_one(&webhooks, 10).await?;
    webhooks.settle_delivery(&first, &settled(11, Fate::Gone)).await?;
    let held = take_one(&webhooks, 12).await?;
    drop((store, webhooks));
    subject.restart().await?;
    let webhooks = Webhooks::new(subject.store()?);
    webhooks.void_leases().await?;
    assert!(!webhooks.settle_delivery(&held, &settled(12, Fate::Gone)).await?);
    let again = take_one(&webhooks, 13).await?;
    assert_eq!((&again.event, again.event.sequence), (&held.event, 1));
    assert_eq!(again.secret, Some(secret("s3cret")));
    assert!(webhooks.read_unplanned(10).await?.events.is_empty());
    Ok(())
}

pub(crate) async fn what_is_sent_is_the_masked_event(subject: Subject) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    webhooks.register_webhook(webhook("wh_a"), secret("s")).await?;
    let mut run = new_run("r1");
    run.birth.owner.workspace = Some("sales".into());
    store.commit(Batch::of_run(run)).await?;
    let hidden =
        Row { private: Some("{\"card\":\"4111\"}".to_owned()), ..row("{\"card\":\"***\"}") };
    store.commit(Batch::of_append(Append { rows: vec![hidden], ..append("r1", 0) })).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let taken = take_one(&webhooks, 10).await?;
    assert_eq!(taken.event.payload, "{\"card\":\"***\"}");
    assert_eq!(taken.webhook.url, webhook("wh_a").url);
    assert_eq!((taken.tenant, taken.workspace), ("acme".into(), Some("sales".into())));
    let page = store.read(&acme(), &"r1".into(), 0, 1).await?.map(|page| page.events);
    assert_eq!(page, Some(vec![taken.event]));
    Ok(())
}

pub(crate) async fn a_retry_comes_when_it_is_due_and_a_resting_webhook_waits(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 2).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let failed = take_one(&webhooks, 10).await?;
    webhooks.settle_delivery(&failed, &settled(11, Fate::Retry { due_at: at(5_000) })).await?;
    let other = take_one(&webhooks, 12).await?;
    assert_eq!(other.event.sequence, 1, "the second need not wait for the first");
    let resting = circuit("{\"consecutive\":4,\"restUntil\":\"1970-01-01T00:00:09Z\"}")?;
    let fate = Fate::Retry { due_at: at(4_000) };
    webhooks
        .settle_delivery(&other, &Settlement { circuit: resting.clone(), ..settled(13, fate) })
        .await?;
    let waiting = webhooks.take_deliveries(&asked_at(6_000, 6_000)).await?;
    assert_eq!((waiting.deliveries.len(), waiting.next), (0, Some(at(9_000))));
    let probe = take_one(&webhooks, 9_000).await?;
    assert_eq!((probe.event.sequence, probe.attempts), (1, 1));
    assert_eq!(probe.webhook.circuit, resting);
    webhooks.settle_delivery(&probe, &settled(9_001, Fate::Gone)).await?;
    assert_eq!(take_one(&webhooks, 9_002).await?.event.sequence, 0);
    Ok(())
}

pub(crate) async fn a_webhook_that_failed_takes_the_rest_with_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 3).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    let taken = take_one(&webhooks, 10).await?;
    let failed = circuit("{\"failedAt\":\"1970-01-01T00:00:09Z\"}")?;
    let end =
        Settlement { circuit: failed, others: Others::Bury, ..settled(11, dead("answered 500")) };
    webhooks.settle_delivery(&taken, &end).await?;
    let buried = Others::BURIED.to_owned();
    let mut letters = reasons(&webhooks, 0).await?;
    letters.sort();
    assert_eq!(letters, [(0, "answered 500".to_owned()), (1, buried.clone()), (2, buried)]);
    assert!(take(&webhooks, 90_000_000).await?.is_empty());
    assert!(webhooks.read_unplanned(10).await?.webhooks.is_empty(), "it is not planned for either");
    assert_eq!(webhooks.webhooks(&acme()).await?.len(), 1, "but it is shown");

    webhooks.register_webhook(webhook("wh_b"), secret("s")).await?;
    store.commit(Batch::of_append(append("r1", 3))).await?;
    store.commit(Batch::of_append(append("r1", 4))).await?;
    plan_all(&webhooks, "wh_b", at(20)).await?;
    let taken = take_one(&webhooks, 21).await?;
    webhooks
        .settle_delivery(&taken, &Settlement { others: Others::Skip, ..settled(22, Fate::Gone) })
        .await?;
    assert!(take(&webhooks, 90_000_000).await?.is_empty(), "skipped ones are gone");
    Ok(())
}

pub(crate) async fn dead_letters_are_the_owners_and_are_forgotten_in_time(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 3).await?;
    plan_all(&webhooks, "wh_a", at(1)).await?;
    for (now, reason) in [(10, "a"), (20, "b")] {
        let taken = take_one(&webhooks, now).await?;
        webhooks.settle_delivery(&taken, &settled(now, dead(reason))).await?;
    }
    assert_eq!(reasons(&webhooks, 0).await?, [(1, "b".to_owned()), (0, "a".to_owned())]);
    assert_eq!(reasons(&webhooks, 11).await?, [(1, "b".to_owned())]);
    let letters =
        webhooks.dead_letters(&acme(), &"wh_a".into(), (at(0), None), 1).await?.unwrap_or_default();
    let shown = letters
        .first()
        .map(|letter| (letter.run.clone(), letter.kind.as_str(), letter.attempts, letter.dead_at));
    assert_eq!(shown, Some(("r1".into(), "acme.noted", 1, at(20))));
    const KEPT: i64 = 30 * 86_400_000;
    assert!(!webhooks.forget_dead_letters(at(KEPT + 9)).await?);
    assert_eq!(reasons(&webhooks, 0).await?.len(), 2);
    webhooks.forget_dead_letters(at(KEPT + 10)).await?;
    assert_eq!(reasons(&webhooks, 0).await?, [(1, "b".to_owned())]);
    Ok(())
}

pub(crate) async fn a_removed_webhook_leaves_nothing_behind_however_much_waited(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    listening(&*store, &webhooks, 0).await?;
    for page in 0..3 {
        let rows = (0..100).map(|_| row("{}")).collect();
        let mut next = Append { rows, ..append("r1", page * 100) };
        next.head.version = (page + 1) * 100;
        store.commit(Batch::of_append(next)).await?;
    }
    while plan_all(&webhooks, "wh_a", at(1)).await? > 0 {}
    assert!(webhooks.remove_webhook(&acme(), &"wh_a".into()).await?);
    for kind in [Kind::WebhookDelivery, Kind::WebhookQueue] {
        let left = store.scan(&RecordQuery::all(kind, Within::Everywhere)).await?;
        assert!(left.is_empty(), "{kind:?}");
    }
    Ok(())
}

pub(crate) async fn a_run_stays_until_webhooks_were_told_of_it(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, ports) = (subject.store()?, subject.port()?);
    let webhooks = Webhooks::new(subject.store()?);
    let end = async |run: &str, expected: u64| {
        let mut end = append(run, expected);
        (end.head.status, end.head.updated_at) = (RunStatus::Completed, at(3_000));
        store.commit(Batch::of_append(end)).await
    };
    let removed = async || -> anyhow::Result<Vec<RunId>> {
        let planned = webhooks.planned_until().await?;
        Ok(ports
            .remove_ended(&callboard_engine::Removable::before(at(1_000_000)), planned, 10)
            .await?)
    };
    store.commit(Batch::of_run(new_run("old"))).await?;
    end("old", 0).await?;
    listening(&*store, &webhooks, 0).await?;
    end("r1", 0).await?;
    store.commit(Batch::of_run(new_run("newest"))).await?;
    store.commit(Batch::of_append(append("newest", 0))).await?;
    // Nobody has looked yet for whom the event of the second is.
    assert_eq!(removed().await?, [RunId::from("old")]);
    plan_all(&webhooks, "wh_a", at(4_000)).await?;
    assert!(removed().await?.is_empty());
    let delivery = take_one(&webhooks, 5_000).await?;
    webhooks.settle_delivery(&delivery, &settled(5_500, Fate::Gone)).await?;
    assert_eq!(removed().await?, [RunId::from("r1")]);
    Ok(())
}

/// A question of the run's first event, for the run's own address.
fn asking(append: Append) -> anyhow::Result<Batch> {
    let callback = Callback::new("r1".into(), 0, webhook("cb").url, at(500)).change(&acme())?;
    Ok(Batch { appends: vec![append], records: vec![callback], ..Batch::default() })
}

pub(crate) async fn a_callback_comes_with_its_append_and_goes_with_its_outcome(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.store()?;
    let webhooks = Webhooks::new(subject.store()?);
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_run(new_run("r2"))).await?;
    assert!(store.commit(asking(append("r1", 7))?).await.is_err(), "a stale append");
    assert!(!webhooks.read_unplanned(10).await?.has_callbacks);
    store.commit(asking(append("r1", 0))?).await?;
    store.commit(Batch::of_append(append("r2", 0))).await?;
    let unplanned = webhooks.read_unplanned(10).await?;
    assert!(unplanned.has_callbacks && unplanned.webhooks.is_empty(), "{unplanned:?}");
    assert!(unplanned.events.is_empty(), "nobody subscribed");
    assert_eq!(webhooks.webhooks(&acme()).await?, []);
    let failed = take_one(&webhooks, 600).await?;
    assert_eq!((&failed.secret, failed.event.sequence), (&None, 0));
    assert_eq!(failed.webhook.url, webhook("cb").url);
    let id = &failed.webhook.id;
    assert!(id.as_str().starts_with("cb_"), "{id}");
    assert_eq!(webhooks.dead_letters(&acme(), id, (at(0), None), 10).await?, None);
    assert!(!webhooks.remove_webhook(&acme(), id).await?);
    assert!(take(&webhooks, 601).await?.is_empty(), "somebody has it");
    webhooks.settle_delivery(&failed, &settled(601, Fate::Retry { due_at: at(700) })).await?;
    drop((store, webhooks));
    subject.restart().await?;
    let webhooks = Webhooks::new(subject.store()?);
    let again = take_one(&webhooks, 700).await?;
    assert_eq!((&again.webhook.id, again.attempts), (&failed.webhook.id, 1));
    webhooks.void_leases().await?;
    assert!(!webhooks.settle_delivery(&again, &settled(701, Fate::Gone)).await?);
    let last = take_one(&webhooks, 702).await?;
    webhooks.settle_delivery(&last, &settled(703, dead("refused"))).await?;
    assert!(!webhooks.read_unplanned(10).await?.has_callbacks);
    assert!(take(&webhooks, 9_000).await?.is_empty());
    Ok(())
}

pub(crate) async fn a_run_stays_until_its_callback_is_settled(
    subject: Subject,
) -> anyhow::Result<()> {
    let (store, ports) = (subject.store()?, subject.port()?);
    let webhooks = Webhooks::new(subject.store()?);
    store.commit(Batch::of_run(new_run("r1"))).await?;
    store.commit(Batch::of_run(new_run("r2"))).await?;
    let end = head(RunStatus::Completed, 1, None);
    store.commit(asking(Append { head: end, ..append("r1", 0) })?).await?;
    store.commit(Batch::of_append(append("r2", 0))).await?;
    assert!(
        ports
            .remove_ended(&callboard_engine::Removable::before(at(9_000)), None, 10)
            .await?
            .is_empty()
    );
    let taken = take_one(&webhooks, 600).await?;
    webhooks.settle_delivery(&taken, &settled(601, Fate::Gone)).await?;
    assert_eq!(
        ports.remove_ended(&callboard_engine::Removable::before(at(9_000)), None, 10).await?,
        [RunId::from("r1")]
    );
    Ok(())
}
