//! What comes in over subscriptions: runs, dead letters and refusals, each once.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{
    Attachment, Incoming, Kind, NewSubscription, RecordQuery, SigningSecret, Store, StoreError,
    Subscription, Terms, TriggerError, TriggerIngest, Triggers, Verification, Within,
};
use callboard_protocol::{
    Backoff, Object, Owner, RetryPolicy, SubscriptionState, Timestamp, TriggerEvent, TriggerSource,
};

use super::scenario::{Host, Scenario, runs};
use crate::roster::noop;
use crate::sim::scope;

pub(super) struct InboundDeliveries;

fn owner() -> Owner {
    Owner { tenant: scope().tenant, workspace: None, principal: None }
}

fn ingest(host: &Host) -> TriggerIngest {
    TriggerIngest::new(host.engine.clone(), Arc::clone(&host.store))
}

async fn subscribe(host: &Host, id: &str, workflow: &str) {
    subscribe_to(host, id, workflow, Terms::default()).await;
}

async fn subscribe_to(host: &Host, id: &str, workflow: &str, terms: Terms) {
    let new = NewSubscription {
        id: id.to_owned(),
        owner: owner(),
        mode: scope().mode,
        source: TriggerSource::Queue,
        workflow: workflow.into(),
        roster_id: None,
        dedup: true,
        retry: RetryPolicy { max_attempts: 2, backoff: Backoff::None },
        verification: Verification::None,
        mapping: Object::new(),
        terms,
        secret: None,
    };
    match ingest(host).register(new).await {
        // The one that got no answer was kept.
        Ok(_) | Err(TriggerError::Store(StoreError::Moved { .. })) => {}
        Err(error) => panic!("{error}"),
    }
}

async fn subscription(host: &Host, id: &str) -> Subscription {
    ingest(host).find(&scope(), id).await.unwrap()
}

async fn set(host: &Host, state: SubscriptionState) {
    ingest(host).set_state(&scope(), "goes", state).await.unwrap();
}

/// Something comes along with the first letters only: one becomes a run, the other is given up.
fn files_of(id: &str) -> Vec<Attachment> {
    let bill = || Attachment::new(Some("bill.txt".to_owned()), None, b"ten crowns");
    if matches!(id, "letter-number-one" | "letter-number-two") { vec![bill()] } else { Vec::new() }
}

async fn deliver(host: &Host, over: &str, id: &str) {
    let subscription = subscription(host, over).await;
    let event = TriggerEvent {
        source: TriggerSource::Queue,
        subscription_id: over.to_owned(),
        delivery_id: String::new(),
        dedup_key: None,
        received_at: Timestamp::default(),
        verified: true,
        content_trust: "untrusted".to_owned(),
        webhook: None,
        email: None,
        form: None,
        queue: Some(json!(id)),
        event: None,
    };
    let incoming = Incoming {
        id: format!("dlv_{id}"),
        event_id: Some(id.to_owned()),
        event,
        files: files_of(id),
    };
    match ingest(host).deliver(subscription, incoming).await {
        // What got no answer may have been given up with its subscription.
        Ok(_) | Err(TriggerError::NotActive(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

#[async_trait(?Send)]
impl Scenario for InboundDeliveries {
    fn start(&self, host: &Host) {
        ingest(host).start();
    }

    fn steps(&self) -> usize {
        15
    }

    async fn act(&self, host: &Host, step: usize) {
        let catalog = host.engine.catalog();
        match step {
            0 => subscribe(host, "fine", "campaign").await,
            1 => deliver(host, "fine", "letter-number-one").await,
            2 => {
                let subscription = subscription(host, "fine").await;
                ingest(host).note_refused(&subscription, "dlv_bad".to_owned()).await.unwrap();
            }
            3 => {
                let source = noop().replace("\"campaign\"", "\"passing\"");
                let now = host.now();
                catalog.register(&owner(), scope().mode, source.as_bytes(), now).await.unwrap();
                subscribe(host, "bad", "passing").await;
                catalog.remove(&scope(), &"passing".into()).await.unwrap();
            }
            4 => deliver(host, "bad", "letter-number-two").await,
            5 => subscribe(host, "goes", "campaign").await,
            6 | 7 => {
                let secret = SigningSecret::new(format!("whsec_{step}"));
                ingest(host).rotate(&scope(), "goes", secret).await.unwrap();
            }
            8 => set(host, SubscriptionState::Paused).await,
            9 => set(host, SubscriptionState::Active).await,
            10 => {
                let triggers = Triggers::new(Arc::clone(&host.store));
                let since = Timestamp::default();
                let letters =
                    triggers.dead_letters(&scope(), "fine", since, None, 9).await.unwrap();
                for letter in &letters {
                    triggers.drop_letter(letter).await.unwrap();
                }
            }
            11 => {
                let filter = Some("queue == 'letter-wanted'".to_owned());
                let terms = Terms { filter, ..Terms::default() };
                subscribe_to(host, "picky", "campaign", terms).await;
            }
            12 => deliver(host, "picky", "letter-unwanted").await,
            13 => deliver(host, "picky", "letter-wanted").await,
            _ => match ingest(host).remove(&scope(), "fine").await {
                Ok(()) | Err(TriggerError::Unknown) => {}
                Err(error) => panic!("{error}"),
            },
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let triggers = Triggers::new(Arc::clone(&store));
        let mut letters = Vec::new();
        let subscriptions = triggers.subscriptions(&scope()).await.unwrap();
        for subscription in &subscriptions {
            let (id, since) = (&subscription.id, Timestamp::default());
            for letter in triggers.dead_letters(&scope(), id, since, None, 9).await.unwrap() {
                letters.push(json!([
                    letter.id,
                    letter.attempts,
                    letter.error,
                    letter.event,
                    letter.files.len()
                ]));
            }
        }
        let documents: Vec<_> = subscriptions.iter().map(Subscription::document).collect();
        let opened = triggers.open_subscription("goes").await.unwrap();
        let mut secrets: Vec<String> = opened
            .map(|(_, secrets)| {
                secrets
                    .earlier
                    .iter()
                    .map(|(secret, _)| secret)
                    .chain(&secrets.current)
                    .map(|secret| secret.reveal().to_owned())
                    .collect()
            })
            .unwrap_or_default();
        // Whoever rotates again finds the secret in force already.
        secrets.dedup();
        let filtered = triggers.filtered(&scope(), "picky").await.unwrap();
        let filtered: Vec<&String> = filtered.last.iter().map(|(id, _)| id).collect();
        let query = RecordQuery::all(Kind::Attachment, Within::Everywhere);
        let kept = store.scan(&query).await.unwrap().len();
        json!([documents, letters, secrets, filtered, kept, runs(&*store).await])
    }
}
